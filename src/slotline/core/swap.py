"""Rooms for one model at a time: whose turn it is where models cannot be loaded together.

On one GPU a server often holds one model only, and a request for another one makes it throw the first away, also while
that answers somebody. So in an exclusive room nothing is granted while a ticket of another model runs there. And to
serve A B A A C in this order takes four loads, where A A A B C takes three. So the order decides which model is next;
but tickets of the model that is there may go before those of others, as long as nobody is passed in this way more than
SWAP_PASSED times. Then the room runs empty, and the first in the order has it, whatever its model.

A batch ticket never goes before an interactive one in this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slotline.core.room import Room, Ticket

SWAP_PASSED = 4
"""How often one who waits may be passed by tickets of the model that is loaded."""


@dataclass(slots=True)
class Swaps:
    """How often each who waits has been passed because its model was not there."""

    passed: dict[int, int] = field(default_factory=dict)  # ticket number → times

    def choose(self, room: Room, order: Iterable[int], tickets: Mapping[int, Ticket]) -> tuple[int, list[int]] | None:
        """Whose turn it is at an exclusive room with a free slot, and whom it passes; None: nobody's at present.

        `order`: the numbers of those who wait and may have a slot here, first to last.
        """
        passing: list[int] = []
        screens = False  # somebody in front of a screen would be passed
        first: int | None = None
        for number in order:
            ticket = tickets[number]
            if room.model in {None, ticket.model} and not (screens and ticket.party.batch):
                return number, passing
            first = number if first is None else first
            if self.passed.get(number, 0) >= SWAP_PASSED:
                break
            passing.append(number)
            screens = screens or not ticket.party.batch
        return None if first is None or room.running else (first, [])

    def note(self, passing: Iterable[int]) -> None:
        """They have been passed once more."""
        for number in passing:
            self.passed[number] = self.passed.get(number, 0) + 1

    def forget(self, number: int) -> None:
        """It does not wait any more."""
        self.passed.pop(number, None)
