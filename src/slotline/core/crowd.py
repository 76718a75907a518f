"""All who wait: in lines, by the upstreams that may serve them, and in the order of each pool of upstreams.

Two lines meet when they share an upstream. Upstreams that every line takes or leaves together are one pool; as lines
come and go, pools are divided and become one again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from slotline.core.fairness import Settlement, Who, ticks
from slotline.core.party import Party
from slotline.core.pool import Pool, interleaved
from slotline.core.room import Room, Ticket

Moved = dict[frozenset[str], None]
"""The lines, by their upstreams, in which somebody's place may be another one now; in order, each once."""


@dataclass(slots=True, eq=False)
class Line:
    """The tickets that wait for one set of upstreams, and the lines that meet this one (itself included)."""

    upstreams: frozenset[str]
    rooms: list[Room]
    pools: list[Pool] = field(default_factory=list)
    meets: list[Line] = field(default_factory=list)
    waiting: dict[tuple[bool, Who], list[int]] = field(default_factory=dict)  # class and party → numbers, ascending
    counts: list[int] = field(default_factory=lambda: [0, 0])  # interactive, batch
    old: bool = False  # from before the upstreams were changed; gone as soon as nobody waits in it

    def __len__(self) -> int:
        return self.counts[0] + self.counts[1]

    def add(self, number: int, who: Who, *, batch: bool) -> None:
        """A ticket begins to wait."""
        numbers = self.waiting.setdefault((batch, who), [])
        if not numbers or number > numbers[-1]:
            numbers.append(number)
        else:
            insort(numbers, number)
        self.counts[batch] += 1

    def remove(self, number: int, who: Who, *, batch: bool) -> None:
        """A ticket waits no more."""
        numbers = self.waiting[batch, who]
        del numbers[bisect_left(numbers, number)]
        if not numbers:
            del self.waiting[batch, who]
        self.counts[batch] -= 1

    def moves(self, number: int, who: Who, *, batch: bool) -> bool:
        """Whether somebody here may move when a ticket of this number comes or goes, in a line that meets this one."""
        if len(self.waiting) == 1 and (own := self.waiting.get((batch, who))):
            return own[-1] > number
        return bool(self.waiting)


