"""Clients that leave, at any time and in any way: what they held is free at once, and nobody calls it an error."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest

from fakes.checker import check
from fakes.gateway import Exit, Front, fronted, leave
from fakes.product import Caller, ask
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.script import Comment, Done, Finish, Hang, Head, Hold, Repeat, Role, Script, Text, Tokens, Usage
from slotline.stub.standard import hang, head_then_silence, ok, stall

CHAT = "/v1/chat/completions"
HUGE = Script((Head(), Role(), Repeat((Text("x" * (1 << 20)),))))

ways = pytest.mark.parametrize("way", Exit)
streams = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@contextmanager
def deaf(stub: Stub) -> Iterator[None]:
    """In place of the stub, which is stopped: somebody to whom connecting takes for ever."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((stub.host, stub.port))
        listener.listen(0)
        crowd: list[socket.socket] = []
        try:
            while not crowd or _connects(crowd[-1], stub.port):
                crowd.append(socket.socket())
            yield
        finally:
            for each in crowd:
                each.close()


def _connects(client: socket.socket, port: int) -> bool:
    """Whether there was still room; on loopback a connection is made at once, or not at all."""
    client.settimeout(0.05)
    try:
        client.connect(("127.0.0.1", port))
    except TimeoutError:
        return False
    return True


async def has_left(front: Front) -> None:
    """Within a second the upstream was told, and there is one outcome, no error, and a slot for the next request."""
    await front.stub.until(lambda state: state.aborted == 1, timeout=1)
    await front.settled()
    (end,) = front.log.ends
    assert (end.outcome, end.error) == ("client_left_running", None)
    await front.serves()
    assert front.log.faults == []


# ---- in every phase --------------------------------------------------------------------------------------------------


@ways
@streams
async def test_who_leaves_the_line_never_reaches_the_upstream_and_those_behind_move_up(stream: bool, way: Exit) -> None:
    """Case 82."""
    async with fronted() as front, AsyncExitStack() as stack:
        front.stub.play(hang())
        running = await stack.enter_async_context(front.calling())
        await front.stub.until(lambda state: state.running == 1)
        ahead = await stack.enter_async_context(front.streaming(ask("ahead")))
        leaver = await stack.enter_async_context(front.calling(ask("leaver", stream=stream)))
        await front.until(lambda: front.waiting == 2)
        behind = await stack.enter_async_context(front.streaming(ask("behind")))
        assert b'"position":3' in await behind.next()

        leave(leaver, way)
        assert b'"position":2,"queue_length":2' in await behind.next()
        await front.until(lambda: front.outcomes == ["client_left_waiting"], timeout=1)

        leave(running, way)
        assert check(await ahead.rest()).complete
        assert check(await behind.rest()).complete
        await front.settled()
        assert [place["position"] for place in check(ahead.answer.body).places] == [1]
        asked = [received.body["messages"][-1]["content"] for received in front.stub.requests]
        assert asked == ["hello", "ahead", "behind"]
        assert sorted(front.outcomes) == ["client_left_running", "client_left_waiting", "completed", "completed"]
        assert front.log.faults == []


@ways
@streams
async def test_who_leaves_while_the_upstream_is_connected_to_frees_the_slot(stream: bool, way: Exit) -> None:
    async with fronted(limits=Limits(connect=30, poll=0.05)) as front:
        await front.stub.stop()
        with deaf(front.stub):
            async with front.calling(ask(stream=stream)) as caller:
                await front.until(lambda: any(passage.granted is not None for passage in front.relay.passages))
                leave(caller, way)
                await front.settled()
        await front.stub.start()
        await front.serves()
        assert [received.body["messages"][-1]["content"] for received in front.stub.requests] == ["next"]
        assert front.outcomes == ["client_left_running", "completed"]
        assert front.log.faults == []


@ways
@streams
@pytest.mark.parametrize(
    "script",
    [hang(), head_then_silence(), Script((Head(), Comment(), Hang()))],
    ids=["no head", "the head", "the head and a comment"],
)
async def test_who_leaves_in_a_silent_prefill_closes_the_upstreams_connection(
    script: Script, stream: bool, way: Exit
) -> None:
    async with fronted() as front:
        front.stub.play(script)
        async with front.calling(ask(stream=stream)) as caller:
            await front.stub.until(lambda state: state.running == 1)
            await front.get("/healthz")
            leave(caller, way)
            await has_left(front)


@ways
@streams
@pytest.mark.parametrize(
    "script",
    [stall(3), Script((Head(), Role(), Tokens(3), Finish(), Usage(), Hang()))],
    ids=["mid-stream", "the last chunk"],
)
async def test_who_leaves_an_answer_closes_the_upstreams_connection(script: Script, stream: bool, way: Exit) -> None:
    """Case 82."""
    async with fronted() as front:
        front.stub.play(script)
        async with front.calling(ask(stream=stream)) as caller:
            await front.stub.until(lambda state: state.tokens == 3)
            await front.get("/healthz")
            leave(caller, way)
            await has_left(front)


@ways
@streams
async def test_who_leaves_in_the_moment_in_which_the_answer_ends_has_one_outcome(stream: bool, way: Exit) -> None:
    async with fronted() as front:
        front.stub.play(Script((Head(), Role(), Tokens(3), Finish(), Usage(), Hold(), Done())))
        async with front.calling(ask(stream=stream)) as caller:
            await front.stub.until(lambda state: state.held == 1)
            front.stub.release()
            leave(caller, way)
            await front.settled()
        assert front.outcomes in (["completed"], ["client_left_running"])
        await front.serves()
        assert front.log.faults == []


