"""Counts what happens in a simulation, and makes the report of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from slotline.core.simulation.fairshare import Account, Shares, jain
from slotline.core.simulation.flight import Flight, Who
from slotline.core.simulation.plan import Plan
from slotline.core.simulation.report import Bucket, Eta, Group, Report, quantile, waits

BUCKETS = 200
"""Into so many pieces the time of arrivals is cut; what is served later adds further ones of the same length."""
_WINDOW = 50  # mean requests in one window of `fairshare`


def _seconds() -> array[float]:
    return array("d")


@dataclass(slots=True)
class _Count:
    requests: int = 0
    refused: int = 0
    left: int = 0
    waits: array[float] = field(default_factory=_seconds)
    slot_seconds: float = 0.0


@dataclass(slots=True)
class _Piece:
    arrived: int = 0
    waiting: float = 0.0  # seconds, of all who waited together
    busy: float = 0.0
    waits: array[float] = field(default_factory=_seconds)


class Tally:
    """What has happened so far. Times never run backwards."""

    def __init__(self, plan: Plan, arrivals: float, mean: float, every: int) -> None:
        """`arrivals`: from the first to the last; `mean`: how long a request holds its slot; `every`: see `Eta`."""
        self.waiting = 0
        self.running = 0
        self._plan = plan
        self._every = every
        self._shares = Shares(_WINDOW * mean, lambda who: plan.weight(who[0]))
        self._counts: dict[Who, _Count] = {}
        self._busy = dict.fromkeys(plan.names, 0.0)
        self._longest = 0
        self._told: list[tuple[float, float]] = []  # the wait that was told, and the true one
        self._step = max(1.0, arrivals / BUCKETS)
        self._pieces = [_Piece()]
        self._piece = self._pieces[0]  # the last one
        self._end = self._step  # when it ends
        self._next = min(self._end, self._shares.end)  # when something has to be closed

    # ---- what happens ------------------------------------------------------------------------------------------------

    def comes(self, flight: Flight, now: float) -> None:
        """A request is sent for the first time."""
        if now >= self._next:
            self._reach(now)
        who = flight.who
        count = self._counts.get(who)
        if count is None:
            count = self._counts[who] = _Count()
        count.requests += 1
        self._piece.arrived += 1
        self._shares.wants(who, flight.held, now)

    def waits(self, flight: Flight, now: float) -> None:
        """It stands in line."""
        if now >= self._next:
            self._reach(now)
        self.waiting += 1
        self._piece.waiting += self._end - now
        self._longest = max(self._longest, self.waiting)
        self._shares.waits(flight.who, flight.held)

    def runs(self, flight: Flight, upstream: str, now: float, *, waited: bool) -> None:
        """It has a slot. `waited`: it stood in line before."""
        if now >= self._next:
            self._reach(now)
        who, held = flight.who, flight.held
        if waited:
            self._waits_no_more(flight, now)
            if flight.told is not None:
                self._told.append((flight.told, now - flight.joined))
        self.running += 1
        self._piece.busy += self._end - now
        self._shares.runs(who, now, now + held)
        self._busy[upstream] += held
        wait, count = now - flight.arrived, self._counts[who]
        count.waits.append(wait)
        count.slot_seconds += held
        self._pieces[int(flight.arrived / self._step)].waits.append(wait)

    def ends(self, now: float) -> None:
        """One that ran is done."""
        if now >= self._next:
            self._reach(now)
        self.running -= 1
        self._piece.busy -= self._end - now

    def leaves(self, flight: Flight, now: float) -> None:
        """It gives up its place."""
        if now >= self._next:
            self._reach(now)
        self._waits_no_more(flight, now)

    def stays_away(self, flight: Flight) -> None:
        """It left, and does not come back."""
        self._counts[flight.who].left += 1

    def refused(self, flight: Flight) -> None:
        """It was not let into the line, and that was the end of it."""
        self._counts[flight.who].refused += 1

    # ---- the report --------------------------------------------------------------------------------------------------

    def report(self, now: float, target: float | None) -> Report:
        """When all is over. `target`: see `Group.within`."""
        self._reach(now)
        plan, accounts = self._plan, self._shares.close()
        total = sum(count.slot_seconds for count in self._counts.values())
        groups = _Groups(self._counts, accounts, total, target)
        keys = sorted(self._counts, key=lambda who: (-self._counts[who].slot_seconds, who))
        classes = sorted({batch for _, batch in keys})
        by_key = tuple(groups.of([who], who[0], who[1]) for who in keys)
        capacity = plan.slots * max(now, 1e-9)
        return Report(
            slots=plan.slots,
            upstreams=plan.upstreams,
            policy=plan.policy.value,
            span=now,
            whole=groups.of(keys, None, None),
            classes=tuple(groups.of([who for who in keys if who[1] is batch], None, batch) for batch in classes),
            keys=by_key,
            busy={upstream: busy / capacity for upstream, busy in self._busy.items()},
            longest_line=self._longest,
            fairness=jain([group.due for group in by_key if group.due is not None]),
            eta=self._eta(),
            step=self._step,
            series=self._series(now),
        )

    def _eta(self) -> Eta | None:
        if not self._told:
            return None
        told = [(max(wait, 1.0), max(true, 1.0)) for wait, true in self._told]
        errors = sorted(abs(wait - true) / true for wait, true in told)
        ratios = sorted(wait / true for wait, true in told)
        short = sum(ratio < 0.1 for ratio in ratios) / len(ratios)
        middle = quantile(ratios, 0.5)
        return Eta(len(told), self._every, quantile(errors, 0.5), quantile(errors, 0.9), middle, short)

    def _series(self, now: float) -> tuple[Bucket, ...]:
        slots = self._plan.slots * self._plan.upstreams
        buckets = []
        for index, piece in enumerate(self._pieces):
            at = index * self._step
            length = max(min(self._step, now - at), 1e-9)
            measured = waits(piece.waits)
            middle, most = (None, None) if measured is None else (measured.p50, measured.p90)
            buckets.append(Bucket(at, piece.arrived, piece.waiting / length, piece.busy / length / slots, middle, most))
        return tuple(buckets)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _waits_no_more(self, flight: Flight, now: float) -> None:
        self.waiting -= 1
        self._piece.waiting -= self._end - now
        self._shares.waits_no_more(flight.who, flight.held)

    def _reach(self, now: float) -> None:
        """Closes what is over. In a piece, whoever waits or runs counts to its end at first, and less when it does not.

        So nothing has to be added up at the events between.
        """
        self._shares.reach(now)
        while now >= self._end:
            self._piece = _Piece(waiting=self.waiting * self._step, busy=self.running * self._step)
            self._pieces.append(self._piece)
            self._end = len(self._pieces) * self._step
        self._next = min(self._end, self._shares.end)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Makes groups of what was counted."""

    counts: dict[Who, _Count]
    accounts: dict[Who, Account]
    total: float
    target: float | None

    def of(self, whose: Iterable[Who], key: str | None, batch: bool | None) -> Group:
        whose = list(whose)
        counts = [self.counts[who] for who in whose]
        accounts = [self.accounts[who] for who in whose if who in self.accounts]
        requests = sum(count.requests for count in counts)
        measured = [wait for count in counts for wait in count.waits]
        within = None if self.target is None else sum(wait <= self.target for wait in measured) / max(requests, 1)
        slot_seconds = sum(count.slot_seconds for count in counts)
        due = sum(account.due for account in accounts)
        return Group(
            key=key,
            batch=batch,
            requests=requests,
            served=len(measured),
            refused=sum(count.refused for count in counts),
            left=sum(count.left for count in counts),
            waits=waits(measured),
            within=within,
            slot_seconds=slot_seconds,
            share=slot_seconds / self.total if self.total else 0.0,
            due=sum(account.got for account in accounts) / due if due else None,
        )
