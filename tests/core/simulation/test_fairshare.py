"""What each key was due, and what it got."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.simulation.fairshare import Shares, divide, jain
from slotline.core.simulation.flight import Who

A, B, C = ("a", False), ("b", False), ("c", False)


def equal(who: Who) -> float:
    return 1.0


# ---- the index -------------------------------------------------------------------------------------------------------


def test_the_index_is_1_when_all_have_the_same_and_1_in_n_when_one_has_everything() -> None:
    assert jain([0.3, 0.3, 0.3]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_the_index_of_fewer_than_two_says_nothing() -> None:
    assert jain([]) is None
    assert jain([1.0]) is None
    assert jain([0.0, 0.0]) is None


# ---- one division ----------------------------------------------------------------------------------------------------


def test_what_one_does_not_want_goes_to_the_others() -> None:
    assert divide(90.0, {A: 10.0, B: 100.0, C: 100.0}, equal) == {A: 10.0, B: 40.0, C: 40.0}


def test_weights_divide_what_is_short() -> None:
    due = divide(90.0, {A: 100.0, B: 100.0}, lambda who: 2.0 if who == A else 1.0)
    assert due == {A: pytest.approx(60.0), B: pytest.approx(30.0)}


@given(st.lists(st.tuples(st.floats(0.01, 1e4), st.floats(0.1, 10.0)), min_size=1, max_size=8), st.floats(0.0, 1.0))
def test_all_is_given_away_and_nobody_has_more_than_it_wants(keys: list[tuple[float, float]], share: float) -> None:
    """And who has less than it wants has, by weight, as much as anybody."""
    wanted = {(str(number), False): want for number, (want, _) in enumerate(keys)}
    weights = {(str(number), False): weight for number, (_, weight) in enumerate(keys)}
    amount = share * sum(wanted.values())
    due = divide(amount, wanted, weights.__getitem__)
    assert sum(due.values()) == pytest.approx(amount, abs=1e-6)
    assert all(due[who] <= wanted[who] * (1 + 1e-9) for who in due)
    level = max(due[who] / weights[who] for who in due)
    short = [who for who in due if due[who] < wanted[who] * (1 - 1e-6)]
    assert all(due[who] / weights[who] == pytest.approx(level, rel=1e-4, abs=1e-6) for who in short)


# ---- window by window ------------------------------------------------------------------------------------------------


def test_who_got_all_while_the_other_waited_got_twice_its_due() -> None:
    """One slot, a window of 100 s: a has it all the time, b waits all the time."""
    shares = Shares(100.0, equal)
    shares.wants(A, 100.0, 0.0)
    shares.runs(A, 0.0, 100.0)
    shares.wants(B, 100.0, 0.0)
    shares.waits(B, 100.0)
    accounts = shares.close()
    assert (accounts[A].got, accounts[A].due) == (100.0, 50.0)
    assert (accounts[B].got, accounts[B].due) == (0.0, 50.0)


def test_a_window_in_which_nobody_went_short_says_nothing() -> None:
    shares = Shares(100.0, equal)
    for who in (A, B):
        shares.wants(who, 30.0, 0.0)
        shares.runs(who, 0.0, 30.0)
    assert shares.close() == {}


def test_a_key_alone_says_nothing() -> None:
    shares = Shares(100.0, equal)
    shares.wants(A, 500.0, 0.0)
    shares.waits(A, 500.0)
    assert shares.close() == {}


def test_who_runs_or_waits_beyond_a_window_wants_it_in_the_next_one_too() -> None:
    shares = Shares(100.0, equal)
    shares.wants(A, 150.0, 0.0)
    shares.runs(A, 0.0, 150.0)
    shares.wants(B, 60.0, 90.0)
    shares.waits(B, 60.0)
    shares.reach(150.0)  # the first window is over: a got 100 and b nothing, of 10 that it could have used
    assert (shares.accounts[A].got, shares.accounts[B].due) == (100.0, 10.0)
    shares.waits_no_more(B, 60.0)
    shares.runs(B, 150.0, 210.0)
    accounts = shares.close()  # in the second, a wanted 50 and b 60, and got 50 and 50
    assert (accounts[A].got, accounts[A].due) == (150.0, 90.0 + 50.0)
    assert (accounts[B].got, accounts[B].due) == (50.0, 10.0 + 50.0)


def test_the_classes_are_divided_each_for_itself() -> None:
    """A batch key that gets nothing while people are served is not wronged: its class goes last."""
    shares = Shares(100.0, equal)
    night = ("night", True)
    shares.wants(A, 100.0, 0.0)
    shares.runs(A, 0.0, 100.0)
    shares.wants(night, 100.0, 0.0)
    shares.waits(night, 100.0)
    assert shares.close() == {}


def test_a_long_silence_costs_no_time() -> None:
    shares = Shares(1.0, equal)
    shares.wants(A, 0.5, 0.0)
    shares.runs(A, 0.0, 0.5)
    shares.reach(1e12)
    assert shares.end > 1e12
    assert shares.end - 1e12 <= 1.0
