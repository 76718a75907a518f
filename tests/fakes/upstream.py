"""A client of one upstream as the relay uses it, with limits so short that a test can wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.upstream.answer import Answer
from slotline.upstream.client import UpstreamClient

LONG = 30.0
"""A limit that no test reaches: one that ends here has failed."""


def limits(**chosen: float) -> Limits:
    """`poll` is short and all the others are long, but for those that a test is about."""
    long = {"connect": LONG, "busy_wait": LONG, "load_wait": LONG, "idle_grace": LONG, "liveness": LONG}
    values: dict[str, Any] = {**long, "poll": 0.02, **chosen}
    return Limits(**values)


@asynccontextmanager
async def client(
    url: str, *, kind: Kind | None = Kind.LLAMA_CPP, api_key: str | None = None, **chosen: float
) -> AsyncIterator[UpstreamClient]:
    """A client with `limits(**chosen)`; after it nothing is left of its calls."""
    async with UpstreamClient("box", url, limits(**chosen), kind, api_key) as made:
        yield made
    assert_at_rest(made)


def assert_at_rest(upstream: UpstreamClient) -> None:
    """No call is under way, as far as the pool and the vigil know."""
    pool = upstream._session.connector
    assert pool is None or not pool._acquired
    assert not upstream._vigil._silent
    assert not upstream._vigil._answering


def chat(**fields: object) -> bytes:
    """A chat request as the dialects make them: always a stream."""
    body = {"model": "stub", "stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(body | {"messages": [{"role": "user", "content": "hello"}]} | fields)


async def follow(answer: Answer, into: list[bytes] | None = None) -> list[bytes]:
    """The data of all events, heard as the relay hears them: a token is a piece, and nothing else is one."""
    got: list[bytes] = [] if into is None else into
    async for batch in answer:
        got += batch
        answer.heard(sum(b'"content":"' in data for data in got))
    return got


async def read(upstream: UpstreamClient, body: bytes | None = None, within: float = LONG / 3) -> list[bytes]:
    """A request and its whole answer."""
    async with asyncio.timeout(within), upstream.answer(chat() if body is None else body) as answer:
        return await follow(answer)


def text(got: list[bytes]) -> str:
    """What was said."""
    chunks = [msgspec.json.decode(data) for data in got if data != b"[DONE]"]
    deltas = [choice["delta"] for each in chunks for choice in each["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


async def turned(condition: Callable[[], bool]) -> None:
    """Turns the event loop until the condition holds: for what the HTTP library does and tells nobody."""
    async with asyncio.timeout(LONG / 3):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
