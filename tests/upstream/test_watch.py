"""Keeping the sight of an upstream fresh, in virtual time: how often it is looked at, and what is logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import pytest

from slotline.core.errors import Unreachable
from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health, Sighting
from slotline.upstream.tenancy import Tenancy
from slotline.upstream.watch import watch

pytestmark = pytest.mark.looptime


class Seen:
    """An upstream of which one sight after the other is seen, and the last one for ever."""

    name = "box"

    def __init__(self, *states: Health, takes: float = 0.0) -> None:
        self._sights = [Sighting(state, reason="because" if state is not Health.UP else "") for state in states]
        self._takes = takes
        self.looks: list[float] = []
        self.glances: list[float] = []
        self.tenancy = Tenancy(1, pins=False, drain=0.0, clock=now)

    async def look(self) -> Sighting:
        self.looks.append(now())
        await asyncio.sleep(self._takes)
        return self._sights[min(len(self.looks), len(self._sights)) - 1]

    async def glance(self) -> None:
        self.glances.append(now())

    def breaks(self) -> None:
        """So many requests fail that it is out of order."""
        while not self.tenancy.out_of_order:
            self.tenancy.ended(Unreachable("nobody there"))


def now() -> float:
    return asyncio.get_running_loop().time()


async def watched(upstream: Seen, seconds: float) -> None:
    """Watches for so long."""
    try:
        async with asyncio.timeout(seconds):
            await watch(cast("UpstreamClient", upstream))
    except TimeoutError:
        return


def gaps(looks: Sequence[float]) -> list[float]:
    return [round(after - before, 6) for before, after in pairwise(looks)]


async def test_it_looks_at_once_and_rarely_at_one_that_is_well() -> None:
    upstream = Seen(Health.UP)
    await watched(upstream, 61)
    assert gaps(upstream.looks) == [15, 15, 15, 15]


@pytest.mark.parametrize("state", [Health.DOWN, Health.LOADING])
async def test_it_looks_often_at_one_that_is_not_and_rarely_again_when_it_is_back(state: Health) -> None:
    upstream = Seen(Health.UP, state, state, state, Health.UP)
    await watched(upstream, 40)
    assert gaps(upstream.looks) == [15, 1, 1, 1, 15]


async def test_between_two_looks_at_one_that_is_well_it_is_glanced_at() -> None:
    upstream = Seen(Health.UP)
    await watched(upstream, 31)
    assert gaps(upstream.glances) == [1.5] * 19
    assert len(upstream.looks) == 3


async def test_one_that_is_not_well_is_not_glanced_at() -> None:
    upstream = Seen(Health.DOWN)
    await watched(upstream, 31)
    assert upstream.glances == []


async def test_one_that_is_up_and_out_of_order_is_looked_at_often_until_it_works_again() -> None:
    upstream = Seen(Health.UP)
    loop = asyncio.get_running_loop()
    began = now()
    loop.call_at(began + 4, upstream.breaks)
    loop.call_at(began + 10, upstream.tenancy.ended, None)
    await watched(upstream, 30)
    looks = [round(look - began, 6) for look in upstream.looks]
    assert looks == [0, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 25.5]


async def test_a_look_that_takes_long_is_not_taken_twice_at_once() -> None:
    upstream = Seen(Health.DOWN, takes=5)
    await watched(upstream, 20)
    assert gaps(upstream.looks) == [6, 6, 6]


async def test_each_change_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "slotline")
    up, down, loading = Health.UP, Health.DOWN, Health.LOADING
    await watched(Seen(up, up, down, down, down, loading, loading, up, up), 100)
    records = [record for record in caplog.records if record.name.startswith("slotline")]
    assert [(record.levelname, record.getMessage()) for record in records] == [
        ("INFO", "upstream box is up"),
        ("WARNING", "upstream box is down"),
        ("WARNING", "upstream box is loading"),
        ("INFO", "upstream box is up"),
    ]
    fields = [record.__dict__["fields"] for record in records]
    assert [each["reason"] for each in fields] == [None, "because", "because", None]
    assert {each["upstream"] for each in fields} == {"box"}


async def test_one_that_is_down_from_the_start_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    await watched(Seen(Health.DOWN), 10)
    assert [record.getMessage() for record in caplog.records] == ["upstream box is down"]
