"""The client's end of one request: a status while nothing is out, a stream of whole events after that.

Whether the answer has started is asked here and nowhere else. Writing is bounded: a client that does not read ends its
own request, because it holds a slot that others wait for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextlib import suppress

from aiohttp import web

from slotline.core.dialect import Dialect
from slotline.core.errors import SlotlineError
from slotline.passage import ClientGone
from slotline.surface.errors import error_response

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}

_AHEAD = 1 << 20
"""Bytes that a client may lag behind before its slowness holds up the upstream, and with it a slot."""
_STEP = 1 << 16
"""… and how many of them it must then read, within `client_write`, for the answer to go on."""


class HttpReply:
    """See `slotline.passage.Reply`. Times in seconds."""

    def __init__(
        self,
        request: web.Request,
        dialect: Dialect,
        *,
        grace: float,
        keepalive: float,
        client_write: float,
        pulse: float | None = None,
    ) -> None:
        """`pulse`: how often the dialect is asked what keeps the stream alive also if the stream is not silent.

        To some clients not all that is written to them is a sign of life.
        """
        self._request = request
        self._dialect = dialect
        self._grace = grace
        self._keepalive = keepalive
        self._client_write = client_write
        self._pulse = math.inf if pulse is None else pulse
        self._stream: web.StreamResponse | None = None
        self._opening = asyncio.Lock()
        self._waited: float | None = None
        self._last: float | None = None  # when something was written
        self.written = 0
        self._came = self._written = self._beaten = asyncio.get_running_loop().time()
        self.response: web.StreamResponse | None = None  # what the handler returns, once the answer has ended

    @property
    def started(self) -> bool:
        return self._stream is not None

    @property
    def quiet(self) -> float | None:
        return None if self._last is None else asyncio.get_running_loop().time() - self._last

    def check(self) -> None:
        """The library stops reading when a client sends a second request that is too large to keep, and sees no end."""
        transport = self._request.transport
        if isinstance(transport, asyncio.Transport) and not transport.is_closing() and not transport.is_reading():
            transport.abort()

    def waited(self, seconds: float) -> None:
        """The request stood in line for `seconds` before its slot was free."""
        self._waited = seconds

    async def beat(self) -> None:
        """Opens the stream when `grace` has passed, and breaks every silence of `keepalive`."""
        time = asyncio.get_running_loop().time
        opening = time() + self._grace
        while True:
            due = opening if self._stream is None else min(self._written + self._keepalive, self._beaten + self._pulse)
            if (left := due - time()) > 0:
                # a stream that opens meanwhile is not due before that
                await asyncio.sleep(min(left, self._keepalive, self._pulse))
            else:
                await self._beat_once()
                opening = time() + self._keepalive

    async def _beat_once(self) -> None:
        transport = self._request.transport
        if transport is not None and transport.get_write_buffer_size() == 0:
            with suppress(ClientGone):  # the handler is about to be cancelled for the same reason
                await self.send(self._dialect.keep_alive(asyncio.get_running_loop().time() - self._came))
        self._written = self._beaten = asyncio.get_running_loop().time()

    async def send(self, data: bytes) -> None:
        if not data:
            return
        stream = self._stream or await self._open()
        await self._patiently(stream.write(data))
        self._written = self._wrote(len(data))

    async def finish(self, data: bytes) -> None:
        if self._dialect.stream:
            await self.send(data)
            await self._close()
            return
        await self._answer(web.Response(body=data, content_type="application/json"))

    async def fail(self, error: SlotlineError) -> None:
        async with self._opening:  # a stream that is just being opened is open when this goes on
            started = self._stream is not None
            if not started:
                await self._answer(error_response(error, self._dialect.error_body(error)))
        if started:
            await self.send(self._dialect.error_event(error))
            await self._close()

    # ---- inside ------------------------------------------------------------------------------------------------------

    async def _open(self) -> web.StreamResponse:
        async with self._opening:
            if self._stream is None:
                stream = web.StreamResponse(headers=STREAM_HEADERS)
                await self._patiently(stream.prepare(self._request))
                self._stream = self.response = stream
                if (transport := self._request.transport) is not None:
                    transport.set_write_buffer_limits(high=_AHEAD, low=_AHEAD - _STEP)
        return self._stream

    async def _close(self) -> None:
        if self._stream is not None:
            await self._patiently(self._stream.write_eof())

    async def _answer(self, response: web.Response) -> None:
        self.response = response
        if self._waited is not None and not self._dialect.stream:
            response.headers["x-slotline-wait-ms"] = str(round(self._waited * 1000))
        await self._patiently(response.prepare(self._request))
        await self._patiently(response.write_eof())
        self._wrote(response.content_length or 0)

    def _wrote(self, size: int) -> float:
        """So many bytes went out; the time."""
        self.written += size
        self._last = asyncio.get_running_loop().time()
        return self._last

    async def _patiently(self, write: Awaitable[object]) -> None:
        """Bounds one write to the client, and turns all that can go wrong with it into ClientGone."""
        try:
            async with asyncio.timeout(self._client_write):
                await write
        except TimeoutError as late:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ClientGone(f"the client did not read for client_write = {self._client_write:g} s") from late
        except ConnectionError as gone:
            raise ClientGone("the client closed the connection") from gone
