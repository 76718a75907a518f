"""Questions to a stub, and what real servers answer to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from slotline.core.kind import Kind
from slotline.core.liveness import State
from slotline.core.reading import meaning
from slotline.stub import Side, Stub
from slotline.upstream.address import Address
from slotline.upstream.asker import Asker
from slotline.upstream.kinds import SERVERS

FIXTURES = Path(__file__).parent.parent / "fixtures"


def recorded(name: str) -> Side:
    """The answer that lies in `tests/fixtures`."""
    return Side(body=(FIXTURES / name).read_text())


@asynccontextmanager
async def asking(url: str, limit: float = 10.0) -> AsyncIterator[Asker]:
    """Asks the server at `url`."""
    address = Address.parse(url)
    async with aiohttp.ClientSession(connector=address.connector()) as session:
        yield Asker(session, address, limit)


@asynccontextmanager
async def plain(sides: dict[str, Side]) -> AsyncIterator[Stub]:
    """A server that has no routes but chat and `/v1/models`, and those given here."""
    async with Stub(kind=Kind.OPENAI, models=("m",)) as stub:
        stub.sides.update(sides)
        yield stub


async def silence_means(kind: Kind, url: str, *, answering: int = 0, limit: float = 10.0) -> State:
    """What the silence of a request means, if `answering` others get their answers."""
    async with asking(url, limit) as ask:
        return meaning(await SERVERS[kind].reading(ask), slot=None, answering=answering)
