"""What a client sees of its wait, byte for byte and as it comes: the real gateway, plain sockets, the stub."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

import msgspec
import pytest

from fakes.checker import check, drop_queue_frames
from fakes.gateway import MESSAGES, PATIENT, fronted
from fakes.product import Answered, ask
from slotline.stub.script import Done, Finish, Hang, Head, Hold, Role, Script, Tokens
from slotline.stub.standard import hang, head_then_silence, held, ok, stall

ROOT = "/v1/messages"
LIVELY = msgspec.structs.replace(PATIENT, grace=0.1, keepalive=0.1)
KEEP_ALIVE = b": keep-alive\n\n"

EVENT = b'event: queue\ndata: {"type":"queue","position":1,"queue_length":1,"estimated_wait_ms":null}\n\n'
PING = b'event: ping\ndata: {"type":"ping","queue":{"position":1,"queue_length":1,"estimated_wait_ms":null}}\n\n'
COMMENT = b": queue position=1 length=1 wait_ms=unknown\n\n"


def gaps(answer: Answered) -> list[float]:
    times = [at for at, _ in answer.at]
    return [later - earlier for earlier, later in pairwise(times)]


# ---- places ----------------------------------------------------------------------------------------------------------


async def test_a_waiting_client_counts_down_its_place_and_then_reads_an_ordinary_stream() -> None:
    """Cases 83, 85."""
    async with fronted() as front, AsyncExitStack() as stack:
        front.stub.default = held(2)
        await stack.enter_async_context(front.calling())
        await front.stub.until(lambda state: state.held == 1)
        waiting = [await stack.enter_async_context(front.streaming()) for _ in range(3)]
        for number, stream in enumerate(waiting, 1):
            assert (await stream.next()).startswith(b'event: queue\ndata: {"type":"queue","position":%d,' % number)
        last = waiting[-1]
        for place in (2, 1):
            front.stub.release()
            assert (await last.next()).startswith(b'event: queue\ndata: {"type":"queue","position":%d,' % place)
            await front.stub.until(lambda state: state.held == 1)
        front.stub.release()
        await front.stub.until(lambda state: state.held == 1)
        front.stub.release()
        seen = check(await last.rest())
        assert [place["position"] for place in seen.places] == [3, 2, 1]
        assert [place["queue_length"] for place in seen.places] == [3, 2, 1]
        assert seen.names[:4] == ["queue", "queue", "queue", "message_start"]
        assert seen.complete
        without = check(drop_queue_frames(last.answer.body))
        assert without.places == []
        assert without.complete
        assert without.text == seen.text


async def test_a_request_that_gets_a_slot_at_once_hears_nothing_of_a_line() -> None:
    async with fronted() as front:
        body = (await front.fetch()).body
    assert body.startswith(b"event: message_start\n")
    assert check(body).places == []


@pytest.mark.parametrize(
    ("path", "header", "first"),
    [
        (MESSAGES, None, EVENT),
        (ROOT, None, PING),
        (MESSAGES, "ping", PING),
        (ROOT, "event", EVENT),
        (MESSAGES, "comment", COMMENT),
        (ROOT, "comment", COMMENT),
        (MESSAGES, " Comment", COMMENT),
        (MESSAGES + "?beta=true", None, EVENT),
    ],
)
async def test_the_form_of_a_place_is_the_mounts_unless_the_request_chooses_one(
    path: str, header: str | None, first: bytes
) -> None:
    """Cases 84, 85."""
    async with fronted() as front:
        front.stub.play(held(1))
        async with front.calling():
            await front.stub.until(lambda state: state.held == 1)
            headers = {} if header is None else {"x-slotline-queue": header}
            async with front.streaming(path=path, headers=headers) as stream:
                assert await stream.next() == first
                front.stub.release()
                body = await stream.rest()
    assert body.removeprefix(first).startswith(b"event: message_start\n")
    assert check(body).complete
    assert check(drop_queue_frames(body)).complete


@pytest.mark.parametrize("path", [MESSAGES, ROOT])
async def test_who_wants_no_places_is_only_kept_alive(path: str) -> None:
    """Case 84."""
    async with fronted(server=LIVELY) as front:
        front.stub.play(held(1))
        async with front.calling():
            await front.stub.until(lambda state: state.held == 1)
            async with front.streaming(path=path, headers={"x-slotline-queue": "off"}) as stream:
                assert [await stream.next() for _ in range(2)] == [KEEP_ALIVE] * 2
                front.stub.release()
                seen = check(await stream.rest())
    assert seen.places == []
    assert set(seen.comments) == {"keep-alive"}
    assert seen.complete


@pytest.mark.parametrize("value", ["loud", "event, ping", "", "x" * 300])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_form_that_does_not_exist_is_refused_by_name(value: str, stream: bool) -> None:
    async with fronted() as front:
        answer = await front.fetch(ask(stream=stream), headers={"x-slotline-queue": value})
        assert front.stub.requests == ()
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("x-slotline-queue: expected one of event, ping, comment, off")
    assert len(error["message"]) < 200


async def test_the_wait_is_estimated_as_soon_as_there_is_something_to_go_by() -> None:
    async with fronted() as front:
        await front.fetch()
        front.stub.play(held(1))
        async with front.calling():
            await front.stub.until(lambda state: state.held == 1)
            async with front.streaming() as stream:
                (place,) = check(await stream.next(), whole=False).places
    assert isinstance(place["estimated_wait_ms"], int)


async def test_in_a_crowd_everyone_counts_down_and_is_served_in_order() -> None:
    """Case 83."""
    async with fronted(slots=2, queue=40) as front:
        front.stub.default = ok(3, gap=0.005)
        answers = await asyncio.gather(*(front.fetch(ask(f"number {number}")) for number in range(24)))
        assert front.stub.state.max_waiting == 0
        assert front.stub.state.max_running == 2
        assert front.outcomes == ["completed"] * 24
    for answer in answers:
        seen = check(answer.body)
        positions = [place["position"] for place in seen.places]
        assert seen.complete
        assert positions == sorted(set(positions), reverse=True)
        assert all(place["queue_length"] >= place["position"] for place in seen.places)
        assert check(drop_queue_frames(answer.body)).complete


# ---- answers that are no streams -------------------------------------------------------------------------------------


async def test_an_answer_that_is_no_stream_tells_its_wait_in_a_header_if_there_was_one() -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        loop = asyncio.get_running_loop()
        before = loop.time()
        async with front.calling(), asyncio.TaskGroup() as tasks:
            await front.stub.until(lambda state: state.held == 1)
            queued = tasks.create_task(front.fetch(ask(stream=False)))
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
        answer = queued.result()
        took = (loop.time() - before) * 1000
        at_once = await front.fetch(ask(stream=False))
    assert answer.status == 200
    assert answer.json()["type"] == "message"
    assert 0 < int(answer.headers["x-slotline-wait-ms"]) <= took
    assert "x-slotline-wait-ms" not in at_once.headers


async def test_an_answer_that_is_no_stream_has_not_one_byte_before_it_is_whole() -> None:
    async with fronted(server=LIVELY) as front:
        front.stub.play(held(1), held(1))
        async with front.calling(), front.calling(ask(stream=False)) as queued:
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
            await front.stub.until(lambda state: state.held == 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queued.reader.read(1), 3 * LIVELY.keepalive)
            front.stub.release()
            answer = await queued.answer()
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.json()["stop_reason"] == "end_turn"


# ---- kept alive ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["event", "ping", "comment"])
async def test_a_wait_without_change_is_kept_alive_by_comments(form: str) -> None:
    """Case 86."""
    async with fronted(server=LIVELY) as front:
        front.stub.play(hang())
        async with front.calling():
            await front.stub.until(lambda state: state.running == 1)
            async with front.streaming(headers={"x-slotline-queue": form}) as stream:
                await stream.next()
                assert [await stream.next() for _ in range(3)] == [KEEP_ALIVE] * 3
    assert max(gaps(stream.answer)) < LIVELY.keepalive + 0.9
    assert min(gaps(stream.answer)) > LIVELY.keepalive / 2


@pytest.mark.parametrize("script", [hang(), head_then_silence()], ids=["no head", "head"])
async def test_a_silent_upstream_opens_the_stream_after_the_grace_and_keeps_it_alive(script: Script) -> None:
    """B70."""
    async with fronted(server=LIVELY) as front:
        front.stub.play(script)
        async with front.streaming() as stream:
            assert stream.answer.status == 200
            assert [await stream.next() for _ in range(3)] == [KEEP_ALIVE] * 3
    assert max(gaps(stream.answer)) < LIVELY.keepalive + 0.9


async def test_a_stream_is_kept_alive_between_tokens() -> None:
    async with fronted(server=LIVELY) as front:
        front.stub.play(stall(2))
        async with front.streaming() as stream:
            await stream.until(b"token-1")
            assert [await stream.next() for _ in range(3)] == [KEEP_ALIVE] * 3
    seen = check(stream.answer.body, whole=False)
    assert seen.text == "token-0 token-1"


async def test_a_silent_prefill_longer_than_every_keep_alive_ends_in_an_ordinary_answer() -> None:
    async with fronted(server=LIVELY) as front:
        front.stub.play(head_then_silence(0.35))
        seen = check((await front.fetch()).body)
    assert seen.complete
    assert len(seen.comments) >= 2


# ---- as it is made ---------------------------------------------------------------------------------------------------


async def test_each_token_reaches_the_client_before_the_next_one_is_made() -> None:
    """B64."""
    steps = [step for _ in range(5) for step in (Tokens(1), Hold())]
    async with fronted() as front:
        front.stub.play(Script((Head(), Role(), *steps, Finish(), Done())))
        async with front.streaming() as stream:
            for number in range(5):
                await stream.until(b"token-%d" % number)
                assert b"token-%d" % (number + 1) not in stream.answer.body
                await front.stub.until(lambda state: state.held == 1)
                front.stub.release()
            assert check(await stream.rest()).complete


async def test_the_answer_begins_with_the_first_word_of_the_upstream() -> None:
    async with fronted() as front:
        front.stub.play(Script((Head(), Role(), Hang())))
        async with front.streaming() as stream:
            assert (await stream.next()).startswith(b"event: message_start\n")


async def test_tokens_that_come_apart_arrive_apart() -> None:
    """B64."""
    async with fronted() as front:
        front.stub.play(ok(10, gap=0.05))
        async with front.streaming() as stream:
            await stream.rest()
    between = sorted(gaps(stream.answer))
    assert 0.02 < between[len(between) // 2] < 0.15
