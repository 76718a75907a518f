"""The stub's slots and its own queue, as llama-server has them: a request without a free slot is deferred, unseen.

Synchronous, without clock and without I/O: `join` and `leave` change the state and say who was granted a slot.

Invariants
1. A slot has one holder or none; a ticket has at most one slot.
2. No ticket waits that could have a slot: after each call every free slot is one that nobody waiting may take.
3. Order is by arrival, except that a slot goes first to whoever asked for just that one, and that a request whose own
   slot is still busy goes to the back when its turn comes (both as in llama-server; the second is why a gateway pins
   only slots that it knows to be idle).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Task:
    """What a slot runs, or ran last: the numbers that `/slots` shows."""

    id: int
    prompt: str
    prompt_tokens: int
    cached: int = 0  # tokens of the prompt that the slot had already
    processed: int = 0  # tokens of the prompt read so far, with the cached ones
    decoded: int = 0
    limit: int = -1  # max_tokens of the request; -1: none


@dataclass(slots=True, eq=False)
class Ticket:
    """A request's claim to a slot: `wanted` is the slot asked for (any number, taken modulo), or -1 for any."""

    owner: str
    wanted: int = -1
    slot: Slot | None = None


@dataclass(slots=True, eq=False)
class Slot:
    """One slot. `holder` stays set while an aborted run still computes."""

    id: int
    holder: Ticket | None = None
    task: Task | None = None

    @property
    def is_processing(self) -> bool:
        """As in `/slots`."""
        return self.holder is not None

    def known(self, prompt: str) -> int:
        """How many characters of this prompt the slot has read already: what it begins with as the last one did."""
        if self.task is None:
            return 0
        last = self.task.prompt
        lengths = range(1, min(len(last), len(prompt)) + 1)
        # The first length at which the two differ, found by halving: each test compares memory, not characters.
        return bisect_left(lengths, True, key=lambda length: not prompt.startswith(last[:length]))


class Slots:
    """`n` slots and the queue before them."""

    def __init__(self, n: int) -> None:
        self.all = tuple(Slot(number) for number in range(n))
        self.waiting: deque[Ticket] = deque()

    def __repr__(self) -> str:
        return f"<Slots busy={self.busy}/{len(self.all)} waiting={len(self.waiting)}>"

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        return sum(slot.is_processing for slot in self.all)

    def join(self, ticket: Ticket) -> bool:
        """True: the ticket has a slot. False: it stands at the end of the queue."""
        if self._seat(ticket):
            return True
        self.waiting.append(ticket)
        return False

    def leave(self, ticket: Ticket) -> Ticket | None:
        """The ticket is over, wherever it stands; twice is harmless. Returns who got its slot."""
        if ticket in self.waiting:
            self.waiting.remove(ticket)
        slot, ticket.slot = ticket.slot, None
        if slot is None:
            return None
        slot.holder = None
        return self._next(slot)

    def _next(self, slot: Slot) -> Ticket | None:
        for ticket in self.waiting:
            if self._wanted(ticket) == slot.id:
                self.waiting.remove(ticket)
                self._seat(ticket)
                return ticket
        for _ in range(len(self.waiting)):
            ticket = self.waiting.popleft()
            if self._seat(ticket):
                return ticket
            self.waiting.append(ticket)
        return None

    def _seat(self, ticket: Ticket) -> bool:
        wanted = self._wanted(ticket)
        for slot in self.all:
            if not slot.is_processing and wanted in {-1, slot.id}:
                slot.holder, ticket.slot = ticket, slot
                return True
        return False

    def _wanted(self, ticket: Ticket) -> int:
        return -1 if ticket.wanted < 0 else ticket.wanted % len(self.all)
