"""The order before one pool: classes, and the bound on how long batch is passed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.line import Lines
from slotline.core.party import Party
from slotline.core.pool import PASSED, Pool, interleaved
from slotline.core.room import Ticket

SCREEN, BATCH = Party("screen"), Party("batch", batch=True)


def joined(lines: Lines, party: Party, count: int = 1) -> list[Ticket]:
    return [lines.join("x", 0.0, party=party)[0] for _ in range(count)]


def starts(lines: Lines) -> str:
    """One letter for each that waits, s or b for batch, in the order in which they get the only slot."""
    order = ""
    while running := list(lines.room("x").running):
        order += "".join(grant.ticket.party.key[0] for grant in lines.release(running[0], 1.0).grants)
    return order


def test_interactive_requests_go_before_batch_whoever_came_first() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, BATCH, 3)
    joined(lines, SCREEN, 2)
    assert starts(lines) == "ssbb"


def test_while_batch_waits_one_of_it_is_served_after_every_eighth_interactive_grant() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, SCREEN)
    joined(lines, BATCH, 3)
    joined(lines, SCREEN, 18)
    assert PASSED == 8
    assert starts(lines) == "ssssssssb" + "ssssssssb" + "ssb"


def test_grants_that_passed_nobody_do_not_count() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, SCREEN, 6)
    for _ in range(5):  # no batch waits
        lines.release(next(iter(lines.room("x").running)), 1.0)
    joined(lines, BATCH)
    joined(lines, SCREEN, 9)
    assert starts(lines) == "ssssssssbs"


def test_when_the_last_of_batch_has_left_the_next_one_is_passed_as_often_as_any() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, SCREEN)
    (impatient,) = joined(lines, BATCH)
    joined(lines, SCREEN, 20)
    for _ in range(7):
        lines.release(next(iter(lines.room("x").running)), 1.0)
    lines.leave(impatient, 1.0)
    joined(lines, BATCH)
    assert starts(lines).index("b") == 8


def test_places_say_when_batch_is_served() -> None:
    lines = Lines({"x": (1, 99)})
    joined(lines, SCREEN)
    batch = joined(lines, BATCH, 3)
    screen = joined(lines, SCREEN, 10)
    assert [lines.place(ticket).position for ticket in batch] == [9, 12, 13]
    assert [lines.place(ticket).position for ticket in screen] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]


@given(interactive=st.integers(0, 40), batch=st.integers(0, 40), passed=st.integers(0, 12))
def test_the_place_among_both_classes_is_the_one_in_the_order(interactive: int, batch: int, passed: int) -> None:
    pool = Pool([], ())
    pool.passed = passed
    for number in range(1, interactive + 1):
        pool.add(("i",), number, 1, 0, batch=False)
    for number in range(1001, batch + 1001):
        pool.add(("b",), number, 1, 0, batch=True)
    order = list(pool.order())
    assert [order.index(n + 1) for n in range(interactive)] == [
        interleaved(n, batch, passed, batch=False) for n in range(interactive)
    ]
    assert [order.index(n + 1001) for n in range(batch)] == [
        interleaved(n, interactive, passed, batch=True) for n in range(batch)
    ]


@pytest.mark.parametrize("barred", ["screen", "batch"])
def test_whoever_may_have_no_slot_at_present_is_in_the_order_and_not_among_the_eligible(barred: str) -> None:
    pool = Pool([], {barred})
    pool.add(("screen",), 1, 1, 0, batch=False)
    pool.add(("batch",), 2, 1, 0, batch=True)
    assert list(pool.order()) == [1, 2]
    assert list(pool.eligible()) == [pool.first()] == [2 if barred == "screen" else 1]


@pytest.mark.parametrize("passed", [0, PASSED])
def test_the_class_whose_turn_it_is_has_its_turns_and_the_other_one_none(passed: int) -> None:
    pool = Pool([], {"barred"})
    for number, name in enumerate(("screen", "barred", "screen"), 1):
        pool.add((name,), number, 1, 0, batch=False)
    pool.add(("batch",), 4, 1, 0, batch=True)
    pool.passed = passed
    assert list(pool.turns()) == ([4] if passed else [1, 3])
    pool.remove(("batch",), 4, batch=True)
    assert list(pool.turns()) == [1, 3], "there is no other"
