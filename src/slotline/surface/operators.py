"""The operator's routes: what goes on, one request and why it waits, and the end of one.

`docs/api.md` says what is told. Everything is for operators alone, but for a caller's view of its own request: to that
one every other request looks as if it did not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic

import msgspec
from aiohttp import web

from slotline.core.errors import Cancelled, NotFound
from slotline.core.history import Hour
from slotline.core.queue_frames import KEEP_ALIVE
from slotline.core.report import Request, State
from slotline.surface.auth import admin, may_see
from slotline.surface.ports import Overview, Ports
from slotline.surface.reply import STREAM_HEADERS

_GOODBYE = 1.0  # seconds in which a request that was ended is waited for
_REST = 20
"""A look at all who wait holds up every stream while it lasts; so many times as long is at least between two looks."""

_News = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """Of a stream of states, in seconds: `every`, at most; no longer `silence`; `write`: one may fail to read."""

    every: float = 0.5
    silence: float = 10.0
    write: float = 10.0


def mount(app: web.Application, ports: Ports, pace: Pace = Pace()) -> None:
    """Adds the routes to `app`. Streams end with it, at once."""
    board = Board(ports.overview, pace)
    app.on_shutdown.append(board.close)
    app.router.add_get("/api/state", partial(state, ports))
    app.router.add_get("/api/events", partial(events, ports, board), allow_head=False)
    app.router.add_get("/api/history", partial(history, ports))
    app.router.add_get("/api/requests/{id}", partial(one, ports))
    app.router.add_delete("/api/requests/{id}", partial(end, ports))


class Board:
    """The state as all who watch it see it: it is looked up once for all of them."""

    def __init__(self, overview: Overview, pace: Pace, clock: Callable[[], float] = monotonic) -> None:
        self.pace = pace
        self._overview = overview
        self._clock = clock
        self._closing = asyncio.Event()
        self._due = float("-inf")
        self._shown: tuple[_News, bytes] = ((), b"")

    async def close(self, _: web.Application) -> None:
        self._closing.set()

    def show(self) -> tuple[_News, bytes]:
        """What there is to tell, to be compared, and its frame; as old as the time between two frames, at most.

        Where very many wait it may be older.
        """
        began = self._clock()
        if began >= self._due:
            self._shown = _frame(self._overview.state())
            self._due = began + max(self.pace.every, _REST * (self._clock() - began))
        return self._shown

    async def closes(self) -> bool:
        """Whether the gateway ends before the next frame is due."""
        try:
            async with asyncio.timeout(self.pace.every):
                return await self._closing.wait()
        except TimeoutError:
            return False


async def state(ports: Ports, request: web.Request) -> web.Response:
    """`GET /api/state`."""
    admin(request, ports)
    return _json(ports.overview.state())


async def events(ports: Ports, board: Board, request: web.Request) -> web.StreamResponse:
    """`GET /api/events`: the state at once, and again whenever it is another one, at most every half second."""
    admin(request, ports)
    time, pace = asyncio.get_running_loop().time, board.pace
    stream = web.StreamResponse(headers=STREAM_HEADERS)
    known: _News | None = None
    written = time()
    try:
        await stream.prepare(request)
        while True:
            told, frame = board.show()
            if told == known:
                frame = KEEP_ALIVE if time() - written >= pace.silence - pace.every else b""
            if frame:
                known, written = told, time()
                async with asyncio.timeout(pace.write):
                    await stream.write(frame)
            if await board.closes():
                await stream.write_eof()
                return stream
    except ConnectionError:
        return stream
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        return stream


async def history(ports: Ports, request: web.Request) -> web.Response:
    """`GET /api/history`."""
    admin(request, ports)
    return _json(ports.overview.history())


async def one(ports: Ports, request: web.Request) -> web.Response:
    """`GET /api/requests/{id}`, for operators and for whoever sent the request."""
    told = ports.overview.request(request.match_info["id"])
    if told is None or not may_see(request, ports, told.key):
        raise _unknown()
    return _json(told)


async def end(ports: Ports, request: web.Request) -> web.Response:
    """`DELETE /api/requests/{id}`: 200 with how it ended, or 202 while its client keeps it from ending."""
    admin(request, ports)
    identity = request.match_info["id"]
    passage = ports.relay.passage(identity)
    if passage is None or passage.ending:
        raise _unknown() if ports.overview.request(identity) is None else NotFound("this request has ended already")
    passage.stop(Cancelled("an operator has ended this request"))
    try:
        async with asyncio.timeout(_GOODBYE):
            await passage.over.wait()
    except TimeoutError:
        return _json(ports.overview.request(identity), 202)
    return _json(ports.overview.request(identity))


def _unknown() -> NotFound:
    """The same for what there never was, what is long gone, and what is another caller's."""
    return NotFound("there is no such request, or it ended too long ago")


def _frame(told: State) -> tuple[_News, bytes]:
    """That time goes on is nothing new where nobody waits or runs."""
    return (told.upstreams, told.lines, told.requests), b"data: %b\n\n" % msgspec.json.encode(told)


def _json(told: State | Hour | Request | None, status: int = 200) -> web.Response:
    headers = {"cache-control": "no-store"}
    return web.Response(status=status, body=msgspec.json.encode(told), content_type="application/json", headers=headers)
