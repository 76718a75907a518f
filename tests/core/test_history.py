"""The last hour in numbers: each end in its minute, the fullest look of each ten seconds, and no more than an hour."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import Outcome
from slotline.core.history import ENDS, End, History

START = 1000.0


@pytest.fixture
def history() -> History:
    return History(START)


def test_every_outcome_is_of_one_sort() -> None:
    assert set(ENDS) == set(Outcome)
    assert set(ENDS.values()) == set(End)


def test_who_ends_is_counted_in_its_minute(history: History) -> None:
    history.ended(START + 1, Outcome.COMPLETED, 0.0, 10)
    history.ended(START + 59, Outcome.STALLED, 0.0, 2)
    history.ended(START + 60, Outcome.CLIENT_LEFT_WAITING, 3.0, 0)
    history.ended(START + 61, Outcome.REFUSED_FULL, 0.0, 0)
    told = history.told(START + 190)
    minutes = told.minutes
    assert (minutes.completed, minutes.failed, minutes.left) == ([1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0])
    assert (minutes.refused, minutes.pieces) == ([0, 1, 0, 0], [12, 0, 0, 0])
    assert told.minutes_began_ms_ago == 10_000


def test_the_wait_of_a_minute_is_its_median_and_what_nearly_all_stay_below(history: History) -> None:
    for seconds in range(1, 101):
        history.ended(START, Outcome.COMPLETED, float(seconds), 0)
    before = history.told(START + 59).minutes
    after = history.told(START + 3000).minutes
    for minutes in (before, after):
        assert (minutes.wait_p50_ms[0], minutes.wait_p95_ms[0]) == (50_000, 95_000)
    assert set(after.wait_p50_ms[1:]) == {None}


def test_one_wait_alone_is_both(history: History) -> None:
    history.ended(START, Outcome.COMPLETED, 2.5, 0)
    minutes = history.told(START).minutes
    assert (minutes.wait_p50_ms, minutes.wait_p95_ms) == ([2500], [2500])


def test_who_was_refused_has_not_waited(history: History) -> None:
    history.ended(START, Outcome.REFUSED_FULL, 0.0, 0)
    assert history.told(START).minutes.wait_p50_ms == [None]


def test_a_span_shows_the_fullest_that_any_look_in_it_saw(history: History) -> None:
    for at, busy, waiting in ((0, 1, 0), (3, 2, 7), (9, 0, 1), (12, 1, 0)):
        history.looked(START + at, 2, busy, waiting)
    told = history.told(START + 15)
    assert (told.looks.slots, told.looks.busy, told.looks.waiting) == ([2, 2], [2, 1], [7, 0])
    assert told.looks_began_ms_ago == 5_000


def test_where_nobody_looked_nothing_is_known(history: History) -> None:
    history.looked(START, 2, 1, 0)
    history.looked(START + 30, 2, 0, 0)
    assert history.told(START + 30).looks.busy == [1, None, None, 0]


def test_an_hour_is_kept(history: History) -> None:
    for minute in range(90):
        history.ended(START + 60 * minute, Outcome.COMPLETED, 0.0, minute)
    assert history.told(START + 60 * 89).minutes.pieces == list(range(30, 90))


def test_after_a_long_time_of_nothing_there_is_nothing(history: History) -> None:
    history.ended(START, Outcome.COMPLETED, 1.0, 5)
    history.looked(START, 2, 1, 0)
    told = history.told(START + 1e6)
    assert told.minutes.completed == [0] * 60
    assert told.looks.busy == [None] * 360


def test_it_remembers_no_wait_of_a_minute_that_is_over(history: History) -> None:
    """What it holds does not grow with the hour's requests."""
    for minute in range(60):
        for _ in range(100):
            history.ended(START + 60 * minute, Outcome.COMPLETED, 1.0, 0)
    kept = [len(each.waits) for each in history._minutes.spans]
    assert kept == [0] * 59 + [100]


@given(steps=st.lists(st.floats(0.0, 500.0), max_size=40))
def test_every_list_is_as_long_as_its_spans_whatever_the_pace(steps: list[float]) -> None:
    """And the newest span has begun no longer ago than it lasts."""
    history, now = History(START), START
    for step in steps:
        now += step
        history.ended(now, Outcome.COMPLETED, step, 1)
        history.looked(now, 1, 1, 0)
    told = history.told(now)
    assert lengths(told.minutes.completed, told.minutes.pieces, told.minutes.wait_p95_ms) == 1
    assert lengths(told.looks.slots, told.looks.busy, told.looks.waiting) == 1
    assert 0 <= told.minutes_began_ms_ago <= 60_000
    assert 0 <= told.looks_began_ms_ago <= 10_000
    assert sum(told.minutes.completed) <= len(steps)


def lengths(*lists: Sequence[object]) -> int:
    """How many different lengths they have."""
    return len({len(each) for each in lists})
