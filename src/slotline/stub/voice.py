"""How an answer reaches its client: as a stream of events, or whole, as one JSON object at the end.

A voice writes, and knows nothing of time, slots or scripts' order: `answer` tells it what comes next. Both can end a
connection in every way that a server can.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Protocol

import msgspec
from aiohttp import web

from slotline.stub.chunks import Chunks, error_body
from slotline.stub.script import Error, Frame, Head, Raw

_EVENTS = "text/event-stream"
_LINGER_NOT = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends RST in place of FIN


def _transport(request: web.Request) -> asyncio.Transport:
    if request.transport is None:
        raise ConnectionResetError("the client has gone")
    return request.transport


def reset_connection(request: web.Request) -> None:
    """Ends the request's connection with RST; on a unix socket it only closes."""
    transport = _transport(request)
    sock = transport.get_extra_info("socket")
    if sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


class Voice(Protocol):
    """What `answer` needs to say. All of it raises ConnectionError once the client has gone."""

    async def head(self, head: Head) -> None:
        """The status and the headers."""

    async def token(self, key: str, text: str) -> None:
        """A delta of one text field."""

    async def delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> None:
        """Any other delta, with further keys of the chunk."""

    async def chunk(self, body: dict[str, Any]) -> None:
        """A chunk of one's own."""

    async def frame(self, frame: Frame) -> None:
        """What is no delta."""

    async def flush(self) -> None:
        """Nothing more comes for a while: what was said goes out."""

    async def end(self) -> web.StreamResponse:
        """The body ends as HTTP wants it; the connection is kept."""

    async def close(self) -> web.StreamResponse:
        """The body ends as HTTP wants it; the connection is closed."""

    async def cut(self) -> web.StreamResponse:
        """The connection is closed before the body ended."""


