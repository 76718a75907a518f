"""Traces through the line, against what can be worked out by hand, and against rules that hold for any of them."""

from __future__ import annotations

import random
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.simulation.mixes import MIXES, PEOPLE, mix
from slotline.core.simulation.plan import Plan, Policy
from slotline.core.simulation.replay import simulate
from slotline.core.simulation.report import Group, Report, Waits
from slotline.core.simulation.request import Request

LONG = 100_000  # a queue that is never full


def asked(at: float, held: float = 10.0, key: str = "", **more: object) -> Request:
    return Request(at, key, held=held, **more)  # type: ignore[arg-type]


def key(report: Report, name: str) -> Group:
    (group,) = [group for group in report.keys if group.key == name]
    return group


def waits_of(report: Report, name: str) -> Waits:
    waits = key(report, name).waits
    assert waits is not None
    return waits


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_who_finds_a_free_slot_does_not_wait() -> None:
    report = simulate([asked(0.0), asked(20.0)], Plan(slots=1))
    assert report.whole.waits == Waits(0.0, 0.0, 0.0, 0.0)
    assert (report.span, report.longest_line, report.eta) == (30.0, 0, None)


def test_one_slot_serves_one_after_another() -> None:
    report = simulate([asked(0.0), asked(1.0), asked(2.0)], Plan(slots=1))
    assert report.whole.waits == Waits(9.0, 18.0, 18.0, 18.0)
    assert (report.span, report.longest_line) == (30.0, 2)
    assert report.busy == {"upstream 1": 1.0}


def test_a_slot_that_is_given_back_serves_who_comes_in_the_same_moment() -> None:
    report = simulate([asked(0.0), asked(10.0)], Plan(slots=1))
    assert report.longest_line == 0


def test_the_use_of_each_upstream_is_the_share_of_its_slots() -> None:
    report = simulate([asked(0.0, 10.0), asked(0.0, 5.0), asked(0.0, 5.0)], Plan(slots=2, upstreams=2))
    assert report.busy == {"upstream 1": 0.75, "upstream 2": 0.25}


def test_a_full_line_refuses() -> None:
    report = simulate([asked(0.0), asked(1.0), asked(2.0), asked(3.0)], Plan(slots=1, queue=1))
    assert (report.whole.served, report.whole.refused, report.whole.left) == (2, 2, 0)


def test_a_key_may_have_so_many_waiting_and_running() -> None:
    several = [asked(0.0, key="a"), asked(1.0, key="a"), asked(2.0, key="a"), asked(3.0, key="b")]
    report = simulate(several, Plan(slots=2, running=1, waiting=1))
    assert (key(report, "a").served, key(report, "a").refused) == (2, 1)
    assert waits_of(report, "a").max == 9.0
    assert waits_of(report, "b").max == 0.0


def test_a_client_that_loses_patience_is_out_of_the_line() -> None:
    report = simulate([asked(0.0), asked(1.0), asked(2.0)], Plan(slots=1, patience=8.5))
    assert (report.whole.served, report.whole.left) == (2, 1)
    assert report.whole.waits == Waits(0.0, 8.0, 8.0, 8.0)
    assert report.span == 20.0


def test_patience_of_the_trace_goes_before_that_of_the_plan() -> None:
    report = simulate([asked(0.0), asked(1.0, patience=2.0), asked(2.0)], Plan(slots=1, patience=60.0))
    assert (report.whole.served, report.whole.left) == (2, 1)


def test_who_asks_again_in_time_has_its_place_and_its_wait_is_counted_from_the_start() -> None:
    """The second loses patience at 5, and is back at 7; the third came meanwhile."""
    several = [asked(0.0, key="a"), asked(1.0, key="b"), asked(6.0, 10.0, key="c")]
    plan = Plan(slots=1, policy=Policy.FIFO, patience=4.0, resend=2.0)
    kept, lost = (simulate(several, replace(plan, rejoin=rejoin)) for rejoin in (60.0, 0.0))
    assert (waits_of(kept, "b").max, waits_of(kept, "c").max) == (9.0, 14.0)
    assert (waits_of(lost, "b").max, waits_of(lost, "c").max) == (19.0, 4.0)


def test_a_place_is_kept_for_as_long_as_the_plan_says() -> None:
    several = [asked(0.0, key="a"), asked(1.0, key="b"), asked(3.0, key="c", patience=60.0)]
    plan = Plan(slots=1, policy=Policy.FIFO, patience=4.0, resend=3.0, rejoin=2.0)
    report = simulate(several, plan)
    assert key(report, "b").served == 1
    assert waits_of(report, "b").max > waits_of(report, "c").max


def test_twice_the_speed_is_half_the_time_between_requests() -> None:
    report = simulate([asked(100.0), asked(104.0)], Plan(slots=1, speed=2.0))
    assert report.whole.waits == Waits(0.0, 8.0, 8.0, 8.0)


def test_a_trace_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no requests"):
        simulate([], Plan())


def test_progress_is_told_and_ends_with_all() -> None:
    told: list[int] = []
    simulate([asked(float(number), 0.1) for number in range(5_000)], Plan(), progress=told.append)
    assert told == [0, 4096, 5_000]


# ---- for any trace ---------------------------------------------------------------------------------------------------

