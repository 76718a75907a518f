"""The client's end of a request, on real sockets: what a client sees, and when."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from aiohttp import web

from fakes.parts import Dialect
from fakes.product import Answered, Caller
from slotline.core.errors import Busy, Unreachable
from slotline.passage import ClientGone
from slotline.surface.reply import HttpReply

LONG = 30.0  # seconds that no test lasts


@dataclass
class Server:
    """Answers every request as `story` tells, with a reply to tell it through."""

    story: Callable[[HttpReply], Awaitable[None]]
    stream: bool = True
    grace: float = LONG
    keepalive: float = LONG
    client_write: float = LONG
    pulse: float | None = None
    url: str = ""
    gone: list[ClientGone] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        reply = HttpReply(
            request,
            Dialect(stream=self.stream),
            grace=self.grace,
            keepalive=self.keepalive,
            client_write=self.client_write,
            pulse=self.pulse,
        )
        try:
            await self.story(reply)
        except ClientGone as gone:
            self.gone.append(gone)
        finally:
            self.ended.set()
        return reply.response or web.Response(status=499)


@asynccontextmanager
async def called(server: Server, *, kernel: int | None = None) -> AsyncIterator[Caller]:
    """The server runs, and one request is out. `kernel`: bytes that it keeps for a client that does not read."""
    app = web.Application()
    app.on_response_prepare.append(_slowly)
    app.router.add_get("/", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    caller = None
    try:
        listener, sock = socket.socket(), socket.socket()
        if kernel is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kernel)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kernel)
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        await web.SockSite(runner, listener).start()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        caller = Caller(*await asyncio.open_connection(sock=sock, limit=1024))
        await caller.send("GET", "/")
        async with asyncio.timeout(10):
            yield caller
    finally:
        if caller is not None:
            caller.reset()
        await runner.cleanup()


async def _slowly(_: web.Request, __: web.StreamResponse) -> None:
    """Beginning an answer may take more than one step of the loop."""
    await asyncio.sleep(0)


async def pieces(caller: Caller) -> tuple[Answered, AsyncIterator[bytes]]:
    answer = await caller.head()
    return answer, caller.pieces(answer)


# ---- before anything is out ------------------------------------------------------------------------------------------


async def test_an_error_before_the_first_byte_is_a_status() -> None:
    async def story(reply: HttpReply) -> None:
        await reply.fail(Busy("the line is full", retry_after=7))

    async with called(Server(story)) as caller:
        answer = await caller.answer()
    assert answer.status == 529
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["retry-after"] == "7"
    assert answer.body == b"the line is full"


async def test_an_error_that_names_no_time_asks_nobody_to_come_again() -> None:
    async def story(reply: HttpReply) -> None:
        await reply.fail(Unreachable("nobody"))

    async with called(Server(story)) as caller:
        assert "retry-after" not in (await caller.answer()).headers


async def test_nothing_to_write_opens_no_stream() -> None:
    async def story(reply: HttpReply) -> None:
        await reply.send(b"")
        assert not reply.started
        await reply.fail(Unreachable("nobody"))

    async with called(Server(story)) as caller:
        assert (await caller.answer()).status == 502


async def test_a_whole_answer_is_one_body_of_known_length() -> None:
    async def story(reply: HttpReply) -> None:
        await reply.finish(b'{"whole":true}')

    async with called(Server(story, stream=False)) as caller:
        answer = await caller.answer()
    assert (answer.status, answer.json()) == (200, {"whole": True})
    assert answer.headers["content-length"] == "14"
    assert answer.headers["content-type"] == "application/json"
    assert "x-slotline-wait-ms" not in answer.headers


@pytest.mark.parametrize("good", [True, False])
async def test_a_whole_answer_or_an_error_tells_for_how_long_the_request_stood_in_line(good: bool) -> None:
    async def story(reply: HttpReply) -> None:
        reply.waited(1.2346)
        await (reply.finish(b"{}") if good else reply.fail(Unreachable("nobody")))

    async with called(Server(story, stream=False)) as caller:
        assert (await caller.answer()).headers["x-slotline-wait-ms"] == "1235"


@pytest.mark.parametrize("good", [True, False])
async def test_a_call_for_a_stream_has_been_told_its_wait_already(good: bool) -> None:
    async def story(reply: HttpReply) -> None:
        reply.waited(1.0)
        await (reply.finish(b"data\n\n") if good else reply.fail(Unreachable("nobody")))

    async with called(Server(story)) as caller:
        assert "x-slotline-wait-ms" not in (await caller.answer()).headers


# ---- a stream --------------------------------------------------------------------------------------------------------


async def test_a_stream_is_marked_so_that_nothing_on_its_way_keeps_it_back() -> None:
    """B64."""

    async def story(reply: HttpReply) -> None:
        await reply.finish(b"data\n\n")

    async with called(Server(story)) as caller:
        answer = await caller.answer()
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-length" not in answer.headers
    assert "content-encoding" not in answer.headers


async def test_what_is_sent_reaches_the_client_before_anything_else_happens() -> None:
    read = asyncio.Event()

    async def story(reply: HttpReply) -> None:
        for number in range(3):
            await reply.send(b"%d\n\n" % number)
            await read.wait()
            read.clear()
        await reply.finish(b"end\n\n")

    async with called(Server(story)) as caller:
        _, parts = await pieces(caller)
        for number in range(3):
            assert await anext(parts) == b"%d\n\n" % number
            read.set()
        assert [part async for part in parts] == [b"end\n\n"]


async def test_a_stream_that_has_ended_leaves_its_connection_for_the_next_request() -> None:
    async def story(reply: HttpReply) -> None:
        await reply.send(b"a\n\n")
        await reply.finish(b"b\n\n")

    async with called(Server(story)) as caller:
        assert (await caller.answer()).body == b"a\n\nb\n\n"
        await caller.send("GET", "/")
        assert (await caller.answer()).body == b"a\n\nb\n\n"


async def test_an_error_in_an_open_stream_is_its_last_event() -> None:
    async def story(reply: HttpReply) -> None:
        await reply.send(b"a\n\n")
        assert reply.started
        await reply.fail(Unreachable("event: nobody\n\n"))

    async with called(Server(story)) as caller:
        answer = await caller.answer()
    assert (answer.status, answer.body) == (200, b"a\n\nevent: nobody\n\n")


# ---- the heart -------------------------------------------------------------------------------------------------------


async def with_heart(reply: HttpReply, story: Awaitable[None]) -> None:
    """As the relay does it."""
    async with asyncio.TaskGroup() as tasks:
        heart = tasks.create_task(reply.beat())
        await story
        heart.cancel()


async def test_a_silent_stream_is_opened_when_the_grace_has_passed_and_kept_alive_from_then_on() -> None:
    """B70."""

    async def story(reply: HttpReply) -> None:
        await with_heart(reply, asyncio.Event().wait())  # type: ignore[arg-type] # it never ends

    time = asyncio.get_running_loop().time
    async with called(Server(story, grace=0.2, keepalive=0.1)) as caller:
        before = time()
        answer, parts = await pieces(caller)
        for _ in range(4):
            assert await anext(parts) == b": \n\n"
    times = [at for at, _ in answer.at]
    assert 0.19 < times[0] - before < 1
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(0.05 < gap < 0.9 for gap in gaps), gaps  # an arrival may be late, and the next one in time again


async def test_a_stream_that_was_opened_early_is_not_silent_until_the_grace_has_passed() -> None:
    async def story(reply: HttpReply) -> None:
        async def opened() -> None:
            await reply.send(b"place 1\n\n")
            await asyncio.Event().wait()

        await with_heart(reply, opened())

    async with called(Server(story, grace=LONG, keepalive=0.05)) as caller:
        answer, parts = await pieces(caller)
        assert [await anext(parts) for _ in range(3)] == [b"place 1\n\n", b": \n\n", b": \n\n"]
    assert answer.at[2][0] - answer.at[0][0] < 1


async def test_a_stream_that_is_written_to_needs_no_keeping_alive() -> None:
    async def story(reply: HttpReply) -> None:
        async def talkative() -> None:
            for number in range(10):
                await reply.send(b"%d\n\n" % number)
                await asyncio.sleep(0.05)
            await reply.finish(b"end\n\n")

        await with_heart(reply, talkative())

    async with called(Server(story, keepalive=0.4)) as caller:
        body = (await caller.answer()).body
    assert body == b"".join(b"%d\n\n" % number for number in range(10)) + b"end\n\n"


async def test_one_that_needs_a_pulse_gets_it_however_much_else_is_written() -> None:
    async def story(reply: HttpReply) -> None:
        async def talkative() -> None:
            for number in range(20):
                await reply.send(b"%d\n\n" % number)
                await asyncio.sleep(0.02)

        await with_heart(reply, talkative())

    async with called(Server(story, pulse=0.1)) as caller:
        answer, parts = await pieces(caller)
        beats = 0
        while beats < 2:
            beats += await anext(parts) == b": \n\n"
    assert b"0\n\n1\n\n" in answer.body


@pytest.mark.parametrize("yields", range(4))
async def test_an_error_that_comes_as_the_stream_is_opened_is_told_once_and_in_one_form(yields: int) -> None:
    async def story(reply: HttpReply) -> None:
        async def failing() -> None:
            for _ in range(yields):
                await asyncio.sleep(0)
            await reply.fail(Unreachable("nobody"))

        await with_heart(reply, failing())

    async with called(Server(story, grace=0.0)) as caller:
        answer = await caller.answer()
        assert (answer.status, answer.body) in {(502, b"nobody"), (200, b": \n\nnobody")}
        await caller.send("GET", "/")  # nothing but the answer is on the connection
        assert (await caller.answer()).status in {200, 502}


# ---- clients that do not read ----------------------------------------------------------------------------------------

_MIB = b"x" * (1 << 20)


async def test_a_client_that_does_not_read_is_let_go_after_the_limit_and_its_connection_is_closed() -> None:
    async def story(reply: HttpReply) -> None:
        while True:
            await reply.send(_MIB)

    server = Server(story, client_write=0.2)
    async with called(server, kernel=4096) as caller:
        await server.ended.wait()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await caller.answer()
    (gone,) = server.gone
    assert "client_write = 0.2 s" in str(gone)


async def test_a_client_that_reads_slowly_does_not_hold_up_who_writes_as_long_as_it_does_not_lag_far_behind() -> None:
    async def story(reply: HttpReply) -> None:
        for _ in range(8):
            await reply.send(_MIB[: 1 << 16])

    server = Server(story)
    async with called(server, kernel=4096):
        async with asyncio.timeout(1):
            await server.ended.wait()
        assert not server.gone


async def test_a_client_that_does_not_read_gets_no_keep_alives_on_top() -> None:
    kept: list[int] = []  # bytes that wait for the client, in the end and a good while before it

    async def story(reply: HttpReply) -> None:
        transport = reply._request.transport
        assert transport is not None

        async def stuck() -> None:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(reply.send(_MIB * 4))
                for _ in range(2):
                    await asyncio.sleep(0.15)
                    kept.append(transport.get_write_buffer_size())
                sending.cancel()

        await with_heart(reply, stuck())

    server = Server(story, grace=0.0, keepalive=0.01)
    async with called(server, kernel=4096):
        await server.ended.wait()
    assert kept[0] == kept[1] > 0


async def test_a_client_that_has_closed_cannot_be_written_to() -> None:
    closed = asyncio.Event()

    async def story(reply: HttpReply) -> None:
        await reply.send(b"a\n\n")
        await closed.wait()
        while True:
            await reply.send(b"b\n\n")
            await asyncio.sleep(0)

    server = Server(story)
    async with called(server) as caller:
        _, parts = await pieces(caller)
        assert await anext(parts) == b"a\n\n"
        caller.reset()
        closed.set()
        await server.ended.wait()
    assert len(server.gone) == 1


async def test_a_client_that_closed_before_the_answer_began_cannot_be_answered() -> None:
    closed = asyncio.Event()

    async def story(reply: HttpReply) -> None:
        await closed.wait()
        while not reply.started:
            await asyncio.sleep(0)
            await reply.fail(Unreachable("nobody"))

    server = Server(story)
    async with called(server) as caller:
        caller.reset()
        closed.set()
        await server.ended.wait()
    assert len(server.gone) == 1
