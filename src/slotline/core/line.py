"""Slots, and the lines before them: who runs, who waits, and whose turn it is.

A pure data structure. Commands go in (`join`, `leave`, `release`, `resize`, …), and each returns the grants it caused
and the lines in which places changed; whoever calls does the waking and the telling. Nothing here waits, and nothing
can be lost between two commands.

A line belongs to a *set* of upstreams: those that may serve the tickets in it. Two lines meet when they share an
upstream. Upstreams that every line takes or leaves together are one *pool*. The rules, which the tests prove against a
naive model:

1. The cap: a grant never takes an upstream above its slots, nor a key above what it may have running. (A lowered cap
   ends nobody; it is reached by attrition.)
2. No idling: after every command, no upstream has a free slot while a ticket waits that may have it. One whose key has
   all running that it may have may have none, and for rooms of one model at a time see `core.swap`.
3. Order: each pool has one (`core.pool`, `core.fairness`), and a free slot goes to the first in it. Keys take turns, so
   that each that waits gets its share of the slot-seconds; in one key, or without keys, the order is that of arrival.
   Each pool counts for itself: what a key uses of one upstream takes nothing from it at another. Where there is
   affinity, whose conversation the slot holds may go before the first, within bounds (`core.affinity`).
4. Positions: 1 + the number of tickets that stand before this one in the order of any pool that may serve it. Where all
   lines are for the same upstreams that is exactly the number of grants before its own, plus one, if nobody else came
   and all took as long as estimated. What a key may have running, rooms of one model at a time, and affinity are left
   out of it: whoever passes others moves none of them.
5. Bounds: a ticket that would have to wait is refused at once when its key has as many waiting as it may, when as many
   wait, in the lines that it meets, as its upstreams together may have waiting, and when the bodies of all who wait
   anywhere would take too much memory.
6. A ticket whose upstream failed it may go back to its old place, to be served elsewhere, whatever the bounds: it was
   let in. One that left may come back to its place as long as the bounds allow. Nobody else is any worse off than if it
   had waited there all the time.
7. Leaving is total: `leave` takes a ticket out whether it waits, was granted in this very moment, or runs; a second
   time it does nothing. A slot given back is granted on in the same command.

All of it follows from the commands and their arguments, in their order: the same ones give the same grants in every
process.

Cost: see `core.fairness`. No command walks a line, but for those that change which upstreams there are, and a grant by
a room of one model at a time; where there is affinity, a grant looks at some dozens of those who wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto

import msgspec

from slotline.core.affinity import Affinity
from slotline.core.allowance import Allowances
from slotline.core.crowd import Crowd, Moved
from slotline.core.errors import Busy, Withdrawn
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.pool import Pool
from slotline.core.room import Room, Ticket
from slotline.core.swap import Swaps


class Phase(Enum):
    """Where a ticket is in its life. There is no way back from one to an earlier one."""

    WAITING = auto()
    RUNNING = auto()
    GONE = auto()


class Grant(msgspec.Struct, frozen=True):
    """`ticket` now holds one slot of `upstream`."""

    ticket: Ticket
    upstream: str


class Changes(msgspec.Struct, frozen=True):
    """What one command caused: the grants, in their order, and the lines in which a place may be another one now."""

    grants: tuple[Grant, ...] = ()
    moved: tuple[frozenset[str], ...] = ()


class Place(msgspec.Struct, frozen=True):
    """Where a waiting ticket stands: `position` from 1, of `length` who wait (itself included)."""

    position: int
    length: int


class _Choice(msgspec.Struct, frozen=True):
    """The next grant: whose turn it is, where, and whom it passes because what the others need is not there."""

    number: int
    room: Room
    passing: list[int]
    merit: tuple[bool, int, bool, bool, int, int]  # the lowest is granted first


class Lines:
    """All slots and all lines of one gateway. `now` is any clock of seconds that does not run backwards."""

    def __init__(
        self,
        rooms: Mapping[str, tuple[int, int]],
        max_waiting: int | None = None,
        fair_by: FairBy = FairBy.KEY,
        exclusive: Collection[str] = (),
        affinity: Collection[str] = (),
    ) -> None:
        """`rooms`: upstream → (slots, queue), in the order of preference among equally free upstreams.

        `max_waiting`: the bytes that all who wait may keep in memory together; None: without bound. `exclusive`: those
        of the upstreams that run one model at a time. `affinity`: those where who finds its conversation in a free slot
        may go before others.
        """
        self._rooms = {
            name: Room(name, slots, queue, rank, name in exclusive, name in affinity)
            for rank, (name, (slots, queue)) in enumerate(rooms.items())
        }
        self._running: dict[Ticket, tuple[Room, int]] = {}  # where, and by which grant of all
        self._keys = Allowances()
        self._crowd = Crowd(self._rooms, self._running, self._keys.barred, flows=fair_by is FairBy.FLOW)
        self._swaps = Swaps()
        self._affinity = Affinity()
        self._last_number = 0
        self._grants = 0
        self._max_waiting = max_waiting
        self._stale = False  # there are retired rooms or old lines

    # ---- commands ----------------------------------------------------------------------------------------------------

    def join(
        self,
        upstreams: Iterable[str],
        now: float,
        size: int = 0,
        party: Party = NOBODY,
        cost: float = 1.0,
        model: str = "",
        number: int | None = None,
        chain: Sequence[int] = (),
    ) -> tuple[Ticket, Changes]:
        """A new ticket, granted at once when a slot is free for it. The arguments are those of `Ticket`.

        `number`: that of a ticket that has left, which stood where this one is to stand; bounds hold for it, too.
        Raises LimitReached when it would have to wait and its key has as many waiting as it may, Busy when the line is
        full, Withdrawn when none of the upstreams takes anybody any more; then nothing has changed. Raises ValueError
        for a number that waits, or never was.
        """
        if number is not None and (number in self._crowd.tickets or not 0 < number <= self._last_number):
            raise ValueError(f"number {number} is not that of a ticket that has left")
        upstreams = frozenset(upstreams)
        self._check_upstreams(upstreams)
        self._check_bounds(upstreams, size, party, model)
        if number is None:
            number = self._last_number = self._last_number + 1
        ticket = Ticket(number, upstreams, size, party, cost, model, chain)
        return ticket, self._fill(now, self._put_in(ticket, now))

    def leave(self, ticket: Ticket, now: float) -> Changes:
        """`ticket` is gone, whatever it was doing; those behind it move up, or its slot is granted on."""
        if not self._waits(ticket):
            return self.release(ticket, now)
        return self._fill(now, self._take_out(ticket))

    def release(self, ticket: Ticket, now: float) -> Changes:
        """`ticket` gives its slot back, once: for a ticket that holds none this does nothing."""
        run = self._running.pop(ticket, None)
        if run is None:
            return Changes()
        room, grant = run
        self._affinity.rise(ticket, room)
        moved = self._crowd.settle(ticket, room, grant, now - room.running.pop(ticket))
        if self._keys.end_run(ticket.party):
            moved |= self._crowd.admit(ticket.party.key, self._grants)
        return self._fill(now, moved)

    def retry(self, ticket: Ticket, now: float) -> tuple[Ticket, Changes] | None:
        """A running ticket whose upstream failed it: back in line at its old place, for its other upstreams only.

        None, and nothing has changed, when it has no other. Bounds do not hold for it: it was let in once.
        """
        run = self._running.get(ticket)
        if run is None or ticket.number in self._crowd.tickets:
            return None
        others = frozenset(name for name in ticket.upstreams - {run[0].name} if self._takes_in(name))
        if not others:
            return None
        again = msgspec.structs.replace(ticket, upstreams=others)
        moved = self._put_in(again, now)
        changes = self.release(ticket, now)
        return again, Changes(changes.grants, self._where_somebody_waits(moved | dict.fromkeys(changes.moved)))

    def resize(self, upstream: str, slots: int, now: float) -> Changes:
        """`upstream` now has `slots` slots. Fewer than run now: nobody is ended, and none is granted until it fits."""
        if slots < 0:
            raise ValueError(f"slots must not be negative, got {slots}")
        room = self._rooms[upstream]
        room.slots = 0 if room.retired else slots
        self._affinity.settle(room)
        return self._fill(now, {})

    def bound(self, max_waiting: int | None) -> None:
        """From now on those who wait may keep so many bytes in memory together. Whoever waits already stays."""
        self._max_waiting = max_waiting

    # ---- commands for a line that goes on from a picture of itself ---------------------------------------------------

    def count_to(self, number: int) -> None:
        """Whoever joins from now on gets a number above this one."""
        self._last_number = max(self._last_number, number)

    def readmit(self, ticket: Ticket, now: float) -> Changes:
        """`ticket` waits at its number, whatever the bounds: it was let in once. Raises ValueError where one does."""
        if ticket.number in self._crowd.tickets:
            raise ValueError(f"number {ticket.number} waits already")
        self._check_upstreams(ticket.upstreams)
        self.count_to(ticket.number)
        return self._fill(now, self._put_in(ticket, now))

    def resume(self, ticket: Ticket, upstream: str, since: float) -> None:
        """`ticket` has had a slot of `upstream` since then, whatever the cap: it was granted to it once."""
        self._check_upstreams(ticket.upstreams)
        self.count_to(ticket.number)
        room = self._rooms[upstream]
        self._put_in(ticket, since)
        self._seat(ticket, room, since)

    # ---- commands that change which upstreams there are --------------------------------------------------------------

    def add(
        self, upstream: str, slots: int, queue: int, now: float, *, exclusive: bool = False, affinity: bool = False
    ) -> Changes:
        """A new upstream, or one that was retired. Raises ValueError for one that is there."""
        if self._takes_in(upstream):
            raise ValueError(f"there is an upstream {upstream!r}")
        rank = 1 + max((other.rank for other in self._rooms.values()), default=0)
        room = self._rooms.setdefault(upstream, Room(upstream, slots, queue, rank))
        room.slots, room.queue, room.retired = slots, queue, False
        room.exclusive, room.affinity = exclusive, affinity
        return self._fill(now, self._renew())

    def change(
        self, upstream: str, queue: int, now: float, *, exclusive: bool = False, affinity: bool = False
    ) -> Changes:
        """From now on so many may wait for `upstream`. Whoever waits already stays."""
        room = self._rooms[upstream]
        room.queue = 0 if room.retired else queue
        room.exclusive, room.affinity = exclusive, affinity
        self._affinity.settle(room)
        return self._fill(now, {})

    def retire(self, upstream: str, now: float) -> tuple[Changes, tuple[Ticket, ...]]:
        """`upstream` takes nobody any more. Whoever runs there runs on; whoever may wait for others, waits for them.

        The tickets that had no other are out of the line, and returned.
        """
        room = self._rooms[upstream]
        room.slots, room.queue, room.retired = 0, 0, True
        self._affinity.settle(room)
        waiting = list(self._crowd.tickets.values())
        stranded = tuple(ticket for ticket in waiting if not any(map(self._takes_in, ticket.upstreams)))
        for ticket in stranded:
            self._take_out(ticket)
        return self._fill(now, self._renew()), stranded

    # ---- questions ---------------------------------------------------------------------------------------------------

    def phase(self, ticket: Ticket) -> Phase:
        """Where `ticket` is in its life."""
        if self._waits(ticket):
            return Phase.WAITING
        return Phase.RUNNING if ticket in self._running else Phase.GONE

    def holding(self, ticket: Ticket) -> tuple[str, float] | None:
        """Of which upstream `ticket` has a slot, and since when; None if it has none."""
        if ticket not in self._running:
            return None
        room, _ = self._running[ticket]
        return room.name, room.running[ticket]

    def place(self, ticket: Ticket) -> Place:
        """Where a waiting ticket stands now. Raises KeyError for one that does not wait."""
        if not self._waits(ticket):
            raise KeyError(ticket)
        return Place(*self._crowd.place(ticket))

    def ticket(self, number: int) -> Ticket | None:
        """The ticket that waits under `number`; None if none does."""
        return self._crowd.tickets.get(number)

    def barred(self, ticket: Ticket) -> bool:
        """Whether the key of a waiting ticket has all running that it may have."""
        return not self._keys.may_run(ticket.party)

    def front(self, upstreams: frozenset[str], count: int) -> list[Ticket]:
        """The tickets in the line of `upstreams` that have one of the first `count` places, and perhaps others."""
        return self._crowd.front(upstreams, count)

    def waiting(self, upstreams: frozenset[str]) -> Iterator[Ticket]:
        """The tickets in the line of `upstreams`, by arrival. No command may be given while this is walked."""
        return self._crowd.waiting(upstreams)

    def lines(self) -> dict[frozenset[str], int]:
        """How many wait in each line; one that nobody has used since the upstreams were changed is not among them."""
        return {upstreams: len(line) for upstreams, line in self._crowd.lines.items()}

    def room(self, upstream: str) -> Room:
        """The slots of one upstream; to be read, never to be changed."""
        return self._rooms[upstream]

    def __repr__(self) -> str:
        rooms = ", ".join(f"{name} {len(room.running)}/{room.slots}" for name, room in self._rooms.items())
        return f"<Lines {rooms}; {len(self._crowd.tickets)} waiting>"

    # ---- joining and leaving -----------------------------------------------------------------------------------------

    def _check_upstreams(self, upstreams: frozenset[str]) -> None:
        if not upstreams or not upstreams <= self._rooms.keys():
            raise KeyError(f"no such upstreams: {sorted(upstreams)}")
        if not any(map(self._takes_in, upstreams)):
            raise Withdrawn(f"there is no upstream {', '.join(sorted(upstreams))} any more")

    def _takes_in(self, upstream: str) -> bool:
        room = self._rooms.get(upstream)
        return room is not None and not room.retired

    def _waits(self, ticket: Ticket) -> bool:
        """Asks for the ticket itself: one that went back to its place kept its number, and is gone as what it was."""
        return self._crowd.tickets.get(ticket.number) is ticket

    def _check_bounds(self, upstreams: frozenset[str], size: int, party: Party, model: str) -> None:
        rooms = [self._rooms[name] for name in upstreams]
        if self._keys.may_run(party) and any(self._has_slot_for(model, room) for room in rooms):
            return
        self._keys.check_waiting(party)
        waiting = sum(len(line) for line in self._crowd.meeting(upstreams))
        bound = sum(room.queue for room in rooms)
        if waiting >= bound:
            raise Busy(f"the line is full: {waiting} wait, and at most queue = {bound} may")
        if self._max_waiting is not None and self._crowd.bytes + size > self._max_waiting:
            held = f"{self._crowd.bytes} of max_waiting = {self._max_waiting} bytes"
            raise Busy(f"the line is full: those who wait hold {held}, which leaves no room for {size} more")

    def _has_slot_for(self, model: str, room: Room) -> bool:
        """Whether a newcomer gets a slot of `room` at once; of one model at a time, only if nobody waits there."""
        return room.free > 0 and (not room.exclusive or (room.takes(model) and not self._crowd.pool(room).count))

    def _put_in(self, ticket: Ticket, now: float) -> Moved:
        moved = self._crowd.add(ticket, self._grants)
        self._affinity.wait(ticket.number, now)
        if self._keys.begin_wait(ticket.party):
            moved |= self._crowd.admit(ticket.party.key, self._grants)
        return moved

    def _take_out(self, ticket: Ticket, granted: Room | None = None, *, passes: bool = False) -> Moved:
        moved = self._crowd.remove(ticket, granted, passes=passes)
        self._keys.end_wait(ticket.party)
        self._swaps.forget(ticket.number)
        self._affinity.forget(ticket.number)
        return moved

    # ---- granting ----------------------------------------------------------------------------------------------------

    def _fill(self, now: float, moved: Moved) -> Changes:
        """Grants while there is a free slot and someone who may have it (rules 1, 2 and 3)."""
        grants: list[Grant] = []
        while (choice := self._next(now)) is not None:
            ticket, room = self._crowd.tickets[choice.number], choice.room
            (self._swaps if room.exclusive else self._affinity).note(choice.passing)
            moved |= self._seat(ticket, room, now, passes=bool(choice.passing))
            grants.append(Grant(ticket, room.name))
        self._rest()
        if self._stale and self._tidy():
            moved = dict.fromkeys(self._crowd.lines)
        return Changes(tuple(grants), self._where_somebody_waits(moved))

    def _seat(self, ticket: Ticket, room: Room, now: float, *, passes: bool = False) -> Moved:
        """`ticket`, which waits, has a slot of `room` from `now` on. `passes`: others stand before it."""
        moved = self._take_out(ticket, room, passes=passes)
        self._keys.begin_run(ticket.party)
        self._grants += 1
        self._running[ticket] = room, self._grants
        room.running[ticket] = now
        room.model = ticket.model
        self._affinity.sit(ticket, room)
        return moved

    def _next(self, now: float) -> _Choice | None:
        """Where it is somebody's turn in several pools, who came first is granted first, and by the freest room.

        Whoever passes others is granted last.
        """
        best: _Choice | None = None
        for pool in self._crowd.pools:
            if pool.count:
                for choice in self._choices(pool, now):
                    if best is None or choice.merit < best.merit:
                        best = choice
        return best

    def _choices(self, pool: Pool, now: float) -> Iterator[_Choice]:
        """For each room of `pool` that has a free slot, whose turn it is there."""
        free = [room for room in pool.rooms if room.free > 0]
        first = pool.first() if free else None
        if first is None:
            return
        for room in free:
            turn = self._turn(room, pool, first, now)
            if turn is not None:
                number, passing = turn
                ticket = self._crowd.tickets[number]
                swaps = room.exclusive and room.model not in {None, ticket.model}
                cold = room.affinity and not self._affinity.is_warm(room, ticket)
                merit = (bool(passing), number, swaps, cold, -room.free, room.rank)
                yield _Choice(number, room, passing, merit)

    def _turn(self, room: Room, pool: Pool, first: int, now: float) -> tuple[int, list[int]] | None:
        """Whose turn it is at a free slot of `room`, and whom that one passes; `first` stands first in the order."""
        if room.exclusive:
            return self._swaps.choose(room, pool.eligible(), self._crowd.tickets)
        if self._affinity.holds_anything(room):
            return self._affinity.choose(room, first, pool.turns(), self._crowd.tickets, now)
        return first, []

    def _rest(self) -> None:
        """Where a slot is free and nobody waits, nobody was kept from anything: what was used is forgotten."""
        for pool in self._crowd.pools:
            if not pool.count and pool.remembers and any(room.free > 0 for room in pool.rooms):
                pool.forget()

    def _where_somebody_waits(self, moved: Moved) -> tuple[frozenset[str], ...]:
        lines = self._crowd.lines
        return tuple(upstreams for upstreams in moved if upstreams in lines and lines[upstreams].waiting)

    # ---- old lines and retired rooms ---------------------------------------------------------------------------------

    def _renew(self) -> Moved:
        """After a change of the upstreams: lines that are used no more make no difference, once they are empty."""
        for line in self._crowd.lines.values():
            line.old = True
        self._tidy()
        return dict.fromkeys(self._crowd.lines)

    def _tidy(self) -> bool:
        """Forgets old lines and retired rooms that are empty; whether pools changed with that."""
        lines = self._crowd.lines
        empty = [line for line in lines.values() if line.old and not line.waiting]
        self._crowd.forget(empty)
        used = frozenset[str]().union(*lines)
        rooms = list(self._rooms.values())
        for room in rooms:
            if room.retired and not room.running and room.name not in used:
                del self._rooms[room.name]
        self._stale = any(line.old for line in lines.values()) or any(room.retired for room in self._rooms.values())
        if not empty and len(rooms) == len(self._rooms) and self._crowd.knows_all_rooms:
            return False
        self._crowd.regroup()
        return True
