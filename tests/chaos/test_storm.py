"""Storms over gateways with one line, each from a seed: afterwards the whole history is held against the rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaos.checker import check, recoveries
from chaos.history import Event
from chaos.storm import Weather, storm
from fakes.redis import SERVERS


async def weathered(weather: Weather, folder: Path) -> list[Event]:
    """The history of a storm, in which nothing is wrong."""
    events = await storm(weather, folder)
    what = Counter(event["what"] for event in events)
    took = recoveries(events)
    print(f"{weather}\n{dict(what)}\nrecoveries: {sorted(round(each, 2) for each in took)}")  # noqa: T201 - pytest -s
    assert check(events) == []
    assert what["granted"] > 20 * weather.seconds
    assert what["told"] > what["granted"]
    assert min(what[each] for each in ("left", "lapsed", "born")) > 0
    return events


@pytest.mark.timeout(180)
@pytest.mark.parametrize("program", SERVERS)
async def test_a_short_storm_breaks_no_rule(tmp_path: Path, program: str) -> None:
    await weathered(Weather(seed=4, seconds=9.0, replicas=2, crowd=40, program=program), tmp_path)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", SERVERS)
@pytest.mark.parametrize(("seed", "replicas", "crowd"), [(1, 2, 250), (2, 4, 125), (3, 4, 125)])
async def test_a_long_storm_over_500_waiters_breaks_no_rule(
    tmp_path: Path, program: str, seed: int, replicas: int, crowd: int
) -> None:
    weather = Weather(seed=seed, seconds=180.0, replicas=replicas, crowd=crowd, program=program, late=3.0)
    await weathered(weather, tmp_path)
