"""How long the wait will be."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median

import pytest

from slotline.core.estimate import NO_BASIS, Estimator, Forecast, Unseen
from slotline.core.habits import Run
from slotline.core.line import Lines
from slotline.core.room import Room, Ticket

X = frozenset("x")


@dataclass
class Asked:
    """A request whose whole course is known: it reads 1000 bytes a second and makes 10 pieces in one."""

    size: int
    length: int
    arrived: float = 0.0
    granted: float | None = None
    now: float = 0.0
    most: int | None = None
    complete: bool = True

    @property
    def held(self) -> float:
        return self.size / 1000 + self.length / 10

    @property
    def began(self) -> float | None:
        at = None if self.granted is None else self.granted + self.size / 1000
        return at if at is not None and at <= self.now else None

    @property
    def pieces(self) -> int:
        return 0 if self.began is None else min(self.length, int((self.now - self.began) * 10))


def running(*tickets: tuple[Ticket, float]) -> Room:
    return Room("x", len(tickets), 9, running=dict(tickets))


def ticket(number: int, cost: float = 1.0) -> Ticket:
    return Ticket(number, X, cost=cost)


# ---- one forecast ----------------------------------------------------------------------------------------------------


def test_nothing_is_told_without_a_basis() -> None:
    assert NO_BASIS.wait(1) is None
    assert Estimator().forecast([running((ticket(1), 0.0))], lambda _: None, (), 5.0).wait(1) is None
    assert Estimator().cost({"x"}, "m", Unseen(100)) is None


def test_the_first_waits_for_the_slot_that_is_free_first_and_each_slot_then_takes_the_next() -> None:
    forecast = Forecast([4.0, 1.0], [10.0, 2.0, 5.0], mean=100.0)
    assert [forecast.wait(position) for position in (1, 2, 3, 4)] == [1.0, 4.0, 6.0, 11.0]


def test_behind_those_who_are_counted_each_takes_the_mean_divided_by_the_slots() -> None:
    forecast = Forecast([1.0, 1.0], [], mean=10.0)
    assert [forecast.wait(position) for position in (1, 2, 3)] == [1.0, 6.0, 11.0]


def test_a_request_that_takes_long_makes_those_behind_it_wait_long() -> None:
    waits = [Forecast([0.0], [cost], 1.0).wait(2) for cost in (1.0, 60.0)]
    assert waits == [1.0, 60.0]


# ---- what is learned -------------------------------------------------------------------------------------------------


def learned(model: str = "m", count: int = 9) -> Estimator:
    estimator = Estimator()
    for _ in range(count):
        done = Asked(1000, 90, granted=0.0, now=10.0)
        estimator.learn("x", model, done, 0.0, 10.0)
    return estimator


def test_the_length_of_the_prompt_and_the_bound_of_the_answer_make_the_cost() -> None:
    estimator = learned()
    assert estimator.cost({"x"}, "m", Unseen(1000)) == pytest.approx(10.0)
    assert estimator.cost({"x"}, "m", Unseen(5000)) == pytest.approx(14.0)
    assert estimator.cost({"x"}, "m", Unseen(1000, most=10)) == pytest.approx(2.0)


def test_a_model_of_which_nothing_is_known_is_taken_to_be_like_the_others_of_its_upstream() -> None:
    assert learned("m").cost({"x"}, "another", Unseen(1000)) == pytest.approx(10.0)
    assert learned("m").cost({"y"}, "m", Unseen(1000)) is None


def test_an_upstream_that_is_no_more_is_forgotten() -> None:
    estimator = learned()
    estimator.forget("x")
    assert estimator.cost({"x"}, "m", Unseen(1000)) is None


def test_with_constant_requests_the_forecast_is_what_is_left_of_the_one_that_runs() -> None:
    one = ticket(1)
    runs: dict[Ticket, Run] = {one: Asked(1000, 90, granted=0.0, now=4.0)}
    forecast = learned().forecast([running((one, 0.0))], runs.get, [ticket(2, cost=10.0)], 4.0)
    assert [forecast.wait(position) for position in (1, 2)] == [pytest.approx(6.0), pytest.approx(16.0)]


def test_one_that_joined_before_anything_was_known_is_estimated_anew() -> None:
    one, two = ticket(1), ticket(2, cost=999.0)
    runs: dict[Ticket, Run] = {one: Asked(1000, 90, granted=0.0, now=4.0), two: Unseen(3000)}
    forecast = learned().forecast([running((one, 0.0))], runs.get, [two], 4.0)
    assert forecast.wait(2) == pytest.approx(6.0 + 12.0)


def test_of_several_that_may_end_at_any_time_the_first_ends_before_the_mean() -> None:
    estimator = Estimator()
    for length in range(10, 1010, 10):
        estimator.learn("x", "m", Asked(0, length, granted=0.0, now=length / 10), 0.0, length / 10)
    tickets = [ticket(number) for number in range(1, 9)]
    runs: dict[Ticket, Run] = {each: Asked(0, 1000, granted=0.0, now=0.0) for each in tickets}
    forecast = estimator.forecast([running(*((each, 0.0) for each in tickets))], runs.get, (), 0.0)
    wait = forecast.wait(1)
    assert wait is not None
    assert wait < 20.0, (
        "a mean request takes 50 s; of eight the first ends after about 11, and a quarter is told at least"
    )


# ---- against the truth -----------------------------------------------------------------------------------------------


def replay(asked: list[Asked], slots: int) -> list[tuple[float, float]]:
    """(told, true) for each request that waited and was told a wait, of a trace that is served in order of arrival."""
    estimator, lines = Estimator(), Lines({"x": (slots, len(asked))})
    runs: dict[Ticket, Asked] = {}
    waits: dict[Ticket, tuple[Asked, float | None]] = {}
    told: list[tuple[float, float]] = []
    coming = list(reversed(asked))
    while coming or runs:
        ending = min(runs, key=lambda one: (runs[one].granted or 0.0) + runs[one].held) if runs else None
        end = float("inf") if ending is None else (runs[ending].granted or 0.0) + runs[ending].held
        if coming and coming[-1].arrived <= end:
            new = coming.pop()
            now = new.arrived
            mine, changes = lines.join(
                X, now, new.size, cost=estimator.cost(X, "m", Unseen(new.size)) or 1.0, model="m"
            )
            for run in runs.values():
                run.now = now
            waits[mine] = (new, None)
            if not changes.grants:
                position = lines.place(mine).position
                front = lines.front(X, position - 1)
                rooms = [lines.room("x")]
                waits[mine] = (new, estimator.forecast(rooms, runs.get, front, now).wait(position))
        else:
            assert ending is not None
            now, done = end, runs.pop(ending)
            done.now = now
            estimator.learn("x", "m", done, done.granted or 0.0, now)
            changes = lines.release(ending, now)
        for grant in changes.grants:
            run, wait = waits.pop(grant.ticket)
            run.granted = now
            runs[grant.ticket] = run
            if wait is not None:
                told.append((wait, now - run.arrived))
    return told


def trace(kind: str, count: int, load: float, slots: int, seed: int) -> list[Asked]:
    """Requests with lengths as public traces of code completion and of conversations have them."""
    rng = random.Random(seed)
    asked = []
    for _ in range(count):
        size = int(min(32_000, rng.lognormvariate(8.5 if kind == "code" else 7.5, 1.0)))
        length = 5 + int(rng.expovariate(1 / 30)) if kind == "code" else int(min(1500, rng.lognormvariate(5.2, 0.7)))
        asked.append(Asked(size, length))
    mean, now = sum(each.held for each in asked) / count, 0.0
    for each in asked:
        now += rng.expovariate(load * slots / mean)
        each.arrived = now
    return asked


@pytest.mark.parametrize("kind", ["code", "talk"])
@pytest.mark.parametrize(("slots", "load", "error"), [(2, 1.05, 0.25), (2, 1.3, 0.25), (8, 1.1, 0.25), (2, 0.9, 0.3)])
def test_half_of_all_who_wait_are_told_nearly_the_truth(kind: str, slots: int, load: float, error: float) -> None:
    """Within a quarter of it where slots are short, and within three tenths where waits are shorter than answers.

    Hardly anyone (one in two hundred) is told less than a tenth of it: a wait that ends with an answer longer than all
    before it cannot be known.
    """
    told = replay(trace(kind, 1200, load, slots, seed=7), slots)
    assert len(told) > 500
    assert median(abs(wait - true) / max(true, 0.001) for wait, true in told) < error
    assert sum(wait < true / 10 for wait, true in told) <= len(told) / 200
