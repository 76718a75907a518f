"""Clients that count only parts of an answer as life, kept waiting for as long as it takes; times are a hundredth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import msgspec
import pytest

from fakes.checker import CheckedStream, check
from fakes.gateway import PATIENT, Front, Stream, fronted
from fakes.product import ask
from slotline.config import UpstreamConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.script import Done, Finish, Head, Hold, Role, Script, Text, ToolCall, Usage
from slotline.stub.standard import endless_thinking, hang, held, mid_stream_error, ok, swallowed, thinking

OLD = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
NEW = {"user-agent": "claude-cli/2.1.332 (external, cli)"}
AFTER = 0.3  # in place of 240 s
LIVELY = msgspec.structs.replace(PATIENT, grace=0.02, keepalive=0.1)
BEAT = b'"delta":{"type":"thinking_delta","thinking":""}}\n\n'
START = b"event: message_start\n"


@asynccontextmanager
async def line(*, ahead: int = 0) -> AsyncIterator[tuple[Front, Stream]]:
    """A request of an old client in line, behind `ahead` others and one that runs until it is released."""
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(fronted(server=LIVELY, beat_after=AFTER))
        front.stub.play(held(1))
        await stack.enter_async_context(front.calling())
        await front.stub.until(lambda state: state.running == 1)
        for _ in range(ahead):
            await stack.enter_async_context(front.calling(ask("ahead")))
        await front.until(lambda: front.waiting == ahead)
        stream = await stack.enter_async_context(front.streaming(path="/v1/messages", headers=OLD))
        yield front, stream


def kinds(seen: CheckedStream) -> list[str]:
    return [block["type"] for block in seen.blocks]


def before(body: bytes, mark: bytes) -> bytes:
    return body[: body.index(mark)]


async def _reached(front: Front, received: int) -> None:
    """So many have reached the upstream, and the last of them is held there."""
    await front.stub.until(lambda state: (state.received, state.held) == (received, 1))


# ---- in line ---------------------------------------------------------------------------------------------------------


async def test_a_long_wait_becomes_the_beginning_of_the_answer_and_beats_from_then_on() -> None:
    loop = asyncio.get_running_loop()
    asked = loop.time()
    async with line() as (front, stream):
        await stream.until(START)
        assert AFTER <= loop.time() - asked < AFTER + 3
        waiting = check(before(stream.answer.body, START), whole=False)
        assert [place["position"] for place in waiting.places] == [1]
        assert waiting.comments  # as for everybody
        for _ in range(3):
            await stream.until(BEAT)
            assert BEAT in await stream.next()
        assert len(front.stub.requests) == 1
        front.stub.release()
        seen = check(await stream.rest())
    assert (kinds(seen), seen.thinking, seen.text) == (["thinking", "text"], "", "token-0 token-1 token-2")
    assert (seen.complete, seen.stop_reason) == (True, "end_turn")
    assert front.outcomes == ["completed", "completed"]


async def test_its_beats_come_at_least_as_often_as_keep_alives() -> None:
    async with line() as (_, stream):
        await stream.until(START)
        for _ in range(4):
            await stream.next()
    times = [at for at, piece in stream.answer.at if BEAT in piece]
    assert all(later - earlier < LIVELY.keepalive + 0.9 for earlier, later in pairwise(times))


@pytest.mark.parametrize("headers", [NEW, {"user-agent": "Anthropic/Python 2.14.0"}, {}], ids=["new", "other", "none"])
async def test_all_other_clients_wait_on_with_comments(headers: dict[str, str]) -> None:
    async with fronted(server=LIVELY, beat_after=AFTER) as front:
        front.stub.play(held(1))
        async with front.calling(), front.streaming(path="/v1/messages", headers=headers) as stream:
            while len(stream.answer.at) < 8:
                await stream.next()
            assert START not in stream.answer.body
            front.stub.release()
            seen = check(await stream.rest())
    assert kinds(seen) == ["text"]


async def test_after_the_beginning_no_place_is_told_although_the_line_moves_on() -> None:
    async with line(ahead=2) as (front, stream):
        await stream.until(START)
        front.stub.default = held(1)
        for received in (2, 3, 4):
            front.stub.release()
            await _reached(front, received)
        front.stub.release()
        seen = check(await stream.rest())  # the checker allows no place after message_start
    assert [place["position"] for place in seen.places] == [3]
    assert seen.text == "token-0"


async def test_places_are_no_life_to_it_however_often_they_change() -> None:
    """The stream is never silent, and the beginning comes in time all the same."""
    server = msgspec.structs.replace(LIVELY, keepalive=5.0)
    async with fronted(queue=40, server=server, beat_after=AFTER) as front, AsyncExitStack() as stack:
        front.stub.play(held(1))
        front.stub.default = ok(2, gap=0.04)
        for _ in range(21):
            await stack.enter_async_context(front.calling(ask("ahead")))
        await front.until(lambda: front.waiting == 20)
        stream = await stack.enter_async_context(front.streaming(path="/v1/messages", headers=OLD))
        front.stub.release()
        await stream.until(START)
        waiting = check(before(stream.answer.body, START), whole=False)
        assert BEAT in stream.answer.body
        assert waiting.places[0]["position"] > waiting.places[-1]["position"] > 1
        assert check(await stream.rest(), beats=True).complete


# ---- after the grant -------------------------------------------------------------------------------------------------


async def test_a_slot_that_is_silent_for_long_is_beaten_for_too_and_thinking_goes_on_in_that_block() -> None:
    script = thinking(2, 1)
    async with fronted(server=LIVELY, beat_after=AFTER) as front:
        front.stub.play(Script((Hold(), *script.steps)))
        async with front.streaming(headers=OLD) as stream:
            await stream.until(BEAT)
            front.stub.release()
            seen = check(await stream.rest())
    assert (kinds(seen), seen.thinking) == (["thinking", "text"], "thought-0 thought-1")
    assert seen.places == seen.progress == []


async def test_after_the_beginning_no_progress_is_told() -> None:
    async with fronted(server=LIVELY, beat_after=AFTER) as front:
        front.stub.play(Script((Hold(), *ok(1).steps)))
        front.stub.prefill = 0.01
        async with front.streaming(headers={**OLD, "x-slotline-progress": "1"}) as stream:
            await stream.until(BEAT)
            front.stub.release()
            seen = check(await stream.rest())
    assert seen.progress == []
    assert seen.complete


LONG = (Head(), Role(), Text("I will."), ToolCall(0, "c", "Write", '{"text":"'))
END = (ToolCall(0, arguments='a"}'), Finish("tool_calls"), Usage(), Done())


async def test_a_call_that_takes_long_to_gather_is_beaten_for_and_comes_whole() -> None:
    async with fronted(server=LIVELY, beat_after=AFTER) as front:
        front.stub.play(Script((*LONG, Hold(), ToolCall(0, arguments="a"), Hold(), *END)))
        async with front.streaming(headers=OLD) as stream:
            await stream.until(BEAT)
            front.stub.release()
            for _ in range(2):
                assert BEAT in await stream.next()
            front.stub.release()
            seen = check(await stream.rest())
    assert kinds(seen) == ["text", "thinking", "tool_use"]
    assert seen.tools[0]["input"] == {"text": "aa"}
    assert seen.stop_reason == "tool_use"


async def test_a_silence_within_text_is_filled_with_empty_pieces_of_it() -> None:
    async with fronted(server=LIVELY, beat_after=AFTER) as front:
        front.stub.play(held(2, before=1))
        async with front.streaming(headers=OLD) as stream:
            await stream.until(b'"delta":{"type":"text_delta","text":""}}\n\n')
            front.stub.release()
            seen = check(await stream.rest(), beats=True)
    assert (kinds(seen), seen.text) == (["text"], "token-0 token-1")


# ---- ends ------------------------------------------------------------------------------------------------------------


async def test_an_error_after_the_beginning_is_the_last_event() -> None:
    async with line() as (front, stream):
        front.stub.play(mid_stream_error(0))
        await stream.until(BEAT)
        front.stub.release()
        seen = check(await stream.rest())
    assert seen.error is not None
    assert seen.error["type"] == "api_error"
    assert not seen.complete
    assert front.outcomes == ["completed", "upstream_error"]


async def test_what_is_beaten_for_and_never_comes_ends_by_its_limit() -> None:
    async with fronted(server=LIVELY, beat_after=AFTER, limits=Limits(poll=0.05, busy_wait=1.0)) as front:
        front.stub.play(hang())
        async with front.streaming(headers=OLD) as stream:
            seen = check(await stream.rest())
    assert seen.error is not None
    assert "busy_wait" in seen.error["message"]
    assert kinds(seen) == ["thinking"]


async def test_beats_are_no_piece_of_an_answer_so_another_upstream_may_still_take_it() -> None:
    limits = Limits(poll=0.05, idle_grace=1.0)
    async with Stub(slots=1) as bad:
        bad.default = swallowed()
        first = UpstreamConfig(name="bad", url=bad.url, slots=1, limits=limits)
        async with fronted(server=LIVELY, beat_after=AFTER, before=(first,)) as front:
            async with front.streaming(headers=OLD) as stream:
                seen = check(await stream.rest())
            assert (len(bad.requests), len(front.stub.requests)) == (1, 1)
    assert (kinds(seen), seen.complete) == (["thinking", "text"], True)


async def test_an_answer_that_is_asked_for_anew_is_beaten_for_in_the_block_of_the_first_thoughts() -> None:
    limits = Limits(poll=0.05, thinking_cap=5, thinking_overrun=5)
    stub = Stub(slots=1, kind=Kind.OPENAI)
    async with fronted(stub=stub, kind=Kind.VLLM, server=LIVELY, beat_after=AFTER, limits=limits) as front:
        front.stub.play(endless_thinking(gap=0.01), Script((Hold(), *ok(2).steps)))
        async with front.streaming(headers=OLD) as stream:
            await stream.until(BEAT)
            front.stub.release()
            seen = check(await stream.rest())
        assert len(front.stub.requests) == 2
    assert (kinds(seen), seen.text) == (["thinking", "text"], "token-0 token-1")
    assert seen.thinking.startswith("thought-0 thought-1")
