"""Slots, and the lines before them: who runs, who waits, and whose turn it is.

A pure data structure. Commands go in (`join`, `leave`, `release`, `resize`), and each returns the grants it caused and
the moves in the lines; whoever calls does the waking and the telling. Nothing here waits, and nothing can be lost
between two commands.

A line belongs to a *set* of upstreams: those that may serve the tickets in it. Two lines meet when they share an
upstream. The rules, which the tests prove against a naive model:

1. The cap: a grant never takes an upstream above its slots. (A lowered cap ends nobody; it is reached by attrition.)
2. No idling: after every command, no upstream has a free slot while a ticket that it may serve waits.
3. Order: a free slot goes to the earliest ticket that may have it, over all lines that meet there.
4. Positions are exact: 1 + the number of earlier tickets in the lines that meet the ticket's own. With one set of
   upstreams that is the number of grants before it; where lines only overlap it counts all who may be served before.
5. Bounds: a ticket that would have to wait is refused at once when as many wait, in the lines that it meets, as its
   upstreams together may have waiting; and when the bodies of all who wait anywhere would take too much memory.
6. A ticket whose upstream failed it may go back to its old place, to be served elsewhere; nobody else is any worse
   off than if it had waited there all the time.
7. Leaving is total: `leave` takes a ticket out whether it waits, was granted in this very moment, or runs; a second
   time it does nothing. A slot given back is granted on in the same command.

Cost: tickets are numbered by arrival, so a line is an ascending list of numbers. Joining appends, a position is a
binary search, and leaving moves part of one block of memory: a few microseconds with 10,000 waiting, and no command
ever walks the line. A move is told as one `Shift` for all who stood behind.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain

from slotline.core.errors import Busy


class Phase(Enum):
    """Where a ticket is in its life. There is no way back from one to an earlier one."""

    WAITING = auto()
    RUNNING = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request's claim on a slot of any of `upstreams`; `number` is its place in the order of all arrivals."""

    number: int
    upstreams: frozenset[str]
    size: int = 0  # bytes kept in memory while it waits


@dataclass(frozen=True, slots=True)
class Grant:
    """`ticket` now holds one slot of `upstream`."""

    ticket: Ticket
    upstream: str


@dataclass(frozen=True, slots=True)
class Shift:
    """In `lines`, every waiting ticket that arrived after number `behind` has moved: one place nearer, or `by`."""

    lines: tuple[frozenset[str], ...]
    behind: int
    by: int = -1  # +1: somebody came back to a place before it


