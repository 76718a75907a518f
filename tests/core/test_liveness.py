"""How long an upstream may be silent: one clock for each meaning of its silence, and a text for each limit."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import LoadTimeout, Stalled, UpstreamFailure, WaitTimeout
from slotline.core.limits import Limits
from slotline.core.liveness import Silence, State

LIMITS = Limits(busy_wait=100.0, load_wait=50.0, idle_grace=20.0, liveness=10.0)
LIMIT = {State.BUSY: 100.0, State.LOADING: 50.0, State.IDLE: 20.0, State.FLOWING: 10.0}
BEFORE_A_PIECE = (State.BUSY, State.LOADING, State.IDLE)


def silence(*, at: float = 1000.0) -> Silence:
    return Silence(LIMITS, at)


def test_a_request_that_went_out_has_busy_wait() -> None:
    assert silence().state is State.BUSY
    assert silence().deadline == 1100


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(BEFORE_A_PIECE, repeat=2) if len({*pair}) > 1])
def test_the_clock_starts_anew_when_the_meaning_changes(before: State, after: State) -> None:
    quiet = silence()
    quiet.saw(before, 1003)
    quiet.saw(after, 1007)
    assert quiet.state is after
    assert quiet.deadline == 1007 + LIMIT[after]


@pytest.mark.parametrize("state", BEFORE_A_PIECE)
def test_a_meaning_seen_again_and_again_is_counted_from_when_it_was_first_seen(state: State) -> None:
    quiet = silence()
    quiet.saw(state, 1000)
    first = quiet.deadline
    for now in (1001, 1005, 1019):
        quiet.saw(state, now)
    assert quiet.deadline == first


def test_a_meaning_that_comes_back_after_a_break_has_all_its_time_again() -> None:
    quiet = silence()
    quiet.saw(State.IDLE, 1001)
    quiet.saw(State.BUSY, 1020)
    quiet.saw(State.IDLE, 1030)
    assert quiet.deadline == 1050


@pytest.mark.parametrize("state", [State.LOADING, State.IDLE])
def test_a_head_says_that_the_request_is_worked_on(state: State) -> None:
    quiet = silence()
    quiet.saw(state, 1001)
    quiet.bytes(1009)
    assert quiet.state is State.BUSY
    assert quiet.deadline == 1109


def test_heads_comments_and_progress_do_not_prolong_the_wait_for_the_first_token() -> None:
    quiet = silence()
    for now in range(1001, 1099):
        quiet.bytes(now)
    assert quiet.deadline == 1100
    assert isinstance(quiet.overdue(), WaitTimeout)


def test_from_the_first_piece_on_each_has_liveness_and_nothing_else_counts() -> None:
    quiet = silence()
    quiet.piece(1005)
    assert (quiet.state, quiet.deadline) == (State.FLOWING, 1015)
    for state in State:
        quiet.saw(state, 1006)
    quiet.bytes(1007)
    assert (quiet.state, quiet.deadline) == (State.FLOWING, 1015)
    quiet.piece(1014)
    assert quiet.deadline == 1024


@pytest.mark.parametrize("state", [None, *State])
def test_the_time_in_which_nobody_listened_is_no_silence(state: State | None) -> None:
    quiet = silence()
    if state is State.FLOWING:
        quiet.piece(1003)
    elif state is not None:
        quiet.saw(state, 1003)
    before = quiet.deadline
    quiet.excuse(40.5)
    assert quiet.deadline == before + 40.5


def test_an_excuse_does_not_change_which_of_the_two_clocks_has_stopped() -> None:
    alive, dead = silence(), silence()
    for quiet in (alive, dead):
        quiet.bytes(1003)
        quiet.piece(1003)
    alive.bytes(1004)
    for quiet in (alive, dead):
        quiet.excuse(300)
    assert "signs of life" in str(alive.overdue())
    assert "nothing more" in str(dead.overdue())


def overdue(state: State, *, comments: bool = False) -> UpstreamFailure:
    quiet = Silence(Limits(busy_wait=1800, load_wait=0.25, idle_grace=60, liveness=90), 0)
    quiet.saw(state, 1)
    if state is State.FLOWING:
        quiet.piece(1)
    if comments:
        quiet.bytes(2)
    return quiet.overdue()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (overdue(State.BUSY), WaitTimeout, ("first token", "busy", "busy_wait = 1800 s")),
        (overdue(State.LOADING), LoadTimeout, ("load or restart", "load_wait = 0.25 s")),
        (overdue(State.IDLE), Stalled, ("first token", "swallowed", "idle_grace = 60 s")),
        (overdue(State.FLOWING), Stalled, ("middle of the answer", "nothing more", "liveness = 90 s")),
        (overdue(State.FLOWING, comments=True), Stalled, ("middle of the answer", "signs of life", "liveness = 90 s")),
    ],
)
def test_the_error_names_phase_limit_and_value(
    error: UpstreamFailure, kind: type[UpstreamFailure], words: tuple[str, ...]
) -> None:
    assert type(error) is kind
    for word in words:
        assert word in str(error)


STEPS = st.lists(st.tuples(st.floats(0, 30), st.sampled_from([*BEFORE_A_PIECE, "bytes", "piece"])), max_size=30)


@given(STEPS)
def test_the_deadline_is_never_further_off_than_the_limit_of_the_present_meaning(
    steps: list[tuple[float, State | str]],
) -> None:
    now = 0.0
    quiet = Silence(LIMITS, now)
    for passed, step in steps:
        now += passed
        if isinstance(step, State):
            quiet.saw(step, now)
        elif step == "bytes":
            quiet.bytes(now)
        else:
            quiet.piece(now)
        assert quiet.deadline <= now + LIMIT[quiet.state]
        assert f"{LIMIT[quiet.state]:g} s" in str(quiet.overdue())
