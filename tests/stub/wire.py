"""A client of few lines that shows what is on the wire: bytes, and how the connection ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from slotline.stub import Stub

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def chat(model: str = "stub", text: str = "hello there", **fields: Any) -> dict[str, Any]:
    """A streamed chat request that asks for usage."""
    body = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    return body | {"messages": [{"role": "user", "content": text}]} | fields


@asynccontextmanager
async def posted(stub: Stub, body: Any = None, path: str = "/v1/chat/completions") -> AsyncIterator[Pair]:
    """A connection on which the request has been sent; closed at the end, whatever came back."""
    if stub.uds is not None:
        reader, writer = await asyncio.open_unix_connection(str(stub.uds))
    else:
        reader, writer = await asyncio.open_connection(stub.host, stub.port)
    raw = body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(raw)}\r\n\r\n"
    writer.write(head.encode() + raw)
    await writer.drain()
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):  # some scripts reset the connection
            await writer.wait_closed()


async def answer(stub: Stub, body: Any = None) -> bytes:
    """All that comes back until the connection ends."""
    async with posted(stub, body) as (reader, _):
        return await reader.read()


def pieces(raw: bytes) -> list[bytes]:
    """The chunks of HTTP that a chunked answer came in; the last one, if it came, is empty."""
    _, _, rest = raw.partition(b"\r\n\r\n")
    found = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return found


def dechunked(raw: bytes) -> tuple[bytes, bool]:
    """The body of a chunked answer, and whether its last chunk came."""
    found = pieces(raw)
    return b"".join(found), found[-1:] == [b""]


def payloads(body: bytes) -> list[str]:
    """The data of each event of an event stream with any line ending."""
    text = body.decode().replace("\r\n", "\n").replace("\r", "\n")
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]


def chunks(raw: bytes) -> list[dict[str, Any]]:
    """The chunks of a streamed answer."""
    return [json.loads(data) for data in payloads(dechunked(raw)[0]) if data != "[DONE]"]


def text(raw: bytes, key: str = "content") -> str:
    """The text of a streamed answer."""
    deltas = [choice["delta"] for chunk in chunks(raw) for choice in chunk.get("choices", [])]
    return "".join(delta.get(key) or "" for delta in deltas)
