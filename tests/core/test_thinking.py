"""The cap on thinking: which bound holds, when the reasoning is to be ended, and when that did not help."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import ThinkingOverrun
from slotline.core.limits import Limits
from slotline.core.thinking import Cap, Step


def cap(limit: int = 10, overrun: int = 5, budget: int | None = None) -> Cap:
    return Cap(Limits(thinking_cap=limit, thinking_overrun=overrun), budget)


def thinks(made: Cap, until: int, begin: int = 1) -> list[Step]:
    """Reasoning and nothing else, counted after each piece of it."""
    return [made.count(thought, thought) for thought in range(begin, until + 1)]


@pytest.mark.parametrize(
    ("limit", "budget", "holds", "named"),
    [
        (10, None, 10, "thinking_cap = 10"),
        (10, 4, 4, "budget_tokens = 4"),
        (10, 40, 10, "thinking_cap = 10"),
        (10, 10, 10, "thinking_cap = 10"),
        (10, 0, 0, "budget_tokens = 0"),
        (0, 40, 40, "budget_tokens = 40"),
        (0, None, None, "thinking_cap = None"),
    ],
)
def test_the_smaller_of_cap_and_budget_holds_and_a_cap_of_0_is_none(
    limit: int, budget: int | None, holds: int | None, named: str
) -> None:
    made = cap(limit, budget=budget)
    assert (made.limit, made.named) == (holds, named)


def test_up_to_the_cap_reasoning_goes_on() -> None:
    made = cap(10)
    assert thinks(made, 10) == [Step.GO_ON] * 10
    assert not made.passed


def test_when_it_is_passed_the_end_is_told_once() -> None:
    made = cap(10)
    assert thinks(made, 15) == [Step.GO_ON] * 10 + [Step.END] + [Step.GO_ON] * 4
    assert made.passed


def test_more_reasoning_than_the_overrun_after_that_is_an_error_with_both_limits_in_it() -> None:
    made = cap(10, overrun=5)
    thinks(made, 16)
    with pytest.raises(ThinkingOverrun, match=r"thinking: .*thinking_cap = 10 .*thinking_overrun = 5 "):
        made.count(17, 17)


def test_the_error_names_the_budget_where_that_is_the_bound() -> None:
    made = cap(10, overrun=0, budget=3)
    thinks(made, 4)
    with pytest.raises(ThinkingOverrun, match="budget_tokens = 3 "):
        made.count(5, 5)


def test_the_overrun_counts_from_where_the_end_was_told() -> None:
    """Many pieces may be read at once, and those were there before anybody could be asked to stop."""
    made = cap(10, overrun=5)
    assert made.count(100, 100) is Step.END
    assert made.count(105, 105) is Step.GO_ON
    with pytest.raises(ThinkingOverrun):
        made.count(106, 106)


def test_the_text_after_an_end_is_no_overrun() -> None:
    made = cap(10, overrun=5)
    thinks(made, 11)
    assert [made.count(11, 11 + text) for text in range(1, 1000)] == [Step.GO_ON] * 999


def test_without_a_cap_reasoning_may_go_on_for_ever() -> None:
    assert set(thinks(cap(0), 100_000)) == {Step.GO_ON}


def test_reasoning_that_was_read_together_with_the_text_behind_it_has_ended_by_itself() -> None:
    made = cap(10)
    assert made.count(12, 15) is Step.GO_ON
    assert [made.count(12, pieces) for pieces in range(16, 40)] == [Step.GO_ON] * 24
    assert not made.passed


def test_what_is_no_piece_of_the_answer_does_not_end_anything() -> None:
    """The finish reason and the counts come after the text, and bring neither reasoning nor text."""
    made = cap(10)
    assert made.count(12, 15) is Step.GO_ON
    assert made.count(12, 15) is Step.GO_ON
    assert not made.passed


def test_reasoning_that_begins_again_after_text_is_ended() -> None:
    made = cap(10)
    assert made.count(9, 12) is Step.GO_ON
    assert made.count(11, 14) is Step.END


def test_reasoning_that_is_always_read_together_with_text_is_bounded_by_the_overrun() -> None:
    made = cap(10, overrun=5)
    steps = [made.count(thought, 2 * thought) for thought in range(1, 17)]
    assert steps == [Step.GO_ON] * 15 + [Step.END]


@given(st.integers(1, 50), st.integers(0, 20), st.lists(st.integers(1, 30), min_size=1))
def test_however_it_is_cut_the_end_is_told_once_and_the_overrun_holds(
    limit: int, overrun: int, reads: list[int]
) -> None:
    made, thought, ended_at = cap(limit, overrun), 0, None
    for read in reads:
        thought += read
        try:
            step = made.count(thought, thought)
        except ThinkingOverrun:
            assert ended_at is not None
            assert thought - ended_at > overrun
            return
        if step is Step.END:
            assert ended_at is None
            assert thought > limit >= thought - read
            ended_at = thought
    assert made.passed is (ended_at is not None) is (thought > limit)
    assert ended_at is None or thought - ended_at <= overrun
