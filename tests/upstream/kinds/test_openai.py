"""A server that speaks chat completions and no more: all it shows is whether it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from fakes.bare import Bare, Line, bare, unused_port
from slotline.core.kind import Kind
from slotline.core.liveness import State
from slotline.core.reading import meaning
from slotline.stub import Side, Stub
from slotline.upstream.address import Address
from slotline.upstream.asker import Asker
from slotline.upstream.kinds import openai


@asynccontextmanager
async def asking(url: str, limit: float = 10.0) -> AsyncIterator[Asker]:
    address = Address.parse(url)
    async with aiohttp.ClientSession(connector=address.connector()) as session:
        yield Asker(session, address, limit)


async def silence_means(url: str, limit: float = 10.0) -> State:
    """What the silence of a request at this server means."""
    async with asking(url, limit) as ask:
        return meaning(await openai.reading(ask), slot=None, answering=0)


@pytest.mark.parametrize(
    ("models", "means"),
    [
        (None, State.BUSY),
        (Side(status=401, body='{"error":{"message":"no key"}}'), State.BUSY),
        (Side(status=404), State.BUSY),
        (Side(status=500), State.BUSY),
        (Side(body="<html>"), State.BUSY),
        (Side(hang=True), State.BUSY),
        (Side(status=503, body='{"error":{"message":"Loading model"}}'), State.LOADING),
        (Side(status=503, body="<html>"), State.LOADING),
    ],
)
async def test_it_is_busy_unless_it_says_that_it_cannot_serve(models: Side | None, means: State) -> None:
    async with Stub(kind=Kind.OPENAI) as stub:
        if models is not None:
            stub.sides["/v1/models"] = models
        assert await silence_means(stub.url, 0.1) is means
        assert set(stub.hits) == {"/v1/models"}


async def test_nobody_there_is_restarting() -> None:
    assert await silence_means(f"http://127.0.0.1:{unused_port()}") is State.LOADING


async def test_one_that_breaks_the_connection_is_restarting() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        line.reset()

    async with bare(talk) as server:
        assert await silence_means(server.url) is State.LOADING
