"""`slotline bench` before a real gateway: what it reports is what happened."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from fakes.gateway import fronted
from slotline.cli import main
from slotline.config import KeyConfig
from slotline.core.keys import digest
from slotline.stub import Stub
from slotline.stub.standard import error, held

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it
_UNSET = ("SLOTLINE_KEY", "SLOTLINE_ADMIN")


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.out)
        return told


async def started(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    known = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slotline", "bench", *arguments), stdout=-1, stderr=-1, env={**known, **environment}
    )


async def ended(process: asyncio.subprocess.Process) -> Ran:
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def ran(*arguments: str, **environment: str) -> Ran:
    return await ended(await started(*arguments, **environment))


async def test_a_closed_loop_with_some_who_leave() -> None:
    """Quiet in a pipe but for the report; every number is one that the gateway and the stub confirm."""
    async with fronted(stub=Stub(slots=1, tokens=4, gap=0.02)) as front:
        arguments = ("--clients", "4", "--requests", "16", "--leave", "0.3", "--max-tokens", "9", "--json")
        result = await ran("--url", front.url, *arguments)
        await front.settled()
        outcomes = sorted(front.outcomes)
        prompts = {request.raw for request in front.stub.requests}
    told = result.report
    assert (result.status, result.err) == (0, "")
    done, left = told["ends"]["completed"], told["ends"].get("left", 0)
    assert outcomes == [*["client_left_waiting"] * left, *["completed"] * done]
    assert done + left == 16
    assert len(prompts) == done
    assert told["rates"]["answer_tokens"] == 4 * done
    assert told["between_tokens"]["n"] == 3 * done
    assert told["wait"]["max"] < told["first_token"]["max"] < told["total"]["max"] <= told["took"]
    assert told["places"]["requests"] >= left
    assert told["places"]["grew"] == 0
    assert told["behind"] == (0 if left else None)
    assert told["untrue"] == {}


async def test_an_open_loop_without_streams() -> None:
    async with fronted(stub=Stub(slots=1, tokens=2, gap=0.05), queue=16) as front:
        result = await ran("--url", front.url, "--rate", "20", "--requests", "10", "--no-stream")
    assert result.status == 0
    assert "20 requests a second on average" in result.out
    assert "ended     10 completed" in result.out
    assert "until the first token  0   –" in result.out


async def test_ctrl_c_prints_what_there_is() -> None:
    async with fronted(stub=Stub(slots=1, tokens=1)) as front:
        front.stub.play(held(1), held(1))
        process = await started("--url", front.url, "--clients", "3")
        await front.until(lambda: front.waiting == 2, 15)
        await front.stub.until(lambda state: state.held == 1)
        front.stub.release()
        await front.until(lambda: front.waiting == 2 and len(front.outcomes) == 1)
        process.send_signal(signal.SIGINT)
        result = await ended(process)
        await front.settled()
    assert result.status == 130
    assert "stopped before its time" in result.out
    assert "ended     1 completed, 3 stopped" in result.out
    assert sorted(front.outcomes) == ["client_left_running", "client_left_waiting", "client_left_waiting", "completed"]


async def test_errors_are_sorted_and_a_stream_without_an_end_is_untrue() -> None:
    """The second gateway is one of ours with its last word cut off."""

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        body = b'{"data":[{"id":"m"}]}'
        kind = b"application/json"
        if request.startswith(b"POST"):
            body, kind = b'event: message_start\ndata: {"type":"message_start"}\n\n', b"text/event-stream"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        writer.write(head % (kind, len(body)) + body)
        await writer.drain()
        writer.close()

    async with fronted(stub=Stub(slots=1, tokens=1)) as front:
        front.stub.play(error(500, "out of memory"))
        failed = await ran("--url", front.url, "--requests", "2", "--clients", "1", "--json")
    assert failed.status == 0
    assert failed.report["errors"] == [{"type": "api_error", "count": 1, "message": "out of memory"}]
    assert failed.report["ends"] == {"failed": 1, "completed": 1}
    async with await asyncio.start_server(endless, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        cut = await ran("--url", f"http://{host}:{port}", "--requests", "2", "--clients", "2")
    assert cut.status == 1
    assert cut.out.splitlines()[-1] == "untrue    2 times: broke off after message_start: the stream has no end"


async def test_a_connection_that_breaks_is_an_error_in_words_and_not_untrue() -> None:
    """A gateway that dies in the middle of its second answer."""
    calls = 0

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        request = await reader.readuntil(b"\r\n\r\n")
        kind, pieces, end = b"application/json", [b'{"data":[{"id":"m"}]}'], b"0\r\n\r\n"
        if request.startswith(b"POST"):
            calls += 1
            kind = b"text/event-stream"
            names = ("message_start", "message_delta", "message_stop")[: 1 if calls == 2 else 3]
            pieces = [f'event: {name}\ndata: {{"type":"{name}"}}\n\n'.encode() for name in names]
            end = b"" if calls == 2 else end
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        writer.write(head % kind + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + end)
        await writer.drain()
        if request.startswith(b"POST"):
            await reader.readuntil(b"}]}")
        writer.close()

    async with await asyncio.start_server(dies, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        result = await ran("--url", f"http://{host}:{port}", "--requests", "2", "--clients", "1", "--json")
    told = result.report
    assert told["ends"] == {"completed": 1, "failed": 1}
    assert told["errors"] == [{"type": "broken", "count": 1, "message": "the connection broke off after message_start"}]
    assert told["untrue"] == {}
    assert result.status == 1


async def test_clients_show_the_keys_of_the_variables_in_turn() -> None:
    keys = tuple(KeyConfig(name=name, hash=f"sha256:{digest(f'sl-{name}').hex()}") for name in ("a", "b"))
    async with fronted(keys=keys) as front:
        arguments = ("--clients", "2", "--requests", "4", "--key-env", "ONE", "--key-env", "TWO")
        assert (await ran("--url", front.url, *arguments, ONE="sl-a", TWO="sl-b")).status == 0
        ended_by = [record.__dict__["fields"]["key"] for record in front.log.records if "ended" in record.getMessage()]
        wrong = await ran("--url", front.url, "--key-env", "ONE", "--key-env", "TWO", ONE="sl-c", TWO="sl-b")
    assert set(ended_by) == {"a", "b"}
    assert (wrong.status, wrong.err) == (1, "slotline: the gateway refuses the key in ONE\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rate", "1", "--clients", "2"), "requests come at a --rate, or from so many --clients"),
        (("--requests", "1", "--seconds", "2"), "--requests and --seconds both say when to end"),
        (("--leave", "0.5", "--no-stream"), "--leave needs places"),
        (("--leave", "2"), "not in the range"),
        (("--key-env", "NO_SUCH_VARIABLE"), "the variable NO_SUCH_VARIABLE is not set"),
    ],
)
async def test_what_does_not_go_together_is_a_usage_error(arguments: tuple[str, ...], words: str) -> None:
    async with fronted() as front:
        result = await asyncio.to_thread(CliRunner().invoke, main, ["bench", "--url", front.url, *arguments])
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("arguments", [(), ("--model", "m")])
def test_without_a_gateway_it_says_where_it_looked(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["bench", "--url", NOBODY, *arguments])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the gateway at {NOBODY} does not answer: " in result.stderr


async def test_a_model_that_is_not_there_is_said_with_those_that_are() -> None:
    async with fronted() as front:
        arguments = ["bench", "--url", front.url, "--model", "nope"]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert result.exit_code == 1
    assert result.stderr == "slotline: model: 'nope' is not served here; the models are: stub\n"
