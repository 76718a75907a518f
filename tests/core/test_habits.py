"""What was measured of a model's requests, and what is foretold from it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slotline.core.habits import Habits


@dataclass
class Run:
    """A request as it stands."""

    size: int = 1000
    most: int | None = None
    pieces: int = 0
    began: float | None = None
    complete: bool = True


def learned(*runs: tuple[int, int]) -> Habits:
    """After requests of (size, pieces), on a server that reads 1000 bytes a second and makes 10 pieces in one."""
    habits = Habits()
    for size, pieces in runs:
        reading = size / 1000
        habits.learn(Run(size, None, pieces, reading), granted=0.0, now=reading + pieces / 10)
    return habits


def test_nothing_is_known_before_one_request_has_ended() -> None:
    assert not Habits().known
    assert learned((1000, 10)).known


def test_a_request_takes_as_long_as_its_prompt_and_the_mean_of_the_answers() -> None:
    habits = learned((1000, 100), (3000, 300))
    assert habits.whole(5000, None) == pytest.approx(5.0 + 20.0)


def test_an_answer_is_no_longer_than_it_may_be() -> None:
    assert learned((1000, 100)).whole(1000, 30) == pytest.approx(1.0 + 3.0)


def test_one_that_reads_has_the_rest_of_its_prompt_before_it() -> None:
    habits = learned((1000, 100))
    assert habits.rest(Run(4000), granted=0.0, now=1.0) == pytest.approx(3.0 + 10.0)
    assert habits.rest(Run(4000), granted=0.0, now=9.0) == pytest.approx(10.0), "it may begin at any moment"


def test_one_that_has_outlasted_the_short_answers_is_compared_with_the_long_ones() -> None:
    habits = learned(*[(1000, 10)] * 9, (1000, 1000))
    assert habits.rest(Run(pieces=500, began=1.0), granted=0.0, now=51.0) == pytest.approx(50.0)


def test_one_that_has_outlasted_them_all_is_expected_to_need_a_share_of_its_length_again() -> None:
    assert learned((1000, 10)).rest(Run(pieces=100, began=1.0), granted=0.0, now=11.0) == pytest.approx(3.1)


def test_a_bound_holds_for_what_is_left() -> None:
    habits = learned((1000, 1000))
    assert habits.rest(Run(most=120, pieces=100, began=1.0), granted=0.0, now=11.0) == pytest.approx(2.0)


@pytest.mark.parametrize(("share", "seconds"), [(0.0, 1.0), (0.49, 5.0), (0.99, 10.0)])
def test_a_share_of_the_answers_is_done_by_then(share: float, seconds: float) -> None:
    habits = learned(*[(1000, pieces) for pieces in range(10, 110, 10)])
    assert habits.rest_at(Run(pieces=0), granted=0.0, now=1.0, share=share) == pytest.approx(seconds)


def test_old_answers_are_forgotten() -> None:
    habits = learned(*[(1000, 1000)] * 5, *[(1000, 10)] * 200)
    assert habits.whole(0, None) == pytest.approx(1.0, rel=0.01)


def test_a_change_of_pace_is_learned_within_some_requests() -> None:
    habits = learned(*[(1000, 100)] * 50)
    for _ in range(100):
        habits.learn(Run(1000, None, 100, 1.0), granted=0.0, now=1.0 + 100 / 5)
    assert habits.whole(0, None) == pytest.approx(20.0, rel=0.06)


def test_an_answer_without_a_piece_counts_as_one_that_was_read_only() -> None:
    habits = Habits()
    habits.learn(Run(1000, None, 0, None), granted=0.0, now=2.0)
    assert habits.whole(500, None) == pytest.approx(1.0)
