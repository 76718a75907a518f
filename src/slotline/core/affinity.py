"""Affinity: a conversation whose beginning a free slot still holds may go before others, within bounds.

A slot keeps in memory what it read last, so a request that goes on from there has only its new part read. Where that is
wanted (`Room.affinity`), a free slot goes to the first in the order whose conversation it holds, if there is one among
the first DEPTH; else to the first. The bounds, beyond which the order is what it is:

- nobody is passed in this way more than PASSED times,
- nor when it has waited for WAITED seconds already since it came to the line: so whoever is passed has its turn, at
  the latest, when that time and the requests are over that began before its end;
- a request only passes others of its own class. So batch never goes before somebody in front of a screen, and how many
  interactive grants may go before batch is as it was (`core.pool`);
- it passes other keys, but what it is granted is charged to its own as ever. So it pays by standing further back later,
  and the shares of the keys stay what they are (`core.fairness`). A key at its limit is not granted anything.

Which slot holds what is known from the tickets that were granted: `core.seats`, which deals out the slots of the server
itself, is asked here what it would have done. It may be wrong, as others may use the server, too; then somebody was
passed in vain, within the same bounds. All of it follows from commands and their arguments, never from the server.

Rooms of one model at a time do without: there, somebody may be passed for another reason (`core.swap`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from slotline.core.room import Room, Ticket
from slotline.core.seats import Seats

PASSED = 4
"""How often one who waits may be passed by those whose conversation the free slot holds; as in `core.swap`."""
WAITED = 60.0
"""Seconds after which nobody is passed any more. What is won is a prompt that need not be read, which takes seconds, or
tens of them where it is very long; a minute is what that may cost one who waits."""
DEPTH = 64
"""So many of the first in the order are looked at: the default length of a whole line."""
LINKS = 64
"""So many messages of a conversation, from its beginning, are enough to know it by."""


@dataclass(slots=True)
class Warmth:
    """What the slots of one room hold, and who sits where."""

    seats: Seats = field(default_factory=lambda: Seats(0))
    sits: dict[Ticket, int] = field(default_factory=dict)


@dataclass(slots=True)
class Affinity:
    """What the slots of all rooms hold that have affinity, and how often each who waits has been passed for it."""

    passed: dict[int, int] = field(default_factory=dict)  # ticket number → times
    since: dict[int, float] = field(default_factory=dict)  # ticket number → when it came to the line
    warmth: dict[str, Warmth] = field(default_factory=dict)  # by the name of the room

    # ---- those who wait ----------------------------------------------------------------------------------------------

    def wait(self, number: int, now: float) -> None:
        """A ticket comes to the line."""
        self.since[number] = now

    def forget(self, number: int) -> None:
        """It does not wait any more."""
        self.passed.pop(number, None)
        self.since.pop(number, None)

    def choose(
        self, room: Room, first: int, order: Iterable[int], tickets: Mapping[int, Ticket], now: float
    ) -> tuple[int, list[int]]:
        """Who gets a free slot of `room`, and whom that one passes.

        `order`: the numbers of those of one class who wait and may have a slot here, of which `first` is the first.
        """
        passing: list[int] = []
        for number in islice(order, DEPTH):
            if self.is_warm(room, tickets[number]):
                return number, passing
            if not self._may_be_passed(number, now):
                break
            passing.append(number)
        return first, []

    def note(self, passing: Iterable[int]) -> None:
        """They have been passed once more."""
        for number in passing:
            self.passed[number] = self.passed.get(number, 0) + 1

    def _may_be_passed(self, number: int, now: float) -> bool:
        return self.passed.get(number, 0) < PASSED and now - self.since.get(number, now - WAITED) < WAITED

    # ---- the slots ---------------------------------------------------------------------------------------------------

    def holds_anything(self, room: Room) -> bool:
        """Whether a free slot of `room` may hold somebody's conversation."""
        return room.affinity and not room.exclusive and room.name in self.warmth

    def is_warm(self, room: Room, ticket: Ticket) -> bool:
        """Whether a free slot of `room` holds the beginning of this conversation."""
        warmth = self.warmth.get(room.name)
        return warmth is not None and warmth.seats.holds(ticket.chain)

    def sit(self, ticket: Ticket, room: Room) -> None:
        """`ticket` was granted a slot of `room`."""
        if not room.affinity:
            return
        warmth = self.warmth.setdefault(room.name, Warmth())
        warmth.seats.count = room.slots
        seat = warmth.seats.take(ticket.chain)
        if seat is not None:
            warmth.sits[ticket] = seat

    def rise(self, ticket: Ticket, room: Room) -> None:
        """`ticket` has given its slot back, which goes on holding what was said in it."""
        warmth = self.warmth.get(room.name)
        seat = None if warmth is None else warmth.sits.pop(ticket, None)
        if warmth is not None and seat is not None:
            warmth.seats.give(seat)

    def settle(self, room: Room) -> None:
        """The room is another one now. With no slots it is out of order, or closed: what they held is gone."""
        if not room.slots or not room.affinity:
            self.warmth.pop(room.name, None)
        elif room.name in self.warmth:
            self.warmth[room.name].seats.count = room.slots
