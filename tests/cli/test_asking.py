"""A client's end of a call to a real gateway: what is heard, what leaving does, and how it fails."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import aiohttp
import click
import pytest
from click.testing import CliRunner

from fakes.gateway import fronted
from slotline.cli.asking import Asker, NoAnswer, first_model, key_option, models, question, unserved, words
from slotline.cli.hearing import Begun, Done, Failed, Fault, Heard, Opened, Progress, Queued, Text, Thinking, Usage
from slotline.config import KeyConfig
from slotline.core.keys import digest
from slotline.stub import Stub
from slotline.stub.standard import held, mid_stream_error, ok, thinking

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it


def hello(text: str = "hello", *, model: str = "stub", stream: bool = True, think: bool | None = None) -> bytes:
    return question(model, [{"role": "user", "content": text}], 64, stream=stream, thinking=think)


async def heard(asker: Asker, body: bytes) -> list[Heard]:
    async with asyncio.timeout(5):
        return [each async for each in asker.ask(body)]


async def test_an_answer_comes_piece_by_piece_after_its_place() -> None:
    async with fronted() as front, Asker(front.url, None) as asker:
        front.stub.play(held(3), thinking(2, 2))
        async with front.streaming(hello("first")), aclosing(asker.ask(hello(think=True))) as hearing:
            opened = await anext(hearing)
            assert isinstance(opened, Opened)
            assert opened.request_id
            assert opened.request_id.startswith("req_")
            assert await anext(hearing) == Queued(1, 1, None)
            await front.stub.until(lambda state: state.held == 1)
            front.stub.release()
            rest = [each async for each in hearing]
    pieces = [each for each in rest if not isinstance(each, Progress)]
    assert [type(each) for each in pieces] == [Begun, Thinking, Thinking, Text, Text, Usage, Done]
    assert pieces[-1] == Done("end_turn")


async def test_an_answer_that_is_not_streamed_says_how_long_it_waited() -> None:
    async with fronted() as front, Asker(front.url, None) as asker:
        front.stub.play(held(3), ok(2))
        async with front.streaming(hello("first")):
            waiting = asyncio.create_task(heard(asker, hello(stream=False)))
            await front.until(lambda: front.waiting == 1)
            await front.stub.until(lambda state: state.held == 1)
            front.stub.release()
            opened, *rest = await waiting
    assert isinstance(opened, Opened)
    assert opened.waited is not None
    assert [type(each) for each in rest] == [Begun, Text, Usage, Done]


async def test_leaving_the_generator_leaves_the_line_and_gives_the_slot_back() -> None:
    async with fronted() as front, Asker(front.url, None) as asker:
        front.stub.play(held(3, before=1))
        async with aclosing(asker.ask(hello("runs"))) as runs:
            while not isinstance(await anext(runs), Text):
                pass
            async with aclosing(asker.ask(hello("waits"))) as waits:
                while not isinstance(await anext(waits), Queued):
                    pass
            await front.until(lambda: front.waiting == 0, 1)
        await front.settled()
        assert front.outcomes == ["client_left_waiting", "client_left_running"]
        await front.serves()


async def test_how_a_call_fails_is_heard() -> None:
    stub = Stub(slots=1, tokens=3)
    async with fronted(stub=stub, queue=0) as front, Asker(front.url, None) as asker:
        (unknown,) = await heard(asker, hello(model="nope"))
        assert unknown == Failed(
            Fault.REFUSED, "not_found_error", "model: 'nope' is not served here; the models are: stub", 404
        )
        stub.play(mid_stream_error(1))
        assert isinstance(last := (await heard(asker, hello()))[-1], Failed)
        assert (last.fault, last.message) == (Fault.ERROR, "Compute error.")
        stub.play(held(1))
        async with front.streaming(hello("first")):
            (full,) = await heard(asker, hello())
            assert isinstance(full, Failed)
            assert (full.fault, full.kind, full.status) == (Fault.REFUSED, "overloaded_error", 529)
    async with Asker(NOBODY, None) as asker:
        assert await heard(asker, hello()) == [
            Failed(Fault.UNREACHABLE, "unreachable", f"the gateway at {NOBODY} does not answer: Connection refused")
        ]


async def test_a_connection_that_breaks_is_no_end() -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}]}")
        frame = b'event: queue\ndata: {"type":"queue","position":1,"queue_length":1}\n\n'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%b\r\n" % (len(frame), frame))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(breaks, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with Asker(f"http://{host}:{port}", None) as asker:
            opened, queued, failed = await heard(asker, hello())
    assert (opened, queued) == (Opened(None), Queued(1, 1, None))
    assert isinstance(failed, Failed)
    assert failed.fault is Fault.BROKEN
    assert failed.message == "the connection broke off in line"


async def test_models_are_listed_and_looked_up_with_the_key() -> None:
    keys = (KeyConfig(name="alice", hash=f"sha256:{digest('sl-a').hex()}"),)
    async with fronted(keys=keys) as front:
        url = front.url
        assert await asyncio.to_thread(models, url, "sl-a") == ["stub"]
        assert await asyncio.to_thread(first_model, url, "sl-a") == "stub"
        assert await asyncio.to_thread(unserved, url, "sl-a", "stub") is None
        assert await asyncio.to_thread(unserved, url, "sl-a", "a/b?c") == (
            "model: 'a/b?c' is not served here; the models are: stub"
        )
        with pytest.raises(NoAnswer, match="key"):
            await asyncio.to_thread(models, url, None)
        async with Asker(url, "sl-a") as asker:
            assert Done("end_turn") in await heard(asker, hello())
    with pytest.raises(NoAnswer, match=f"the gateway at {NOBODY} does not answer: .*refused"):
        models(NOBODY, None)


def test_a_key_comes_from_a_variable_and_one_that_is_named_must_be_set() -> None:
    @click.command()
    @key_option
    def command(key: str | None) -> None:
        click.echo(key)

    def said(*arguments: str, **environment: str) -> tuple[int, str]:
        result = CliRunner().invoke(command, arguments, env={"SLOTLINE_KEY": None, "OTHER": None, **environment})
        return result.exit_code, result.output

    assert said() == (0, "\n")
    assert said(SLOTLINE_KEY="sl-1") == (0, "sl-1\n")
    assert said("--key-env", "OTHER", SLOTLINE_KEY="sl-1", OTHER="sl-2") == (0, "sl-2\n")
    status, output = said("--key-env", "OTHER", SLOTLINE_KEY="sl-1")
    assert status == 2
    assert "the variable OTHER is not set" in output


def test_a_body_has_only_what_was_asked_for() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert question("m", messages, 5) == (
        b'{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
    )
    asked = question("m", messages, 5, system="be brief", thinking=False, stream=False)
    assert asked.endswith(b'"system":"be brief","thinking":{"type":"disabled"}}')
    assert b'"thinking":{"type":"adaptive"}' in question("m", messages, 5, thinking=True)


def test_a_connection_that_failed_has_its_reason_in_words() -> None:
    assert words(aiohttp.ServerDisconnectedError()) == "Server disconnected"
    assert words(aiohttp.ClientPayloadError("Response payload is not completed")) == "the connection broke off"
    assert words(aiohttp.ClientError()) == "ClientError"


async def test_a_stream_that_says_nothing_for_long_is_taken_for_lost() -> None:
    """A connection may be dead without a sign, as after a night in a closed laptop."""
    async with fronted() as front, Asker(front.url, None, silence=0.3) as asker:
        front.stub.play(held(3))
        async with front.streaming(hello("first")):
            *_, last = await heard(asker, hello())
            assert isinstance(last, Failed)
            assert last.fault is Fault.BROKEN
            assert "nothing was heard for 0.3 s" in last.message
            front.stub.release()
