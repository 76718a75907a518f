"""Loads that are made."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from slotline.core.simulation.mixes import MIXES, PEOPLE, mix
from slotline.core.simulation.plan import Plan
from slotline.core.simulation.replay import simulate
from slotline.core.simulation.request import Request


def made(name: str, count: int = 3_000, seed: int = 1) -> list[Request]:
    return mix(name, count, random.Random(seed))


@pytest.mark.parametrize("name", MIXES)
def test_the_same_seed_gives_the_same_requests_and_another_one_others(name: str) -> None:
    assert made(name, 200) == made(name, 200)
    assert made(name, 200) != made(name, 200, seed=2)


@pytest.mark.parametrize("name", MIXES)
def test_requests_are_in_the_order_of_their_arrival_and_as_many_as_asked_for(name: str) -> None:
    requests = made(name)
    assert len(requests) == 3_000
    assert all(before.at <= after.at for before, after in pairwise(requests))
    assert all(request.prompt and request.output for request in requests)


def test_fewer_requests_are_the_first_of_more() -> None:
    assert made("agents", 50) == made("agents", 500)[:50]


def test_steady_needs_nine_tenths_of_four_slots() -> None:
    assert sum(simulate(made("steady"), Plan(slots=4)).busy.values()) == pytest.approx(0.9, abs=0.06)


def test_greedy_sends_a_thousand_in_the_first_moment() -> None:
    assert Counter(request.key for request in made("greedy") if not request.at) == {"greedy": 1_000}


def test_burst_sends_sixty_at_once_every_half_an_hour() -> None:
    bursts = Counter(request.at for request in made("burst") if request.key == "ci")
    assert list(bursts.items())[:3] == [(0.0, 60), (1_800.0, 60), (3_600.0, 60)]


def test_agents_have_flows_and_one_of_them_sends_half_of_all() -> None:
    flows = Counter(request.flow for request in made("agents") if request.key == "agent-1")
    assert set(flows) == {f"agent-1-{number}" for number in range(4)}
    assert flows["agent-1-0"] / sum(flows.values()) == pytest.approx(0.5, abs=0.05)


def test_only_the_nightly_key_is_batch() -> None:
    assert {(request.key, request.batch) for request in made("batch")} == {
        ("nightly", True),
        *((name, False) for name in PEOPLE),
    }


def test_each_of_heavy_wants_more_than_a_third_of_four_slots() -> None:
    requests, rates = made("heavy", 10_000), Plan().rates
    for key in ("short", "middle", "long"):
        wanted = sum(sum(rates.times(request)) for request in requests if request.key == key)
        assert wanted / requests[-1].at > 4 / 3


def test_a_mix_that_is_not_there_is_no_mix() -> None:
    with pytest.raises(KeyError):
        made("stedy")