@dataclass(frozen=True, slots=True)
class Changes:
    """What one command caused, in the order in which it happened."""

    grants: tuple[Grant, ...] = ()
    shifts: tuple[Shift, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiting ticket stands: `position` from 1, of `length` who wait (itself included)."""

    position: int
    length: int


@dataclass(slots=True)
class Room:
    """What one upstream offers: `slots` requests at once, and `queue` that may wait for it."""

    slots: int
    queue: int
    running: dict[Ticket, float] = field(default_factory=dict)  # ticket → when it was granted, in the caller's clock

    @property
    def free(self) -> int:
        """Slots that could be granted now; negative while a lowered cap is being reached."""
        return self.slots - len(self.running)


@dataclass(slots=True)
class _Line:
    """The tickets that wait for one set of upstreams, and the lines that meet this one (itself included)."""

    upstreams: frozenset[str]
    waiting: list[int] = field(default_factory=list)
    meets: list[_Line] = field(default_factory=list)


class Lines:
    """All slots and all lines of one gateway. `now` is any clock of seconds that does not run backwards."""

    def __init__(self, rooms: Mapping[str, tuple[int, int]], max_waiting: int | None = None) -> None:
        """`rooms`: upstream → (slots, queue), in the order of preference among equally free upstreams.

        `max_waiting`: the bytes that all who wait may keep in memory together; None: without bound.
        """
        self._rooms = {name: Room(slots, queue) for name, (slots, queue) in rooms.items()}
        self._lines: dict[frozenset[str], _Line] = {}
        self._waiting: dict[int, Ticket] = {}
        self._running: dict[Ticket, str] = {}
        self._last_number = 0
        self._max_waiting = max_waiting
        self._waiting_bytes = 0

    # ---- commands ----------------------------------------------------------------------------------------------------

    def join(self, upstreams: Iterable[str], now: float, size: int = 0) -> tuple[Ticket, Changes]:
        """A new ticket at the end of its line, granted at once when a slot is free for it; `size`: see `Ticket`.

        Raises Busy when it would have to wait and the line is full; then nothing has changed.
        """
        line = self._line(frozenset(upstreams))
        if not any(self._rooms[name].free > 0 for name in line.upstreams):
            self._check_bounds(line, size)
        self._last_number += 1
        ticket = Ticket(self._last_number, line.upstreams, size)
        self._waiting_bytes += size
        line.waiting.append(ticket.number)
        self._waiting[ticket.number] = ticket
        return ticket, self._fill(now)

    def leave(self, ticket: Ticket, now: float) -> Changes:
        """`ticket` is gone, whatever it was doing; those behind it move up, or its slot is granted on."""
        if not self._waits(ticket):
            return self.release(ticket, now)
        del self._waiting[ticket.number]
        return Changes(shifts=self._take_out(ticket))

    def release(self, ticket: Ticket, now: float) -> Changes:
        """`ticket` gives its slot back, once: for a ticket that holds none this does nothing."""
        upstream = self._running.pop(ticket, None)
        if upstream is None:
            return Changes()
        del self._rooms[upstream].running[ticket]
        return self._fill(now)

    def retry(self, ticket: Ticket, now: float) -> tuple[Ticket, Changes] | None:
        """A running ticket whose upstream failed it: back in line at its old place, for its other upstreams only.

        None, and nothing has changed, when it has no other. Bounds do not hold for it: it was let in once.
        """
        upstream = self._running.get(ticket)
        others = ticket.upstreams - {upstream}
        if upstream is None or not others:
            return None
        again = Ticket(ticket.number, frozenset(others), ticket.size)
        line = self._line(again.upstreams)
        insort(line.waiting, again.number)
        self._waiting[again.number] = again
        self._waiting_bytes += again.size
        put_back = self._behind(line, again.number, by=+1)
        changes = self.release(ticket, now)
        return again, Changes(changes.grants, put_back + changes.shifts)

    def resize(self, upstream: str, slots: int, now: float) -> Changes:
        """`upstream` now has `slots` slots. Fewer than run now: nobody is ended, and none is granted until it fits."""
        if slots < 0:
            raise ValueError(f"slots must not be negative, got {slots}")
        self._rooms[upstream].slots = slots
        return self._fill(now)

    # ---- questions ---------------------------------------------------------------------------------------------------

    def phase(self, ticket: Ticket) -> Phase:
        """Where `ticket` is in its life."""
        if self._waits(ticket):
            return Phase.WAITING
        return Phase.RUNNING if ticket in self._running else Phase.GONE

    def place(self, ticket: Ticket) -> Place:
        """Where a waiting ticket stands now. Raises KeyError for one that does not wait."""
        if not self._waits(ticket):
            raise KeyError(ticket)
        meets = self._lines[ticket.upstreams].meets
        ahead = sum(bisect_left(line.waiting, ticket.number) for line in meets)
        return Place(ahead + 1, sum(len(line.waiting) for line in meets))

    def waiting(self, upstreams: frozenset[str]) -> Iterator[Ticket]:
        """The tickets in the line of `upstreams`, first to last. No command may be given while this is walked."""
        line = self._lines.get(upstreams)
        return (self._waiting[number] for number in (line.waiting if line else ()))

    def lines(self) -> dict[frozenset[str], int]:
        """How many wait in each line that has ever been used."""
        return {upstreams: len(line.waiting) for upstreams, line in self._lines.items()}

    def room(self, upstream: str) -> Room:
        """The slots of one upstream; to be read, never to be changed."""
        return self._rooms[upstream]

    def held_since(self, upstreams: Iterable[str]) -> list[float]:
        """When each ticket that runs now on one of `upstreams` was granted."""
        return list(chain.from_iterable(self._rooms[name].running.values() for name in upstreams))

    def __repr__(self) -> str:
        rooms = ", ".join(f"{name} {len(room.running)}/{room.slots}" for name, room in self._rooms.items())
        return f"<Lines {rooms}; {len(self._waiting)} waiting>"

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _line(self, upstreams: frozenset[str]) -> _Line:
        line = self._lines.get(upstreams)
        if line is not None:
            return line
        if not upstreams or not upstreams <= self._rooms.keys():
            raise KeyError(f"no such upstreams: {sorted(upstreams)}")
        line = self._lines[upstreams] = _Line(upstreams)
        for other in self._lines.values():
            if other.upstreams & upstreams:
                line.meets.append(other)
                if other is not line:
                    other.meets.append(line)
        return line

    def _waits(self, ticket: Ticket) -> bool:
        """Asks for the whole ticket: one that went back to its place kept its number, and is gone as what it was."""
        return self._waiting.get(ticket.number) == ticket

    def _check_bounds(self, line: _Line, size: int) -> None:
        waiting = sum(len(other.waiting) for other in line.meets)
        bound = sum(self._rooms[name].queue for name in line.upstreams)
        if waiting >= bound:
            raise Busy(f"the line is full: {waiting} wait, and at most {bound} may wait")
        if self._max_waiting is not None and self._waiting_bytes + size > self._max_waiting:
            held = f"{self._waiting_bytes} of max_waiting = {self._max_waiting} bytes"
            raise Busy(f"the line is full: those who wait hold {held}, which leaves no room for {size} more")

    def _take_out(self, ticket: Ticket) -> tuple[Shift, ...]:
        """Takes `ticket` out of its line; the shift of those behind it, if there are any."""
        self._waiting_bytes -= ticket.size
        line = self._lines[ticket.upstreams]
        del line.waiting[bisect_left(line.waiting, ticket.number)]
        return self._behind(line, ticket.number, by=-1)

    def _behind(self, line: _Line, number: int, by: int) -> tuple[Shift, ...]:
        """The move of all who stand behind `number` in the lines that meet `line`, if anybody does."""
        lines = tuple(o.upstreams for o in line.meets if o.waiting and o.waiting[-1] > number)
        return (Shift(lines, number, by),) if lines else ()

    def _fill(self, now: float) -> Changes:
        """Grants while there is a free slot and someone who may have it (rules 1, 2 and 3)."""
        grants: list[Grant] = []
        shifts: list[Shift] = []
        while (choice := self._next()) is not None:
            number, upstream = choice
            ticket = self._waiting.pop(number)
            shifts.extend(self._take_out(ticket))
            self._running[ticket] = upstream
            self._rooms[upstream].running[ticket] = now
            grants.append(Grant(ticket, upstream))
        return Changes(tuple(grants), tuple(shifts))

    def _next(self) -> tuple[int, str] | None:
        """The earliest ticket with a free slot, and the freest upstream for it."""
        free = {name for name, room in self._rooms.items() if room.free > 0}
        if not free or not self._waiting:
            return None
        heads = [(line.waiting[0], line) for line in self._lines.values() if line.waiting and line.upstreams & free]
        if not heads:
            return None
        number, line = min(heads, key=lambda head: head[0])
        upstream = max((name for name in self._rooms if name in line.upstreams & free), key=self._freedom)
        return number, upstream

    def _freedom(self, upstream: str) -> int:
        return self._rooms[upstream].free
