"""A room and the tickets in it."""

from __future__ import annotations

import pytest

from slotline.core.room import Room, Ticket

X = frozenset("x")


def test_two_tickets_are_never_the_same_whatever_they_say() -> None:
    ticket = Ticket(1, X)
    assert ticket != Ticket(1, X)
    assert len({ticket, Ticket(1, X), ticket}) == 2


@pytest.mark.parametrize(
    ("exclusive", "runs", "model", "takes"),
    [(True, True, "n", False), (True, True, "m", True), (True, False, "n", True), (False, True, "n", True)],
)
def test_an_exclusive_room_takes_no_other_model_than_the_one_that_runs(
    exclusive: bool, runs: bool, model: str, takes: bool
) -> None:
    room = Room("x", 2, 9, exclusive=exclusive, model="m", running={Ticket(1, X): 0.0} if runs else {})
    assert room.takes(model) is takes
    assert room.free == 2 - runs