TRACES = st.lists(
    st.tuples(
        st.floats(0, 5).map(lambda x: round(x, 3)), st.floats(0.1, 9).map(lambda x: round(x, 3)), st.integers(0, 3)
    ),
    min_size=1,
    max_size=40,
)


def _requests(drawn: list[tuple[float, float, int]]) -> list[Request]:
    moments = accumulate(gap for gap, _, _ in drawn)
    return [asked(at, held, "abcd"[name]) for at, (_, held, name) in zip(moments, drawn, strict=True)]


def _by_arrival_alone(requests: list[Request], slots: int) -> list[float]:
    """The waits that theory gives: the k-th slot that is free serves the k-th who came (Kiefer and Wolfowitz)."""
    free = [0.0] * slots
    waits = []
    for request in requests:
        reading, answering = Plan().rates.times(request)
        begin = max(request.at, heappop(free))
        heappush(free, begin + reading + answering)
        waits.append(begin - request.at)
    return waits


@given(TRACES, st.integers(1, 4))
def test_by_arrival_the_waits_are_those_of_theory(drawn: list[tuple[float, float, int]], slots: int) -> None:
    requests = _requests(drawn)
    report = simulate(requests, Plan(slots=slots, queue=LONG, policy=Policy.FIFO))
    first = requests[0].at
    expected = _by_arrival_alone([asked(each.at - first, each.held or 0.0) for each in requests], slots)
    assert report.whole.waits is not None
    assert report.whole.waits.max == pytest.approx(max(expected), abs=1e-6)
    assert report.whole.waits.p50 == pytest.approx(sorted(expected)[(len(expected) + 1) // 2 - 1], abs=1e-6)


@given(TRACES, st.integers(1, 3), st.integers(1, 3), st.integers(0, 5), st.sampled_from(Policy), st.booleans())
def test_every_request_has_one_end_and_the_work_is_that_of_those_served(
    drawn: list[tuple[float, float, int]], slots: int, upstreams: int, queue: int, policy: Policy, leaves: bool
) -> None:
    plan = Plan(slots, upstreams, queue, policy, patience=2.0 if leaves else None, resend=1.0 if leaves else None)
    requests = _requests(drawn)
    report = simulate(requests, plan, target=1.0)
    whole = report.whole
    assert whole.requests == len(requests) == whole.served + whole.refused + whole.left
    assert sum(group.served for group in report.keys) == whole.served
    assert sum(report.busy.values()) * slots * report.span == pytest.approx(whole.slot_seconds)
    assert report.longest_line <= queue * upstreams + (
        len(requests) if leaves else 0
    )  # a place that is kept has no bound
    assert all(busy <= 1 + 1e-9 for busy in report.busy.values())


# ---- what the policies are for ---------------------------------------------------------------------------------------


def _mixed(name: str) -> list[Request]:
    return mix(name, 3_000, random.Random(1))


@pytest.mark.parametrize("policy", [Policy.FAIR, Policy.FLOW])
@pytest.mark.parametrize("name", MIXES)
def test_jains_index_over_the_keys_is_99_hundredths_in_every_mix(name: str, policy: Policy) -> None:
    report = simulate(_mixed(name), Plan(slots=4, queue=LONG, policy=policy))
    assert report.fairness is not None
    assert report.fairness >= 0.99


def test_by_arrival_it_is_not() -> None:
    """So the index can tell."""
    for name in ("greedy", "agents"):
        report = simulate(_mixed(name), Plan(slots=4, queue=LONG, policy=Policy.FIFO))
        assert report.fairness is not None
        assert report.fairness < 0.7


def test_slot_seconds_follow_weights() -> None:
    plan = Plan(slots=4, queue=LONG, weights={"short": 3.0, "middle": 2.0})
    report = simulate(_mixed("heavy"), plan)
    assert report.fairness is not None
    assert report.fairness >= 0.99
    even = simulate(_mixed("heavy"), Plan(slots=4, queue=LONG))
    assert waits_of(report, "short").p50 < waits_of(even, "short").p50
    assert waits_of(report, "long").p50 > waits_of(even, "long").p50


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_key_with_a_thousand_waiting_costs_another_key_less_than_one_service_time(slots: int) -> None:
    alone = [asked(3.35 + 31.7 * number, 10.0, "small") for number in range(60)]
    thousand = [asked(0.0, 10.0, "greedy") for _ in range(1_000)]
    without = simulate(alone, Plan(slots=slots, queue=LONG))
    report = simulate([*thousand, *alone], Plan(slots=slots, queue=LONG))
    assert waits_of(without, "small").max == 0.0
    assert waits_of(report, "small").max < 10.0
    assert waits_of(report, "greedy").max > 1_000.0


def test_people_do_not_wait_for_batch() -> None:
    report = simulate(_mixed("batch"), Plan(slots=4, queue=LONG))
    people = [waits_of(report, name).p50 for name in PEOPLE]
    assert max(people) < 60.0 < waits_of(report, "nightly").p50


def test_where_slots_are_short_half_of_all_who_wait_by_arrival_are_told_nearly_the_truth() -> None:
    eta = simulate(_mixed("heavy"), Plan(slots=4, queue=LONG, policy=Policy.FIFO)).eta
    assert eta is not None
    assert eta.median < 0.2
    assert eta.short < 0.005
