"""How long the wait will be, from what has been measured so far (`core.habits`).

Those who run free their slots one after another, and each slot then takes the next in line for as long as that one is
expected to hold it. The moments at which slots become free are not those at which each is expected to: of eight that
may end at any time, the first ends long before the mean. So the k-th of n slots is expected free when a share of
(k + 1) / (n + 1) of requests like the one in it would have ended, and not before a quarter of its own expectation:
one who is told far too little loses more trust than one who is told somewhat too much.

Nothing is told before one request has been measured: no number is better than a baseless one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TypeAlias

from slotline.core.habits import Habits, Run
from slotline.core.room import Room, Ticket

RunOf: TypeAlias = Callable[[Ticket], Run | None]
DEPTH = 64
"""So many of those who wait are counted each with its own length; behind them, each with the mean."""
_LEAST = 0.25  # of the time that a slot is expected to be held, which is told at least


@dataclass(frozen=True, slots=True)
class Unseen:
    """A request of which nothing is known but its length."""

    size: int = 0
    most: int | None = None
    pieces: int = 0
    began: float | None = None
    complete: bool = True


UNSEEN = Unseen()


class Forecast:
    """The waits of everyone in a line, seen from one moment."""

    __slots__ = ("_mean", "_slots", "_starts")

    def __init__(self, free: Sequence[float], costs: Iterable[float], mean: float) -> None:
        """`free`: for each slot, in how many seconds it is. None: nothing can be told. `costs`: for how long the first
        who wait are expected to hold theirs, in their order; `mean`: for how long those behind them."""
        self._slots = len(free)
        self._mean = mean
        self._starts: list[float] = []
        if free:
            slots = list(free)
            heapify(slots)
            for cost in costs:
                self._starts.append(slots[0])
                heapreplace(slots, slots[0] + cost)
            self._starts.append(slots[0])

    def wait(self, position: int) -> float | None:
        """Seconds until the caller at `position` (from 1) gets a slot; None without a basis."""
        if not self._starts:
            return None
        if position <= len(self._starts):
            return self._starts[position - 1]
        return self._starts[-1] + (position - len(self._starts)) * self._mean / self._slots


NO_BASIS = Forecast((), (), 0.0)


class Estimator:
    """What is known of the requests at all upstreams, model by model."""

    def __init__(self) -> None:
        self._habits: dict[tuple[str, str | None], Habits] = {}  # model None: all of that upstream

    def learn(self, upstream: str, model: str, run: Run, granted: float, now: float) -> None:
        """A request had a slot of `upstream` from `granted` until `now`, and its answer came to its own end."""
        for known in (model, None):
            self._habits.setdefault((upstream, known), Habits()).learn(run, granted, now)

    def forget(self, upstream: str) -> None:
        """`upstream` is no more."""
        for known in [known for known in self._habits if known[0] == upstream]:
            del self._habits[known]

    def cost(self, upstreams: Collection[str], model: str, run: Run) -> float | None:
        """For how many seconds a request that has not begun will hold a slot of one of `upstreams`; None: unknown."""
        known = [habits for name in upstreams if (habits := self._of(name, model)) is not None]
        return sum(habits.whole(run.size, run.most) for habits in known) / len(known) if known else None

    def forecast(self, rooms: Collection[Room], run_of: RunOf, front: Iterable[Ticket], now: float) -> Forecast:
        """The waits before `rooms`. `run_of`: the request behind a ticket, where it is known; `front`: who is next, in
        order. How long those will hold their slots is estimated anew: since they joined, more has been learned."""
        expected = sorted(self._expected(rooms, run_of, now), key=lambda slot: slot[0])
        if not expected:
            return NO_BASIS
        shares = [(place + 1) / (len(expected) + 1) for place in range(len(expected))]
        free = [
            max(habits.rest_at(run, since, now, share), rest * _LEAST)
            for share, (rest, habits, run, since) in zip(shares, expected, strict=True)
        ]
        names = [room.name for room in rooms]
        costs = [self._cost_now(ticket, names, run_of) for ticket in front]
        mean = sum(costs) / len(costs) if costs else sum(rest for rest, *_ in expected) / len(expected)
        return Forecast(free, costs, mean)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _of(self, upstream: str, model: str) -> Habits | None:
        return self._habits.get((upstream, model)) or self._habits.get((upstream, None))

    def _cost_now(self, ticket: Ticket, upstreams: Collection[str], run_of: RunOf) -> float:
        run = run_of(ticket)
        cost = None if run is None else self.cost(upstreams, ticket.model, run)
        return ticket.cost if cost is None else cost

    def _expected(self, rooms: Iterable[Room], run_of: RunOf, now: float) -> Iterable[tuple[float, Habits, Run, float]]:
        """For each request that runs: in how many seconds it is expected to end, and what that is taken from."""
        for room in rooms:
            for ticket, since in room.running.items():
                habits = self._of(room.name, ticket.model)
                if habits is not None:
                    run = run_of(ticket) or Unseen(ticket.size)
                    yield habits.rest(run, since, now), habits, run, since
