"""The order before one pool of slots: two classes, and in each of them parties that take turns.

A pool is a set of upstreams that every line takes or leaves together, so that any ticket that may have a slot of one
of them may have a slot of each. A ticket stands in the order of every pool that may serve it.

Interactive tickets go before batch. But while batch waits, at most PASSED interactive grants in a row go before it,
then one batch ticket is granted: batch is slow under load, and never stands still. This counts grants and not seconds,
so that the order of those who wait is known at every moment, to the last of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import chain

from slotline.core.fairness import Circle, Queue, Settlement, Who
from slotline.core.room import Room

PASSED = 8
"""Interactive grants in a row that may go before a batch ticket that waits."""


class Pool:
    """The order in which those who wait here are served. `batch`: of which class; `grants`: see `fairness.Account`."""

    __slots__ = ("_barred", "circles", "count", "passed", "rooms")

    def __init__(self, rooms: list[Room], barred: Container[str]) -> None:
        """`barred`: keys that may have no slot at present; it is read whenever that matters."""
        self.rooms = rooms
        self.circles = (Circle(), Circle())  # interactive, batch
        self.count = 0  # tickets that wait
        self.passed = 0  # interactive grants in a row while batch waited
        self._barred = barred

    def copy(self, rooms: list[Room]) -> Pool:
        """The same order, for other rooms."""
        pool = Pool(rooms, self._barred)
        pool.circles = (self.circles[0].copy(), self.circles[1].copy())
        pool.count, pool.passed = self.count, self.passed
        return pool

    # ---- commands ----------------------------------------------------------------------------------------------------

    def add(self, who: Who, number: int, cost: int, grants: int, weight: float = 1.0, *, batch: bool) -> None:
        """A ticket begins to wait."""
        self.count += 1
        self.circles[batch].add(who, number, cost, grants, self._barred, weight)

    def remove(self, who: Who, number: int, *, batch: bool) -> None:
        """A ticket waits no more: it left, or is served elsewhere."""
        self.count -= 1
        self.circles[batch].remove(who, number)
        if not self.circles[True].count:
            self.passed = 0

    def grant(self, who: Who, number: int, cost: int, *, batch: bool) -> bool:
        """A ticket waits no more, because it gets a slot of this pool. Whether others have changed places with that."""
        changed = self.circles[batch].charge(who, cost, self._barred)
        self.passed = 0 if batch else self.passed + 1
        self.remove(who, number, batch=batch)
        return changed

    def settle(self, who: Who, settlement: Settlement, *, batch: bool) -> None:
        """What was charged for a slot was not what it comes to."""
        self.circles[batch].settle(who, settlement)

    def admit(self, key: str, grants: int) -> None:
        """`key` was barred, and is not any more."""
        for circle in self.circles:
            circle.admit(key, grants, self._barred)

    def forget(self) -> None:
        """A slot is free and nobody waits: nobody was kept from anything, so nobody owes anybody anything."""
        for circle in self.circles:
            circle.forget()

    # ---- questions ---------------------------------------------------------------------------------------------------

    @property
    def remembers(self) -> bool:
        """Whether there is anything to forget."""
        return bool(self.circles[0].accounts or self.circles[1].accounts)

    def first(self) -> int | None:
        """The number of the ticket that is next; None when nobody waits who may have a slot."""
        due = self.passed >= PASSED
        first = self.circles[due].first(self._barred)
        return self.circles[not due].first(self._barred) if first is None else first

    def order(self, barred: Container[str] = ()) -> Iterator[int]:
        """The numbers of those who wait, first to last, but for the tickets of the keys in `barred`."""
        interactive, batch = (circle.order(barred) for circle in self.circles)
        passed = self.passed
        waits = next(batch, None)
        for _, number, _ in interactive:
            if waits is not None and passed >= PASSED:
                yield waits[1]
                waits, passed = next(batch, None), 0
            yield number
            passed += 1
        if waits is not None:
            yield waits[1]
        for _, number, _ in batch:
            yield number

    def eligible(self) -> Iterator[int]:
        """As `order`, without those who may have no slot at present."""
        return self.order(self._barred)

    def turns(self) -> Iterator[int]:
        """The class whose turn it is, first to last, without those who may have no slot at present."""
        due = self.passed >= PASSED
        order = self.circles[due].order(self._barred)
        first = next(order, None)
        if first is None:
            return (number for _, number, _ in self.circles[not due].order(self._barred))
        return (number for _, number, _ in chain([first], order))

    def ahead_of(self, who: Who, number: int, *, batch: bool) -> Iterator[tuple[Who, Queue, int]]:
        """For each queue of its class, how many in it stand before this ticket."""
        return self.circles[batch].ahead_of(who, number)


def interleaved(rank: int, others: int, passed: int, *, batch: bool) -> int:
    """How many stand before a ticket in all, if `rank` of its own class do and `others` of the other class wait."""
    first = max(0, PASSED - passed)  # interactive tickets before the first of batch
    if batch:
        return rank + min(others, first + rank * PASSED)
    return rank if rank < first else rank + min(others, (rank - first) // PASSED + 1)
