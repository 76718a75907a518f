"""A ticket, and the room that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from slotline.core.party import NOBODY, Party


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """One request's claim on a slot of any of `upstreams`. Two tickets are never equal, whatever they say.

    `number`: its place in the order of all arrivals. One that went back to its place, or came back to it, is another
    ticket with the same number.
    """

    number: int
    upstreams: frozenset[str]
    size: int = 0  # bytes kept in memory while it waits
    party: Party = NOBODY
    cost: float = 1.0  # slot-seconds, as far as they can be foretold
    model: str = ""  # what it runs; it matters where only one model at a time can
    chain: Sequence[int] = ()  # its conversation, as `core.seats` compares them; it matters where there is affinity


@dataclass(slots=True, eq=False)
class Room:
    """What one upstream offers: `slots` requests at once, and `queue` that may wait for it."""

    name: str
    slots: int
    queue: int
    rank: int = 0  # among equally free ones the lowest is preferred
    exclusive: bool = False  # one model at a time: whatever runs here runs the same
    affinity: bool = False  # whose conversation a free slot holds may go before others; see `core.affinity`
    model: str | None = None  # of the ticket that was granted last, where it is exclusive
    retired: bool = False  # it takes nobody any more, and is gone with the last ticket that runs in it
    running: dict[Ticket, float] = field(default_factory=dict)  # ticket → when it was granted, in the caller's clock

    @property
    def free(self) -> int:
        """Slots that could be granted now; negative while a lowered cap is being reached."""
        return self.slots - len(self.running)

    def takes(self, model: str) -> bool:
        """Whether what runs here now allows for `model` to run beside it."""
        return not self.exclusive or not self.running or self.model == model
