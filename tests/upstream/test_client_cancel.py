"""A caller that leaves, in every phase of a call: the upstream's connection is closed at once, and nothing is left."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from fakes.bare import crowded
from fakes.upstream import assert_at_rest, chat, client, read, text, turned
from slotline.core.errors import Stalled, Unreachable
from slotline.core.limits import Limits
from slotline.stub import Script, Side, State, Stub
from slotline.stub.script import Hang, Head, Raw, Repeat, Role, Text, Tokens
from slotline.stub.standard import hang, head_then_silence, ok, reset, stall
from slotline.upstream.answer import Answer
from slotline.upstream.client import UpstreamClient

CHAT = "/v1/chat/completions"
AT_ONCE = 1.0
"""Seconds within which an upstream must see that its client has gone."""


@asynccontextmanager
async def leaving_nothing(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """After the block the event loop has the tasks that it had before, and nothing was logged as wrong."""
    before = asyncio.all_tasks()
    yield
    if left := asyncio.all_tasks() - before:
        await asyncio.wait(left, timeout=AT_ONCE)
    assert not asyncio.all_tasks() - before
    ours = [record for record in caplog.records if record.name != "aiohttp.server"]  # which is the stub's
    assert not [record for record in ours if record.levelno >= logging.ERROR]


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


ERROR_BODY = Script((Head(500, content_type="application/json", length=100), Raw(b'{"error"'), Hang()))
ENDLESS = Script((Head(), Role(), Repeat((Tokens(1),))))
HUGE = Script((Head(), Raw(b"data: "), Repeat((Raw(b"x" * 100_000),))))


@pytest.mark.parametrize(
    ("script", "reached"),
    [
        pytest.param(hang(), lambda s: s.running == 1, id="no head"),
        pytest.param(head_then_silence(), lambda s: s.running == 1, id="silent prefill"),
        pytest.param(stall(3), lambda s: s.tokens == 3, id="between two tokens"),
        pytest.param(ok(1000, gap=0.001), lambda s: s.tokens > 20, id="while tokens come"),
        pytest.param(ENDLESS, lambda s: s.tokens > 100, id="while they come as fast as they can"),
        pytest.param(HUGE, lambda s: s.running == 1, id="within an event"),
        pytest.param(ERROR_BODY, lambda s: s.running == 1, id="while an error is read"),
    ],
)
async def test_the_upstream_sees_it_at_once(
    script: Script, reached: Callable[[State], bool], caplog: pytest.LogCaptureFixture
) -> None:
    async with leaving_nothing(caplog), Stub(tokens=1) as stub, client(stub.url, max_event=1 << 30) as upstream:
        stub.play(script)
        task = asyncio.create_task(read(upstream))
        await stub.until(reached)
        await cancelled(task)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)
        assert text(await read(upstream)) == "token-0"


async def test_while_the_server_loads_it_is_not_asked_again() -> None:
    async with Stub(tokens=1) as stub, client(stub.url) as upstream:
        stub.sides[CHAT] = Side(status=503, body='{"status":"loading model"}')
        task = asyncio.create_task(read(upstream))
        await stub.until(lambda _: stub.hits[CHAT] == 2)
        await cancelled(task)
        asked = stub.hits[CHAT]
        del stub.sides[CHAT]
        assert text(await read(upstream)) == "token-0"
        assert stub.hits[CHAT] == asked + 1


async def test_while_connecting_nothing_is_left_and_the_next_call_connects(caplog: pytest.LogCaptureFixture) -> None:
    with crowded() as server:
        async with leaving_nothing(caplog), client(server.url, connect=0.3) as upstream:
            tasks = [asyncio.create_task(read(upstream)) for _ in range(20)]
            pool = upstream._session.connector
            assert pool is not None
            await turned(lambda: len(pool._acquired) == len(tasks))
            for task in tasks:
                await cancelled(task)
            assert_at_rest(upstream)
            server.make_room()
            task = asyncio.create_task(read(upstream))
            async with asyncio.timeout(AT_ONCE):
                accepted, _ = await asyncio.get_running_loop().sock_accept(server.sock)  # the next one gets through
            accepted.close()
            with pytest.raises(Unreachable):
                await task


async def test_while_asking_about_slots_the_question_ends_with_the_client() -> None:
    async with Stub(default=hang()) as stub:
        before = asyncio.all_tasks()
        async with client(stub.url) as upstream:
            stub.sides["/slots"] = Side(hang=True)
            task = asyncio.create_task(read(upstream))
            await stub.until(lambda _: stub.hits["/slots"] == 1)
            await cancelled(task)
        assert not any("keep" in repr(task) for task in asyncio.all_tasks() - before)


async def test_with_an_answer_that_is_not_being_read_it_is_the_same() -> None:
    """The caller writes to its own client at this moment, and that one leaves."""
    async with Stub(default=stall(3)) as stub, client(stub.url) as upstream:
        reading = asyncio.Event()

        async def slow() -> None:
            async with upstream.answer(chat()) as answer:
                async for _ in answer:
                    reading.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(slow())
        await reading.wait()
        await cancelled(task)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)


async def test_with_the_buffers_full_it_is_the_same() -> None:
    script = Script((Head(), Repeat((Text("x" * 100_000),))))
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        async with upstream.answer(chat()) as answer:
            await anext(answer)
            connection = answer._response.connection
            assert connection is not None
            await turned(lambda: connection.protocol is None or connection.protocol._reading_paused)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)


@pytest.mark.parametrize("read_first", [0, 1])
async def test_leaving_the_block_early_is_enough(read_first: int) -> None:
    async with Stub(default=stall(3)) as stub, client(stub.url) as upstream:
        async with upstream.answer(chat()) as answer:
            for _ in range(read_first):
                await anext(answer)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)


async def test_an_error_of_the_caller_closes_the_connection_and_arrives_as_it_is() -> None:
    async def fail(answer: Answer) -> None:
        await anext(answer)
        raise ZeroDivisionError

    async with Stub(default=stall(3)) as stub, client(stub.url) as upstream:
        with pytest.raises(ZeroDivisionError):
            async with upstream.answer(chat()) as answer:
                await fail(answer)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)


async def test_an_error_of_the_caller_outside_of_a_call_arrives_as_it_is_too() -> None:
    with pytest.raises(ZeroDivisionError):
        async with UpstreamClient("box", "http://127.0.0.1:1", Limits()):
            raise ZeroDivisionError


async def test_an_answer_that_was_left_does_not_cancel_anybody_later() -> None:
    async with Stub(default=stall(1)) as stub, client(stub.url, liveness=0.05, busy_wait=0.05) as upstream:
        async with upstream.answer(chat()) as answer:
            await anext(answer)
        with pytest.raises(StopAsyncIteration):
            await anext(answer)
        await asyncio.sleep(0.15)


@pytest.mark.parametrize("script", [reset(3), reset()])
async def test_after_a_connection_that_broke_by_itself_nothing_is_left_either(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async with leaving_nothing(caplog), Stub(tokens=1) as stub, client(stub.url) as upstream:
        for _ in range(5):
            stub.play(script)
            try:
                await read(upstream)
            except Unreachable:
                assert script == reset()
            assert_at_rest(upstream)
        assert text(await read(upstream)) == "token-0"


async def test_at_any_moment_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Hundreds of callers leave whenever they like; then as many answers run at once as there are slots."""
    chance = random.Random(8)
    async with (
        leaving_nothing(caplog),
        Stub(slots=4, default=ok(100, gap=0.002)) as stub,
        client(stub.url, poll=0.005) as upstream,
    ):
        for _ in range(10):
            tasks = [asyncio.create_task(read(upstream)) for _ in range(20)]
            for task in tasks:
                await asyncio.sleep(chance.choice([0, 0, chance.random() * 0.01]))
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.running == s.waiting == 0, AT_ONCE)
        before = stub.state.received
        four = [asyncio.create_task(read(upstream)) for _ in range(4)]
        await stub.until(lambda s: s.received == before + 4 and s.running == 4, AT_ONCE)
        for task in four:
            await cancelled(task)


async def test_a_limit_that_passes_closes_the_connection_as_well() -> None:
    async with Stub(default=stall(1)) as stub, client(stub.url, liveness=0.1) as upstream:
        with pytest.raises(Stalled):
            await read(upstream)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)


async def test_a_second_cancellation_while_the_first_is_at_work_changes_nothing() -> None:
    async with Stub(default=stall(1)) as stub, client(stub.url) as upstream:
        task = asyncio.create_task(read(upstream))
        await stub.until(lambda s: s.tokens == 1)
        task.cancel()
        task.cancel()
        await cancelled(task)
        assert_at_rest(upstream)
        await stub.until(lambda s: s.aborted == 1, AT_ONCE)
