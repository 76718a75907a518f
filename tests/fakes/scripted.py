"""The pages before a gateway that a test plays itself: what the chat page is sent, frame by frame, is its to say.

For states that a real gateway only has by chance, such as the third place of five with twelve seconds to go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from slotline.surface import pages

USAGE = {"input_tokens": 8123, "output_tokens": 0}
START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": USAGE}}


def queue(position: int, length: int, wait: int | None) -> dict[str, Any]:
    """A queue frame; `wait` in milliseconds."""
    return {"type": "queue", "position": position, "queue_length": length, "estimated_wait_ms": wait}


def prefill(processed: int, total: int) -> dict[str, Any]:
    """A progress frame."""
    return {"type": "progress", "stage": "prefill", "processed": processed, "total": total}


def delta(text: str, kind: str = "text") -> dict[str, Any]:
    """A piece of the answer, or of thinking."""
    return {"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: text}}


def ended(reason: str = "end_turn", tokens: int = 2) -> list[dict[str, Any]]:
    """What ends a whole answer."""
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": tokens}},
        {"type": "message_stop"},
    ]


def failed(kind: str, message: str) -> dict[str, Any]:
    """What ends one that failed."""
    return {"type": "error", "error": {"type": kind, "message": message}}


class Exchange:
    """One request for a message. The test answers: with `refuse`, or with `send` and `end`."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.headers = request.headers
        self.raw = body
        self.body: dict[str, Any] = msgspec.json.decode(body)
        self.gone = asyncio.Event()  # the client has left
        self._request = request
        self.response: web.StreamResponse | None = None
        self.over = asyncio.Event()

    async def send(self, *frames: dict[str, Any]) -> None:
        """These, in one piece."""
        if self.response is None:
            self.response = web.StreamResponse(headers={"content-type": "text/event-stream", "request-id": "req_1"})
            await self.response.prepare(self._request)
        coded = [b"event: %b\ndata: %b\n\n" % (each["type"].encode(), msgspec.json.encode(each)) for each in frames]
        await self.response.write(b"".join(coded))

    def end(self) -> None:
        """The answer's body ends here."""
        self.over.set()

    def refuse(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        """A status in place of a stream."""
        body = msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
        head = {"request-id": "req_1", "content-type": "application/json", **(headers or {})}
        self.response = web.Response(status=status, body=body, headers=head)
        self.over.set()


@dataclass(slots=True)
class Scripted:
    """`models`: what there is, as a rule; change it as you like. `key`: the one that is wanted, if any."""

    models: Sequence[str] = ("qwen3-30b", "gemma-3-12b")
    key: str | None = None
    url: str = ""
    asked: asyncio.Queue[Exchange] = field(default_factory=asyncio.Queue)

    async def next(self) -> Exchange:
        """The next request for a message."""
        async with asyncio.timeout(10):
            return await self.asked.get()

    async def list_models(self, request: web.Request) -> web.Response:
        if self.key is not None and request.headers.get("x-api-key") != self.key:
            error = {"type": "authentication_error", "message": "a key is needed"}
            return web.json_response({"type": "error", "error": error}, status=401)
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def message(self, request: web.Request) -> web.StreamResponse:
        exchange = Exchange(request, await request.read())
        self.asked.put_nowait(exchange)
        try:
            await exchange.over.wait()
        except asyncio.CancelledError:
            exchange.gone.set()
            raise
        assert exchange.response is not None
        return exchange.response


@asynccontextmanager
async def scripted() -> AsyncIterator[Scripted]:
    """On a free port of loopback."""
    server = Scripted()
    app = web.Application()
    pages.mount(app)
    app.router.add_get("/llm/v1/models", server.list_models)
    app.router.add_post("/llm/v1/messages", server.message)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
