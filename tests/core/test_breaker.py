"""When an upstream is not sent requests, and when it is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.breaker import Breaker, State
from slotline.core.errors import (
    Busy,
    LoadTimeout,
    Protocol,
    SlotlineError,
    Stalled,
    StreamClosedEarly,
    ThinkingOverrun,
    Unreachable,
    UpstreamStatus,
    WaitTimeout,
)
from slotline.core.liveness import State as Silent

DIED = StreamClosedEarly("in the middle")
SLOTS = 4


def state(breaker: Breaker) -> State:
    """Its state now: asked through a function, as it changes between two looks."""
    return breaker.state


def opened(at: float = 0.0) -> Breaker:
    """One that has just opened."""
    breaker = Breaker()
    for _ in range(3):
        breaker.failed(DIED, at)
    assert state(breaker) is State.OPEN
    return breaker


def half_open() -> Breaker:
    """One that lets a request try."""
    breaker = opened()
    breaker.look(1.0)
    assert state(breaker) is State.HALF_OPEN
    return breaker


@pytest.mark.parametrize(
    ("breaker", "slots"), [(Breaker(), SLOTS), (opened(), 0), (half_open(), 1)], ids=["closed", "open", "half open"]
)
def test_all_slots_are_used_or_none_or_one(breaker: Breaker, slots: int) -> None:
    assert breaker.slots(SLOTS) == slots
    assert breaker.slots(0) == 0


@pytest.mark.parametrize(
    "error",
    [
        DIED,
        Unreachable("refused"),
        Stalled("swallowed"),
        WaitTimeout("busy"),
        LoadTimeout("loading"),
        Protocol("nonsense"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_three_failures_in_a_row_open_it(error: SlotlineError) -> None:
    breaker = Breaker()
    states = []
    for now in range(4):
        breaker.failed(error, now)
        states.append(breaker.state)
    assert states == [State.CLOSED, State.CLOSED, State.OPEN, State.OPEN]


def test_after_a_request_that_was_swallowed_one_may_try_and_a_second_one_opens_it() -> None:
    breaker = Breaker()
    breaker.failed(Stalled("swallowed"), 0.0, Silent.IDLE)
    assert state(breaker) is State.HALF_OPEN
    breaker.failed(Stalled("swallowed"), 0.0, Silent.IDLE)
    assert state(breaker) is State.OPEN


def test_a_status_opens_nothing_however_long_it_took() -> None:
    breaker = Breaker()
    breaker.failed(UpstreamStatus(500, "no"), 0.0, Silent.IDLE)
    assert state(breaker) is State.CLOSED


def test_an_error_in_the_middle_of_an_answer_counts_as_its_death() -> None:
    breaker = Breaker()
    for now in range(3):
        breaker.failed(UpstreamStatus(500, "Compute error."), now, Silent.FLOWING)
    assert state(breaker) is State.OPEN


def test_an_answer_between_two_failures_makes_the_count_begin_anew() -> None:
    breaker = Breaker()
    for now in range(10):
        breaker.failed(DIED, now)
        breaker.failed(DIED, now)
        breaker.worked()
    assert state(breaker) is State.CLOSED


def test_a_status_comes_from_a_server_that_works() -> None:
    breaker = Breaker()
    for now in range(10):
        breaker.failed(DIED, now)
        breaker.failed(DIED, now)
        breaker.failed(UpstreamStatus(500, "out of memory"), now)
    assert state(breaker) is State.CLOSED


@pytest.mark.parametrize("error", [ThinkingOverrun("too much"), Busy("full")], ids=lambda error: type(error).__name__)
def test_what_is_not_the_upstreams_doing_says_nothing(error: SlotlineError) -> None:
    breaker = Breaker()
    for now in range(10):
        breaker.failed(error, now)
    assert state(breaker) is State.CLOSED
    breaker.failed(DIED, 10)
    breaker.failed(DIED, 10)
    breaker.failed(error, 10)
    breaker.failed(DIED, 10)
    assert state(breaker) is State.OPEN


def test_an_open_one_lets_a_request_try_when_its_rest_is_over_and_the_server_answers_a_probe() -> None:
    breaker = opened(at=10.0)
    breaker.look(10.9)
    assert state(breaker) is State.OPEN
    breaker.look(11.0)
    assert state(breaker) is State.HALF_OPEN


def test_a_probe_does_not_close_it() -> None:
    breaker = half_open()
    for now in range(100):
        breaker.look(now)
    assert state(breaker) is State.HALF_OPEN


def test_a_try_that_works_closes_it_and_the_next_rest_is_a_short_one_again() -> None:
    breaker = half_open()
    breaker.failed(DIED, 1.0)
    breaker.look(3.0)
    breaker.worked()
    assert state(breaker) is State.CLOSED
    for _ in range(3):
        breaker.failed(DIED, 10.0)
    breaker.look(11.0)
    assert state(breaker) is State.HALF_OPEN


def test_a_try_that_fails_opens_it_for_twice_as_long_up_to_a_bound() -> None:
    breaker, now, rests = opened(), 0.0, []
    for _ in range(8):
        began = now
        while breaker.state is State.OPEN:
            now += 0.5
            breaker.look(now)
        rests.append(now - began)
        breaker.failed(DIED, now)
    assert rests == [1, 2, 4, 8, 16, 30, 30, 30]


def test_an_answer_that_was_under_way_as_it_opened_closes_it() -> None:
    breaker = opened()
    breaker.worked()
    assert breaker.slots(SLOTS) == SLOTS


def test_a_client_that_leaves_a_try_leaves_the_next_one_the_try() -> None:
    """Nothing is told of it, and nothing changes: one request at a time, until one has an end."""
    breaker = half_open()
    breaker.look(50.0)
    assert breaker.slots(SLOTS) == 1


_EVENTS = st.lists(st.sampled_from(["worked", "failed", "refused", "look"]))


@given(_EVENTS)
def test_whatever_happens_it_can_be_closed_again_within_its_longest_rest(events: list[str]) -> None:
    breaker, now = Breaker(), 0.0
    for event in events:
        now += 0.5
        match event:
            case "worked":
                breaker.worked()
            case "failed":
                breaker.failed(DIED, now)
            case "refused":
                breaker.failed(UpstreamStatus(503, "no"), now)
            case _:
                breaker.look(now)
        assert 0 <= breaker.slots(SLOTS) <= SLOTS
    breaker.look(now + 30.0)
    assert breaker.slots(SLOTS) >= 1
    breaker.worked()
    assert breaker.slots(SLOTS) == SLOTS


def test_the_first_piece_of_an_answer_gives_all_slots_back_and_the_next_failure_takes_them() -> None:
    """A trial answer may be long: the others need not wait for its end."""
    breaker = Breaker()
    for now in range(3):
        breaker.failed(DIED, now)
    breaker.look(100.0)
    assert breaker.slots(4) == 1
    breaker.began()
    assert breaker.slots(4) == 4
    breaker.failed(DIED, 101.0)
    assert breaker.slots(4) == 0


def test_a_piece_of_an_answer_says_nothing_about_a_closed_breaker() -> None:
    breaker = Breaker()
    breaker.failed(DIED, 0.0)
    breaker.failed(DIED, 0.0)
    breaker.began()
    breaker.failed(DIED, 0.0)
    assert state(breaker) is State.OPEN
