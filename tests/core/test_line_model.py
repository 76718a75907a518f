"""The slots and lines against a model too naive to be wrong in the same way, under every policy.

The model keeps lists of tickets and, for each pool, what everybody has used; it answers each question by sorting and
walking them, straight from the rules in `core.line`, `core.fairness`, `core.pool`, `core.swap` and `core.affinity`. It
keeps no sums and no order between two questions. One suite for all policies, and for every implementation of the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from slotline.core.errors import Busy, LimitReached, Withdrawn
from slotline.core.line import Changes, Lines, Phase, Place
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.room import Ticket

PASSED = 8  # interactive grants in a row before one of batch that waits
SWAP_PASSED = 4  # how often one may be passed because another model is loaded
WARM_PASSED, WARM_WAITED = 4, 60.0  # how often because a slot holds another's conversation, and after what wait no more
CROWD, HEAVIER = 8, 16  # as so many parties newcomers count, and so many times as heavy
FRONT = 3

Set = frozenset[str]


@dataclass(frozen=True)
class Policy:
    """Who may come, for what, and what is true of the upstreams."""

    parties: tuple[Party, ...] = (NOBODY,)
    fair_by: FairBy = FairBy.KEY
    sets: tuple[str, ...] = ("x",)
    exclusive: str = ""
    models: tuple[str, ...] = ("",)
    affinity: str = ""
    chats: int = 1  # conversations; 0: nobody has one
    reload: bool = False

    @property
    def foretells(self) -> bool:
        """Whether positions are exact: one set of upstreams, and nothing that they leave out."""
        limits = any(party.running is not None for party in self.parties)
        return len(self.sets) == 1 and not (self.exclusive or self.affinity or limits or self.reload)


A, B, C = Party("a"), Party("b"), Party("c")
OVERLAPPING = ("x", "y", "xy", "yz", "xyz")
FLOWS = tuple(Party(key, flow) for key in "ab" for flow in "123")
MIXED = (A, Party("b", weight=3), Party("c", batch=True), Party("d", batch=True, weight=2))
POLICIES = {
    "nobody": Policy(),
    "nobody, overlapping": Policy(sets=OVERLAPPING),
    "one key": Policy((A,), sets=("xy",)),
    "keys": Policy((A, B, C)),
    "keys on two upstreams": Policy((A, B, C), sets=("xy",)),
    "weights": Policy((replace(A, weight=2), B, replace(C, weight=0.3))),
    "classes": Policy(MIXED),
    "flows": Policy(FLOWS, FairBy.FLOW, sets=("xy",)),
    "flows, weights and classes": Policy((*FLOWS, Party("c", "1", 2.5), Party("d", "1", batch=True)), FairBy.FLOW),
    "limits": Policy((Party("a", running=1, waiting=2), Party("b", running=2), C), sets=("x", "xy")),
    "keys, overlapping": Policy((A, B, C), sets=OVERLAPPING),
    "affinity": Policy((A, B, replace(C, batch=True)), affinity="x", chats=3),
    "affinity on two upstreams": Policy((A, B), FairBy.FLOW, sets=("xy", "x"), affinity="xy", chats=3),
    "affinity of one key": Policy(affinity="x", chats=4),
    "one model at a time": Policy((A, B), sets=("x",), exclusive="x", models=("m", "n", "o")),
    "everything": Policy(
        (*MIXED, Party("e", "1", running=1), Party("e", "2", running=1)),
        FairBy.FLOW,
        OVERLAPPING,
        exclusive="y",
        models=("m", "n"),
        affinity="xy",
        chats=3,
        reload=True,
    ),
}


def ticks(cost: float, weight: float) -> int:
    """Virtual time, in millionths of a second of a party of weight 1; at least one."""
    return max(1, round(cost / weight * 1e6))


@dataclass
class Used:
    """What one of a circle has used; see `core.fairness.Account`."""

    born: int
    returned: int
    used: int = 0
    since: int = 0
    flows: Book | None = None
    fresh: bool = True
    weight: float = 1.0
    base: int = 0  # where its claim begins
    came: int = 0  # the number of its coming
    claim: int = 0  # the last coming before its claim
    granted: list[int] = field(default_factory=list)  # what those had since who came later

    @property
    def tag(self) -> int:
        return max(self.used, self.since)

    def come_back(self, level: int, grants: int) -> None:
        self.fresh = level >= self.tag
        if level > self.tag:
            self.used, self.since, self.returned = self.tag, level, grants

    def claims(self, base: int, claim: int) -> None:
        self.base, self.claim, self.granted = base, claim, []

    def forgive(self) -> None:
        """A debt is forgiven when those who came later have had more than so many parties may."""
        debt = self.tag - self.base
        if debt > 0 and sum(self.granted) > CROWD * (debt + max(self.granted)):
            self.used = self.since = self.base


@dataclass
class Book:
    """What everybody of one circle has used."""

    time: int = 0
    comings: int = 0
    used: dict[str, Used] = field(default_factory=dict)


@dataclass
class Order:
    """What a pool remembers: a book for each class, and how many interactive grants in a row passed batch."""

    books: tuple[Book, Book] = field(default_factory=lambda: (Book(), Book()))
    passed: int = 0


@dataclass
class Slot:
    """What a slot holds, who sits in it, and when it was freed, as a number that grows."""

    chain: Sequence[int] = ()
    sits: Ticket | None = None
    freed: int = 0


def common(one: Sequence[int], other: Sequence[int]) -> int:
    return max(count for count in range(len(one) + 1) if tuple(one[:count]) == tuple(other[:count]))


@dataclass
class Naive:
    """The rules, read aloud."""

    policy: Policy
    slots: dict[str, int]
    queue: dict[str, int]
    max_waiting: int | None
    waiting: list[Ticket] = field(default_factory=list)
    running: list[tuple[Ticket, str, int, float]] = field(default_factory=list)  # where, which grant, since when
    pools: dict[Set, Order] = field(default_factory=dict)
    lines: dict[Set, bool] = field(default_factory=dict)  # whether it is old
    retired: set[str] = field(default_factory=set)
    model: dict[str, str] = field(default_factory=dict)
    swapped: dict[int, int] = field(default_factory=dict)
    overtaken: dict[int, int] = field(default_factory=dict)
    came: dict[int, float] = field(default_factory=dict)
    holds: dict[str, list[Slot]] = field(default_factory=dict)
    clock: int = 0
    grants: int = 0
    barred: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.regroup()

    # ---- what is so --------------------------------------------------------------------------------------------------

    def free(self, upstream: str) -> int:
        return self.slots[upstream] - sum(1 for _, name, _, _ in self.running if name == upstream)

    def meeting(self, upstreams: Set) -> list[Ticket]:
        return [ticket for ticket in self.waiting if ticket.upstreams & upstreams]

    def pool(self, upstream: str) -> Set:
        return next(names for names in self.pools if upstream in names)

    def path(self, party: Party) -> tuple[str, ...]:
        return (party.key, party.flow) if self.policy.fair_by is FairBy.FLOW else (party.key,)

    def before(self, names: Set, batch: bool) -> list[Ticket]:
        """Those of a class who wait before a pool."""
        return [t for t in self.waiting if t.upstreams >= names and t.party.batch is batch]

    def limit(self, key: str) -> int | None:
        """How many a key may have running, as its newest word was."""
        return next((party.running for party in self.policy.parties if party.key == key), None)

    def runs(self, key: str) -> int:
        return sum(1 for ticket, *_ in self.running if ticket.party.key == key)

    # ---- the order ---------------------------------------------------------------------------------------------------

    def standing(self, tickets: list[Ticket], book: Book, level: int = 0) -> list[tuple[int, int, Ticket]]:
        """Where each stands in virtual time, first to last. `level` 0: keys, 1: flows."""
        result: list[tuple[int, int, Ticket]] = []
        for name in {self.path(ticket.party)[level] for ticket in tickets}:
            mine = [ticket for ticket in tickets if self.path(ticket.party)[level] == name]
            used = book.used[name]
            if used.flows is not None:
                mine = [ticket for _, _, ticket in self.standing(mine, used.flows, 1)]
            else:
                mine.sort(key=lambda ticket: ticket.number)
            start = used.tag
            for ticket in mine:
                result.append((start, ticket.number, ticket))
                start += ticks(ticket.cost, ticket.party.weight)
        return sorted(result, key=lambda entry: entry[:2])

    def order(self, names: Set, barred: set[str]) -> Iterator[Ticket]:
        """A pool's order, without those of `barred` keys."""
        order = self.pools[names]
        classes = []
        for batch in (False, True):
            standing = self.standing(self.before(names, batch), order.books[batch])
            classes.append([ticket for _, _, ticket in standing if ticket.party.key not in barred])
        interactive, batches = classes
        passed = order.passed
        while interactive or batches:
            if batches and (passed >= PASSED or not interactive):
                yield batches.pop(0)
                passed = 0
            else:
                yield interactive.pop(0)
                passed += 1

    def place(self, ticket: Ticket) -> Place:
        meeting = self.meeting(ticket.upstreams)
        batch = ticket.party.batch
        ahead: set[int] = set()
        passed = 0
        for names, order in self.pools.items():
            if names <= ticket.upstreams:
                numbers = [n for _, n, _ in self.standing(self.before(names, batch), order.books[batch])]
                ahead.update(numbers[: numbers.index(ticket.number)])
                passed = max(passed, order.passed)
        others = sum(1 for other in meeting if other.party.batch is not batch)
        left = {batch: len(ahead) + 1, not batch: others}
        position = 0
        while left[batch]:  # played through, one grant after the other
            due = left[True] > 0 and (passed >= PASSED or not left[False])
            left[due] -= 1
            passed = 0 if due else passed + 1
            position += 1
        return Place(position, len(meeting))

    # ---- whose turn it is --------------------------------------------------------------------------------------------

    def choices(self, now: float) -> Iterator[tuple[tuple[object, ...], Ticket, str, list[Ticket]]]:
        for rank, upstream in enumerate(self.slots):
            eligible = list(self.order(self.pool(upstream), self.barred))
            if self.free(upstream) <= 0 or not eligible:
                continue
            choice: tuple[Ticket, list[Ticket]] | None = (eligible[0], [])
            loaded = self.model.get(upstream)
            if upstream in self.policy.exclusive:
                choice = self.exclusive_choice(upstream, eligible, loaded)
            elif upstream in self.policy.affinity:
                choice = self.warm_choice(upstream, eligible, now)
            if choice is not None:
                ticket, passing = choice
                swaps = upstream in self.policy.exclusive and loaded not in {None, ticket.model}
                cold = upstream in self.policy.affinity and not self.is_warm(upstream, ticket)
                merit = (bool(passing), ticket.number, swaps, cold, -self.free(upstream), rank)
                yield merit, ticket, upstream, passing

    def exclusive_choice(
        self, upstream: str, eligible: list[Ticket], loaded: str | None
    ) -> tuple[Ticket, list[Ticket]] | None:
        """The first of the model that is loaded, if nobody before it has been passed too often; else the first."""
        for index, ticket in enumerate(eligible):
            passing = eligible[:index]
            if any(self.swapped.get(other.number, 0) >= SWAP_PASSED for other in passing):
                break
            screens = any(not other.party.batch for other in passing)
            if loaded in {None, ticket.model} and not (screens and ticket.party.batch):
                return ticket, passing
        occupied = any(name == upstream for _, name, _, _ in self.running)
        return None if occupied else (eligible[0], [])

    def warm_choice(self, upstream: str, eligible: list[Ticket], now: float) -> tuple[Ticket, list[Ticket]]:
        """The first of its class that finds its conversation, if all before it may still be passed; else the first."""
        ranks = [ticket for ticket in eligible if ticket.party.batch is eligible[0].party.batch]
        for index, ticket in enumerate(ranks):
            if self.is_warm(upstream, ticket):
                return ticket, ranks[:index]
            if self.overtaken.get(ticket.number, 0) >= WARM_PASSED or now - self.came[ticket.number] >= WARM_WAITED:
                break
        return eligible[0], []

    def open_slots(self, upstream: str) -> list[Slot]:
        return [slot for slot in self.holds.get(upstream, [])[: self.slots[upstream]] if slot.sits is None]

    def is_warm(self, upstream: str, ticket: Ticket) -> bool:
        return any(common(slot.chain, ticket.chain) > 1 for slot in self.open_slots(upstream))

    def sit(self, ticket: Ticket, upstream: str) -> None:
        """The slot that holds most of it; else one never used; else one with the same beginning; else the oldest."""
        if upstream not in self.policy.affinity:
            return
        slots = self.holds.setdefault(upstream, [])
        while len(slots) < self.slots[upstream]:
            slots.append(Slot())
        if found := self.open_slots(upstream):
            known = [slot for slot in found if common(slot.chain, ticket.chain) > 1]
            unused = [slot for slot in found if not slot.freed]
            among = known or unused or found
            slot = max(among, key=lambda slot: (common(slot.chain, ticket.chain), -slot.freed))
            slot.sits, slot.chain = ticket, ticket.chain

    def rise(self, ticket: Ticket, upstream: str) -> None:
        for slot in self.holds.get(upstream, []):
            if slot.sits is ticket:
                self.clock += 1
                slot.sits, slot.freed = None, self.clock

    def due(self, now: float) -> tuple[Ticket, str, list[Ticket]] | None:
        """Whoever must be granted next, where, and whom it passes; None when nobody may be."""
        choices = sorted(self.choices(now), key=lambda choice: choice[0])
        return choices[0][1:] if choices else None

    def cool(self, upstream: str) -> None:
        """What the slots held is gone when there are none."""
        if not self.slots[upstream]:
            self.holds.pop(upstream, None)

    def must_wait(self, upstreams: Set, party: Party, model: str) -> bool:
        if party.running is not None and self.runs(party.key) >= party.running:
            return True
        for upstream in upstreams:
            if self.free(upstream) <= 0:
                continue
            if upstream not in self.policy.exclusive:
                return False
            names = self.pool(upstream)
            occupied = any(name == upstream for _, name, _, _ in self.running)
            alone = not self.before(names, True) and not self.before(names, False)
            if alone and (not occupied or self.model.get(upstream) == model):
                return False
        return True

    def refusal(self, upstreams: Set, party: Party, size: int, model: str) -> type[Exception] | None:
        if not self.must_wait(upstreams, party, model):
            return None
        mine = sum(1 for ticket in self.waiting if ticket.party.key == party.key)
        if party.waiting is not None and mine >= party.waiting:
            return LimitReached
        if len(self.meeting(upstreams)) >= sum(self.queue[name] for name in upstreams):
            return Busy
        full = self.max_waiting is not None and sum(t.size for t in self.waiting) + size > self.max_waiting
        return Busy if full else None

    # ---- what happens ------------------------------------------------------------------------------------------------

    def books(self, names: Set, party: Party) -> Iterator[tuple[Book, str]]:
        """The circles of a pool in which a party takes turns, and its name there."""
        book = self.pools[names].books[party.batch]
        for name in self.path(party):
            yield book, name
            book = book.used[name].flows or book

    def add(self, ticket: Ticket, now: float) -> None:
        self.draw(ticket.upstreams)
        self.came[ticket.number] = now
        path = self.path(ticket.party)
        for names in self.pools:
            if not names <= ticket.upstreams:
                continue
            book = self.pools[names].books[ticket.party.batch]
            tickets = self.before(names, ticket.party.batch)
            for level, name in enumerate(path):
                if name not in book.used:
                    book.used[name] = Used(self.grants, self.grants, flows=Book() if level + 1 < len(path) else None)
                book.used[name].weight = ticket.party.weight
                if not any(self.path(other.party)[level] == name for other in tickets):
                    barred = self.barred if level == 0 else set()
                    self.come(book, name, self.level(book, tickets, level, barred))
                tickets = [other for other in tickets if self.path(other.party)[level] == name]
                book = book.used[name].flows or book
        self.waiting.append(ticket)
        self.waiting.sort(key=lambda other: other.number)
        self.bar()

    def come(self, book: Book, name: str, level: int) -> None:
        book.comings += 1
        book.used[name].come_back(level, self.grants)
        book.used[name].came = book.comings
        book.used[name].claims(level, book.comings)

    def level(self, book: Book, tickets: list[Ticket], level: int, barred: set[str]) -> int:
        names = {self.path(ticket.party)[level] for ticket in tickets} - barred
        return min(book.time, max((book.used[name].tag for name in names), default=book.time))

    def take_out(self, ticket: Ticket) -> None:
        self.waiting.remove(ticket)
        self.swapped.pop(ticket.number, None)
        self.overtaken.pop(ticket.number, None)
        for names, order in self.pools.items():
            if not self.before(names, True):
                order.passed = 0

    def grant(self, ticket: Ticket, upstream: str, passing: list[Ticket], now: float) -> None:
        names = self.pool(upstream)
        cost = ticks(ticket.cost, ticket.party.weight)
        tickets = self.before(names, ticket.party.batch)
        for level, (book, name) in enumerate(self.books(names, ticket.party)):
            used = book.used[name]
            book.time = max(book.time, used.tag)
            used.claims(used.tag, book.comings)
            used.used += cost
            used.since += cost
            used.fresh = False
            names_here = {self.path(each.party)[level] for each in tickets}
            for rival in names_here - {name} - (set() if level else self.barred):
                behind, weight = book.used[rival], ticket.party.weight
                if behind.claim < used.came:
                    most = HEAVIER * behind.weight
                    behind.granted.append(round(cost * weight / most) if weight > most else cost)
                    behind.forgive()
            tickets = [each for each in tickets if self.path(each.party)[level] == name]
        self.pools[names].passed = 0 if ticket.party.batch else self.pools[names].passed + 1
        self.take_out(ticket)
        times = self.swapped if upstream in self.policy.exclusive else self.overtaken
        for other in passing:
            times[other.number] = times.get(other.number, 0) + 1
        self.sit(ticket, upstream)
        self.grants += 1
        self.running.append((ticket, upstream, self.grants, now))
        self.model[upstream] = ticket.model
        self.bar()

    def settle(self, names: Set, ticket: Ticket, more: int, grant: int, used: int = 0) -> None:
        book: Book | None = self.pools[names].books[ticket.party.batch]
        tickets = self.before(names, ticket.party.batch)
        for level, name in enumerate(self.path(ticket.party)):
            assert book is not None
            takers = {self.path(other.party)[level] for other in tickets}
            served = [book.used[taker].tag for taker in takers if not book.used[taker].fresh]
            if served:
                book.time = max(book.time, min(book.time + used // (len(takers) + 1), *served))
            entry = book.used.get(name)
            if entry is None or grant <= entry.born:
                return
            entry.used += more
            entry.since += more if grant > entry.returned else 0
            tickets = [other for other in tickets if self.path(other.party)[level] == name]
            book = entry.flows

    def release(self, ticket: Ticket, now: float) -> None:
        for run in self.running:
            other, upstream, grant, since = run
            if other is ticket:
                weight = ticket.party.weight
                used = ticks(now - since, weight)
                self.running.remove(run)
                self.rise(ticket, upstream)
                self.settle(self.pool(upstream), ticket, used - ticks(ticket.cost, weight), grant, used)
                self.bar()
                return

    def bar(self) -> None:
        """Bars the keys that have all running that they may; one that is let in again has saved up nothing."""
        keys = {ticket.party.key for ticket, *_ in self.running}
        barred = {key for key in keys if (limit := self.limit(key)) is not None and self.runs(key) >= limit}
        admitted, self.barred = self.barred - barred, barred
        for key in admitted:
            for names, order in self.pools.items():
                for batch in (False, True):
                    tickets = self.before(names, batch)
                    if any(ticket.party.key == key for ticket in tickets):
                        others = [ticket for ticket in tickets if ticket.party.key != key]
                        self.come(order.books[batch], key, self.level(order.books[batch], others, 0, self.barred))

    def rest(self) -> None:
        """After a command: books are closed where nobody was kept from anything, and old lines are forgotten."""
        for names, order in self.pools.items():
            nobody = not self.before(names, False) and not self.before(names, True)
            if nobody and any(self.free(name) > 0 for name in names):
                order.books = (Book(), Book())
        self.tidy()

    # ---- lines and pools ---------------------------------------------------------------------------------------------

    def draw(self, upstreams: Set) -> None:
        if upstreams not in self.lines:
            self.lines[upstreams] = False
            self.regroup()
        self.lines[upstreams] = bool(upstreams & self.retired)

    def renew(self) -> None:
        self.lines = dict.fromkeys(self.lines, True)
        self.tidy()

    def tidy(self) -> None:
        used = {ticket.upstreams for ticket in self.waiting}
        self.lines = {line: old for line, old in self.lines.items() if line in used or not old}
        for upstream in list(self.retired):
            occupied = any(name == upstream for _, name, _, _ in self.running)
            if not occupied and not any(upstream in line for line in self.lines):
                self.retired.discard(upstream)
                del self.slots[upstream], self.queue[upstream]
                self.model.pop(upstream, None)
        self.regroup()

    def regroup(self) -> None:
        groups: dict[object, list[str]] = {}
        for name in self.slots:
            lines = frozenset(line for line in self.lines if name in line)
            groups.setdefault(lines or name, []).append(name)
        before, self.pools = self.pools, {}
        for names in groups.values():
            source = next((old for name in names for old in before if name in old), None)
            order = deepcopy(before[source]) if source is not None else Order()
            self.pools[frozenset(names)] = order
            for ticket, upstream, grant, _ in self.running if source is not None else ():
                more = (upstream in names) - (upstream in (source or ()))
                self.settle(frozenset(names), ticket, more * ticks(ticket.cost, ticket.party.weight), grant)

    def phase(self, ticket: Ticket) -> Phase:
        if any(other is ticket for other in self.waiting):
            return Phase.WAITING
        return Phase.RUNNING if any(other is ticket for other, *_ in self.running) else Phase.GONE


COSTS = st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0, 7.25])
PICK = st.integers(0, 1000)


