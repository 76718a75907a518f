"""Whose turn it is: start-time fair queueing over slot-seconds.

Those who take turns form a *circle*. Each has an *account*: what it has used, in virtual time, which is slot-seconds
divided by its weight. The next grant goes to the lowest account of those who wait, and between equals to the ticket
that came first. So an account's tickets stand in virtual time one behind the other: the first at the account's tag,
each further one where the one before it ends, by its estimated cost.

    grant       the estimate is charged: the tag moves to where the next ticket stands anyway, so nobody's place changes
    give back   what was really used replaces the estimate, which moves all tickets of the account at once
    leave       from the middle: its cost is not charged, and those behind it move up
    come back   whoever has had nobody waiting starts level with those who wait, or where its account stands if that is
                later: nothing is saved up by not asking, and nothing that was used is forgotten

What "level" means is `Circle.time`: the tag of the ticket granted last. With each slot that is given back it moves on
besides, by a share of what was used, up to the first of those who have been served before: else a stream of newcomers,
who all start level, would keep those out for ever. Estimates that were too high let it run ahead; so whoever comes back
is never put behind all who wait.

Newcomers start ahead of whoever owes something, and there may be no end of them. So all who come to wait after somebody
count together as CROWD parties, and the weight of each as at most HEAVIER times its own: when they have been granted
more than so many could have had before it by the rules above, its debt is forgiven, and it stands where it would if it
had owed nothing, which is before them all. With no more than CROWD parties at a time, none of them that much heavier,
this never happens. Nothing is forgiven on account of those who have been waiting all the time: against them it has what
the weights say.

A circle of keys may have circles of flows inside: the account of a key then is one of the outer circle, its tickets
stand in the order that the inner one gives them, and the same rules hold in both.

Virtual time is counted in whole ticks, so that two ways of adding it up never differ. Cost: a grant looks at the
account of each who waits, and joining at none. A ticket's place is found with one binary search in each queue, over
sums that are kept; leaving from the middle forgets those behind it, and they are added up again, in one pass at the
speed of C, when somebody next asks. In a key with flows every change does so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Container, Iterator
from copy import deepcopy
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

_SECOND = 1_000_000  # ticks
_REMEMBERED = 4096  # accounts of those who neither wait nor run; with more, the oldest are forgotten

CROWD = 8
"""As so many parties those count, all together, who came to wait after somebody. Before the slots of one upstream so
many are a crowd already; and who has used thirty seconds waits for four minutes of others, not for half an hour."""
HEAVIER = 16
"""So many times its own is the weight of one who came after it, at most, where a debt is to be forgiven."""

Who = tuple[str, ...]
"""The names of an account from the outermost circle inwards: (key,) or (key, flow)."""


def ticks(cost: float, weight: float) -> int:
    """`cost` slot-seconds in virtual time. Never nothing: those who cost nothing take turns as well."""
    return max(1, round(cost / weight * _SECOND))


class Settlement(NamedTuple):
    """What becomes of the charge of one grant, the `grant`-th of all."""

    grant: int
    more: int  # virtual time, to be charged in addition; negative where it was too much
    used: int = 0  # virtual time in which the slot was held, if it is given back
    slots: int = -1  # held by the account in addition


class Account(ABC):
    """What one of a circle has used, and its tickets that wait.

    `tag` is where its first ticket stands. What was granted before the account last came back from having nobody
    waiting may still be running then, and turn out to use more than was charged. That counts only as far as it goes
    beyond the point where the account came back, so everything is kept in two sums: `used` is all, and `since` starts
    at that point. The tag is the greater one.

    Its *claim* begins when it comes back, and anew with every grant. `base` is where it stood then, or would have if it
    had owed nothing; `passed` is what has been granted since then to those who came after that, in its own virtual
    time, and `largest` the largest single cost in that. See `pass_by`.
    """

    __slots__ = (
        "base",
        "born",
        "came",
        "claim",
        "fresh",
        "held",
        "largest",
        "passed",
        "returned",
        "since",
        "tag",
        "used",
        "weight",
    )

    def __init__(self, grants: int) -> None:
        """`grants`: how many there have been of all, as in every argument of this name."""
        self.used = self.since = self.tag = 0
        self.born = self.returned = grants
        self.fresh = True  # it stands level, and has had nothing since it came back
        self.held = 0  # slots
        self.weight = 1.0
        self.base = self.passed = self.largest = 0
        self.came = self.claim = 0  # the how-manieth coming of all in the circle was its own, was the last at its claim

    def come_back(self, level: int, grants: int) -> None:
        """Somebody waits again, after nobody did."""
        self.fresh = level >= self.tag
        if level > self.tag:
            self.used, self.since, self.returned = self.tag, level, grants
            self.tag = level

    def claims(self, base: int, claim: int) -> None:
        """Its claim begins."""
        self.base, self.claim = base, claim
        self.passed = self.largest = 0

    def pass_by(self, cost: int, weight: float) -> bool:
        """One who came after its claim gets a slot, for `cost` by its own `weight`; whether a debt is forgiven now.

        Whoever starts level, at `base` or later, and goes first in the order, has had `tag` less `base` by then, and
        one request more, of which it has only begun. So much CROWD parties could have, all together.
        """
        if weight > HEAVIER * self.weight:
            cost = round(cost * weight / (HEAVIER * self.weight))
        self.passed += cost
        self.largest = max(self.largest, cost)
        debt = self.tag - self.base
        if debt <= 0 or self.passed <= CROWD * (debt + self.largest):
            return False
        self.used = self.since = self.tag = self.base
        return True

    def charge(self, cost: int, who: Who) -> bool:
        """One of its tickets gets a slot, for an estimated `cost`. Whether a debt is forgiven inside."""
        self.used += cost
        self.since += cost
        self.fresh = False
        self.held += 1
        self.tag = max(self.used, self.since)
        return False

    def settle(self, settlement: Settlement, who: Who) -> None:
        """A ticket used more than was charged, or less."""
        more = settlement.more
        self.held += settlement.slots
        self.used += more
        if settlement.grant > self.returned:
            self.since += more
        self.tag = max(self.used, self.since)

    @abstractmethod
    def __len__(self) -> int:
        """How many of its tickets wait."""

    @abstractmethod
    def add(self, number: int, cost: int, who: Who, grants: int, weight: float) -> None: ...

    @abstractmethod
    def remove(self, number: int, who: Who) -> None: ...

    @abstractmethod
    def first(self) -> int:
        """The number of its first ticket."""

    @abstractmethod
    def order(self) -> Iterator[tuple[int, int, int]]:
        """Its tickets, first to last: where each stands, its number, its cost."""

    @abstractmethod
    def start(self, number: int, who: Who) -> int:
        """Where the ticket of this number stands."""

    @abstractmethod
    def before(self, start: int, number: int, name: str) -> Iterator[tuple[Who, Queue, int]]:
        """For each of its queues, how many in it stand before a ticket `number` at `start`. Its own name: `name`."""


class Queue(Account):
    """One account whose tickets stand in the order of their arrival."""

    __slots__ = ("costs", "numbers", "sums")

    def __init__(self, grants: int) -> None:
        super().__init__(grants)
        self.numbers: list[int] = []
        self.costs: list[int] = []
        self.sums = [0]  # of the costs before each ticket, from any origin; as far as it has been needed

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int, cost: int, who: Who = (), grants: int = 0, weight: float = 1.0) -> None:
        """At the end, or where it stood if it has been there before."""
        if not self.numbers or number > self.numbers[-1]:
            self.numbers.append(number)
            self.costs.append(cost)
            return
        index = bisect_left(self.numbers, number)
        self.numbers.insert(index, number)
        self.costs.insert(index, cost)
        del self.sums[index + 1 :]

    def remove(self, number: int, who: Who = ()) -> None:
        index = bisect_left(self.numbers, number)
        del self.numbers[index], self.costs[index]
        if index:
            del self.sums[index + 1 :]
        elif len(self.sums) > 1:
            del self.sums[0]

    def first(self) -> int:
        return self.numbers[0]

    def order(self) -> Iterator[tuple[int, int, int]]:
        start = self.tag
        for number, cost in zip(self.numbers, self.costs, strict=True):
            yield start, number, cost
            start += cost

    def start(self, number: int, who: Who = ()) -> int:
        return self.tag + self.work(bisect_left(self.numbers, number))

    def work(self, count: int) -> int:
        """The cost of the first `count`."""
        self._add_up()
        return self.sums[count] - self.sums[0]

    def before(self, start: int, number: int, name: str) -> Iterator[tuple[Who, Queue, int]]:
        self._add_up()
        count = _count_before(self.sums, self.numbers, start - self.tag + self.sums[0], number)
        if count:
            yield (name,), self, count

    def _add_up(self) -> None:
        known = len(self.sums) - 1
        if known < len(self.costs):
            self.sums.extend(accumulate(self.costs[known:], initial=self.sums.pop()))


class Household(Account):
    """One account whose tickets stand in the order in which the flows inside it take turns."""

    __slots__ = ("_numbers", "_starts", "_sums", "flows")

    def __init__(self, grants: int) -> None:
        super().__init__(grants)
        self.flows = Circle()
        self._sums: list[int] = []  # as in Queue, for all flows together; empty: not known
        self._numbers: list[int] = []
        self._starts: list[int] = []  # where each stands among the flows

    def __len__(self) -> int:
        return self.flows.count

    def charge(self, cost: int, who: Who) -> bool:
        super().charge(cost, who)
        return self.flows.charge(who, cost)

    def settle(self, settlement: Settlement, who: Who) -> None:
        super().settle(settlement, who)
        self.flows.settle(who, settlement)
        self._sums = []

    def add(self, number: int, cost: int, who: Who, grants: int, weight: float) -> None:
        self.flows.add(who, number, cost, grants, weight=weight)
        self._sums = []

    def remove(self, number: int, who: Who) -> None:
        self.flows.remove(who, number)
        self._sums = []

    def first(self) -> int:
        return min(self.flows.waiting.values(), key=_turn).first()

    def order(self) -> Iterator[tuple[int, int, int]]:
        start = self.tag
        for _, number, cost in self.flows.order():
            yield start, number, cost
            start += cost

    def start(self, number: int, who: Who) -> int:
        return self.tag + sum(queue.work(count) for _, queue, count in self.flows.ahead_of(who, number))

    def before(self, start: int, number: int, name: str) -> Iterator[tuple[Who, Queue, int]]:
        self._add_up()
        count = _count_before(self._sums, self._numbers, start - self.tag, number)
        if count:
            last = count - 1  # all that stand before it among the flows, and itself
            for who, queue, counted in self.flows.before(self._starts[last], self._numbers[last] + 1):
                yield (name, *who), queue, counted

    def _add_up(self) -> None:
        if not self._sums:
            standing = sorted(entry for account in self.flows.waiting.values() for entry in account.order())
            self._starts = [start for start, _, _ in standing]
            self._numbers = [number for _, number, _ in standing]
            self._sums = list(accumulate((cost for _, _, cost in standing), initial=0))


def _turn(account: Account) -> tuple[int, int]:
    """Whose is lowest is next."""
    return account.tag, account.first()


def _count_before(sums: list[int], numbers: list[int], start: int, number: int) -> int:
    """How many of `numbers`, which stand at `sums`, are before a ticket `number` at `start`. No two stand together."""
    count = bisect_left(sums, start, 0, len(numbers))
    if count < len(numbers) and sums[count] == start and numbers[count] < number:
        return count + 1
    return count


class Circle:
    """Those who take turns. `who`: the names of an account, of which the first is one of this circle."""

    __slots__ = ("_comings", "_crowded", "accounts", "count", "time", "waiting")

    def __init__(self) -> None:
        self.time = 0
        self.accounts: dict[str, Account] = {}
        self.waiting: dict[str, Account] = {}  # those with tickets that wait
        self.count = 0  # tickets that wait
        self._comings = 0  # how often somebody came to wait
        self._crowded = 64  # accounts at which it is worth looking for ones to forget

    # ---- commands ----------------------------------------------------------------------------------------------------

    def add(
        self,
        who: Who,
        number: int,
        cost: int,
        grants: int,
        barred: Container[str] = (),
        weight: float = 1.0,
    ) -> None:
        """A ticket begins to wait. `grants`: see `Account`; `barred`: names that may have no slot at present."""
        name = who[0]
        account = self.accounts.get(name)
        if account is None:
            account = self._open(name, Queue(grants) if len(who) == 1 else Household(grants))
        account.weight = weight
        if name not in self.waiting:
            self._come(account, grants, barred)
            self.waiting[name] = account
        account.add(number, cost, who[1:], grants, weight)
        self.count += 1

    def admit(self, name: str, grants: int, barred: Container[str]) -> None:
        """`name` was barred and is not any more. Nothing is saved up by that either."""
        account = self.waiting.pop(name, None)
        if account is not None:
            self._come(account, grants, barred)
            self.waiting[name] = account

    def remove(self, who: Who, number: int) -> None:
        """A ticket waits no more."""
        account = self.waiting[who[0]]
        account.remove(number, who[1:])
        self.count -= 1
        if not len(account):
            del self.waiting[who[0]]

    def charge(self, who: Who, cost: int, barred: Container[str] = ()) -> bool:
        """A ticket is about to stop waiting because it got a slot. Whether somebody's debt is forgiven with that."""
        account = self.waiting[who[0]]
        self.time = max(self.time, account.tag)
        account.claims(account.tag, self._comings)
        forgiven = account.charge(cost, who[1:])
        came, weight = account.came, account.weight
        for name, other in self.waiting.items():
            if other.claim < came and name not in barred and other.pass_by(cost, weight):
                forgiven = True
        return forgiven

    def settle(self, who: Who, settlement: Settlement) -> None:
        """See `Account.settle`. What was used of an account that has been forgotten since is forgotten, too."""
        self._move_on(settlement.used)
        account = self.accounts.get(who[0])
        if account is not None and settlement.grant > account.born:
            account.settle(settlement, who[1:])

    def forget(self) -> None:
        """Nobody waits, and all begin anew."""
        if self.accounts:
            self.accounts = {}
            self.time = 0

    def copy(self) -> Circle:
        """The same, with a future of its own."""
        return deepcopy(self)

    # ---- questions ---------------------------------------------------------------------------------------------------

    def first(self, barred: Container[str] = ()) -> int | None:
        """The number of the ticket whose turn it is, among those that are not of one whose name is `barred`."""
        best: Account | None = None
        for name, account in self.waiting.items():
            if name in barred:
                continue
            if best is None or account.tag < best.tag or (account.tag == best.tag and _turn(account) < _turn(best)):
                best = account
        return None if best is None else best.first()

    def order(self, barred: Container[str] = ()) -> Iterator[tuple[int, int, int]]:
        """The tickets in the order of their turns: where each stands, its number, its cost."""
        orders = [account.order() for name, account in self.waiting.items() if name not in barred]
        return orders[0] if len(orders) == 1 else merge(*orders)

    def ahead_of(self, who: Who, number: int) -> Iterator[tuple[Who, Queue, int]]:
        """For each queue, how many in it stand before this ticket."""
        return self.before(self.waiting[who[0]].start(number, who[1:]), number)

    def before(self, start: int, number: int) -> Iterator[tuple[Who, Queue, int]]:
        """For each queue, how many in it stand before a ticket `number` at `start`."""
        for name, account in self.waiting.items():
            yield from account.before(start, number, name)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _come(self, account: Account, grants: int, barred: Container[str]) -> None:
        level = self._level(barred)
        self._comings += 1
        account.come_back(level, grants)
        account.came = self._comings
        account.claims(level, self._comings)

    def _level(self, barred: Container[str]) -> int:
        """Where one who comes back stands: level with those who were just served, and never behind all who wait."""
        waiting = [account.tag for name, account in self.waiting.items() if name not in barred]
        return min(self.time, max(waiting)) if waiting else self.time

    def _move_on(self, used: int) -> None:
        """`used` has been served: the time moves by a share of it, but past nobody who is not fresh."""
        served = [account.tag for account in self.waiting.values() if not account.fresh]
        if served:
            self.time = max(self.time, min(self.time + used // (len(self.waiting) + 1), *served))

    def _open(self, name: str, account: Account) -> Account:
        if len(self.accounts) >= self._crowded:
            self._tidy()
        self.accounts[name] = account
        return account

    def _tidy(self) -> None:
        """Forgets accounts that say nothing any more: nobody waits or runs, and their tags are in the past."""
        idle = [name for name, account in self.accounts.items() if not account.held and name not in self.waiting]
        surplus = len(idle) - _REMEMBERED
        for index, name in enumerate(idle):
            if index < surplus or self.accounts[name].tag <= self.time:
                del self.accounts[name]
        self._crowded = max(64, 2 * len(self.accounts))
