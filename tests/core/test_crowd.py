"""Lines and pools: which upstreams are one pool, and what becomes of an order when that changes."""

from __future__ import annotations

import pytest

from slotline.core.line import Lines, Place
from slotline.core.party import FairBy, Party
from slotline.core.room import Ticket

A, B = Party("a"), Party("b")


def joined(lines: Lines, upstreams: str, *parties: Party, cost: float = 1.0) -> list[Ticket]:
    return [lines.join(upstreams, 0.0, party=party, cost=cost)[0] for party in parties]


def pools(lines: Lines) -> set[str]:
    return {"".join(room.name for room in pool.rooms) for pool in lines._crowd.pools}


@pytest.mark.parametrize(
    ("upstreams", "expected"),
    [
        ([], {"x", "y", "z"}),
        (["xyz"], {"xyz"}),
        (["xy"], {"xy", "z"}),
        (["xy", "x"], {"x", "y", "z"}),
        (["xy", "yz"], {"x", "y", "z"}),
        (["xyz", "z"], {"xy", "z"}),
        (["z", "xyz", "xy"], {"xy", "z"}),
    ],
)
def test_upstreams_that_every_line_takes_or_leaves_together_are_one_pool(
    upstreams: list[str], expected: set[str]
) -> None:
    lines = Lines(dict.fromkeys("xyz", (0, 9)))
    for each in upstreams:
        joined(lines, each, A)
    assert pools(lines) == expected


def test_a_pool_that_is_divided_goes_on_with_the_same_order_on_both_sides() -> None:
    lines = Lines({"x": (0, 99), "y": (0, 99)})
    waiting = joined(lines, "xy", A, A, A, B, B)
    before = [lines.place(ticket).position for ticket in waiting]
    (late,) = joined(lines, "x", Party("c"))
    lines.leave(late, 0.0)
    assert pools(lines) == {"x", "y"}
    assert [lines.place(ticket).position for ticket in waiting] == before == [1, 3, 5, 2, 4]


def test_what_runs_on_one_side_of_a_pool_that_is_divided_is_charged_there_alone() -> None:
    lines = Lines({"x": (1, 99), "y": (0, 99)})
    joined(lines, "xy", A, cost=100.0)  # runs on x
    joined(lines, "y", B, A, B, A)  # from now on y is a pool of its own
    order = [
        ticket.party.key for ticket in sorted(lines.waiting(frozenset("y")), key=lambda t: lines.place(t).position)
    ]
    assert order == ["b", "a", "b", "a"]


def test_a_place_before_several_pools_counts_everybody_once_who_stands_before_it_in_any() -> None:
    lines = Lines({"x": (0, 99), "y": (0, 99)})
    joined(lines, "xy", A, A)
    joined(lines, "x", A, B)
    joined(lines, "y", B)
    (last,) = joined(lines, "xy", B)
    # before it: at x one of A and one of B, at y one of A, the same, and another one of B
    assert lines.place(last) == Place(5, 6)


def test_one_of_batch_that_is_due_in_one_of_its_pools_is_in_the_front_of_its_line() -> None:
    lines = Lines({"x": (0, 99), "y": (1, 99)})
    joined(lines, "x", *[A] * 5)
    joined(lines, "y", *[A] * 12)
    (batch,) = joined(lines, "xy", Party("c", batch=True))
    for _ in range(8):
        lines.release(next(iter(lines.room("y").running)), 1.0)
    assert lines.place(batch).position == 1
    assert lines.front(frozenset("xy"), 3) == [batch]


@pytest.mark.parametrize("fair_by", FairBy)
def test_the_front_of_a_line_has_all_who_are_among_the_first(fair_by: FairBy) -> None:
    lines = Lines({"x": (0, 99), "y": (0, 99)}, fair_by=fair_by)
    parties = [Party(key, flow) for key in "abc" for flow in "12"]
    for upstreams in ("x", "xy", "x"):
        joined(lines, upstreams, *parties)
    for line in lines.lines():
        first = {ticket for ticket in lines.waiting(line) if lines.place(ticket).position <= 3}
        assert first <= set(lines.front(line, 3))
        assert len(lines.front(line, 3)) <= 3
    assert lines.front(frozenset("y"), 3) == []