class AgainstTheModel(RuleBasedStateMachine):
    """Any sequence of commands: every grant, place and refusal is what the rules say."""

    tickets = Bundle("tickets")
    policy: Policy

    @initialize(
        slots=st.fixed_dictionaries({name: st.integers(0, 3) for name in "xyz"}),
        queue=st.fixed_dictionaries({name: st.integers(1, 9) for name in "xyz"}),
        max_waiting=st.none() | st.integers(0, 20),
    )
    def begin(self, slots: dict[str, int], queue: dict[str, int], max_waiting: int | None) -> None:
        rooms = {name: (slots[name], queue[name]) for name in "xyz"}
        self.lines = Lines(rooms, max_waiting, self.policy.fair_by, self.policy.exclusive, self.policy.affinity)
        self.naive = Naive(self.policy, {name: slots[name] for name in "xyz"}, dict(queue), max_waiting)
        self.all: list[Ticket] = []
        self.told: dict[Ticket, Place] = {}
        self.now = 0.0

    def pick(self, among: tuple[Any, ...], pick: int) -> Any:
        return among[pick % len(among)]

    def chain(self, pick: int) -> tuple[int, ...]:
        """A conversation, so far as it has gone; the first is of another client than the rest."""
        chat, turns = pick % (self.policy.chats + 1), pick // 7 % 3
        return (min(chat, 2), *(chat * 10 + link for link in range(1, 2 + 2 * turns))) if chat else ()

    # ---- commands ----------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=tickets, who=PICK, where=PICK, what=PICK, cost=COSTS, size=st.integers(0, 3), count=st.integers(1, 4))
    def join(self, who: int, where: int, what: int, cost: float, size: int, count: int) -> object:
        party, model, chain = self.pick(self.policy.parties, who), self.pick(self.policy.models, what), self.chain(what)
        upstreams = frozenset(self.pick(self.policy.sets, where))
        came = [self.join_one(upstreams, size, party, cost, model, None, chain) for _ in range(count)]
        return multiple(*(ticket for ticket in came if ticket is not None))

    @rule(target=tickets, ticket=tickets, cost=COSTS)
    def come_back(self, ticket: Ticket, cost: float) -> object:
        """One that left comes again, under its old number; it may wait for what its model is served by now."""
        if any(other.number == ticket.number for other in self.naive.waiting):
            with pytest.raises(ValueError, match=str(ticket.number)):
                self.lines.join(self.policy.sets[0], self.now, number=ticket.number)
            return multiple()
        again = self.join_one(ticket.upstreams, 1, ticket.party, cost, ticket.model, ticket.number, ticket.chain)
        return multiple() if again is None else again

    def join_one(
        self,
        upstreams: Set,
        size: int,
        party: Party,
        cost: float,
        model: str,
        number: int | None,
        chain: Sequence[int],
    ) -> Ticket | None:
        refusal = self.unknown(upstreams)
        if refusal is None:
            refusal = self.naive.refusal(upstreams, party, size, model)
        if refusal is not None:
            with pytest.raises(refusal):
                self.lines.join(upstreams, self.now, size, party, cost, model, number, chain)
            return None
        ticket, changes = self.lines.join(upstreams, self.now, size, party, cost, model, number, chain)
        assert (ticket.upstreams, ticket.size, ticket.party) == (upstreams, size, party)
        assert (ticket.model, ticket.chain) == (model, chain)
        if number is None:
            assert all(ticket.number > other.number for other in self.all), "numbers ascend"
        else:
            assert ticket.number == number
        self.all.append(ticket)
        self.naive.add(ticket, self.now)
        self.check(changes)
        return ticket

    def unknown(self, upstreams: Set) -> type[Exception] | None:
        if not upstreams <= self.naive.slots.keys():
            return KeyError
        return Withdrawn if upstreams <= self.naive.retired else None

    @rule(ticket=tickets)
    def leave(self, ticket: Ticket) -> None:
        if self.naive.phase(ticket) is Phase.WAITING:
            self.naive.take_out(ticket)
        else:
            self.naive.release(ticket, self.now)
        self.check(self.lines.leave(ticket, self.now))

    @rule(ticket=tickets)
    def leave_twice(self, ticket: Ticket) -> None:
        self.leave(ticket)
        before = repr(self.lines)
        assert self.lines.leave(ticket, self.now) == Changes()
        assert repr(self.lines) == before

    @rule(ticket=tickets)
    def release(self, ticket: Ticket) -> None:
        self.naive.release(ticket, self.now)
        self.check(self.lines.release(ticket, self.now))

    @precondition(lambda self: self.naive.running)
    @rule(which=PICK)
    def release_one_that_runs(self, which: int) -> None:
        self.release(self.pick(tuple(self.naive.running), which)[0])

    @rule(target=tickets, ticket=tickets)
    def retry(self, ticket: Ticket) -> object:
        where = next((name for other, name, *_ in self.naive.running if other is ticket), None)
        others = (ticket.upstreams - {where} - self.naive.retired) & self.naive.slots.keys()
        taken = any(other.number == ticket.number for other in self.naive.waiting)
        result = self.lines.retry(ticket, self.now)
        if where is None or not others or taken:
            assert result is None
            return multiple()
        again, changes = result or (ticket, Changes())
        assert (again.number, again.upstreams, again.party) == (ticket.number, others, ticket.party)
        assert again.chain == ticket.chain
        self.all.append(again)
        self.naive.add(again, self.now)
        self.naive.release(ticket, self.now)
        self.check(changes)
        return again

    @rule(upstream=st.sampled_from("xyz"), slots=st.integers(0, 4))
    def resize(self, upstream: str, slots: int) -> None:
        if upstream not in self.naive.slots:
            with pytest.raises(KeyError):
                self.lines.resize(upstream, slots, self.now)
            return
        self.naive.slots[upstream] = 0 if upstream in self.naive.retired else slots
        self.naive.cool(upstream)
        self.check(self.lines.resize(upstream, slots, self.now))

    @precondition(lambda self: self.policy.reload)
    @rule(upstream=st.sampled_from("xyz"), slots=st.integers(0, 3), queue=st.integers(1, 9))
    def reload(self, upstream: str, slots: int, queue: int) -> None:
        naive = self.naive
        exclusive = upstream in self.policy.exclusive
        if upstream in naive.slots and upstream not in naive.retired:
            naive.slots[upstream], naive.queue[upstream] = 0, 0
            naive.retired.add(upstream)
            naive.cool(upstream)
            gone = [ticket for ticket in naive.waiting if ticket.upstreams <= naive.retired]
            for ticket in gone:
                naive.take_out(ticket)
            naive.renew()
            changes, stranded = self.lines.retire(upstream, self.now)
            assert sorted(t.number for t in stranded) == [ticket.number for ticket in gone]
        else:
            naive.retired.discard(upstream)
            for values, value in ((naive.slots, slots), (naive.queue, queue)):
                values[upstream] = value
            naive.renew()
            affinity = upstream in self.policy.affinity
            changes = self.lines.add(upstream, slots, queue, self.now, exclusive=exclusive, affinity=affinity)
        self.check(changes)

    @precondition(lambda self: self.policy.reload)
    @rule(upstream=st.sampled_from("xyz"), queue=st.integers(0, 9))
    def change(self, upstream: str, queue: int) -> None:
        if upstream in self.naive.slots and upstream not in self.naive.retired:
            self.naive.queue[upstream] = queue
            ways = {"exclusive": upstream in self.policy.exclusive, "affinity": upstream in self.policy.affinity}
            self.check(self.lines.change(upstream, queue, self.now, **ways))

    # ---- checks ------------------------------------------------------------------------------------------------------

    def check(self, changes: Changes) -> None:
        """Each grant in its turn, none left out, and whoever stands elsewhere now stands in a line that has moved."""
        for grant in changes.grants:
            due = self.naive.due(self.now)
            assert due is not None, f"{grant}, and nobody was due"
            ticket, upstream, passing = due
            assert (grant.ticket.number, grant.upstream) == (ticket.number, upstream)
            self.naive.grant(ticket, upstream, passing, self.now)
        assert self.naive.due(self.now) is None, "a slot is idle while somebody who may have it waits"
        self.naive.rest()
        places = {ticket: self.naive.place(ticket) for ticket in self.naive.waiting}
        for ticket, place in places.items():
            if ticket in self.told and self.told[ticket].position != place.position:
                assert ticket.upstreams in changes.moved
        self.told = places
        assert len(set(changes.moved)) == len(changes.moved)
        assert set(changes.moved) <= {ticket.upstreams for ticket in self.naive.waiting}

    @invariant()
    def every_place_and_every_phase_is_what_the_model_says(self) -> None:
        for ticket in self.all:
            assert self.lines.phase(ticket) is self.naive.phase(ticket)
        for ticket in self.naive.waiting:
            assert (self.lines.place(ticket).position, self.lines.place(ticket).length) == (
                self.naive.place(ticket).position,
                self.naive.place(ticket).length,
            )

    @invariant()
    def every_line_holds_who_the_model_says(self) -> None:
        assert self.lines.lines().keys() == self.naive.lines.keys()
        for upstreams, length in self.lines.lines().items():
            expected = [ticket for ticket in self.naive.waiting if ticket.upstreams == upstreams]
            assert list(self.lines.waiting(upstreams)) == expected
            assert length == len(expected)
            front = {ticket for ticket in expected if self.naive.place(ticket).position <= FRONT}
            assert front <= set(self.lines.front(upstreams, FRONT))

    @invariant()
    def every_slot_is_held_by_whom_the_model_says(self) -> None:
        for name in self.naive.slots:
            expected = [ticket for ticket, upstream, *_ in self.naive.running if upstream == name]
            assert list(self.lines.room(name).running) == expected
            assert self.lines.room(name).free == self.naive.free(name)

    @precondition(lambda self: self.policy.foretells and self.naive.waiting and len(self.naive.lines) == 1)
    @rule(which=PICK)
    def a_position_is_the_number_of_grants_until_its_own(self, which: int) -> None:
        """Played forward on a copy: nobody comes, everyone holds the slot for as long as estimated."""
        future = deepcopy(self.lines)
        places = {ticket.number: self.lines.place(ticket).position for ticket in self.naive.waiting}
        order: list[int] = []
        for name in sorted(self.policy.sets[0]):
            order += [grant.ticket.number for grant in future.resize(name, max(1, which % 4), self.now).grants]
        while len(order) < len(places):
            running = [(t, since) for room in future._rooms.values() for t, since in room.running.items()]
            ticket, since = running[which % len(running)]
            order += [grant.ticket.number for grant in future.release(ticket, since + ticket.cost).grants]
        assert [places[number] for number in order] == list(range(1, len(order) + 1))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_whatever_is_asked_of_it_the_line_answers_as_the_model_does(policy: Policy) -> None:
    class UnderPolicy(AgainstTheModel):
        pass

    UnderPolicy.policy = policy
    run_state_machine_as_test(
        UnderPolicy,
        settings=settings(
            max_examples=50,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,  # a run that fails must fail again
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("name", ["affinity", "affinity of one key", "affinity on two upstreams"])
def test_on_a_long_walk_with_a_line_that_is_never_empty_each_grant_is_what_the_model_says(
    name: str, slots: int
) -> None:
    """Bounds that are counted over many grants are reached only here."""

    class UnderPolicy(AgainstTheModel):
        policy = POLICIES[name]

    chance, machine = Random(name), UnderPolicy()
    machine.begin(dict.fromkeys("xyz", slots), dict.fromkeys("xyz", 99), None)
    for _ in range(250):
        machine.now += chance.choice([0.0, 0.25, 1.0, 5.0])
        if len(machine.naive.waiting) < chance.choice([6, 12]):
            who, where, what = (chance.randrange(1000) for _ in range(3))
            machine.join(who, where, what, chance.choice([0.5, 1.0, 1.0, 7.25]), 0, 1)
        else:
            machine.release_one_that_runs(chance.randrange(1000))


@pytest.mark.parametrize(("weight", "cost", "takes"), [(1.0, 0.5, 1.5), (0.04, 0.1, 0.1)], ids=["debtor", "light"])
@pytest.mark.parametrize("fair_by", FairBy)
def test_newcomers_without_end_go_before_one_who_owes_as_often_as_the_model_says(
    fair_by: FairBy, weight: float, cost: float, takes: float
) -> None:
    """It owes because its requests take longer than estimated, or because it has little weight."""

    class UnderPolicy(AgainstTheModel):
        policy = Policy((Party("k0", "0", weight), *(Party(f"k{n}", f"{n}") for n in range(1, 200))), fair_by)

    if fair_by is FairBy.FLOW:  # all of one key, whose flows take turns
        parties = tuple(replace(party, key="k") for party in UnderPolicy.policy.parties)
        UnderPolicy.policy = replace(UnderPolicy.policy, parties=parties)
    machine = UnderPolicy()
    machine.begin(dict.fromkeys("xyz", 1), dict.fromkeys("xyz", 99), None)
    machine.join(0, 0, 0, cost, 0, 2)
    newcomer, turns = 1, list[int]()  # when the one who owes had one
    for turn in range(110):
        while len(machine.naive.waiting) < 16:
            machine.join(newcomer, 0, 0, 0.5, 0, 1)
            newcomer += 1
        ((ticket, *_),) = machine.naive.running
        owes = ticket.party is UnderPolicy.policy.parties[0]
        machine.now += takes if owes else 0.5
        machine.release(ticket)
        if owes:
            turns.append(turn)
            machine.join(0, 0, 0, cost, 0, 1)
    assert max(after - before for before, after in pairwise(turns)) < 52, "its debt is forgiven"