@ways
async def test_who_leaves_in_the_middle_of_its_own_body_was_never_there(way: Exit) -> None:
    async with fronted() as front:
        async with front.calling(b"") as caller:
            await caller.answer()
            caller.writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: test\r\ncontent-length: 1000\r\n\r\n{")
            await caller.writer.drain()
            await front.get("/healthz")
            leave(caller, way)
            await front.settled()
        assert front.outcomes == []
        assert front.stub.requests == ()
        assert front.log.faults == []


# ---- told of others --------------------------------------------------------------------------------------------------


async def test_those_who_left_keep_no_place_in_the_line() -> None:
    async with fronted() as front, AsyncExitStack() as stack:
        front.stub.play(hang())
        running = await stack.enter_async_context(front.calling())
        await front.stub.until(lambda state: state.running == 1)
        waiting = []
        for number in range(1, 6):
            stream = await stack.enter_async_context(front.streaming(ask(f"number {number}")))
            assert b'"position":%d' % number in await stream.next()
            waiting.append(stream)
        async with asyncio.timeout(1):
            for stream in waiting[:4]:
                leave(stream.caller, Exit.FIN)
            await waiting[4].until(b'"position":1,"queue_length":1,')
        assert front.waiting == 1
        leave(running, Exit.FIN)
        assert check(await waiting[4].rest()).complete
        asked = [received.body["messages"][-1]["content"] for received in front.stub.requests]
        assert asked == ["hello", "number 5"]


async def test_a_stream_that_is_given_up_for_an_answer_in_one_piece_holds_nothing_however_often() -> None:
    async with fronted(slots=2) as front:
        for _ in range(20):
            front.stub.play(head_then_silence(), ok(3))
            async with front.calling() as given_up:
                await front.stub.until(lambda state: state.running == 1)
                async with asyncio.timeout(1):
                    assert (await front.fetch(ask(stream=False))).status == 200
                leave(given_up, Exit.FIN)
                await front.settled()
        assert front.stub.state.aborted == 20
        await front.serves()
        assert sorted(front.outcomes) == ["client_left_running"] * 20 + ["completed"] * 21


async def test_nothing_is_sent_again_for_a_client_that_left() -> None:
    async with fronted(limits=Limits(poll=0.02)) as front:
        front.stub.start_loading()
        async with front.calling() as caller:
            await front.until(lambda: front.stub.hits[CHAT] > 1)
            leave(caller, Exit.FIN)
            await front.settled()
        tries = front.stub.hits[CHAT]
        front.stub.finish_loading()
        await front.serves()
        assert front.stub.hits[CHAT] == tries + 1
        assert front.outcomes == ["client_left_running", "completed"]


# ---- clients that stay and do not read -------------------------------------------------------------------------------


async def reads_no_more(front: Front, caller: Caller) -> None:
    """The client has the head of its answer, and from now on it takes no byte from its connection."""
    async with asyncio.timeout(5):
        await caller.head()
    transport = caller.writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()


async def test_a_client_that_does_not_read_is_let_go_after_client_write() -> None:
    async with fronted(limits=Limits(client_write=0.3, poll=0.05)) as front:
        front.stub.play(HUGE)
        async with front.calling() as caller:
            await reads_no_more(front, caller)
            await front.stub.until(lambda state: state.aborted == 1, timeout=5)
            await front.settled()
            assert front.outcomes == ["client_left_running"]
            await front.serves()
        assert front.log.faults == []


@ways
async def test_a_client_that_does_not_read_and_then_leaves_frees_the_slot_at_once(way: Exit) -> None:
    async with fronted(limits=Limits(client_write=30, poll=0.05)) as front:
        front.stub.play(HUGE)
        async with front.calling() as caller:
            await reads_no_more(front, caller)
            await front.stub.until(lambda state: state.tokens > 4)
            leave(caller, way)
            await has_left(front)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_cannot_hide_its_leaving_behind_a_second_request(stream: bool) -> None:
    """The library stops reading where a large request comes after one that is served, and would see no end."""
    async with fronted(stub=Stub(default=hang(), slots=1)) as front:
        caller = await Caller.connect(front.url)
        await caller.send("POST", "/v1/messages", ask(stream=stream))
        await front.stub.until(lambda state: state.running == 1)
        large = b"x" * 3_000_000
        caller.writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(large) + large)
        await asyncio.sleep(0)
        caller.reset()
        await front.stub.until(lambda state: state.running == 0 and state.aborted == 1)


async def test_a_line_before_an_upstream_that_stays_away_ends_after_load_wait() -> None:
    """Three are told at once that it cannot be reached; the next one waits in line, and not for ever."""
    limits = Limits(load_wait=0.5, poll=0.05)
    async with fronted(limits=limits, queue=4) as front:
        await front.stub.stop()
        for _ in range(3):
            assert (await front.fetch(ask(stream=False))).status == 502
        late = await front.fetch(ask(stream=False))
        assert late.status == 503
        assert late.json()["error"]["type"] == "overloaded_error"
        assert "load_wait = 0.5 s" in late.json()["error"]["message"]
        await front.stub.start()