class Stream:
    """The answer as server-sent events."""

    def __init__(self, request: web.Request, chunks: Chunks, headers: dict[str, str], write_size: int | None) -> None:
        self._request = request
        self._chunks = chunks
        self._headers = headers
        self._write_size = write_size
        self._unsent = bytearray()  # bytes that do not fill a write yet; only used with a write size
        self._response: web.StreamResponse | None = None
        self._bare = False  # whether bytes went out that are no HTTP

    async def head(self, head: Head) -> None:
        headers = {**self._headers, "Content-Type": head.content_type}
        if head.content_type == _EVENTS:
            headers |= {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(status=head.status, headers=headers | head.headers)
        if head.length is None:
            response.enable_chunked_encoding()
        else:
            response.content_length = head.length
        self._response = response
        await response.prepare(self._request)

    async def token(self, key: str, text: str) -> None:
        await self._write(self._chunks.token(key, text))

    async def delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> None:
        await self._write(self._chunks.delta(delta, finish, **more))

    async def chunk(self, body: dict[str, Any]) -> None:
        await self._write(self._chunks.chunk(body))

    async def frame(self, frame: Frame) -> None:
        if isinstance(frame, Raw) and self._response is None:
            self._bare = True
            _transport(self._request).write(frame.data)
        else:
            await self._write(self._chunks.frame(frame))

    async def flush(self) -> None:
        if self._unsent:
            await self._send(len(self._unsent))

    async def end(self) -> web.StreamResponse:
        await self.flush()
        if self._bare and self._response is None:
            return await self.cut()
        return await self._opened()

    async def close(self) -> web.StreamResponse:
        await self.flush()
        response = await self._opened()
        await response.write_eof()
        _transport(self._request).close()
        return response

    async def cut(self) -> web.StreamResponse:
        await self.flush()
        _transport(self._request).close()
        return self._response or web.Response()

    async def _opened(self) -> web.StreamResponse:
        if self._response is None:
            await self.head(Head())
        assert self._response is not None  # noqa: S101 — for the type checker: `head` sets it
        return self._response

    async def _write(self, data: bytes) -> None:
        if self._write_size is None:
            await (self._response or await self._opened()).write(data)
            return
        self._unsent += data
        while len(self._unsent) >= self._write_size:
            await self._send(self._write_size)

    async def _send(self, size: int) -> None:
        piece = bytes(self._unsent[:size])
        del self._unsent[:size]
        await (await self._opened()).write(piece)
        await asyncio.sleep(0)  # a reader in the same loop sees this piece by itself


class Whole:
    """The answer as one `chat.completion`, written at its end."""

    def __init__(self, request: web.Request, completion: dict[str, Any], headers: dict[str, str]) -> None:
        """`completion`: the keys that do not depend on the answer: `id`, `model`, `created`."""
        self._request = request
        self._completion = {**completion, "object": "chat.completion"}
        self._headers = headers
        self._head = Head(content_type="application/json")
        self._texts: dict[str, list[str]] = {"content": []}
        self._calls: dict[Any, dict[str, Any]] = {}
        self._finish: str | None = None
        self._raw = bytearray()

    async def head(self, head: Head) -> None:
        if head.content_type != _EVENTS or head.status != 200:
            self._head = head

    async def token(self, key: str, text: str) -> None:
        self._texts.setdefault(key, []).append(text)

    async def delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> None:
        for key, value in delta.items():
            if key == "tool_calls":
                for fragment in value:
                    self._call(fragment)
            elif key != "role" and isinstance(value, str):
                await self.token(key, value)
        self._finish = finish or self._finish
        self._completion |= {key: value for key, value in more.items() if key != "prompt_progress"}

    async def chunk(self, body: dict[str, Any]) -> None:
        for choice in body.get("choices", []):
            await self.delta(choice.get("delta", {}), choice.get("finish_reason"))
        self._completion |= {key: value for key, value in body.items() if key not in {"choices", "object"}}

    async def frame(self, frame: Frame) -> None:
        if isinstance(frame, Raw):
            self._raw += frame.data
        elif isinstance(frame, Error):
            self._head = Head(frame.code, content_type="application/json")
            self._raw = bytearray(msgspec.json.encode(error_body(frame)))

    async def flush(self) -> None:
        """A whole answer has nothing to send before its end."""

    async def end(self) -> web.StreamResponse:
        headers = self._headers | {"Content-Type": self._head.content_type} | self._head.headers
        return web.Response(status=self._head.status, body=self._body(), headers=headers)

    async def close(self) -> web.StreamResponse:
        response = await self.end()
        response.force_close()
        return response

    async def cut(self) -> web.StreamResponse:
        body = self._body()
        headers = self._headers | {"Content-Type": self._head.content_type} | self._head.headers
        response = web.StreamResponse(status=self._head.status, headers=headers)
        response.content_length = self._head.length or len(body)
        await response.prepare(self._request)
        await response.write(body[: max(1, len(body) // 2)])
        _transport(self._request).close()
        return response

    def _call(self, fragment: dict[str, Any]) -> None:
        new = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(fragment.get("index"), new)
        call["id"] = fragment.get("id") or call["id"]
        for key, text in fragment.get("function", {}).items():
            call["function"][key] += text if isinstance(text, str) else msgspec.json.encode(text).decode()

    def _body(self) -> bytes:
        if self._raw:
            return bytes(self._raw)
        message: dict[str, Any] = {"role": "assistant"}
        message |= {key: "".join(texts) for key, texts in self._texts.items()}
        if self._calls:
            message |= {"tool_calls": list(self._calls.values()), "content": message["content"] or None}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return msgspec.json.encode({**self._completion, "choices": [choice]})


class WholeText(Whole):
    """The completion of a plain prompt as one `text_completion`."""

    def _body(self) -> bytes:
        if self._raw:
            return bytes(self._raw)
        text = "".join(piece for texts in self._texts.values() for piece in texts)
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": self._finish}
        return msgspec.json.encode({**self._completion, "object": "text_completion", "choices": [choice]})