class Crowd:
    """Who waits, and where each stands. `grants` is how many there have been of all, as in `fairness.Account`."""

    def __init__(
        self,
        rooms: Mapping[str, Room],
        running: Mapping[Ticket, tuple[Room, int]],
        barred: Container[str],
        *,
        flows: bool,
    ) -> None:
        """`rooms`, `running` (where, and by which grant of all) and `barred` are others', and read when they matter.

        `flows`: whether the flows of a key take turns.
        """
        self.tickets: dict[int, Ticket] = {}
        self.bytes = 0
        self.lines: dict[frozenset[str], Line] = {}
        self.pools: list[Pool] = []
        self._pool_of: dict[str, Pool] = {}
        self._rooms = rooms
        self._running = running
        self._barred = barred
        self._flows = flows
        self.regroup()

    # ---- coming and going --------------------------------------------------------------------------------------------

    def meeting(self, upstreams: frozenset[str]) -> Sequence[Line]:
        """The lines that share one of these upstreams."""
        line = self.lines.get(upstreams)
        return (
            line.meets if line is not None else [other for other in self.lines.values() if other.upstreams & upstreams]
        )

    def add(self, ticket: Ticket, grants: int) -> Moved:
        """`ticket` waits."""
        drawn = ticket.upstreams not in self.lines
        party, number, line = ticket.party, ticket.number, self._line(ticket.upstreams)
        who, cost = self._who(party), ticks(ticket.cost, party.weight)
        line.add(number, who, batch=party.batch)
        for pool in line.pools:
            pool.add(who, number, cost, grants, party.weight, batch=party.batch)
        self.tickets[number] = ticket
        self.bytes += ticket.size
        return dict.fromkeys(self.lines) if drawn else self._moved_by(line, ticket, who)  # a new line divides pools

    def remove(self, ticket: Ticket, granted: Room | None = None, *, passes: bool = False) -> Moved:
        """`ticket` waits no more, because it leaves, or because it gets a slot of the room `granted`.

        `passes`: before others that stand before it, also of its own party, who stand further back for that.
        """
        party, number = ticket.party, ticket.number
        who, line = self._who(party), self.lines[ticket.upstreams]
        line.remove(number, who, batch=party.batch)
        granting = self._pool_of[granted.name] if granted else None
        for pool in line.pools:
            if pool is granting:
                passes = pool.grant(who, number, ticks(ticket.cost, party.weight), batch=party.batch) or passes
            else:
                pool.remove(who, number, batch=party.batch)
        del self.tickets[number]
        self.bytes -= ticket.size
        if passes or (granted and granted.exclusive):
            return {other.upstreams: None for other in line.meets}
        return self._moved_by(line, ticket, who)

    def settle(self, ticket: Ticket, room: Room, grant: int, held: float) -> Moved:
        """`ticket` has used a slot of `room` for `held` seconds, which replace what it was charged for at its grant."""
        party, pool = ticket.party, self._pool_of[room.name]
        used = ticks(held, party.weight)
        more = used - ticks(ticket.cost, party.weight)
        pool.settle(self._who(party), Settlement(grant, more, used), batch=party.batch)
        lines = [line for line in self.lines.values() if line.waiting and pool in line.pools] if more else []
        alone = len(lines) == 1 and len(lines[0].waiting) == 1  # moving by itself, it passes nobody
        return {} if alone else {line.upstreams: None for line in lines}

    def admit(self, key: str, grants: int) -> Moved:
        """`key` was barred, and is not any more."""
        for pool in self.pools:
            pool.admit(key, grants)
        return dict.fromkeys(self.lines)

    def _who(self, party: Party) -> Who:
        return (party.key, party.flow) if self._flows else (party.key,)

    def _moved_by(self, line: Line, ticket: Ticket, who: Who) -> Moved:
        batch = ticket.party.batch
        return {o.upstreams: None for o in line.meets if o.waiting and o.moves(ticket.number, who, batch=batch)}

    # ---- questions ---------------------------------------------------------------------------------------------------

    def pool(self, room: Room) -> Pool:
        """The pool to which `room` belongs."""
        return self._pool_of[room.name]

    def place(self, ticket: Ticket) -> tuple[int, int]:
        """The position of a ticket that waits, and how many do in the lines that meet its own."""
        line, batch = self.lines[ticket.upstreams], ticket.party.batch
        others = sum(other.counts[not batch] for other in line.meets)
        passed = max(pool.passed for pool in line.pools)
        ahead = interleaved(self._rank(line, ticket), others, passed, batch=batch)
        return ahead + 1, sum(len(other) for other in line.meets)

    def front(self, upstreams: frozenset[str], count: int) -> list[Ticket]:
        """The tickets in a line that may have one of the first `count` places."""
        line = self.lines.get(upstreams)
        if line is None or not line.waiting:
            return []
        pool = max(line.pools, key=lambda pool: pool.passed)  # in whose order nobody is further back than `place` says
        first = (self.tickets[number] for number in islice(pool.order(), count))
        return [ticket for ticket in first if ticket.upstreams == upstreams]

    def waiting(self, upstreams: frozenset[str]) -> Iterator[Ticket]:
        """The tickets in a line, by arrival."""
        line = self.lines.get(upstreams)
        numbers = sorted(chain.from_iterable(line.waiting.values())) if line else ()
        return (self.tickets[number] for number in numbers)

    def _rank(self, line: Line, ticket: Ticket) -> int:
        """How many of its class stand before `ticket` in the order of any pool that may serve it."""
        who, number, batch = self._who(ticket.party), ticket.number, ticket.party.batch
        if len(line.pools) == 1:
            return sum(count for _, _, count in line.pools[0].ahead_of(who, number, batch=batch))
        last: dict[tuple[Who, Pool], int] = {}  # of each party's, the last one before it, in each pool
        for pool in line.pools:
            for party, queue, count in pool.ahead_of(who, number, batch=batch):
                last[party, pool] = queue.numbers[count - 1]
        rank = 0
        for other in line.meets:
            shared = [pool for pool in other.pools if pool in line.pools]
            for (of_batch, party), numbers in other.waiting.items():
                if of_batch is batch:
                    rank += bisect_right(numbers, max(last.get((party, pool), 0) for pool in shared))
        return rank

    # ---- lines and pools ---------------------------------------------------------------------------------------------

    def _line(self, upstreams: frozenset[str]) -> Line:
        """The line of these upstreams, to be used now; it is drawn when it is first asked for."""
        line = self.lines.get(upstreams)
        if line is None:
            line = self._draw(upstreams)
        if line.old:
            line.old = any(room.retired for room in line.rooms)
        return line

    def _draw(self, upstreams: frozenset[str]) -> Line:
        rooms = [room for name, room in self._rooms.items() if name in upstreams]
        line = self.lines[upstreams] = Line(upstreams, rooms, old=True)
        line.meets = [other for other in self.lines.values() if other.upstreams & upstreams]
        for other in line.meets[:-1]:
            other.meets.append(line)
        self.regroup()
        return line

    @property
    def knows_all_rooms(self) -> bool:
        """Whether each room is in a pool."""
        return self._pool_of.keys() >= self._rooms.keys()

    def forget(self, lines: Iterable[Line]) -> None:
        """These lines, in which nobody waits, make no difference any more."""
        for line in lines:
            del self.lines[line.upstreams]
            for other in line.meets:
                if other is not line:
                    other.meets.remove(line)

    def regroup(self) -> None:
        """Makes pools of the upstreams that every line takes or leaves together.

        A pool that is divided goes on as several with the same order; of pools that become one, the first does. What
        those were charged who run now goes with the rooms in which they run.
        """
        groups: dict[object, list[Room]] = {}
        for name, room in self._rooms.items():
            lines = frozenset(upstreams for upstreams in self.lines if name in upstreams)
            groups.setdefault(lines or name, []).append(room)
        before, self._pool_of, self.pools = self._pool_of, {}, []
        for rooms in groups.values():
            source = next((before[room.name] for room in rooms if room.name in before), None)
            if source is None:
                pool = Pool(rooms, self._barred)
            elif source.rooms == rooms:
                pool = source
            else:
                pool = source.copy(rooms)
                self._carry_charges(source, pool, before)
            self.pools.append(pool)
            self._pool_of.update((room.name, pool) for room in rooms)
        for line in self.lines.values():
            line.pools = list(dict.fromkeys(self._pool_of[room.name] for room in line.rooms))

    def _carry_charges(self, source: Pool, pool: Pool, before: Mapping[str, Pool]) -> None:
        for ticket, (room, grant) in self._running.items():
            slots = (room in pool.rooms) - (before[room.name] is source)
            if slots:
                more = slots * ticks(ticket.cost, ticket.party.weight)
                settlement = Settlement(grant, more, slots=slots)
                pool.settle(self._who(ticket.party), settlement, batch=ticket.party.batch)
