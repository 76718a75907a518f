"""The gate of one process: `core.line`, with futures to wake those who wait.

Everything that decides is synchronous: a turn joins the line as its `async with` begins, and leaves as it ends, however
that comes about. There is no await between a decision and what it causes, so a cancellation can come only while a
caller waits, where leaving sees the whole truth: the ticket waits, was granted in this very moment, or runs.

Moves are told in two ways. The first three places hear of each change at once; everyone else at most every 100 ms, in
portions, so that a long line does not hold up the streams of those who run.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from slotline.core.errors import Busy, LimitReached, QueueTimeout, ShuttingDown, Withdrawn
from slotline.core.estimate import DEPTH, Estimator, Forecast, Unseen
from slotline.core.habits import Run
from slotline.core.line import Changes, Lines, Phase
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.queue_frames import Told
from slotline.core.report import Standing
from slotline.core.room import Ticket
from slotline.gate.turn import FIRST, Ask, Turn

_JOIN = 0.1  # seconds: further back, changes within this time are joined into one
_INSTANT = 0.001  # seconds: no request is served in less
_UNMEASURED = 10.0  # slot-seconds: what a request is taken to cost while none has been measured
_PORTION = 256  # callers told in one turn of the event loop
_RETRY_AFTER = (1, 60)  # seconds, the bounds of `retry-after`


@dataclass(frozen=True, slots=True)
class Berth:
    """One upstream as the gate sees it. `queue_wait`: seconds that a request may wait for it; 0: without end.

    `exclusive`: it runs one model at a time.
    """

    slots: int
    queue: int
    queue_wait: float = 0.0
    exclusive: bool = False


class LocalGate:
    """All turns of one process. Not thread-safe; belongs to one event loop."""

    def __init__(
        self,
        berths: Mapping[str, Berth],
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        max_waiting: int = 1 << 30,
        fair_by: FairBy = FairBy.KEY,
    ) -> None:
        """`clock`: seconds, monotonic. `jitter`: a number in [0, 1), to spread those who are asked to come again.

        `max_waiting`: bytes that all bodies of those who wait may take together.
        """
        self._berths = dict(berths)
        self._withdrawn: set[str] = set()  # names of upstreams that have been retired
        rooms = {name: (berth.slots, berth.queue) for name, berth in berths.items()}
        exclusive = {name for name, berth in berths.items() if berth.exclusive}
        self._lines = Lines(rooms, max_waiting, fair_by, exclusive)
        self._estimator = Estimator()
        self._turns: dict[Ticket, Turn] = {}
        self._clock = clock
        self._jitter = jitter
        self._stirred: dict[frozenset[str], None] = {}  # lines with moves that are not told yet, in order
        self._telling = False
        self._closed = False

    def turn(
        self,
        upstreams: Collection[str],
        size: int = 0,
        party: Party = NOBODY,
        *,
        model: str = "",
        run: Run | None = None,
        place: int | None = None,
    ) -> Turn:
        """A turn at a slot of any of `upstreams`; it joins the line when its `async with` begins.

        `size`: the bytes that the request keeps in memory while it waits. `run`: the request itself, for how long it
        will hold its slot. `place`: the number of a turn that has left the line; this one stands where that one stood.
        """
        ask = Ask(upstreams, size, party, model, run or Unseen(size), place)
        return Turn(ask, self._join, self._leave, self._retry)

    def resize(self, upstream: str, slots: int) -> None:
        """`upstream` has `slots` slots from now on. For one that was retired this means nothing."""
        if upstream not in self._withdrawn:
            self._apply(self._lines.resize(upstream, slots, self._clock()))

    def bound(self, max_waiting: int) -> None:
        """All bodies of those who wait may take so many bytes together from now on. Who waits is not touched."""
        self._lines.bound(max_waiting)

    def open(self, upstream: str, berth: Berth) -> None:
        """A new upstream, or one that was retired. Raises ValueError for one that is there."""
        changes = self._lines.add(upstream, berth.slots, berth.queue, self._clock(), exclusive=berth.exclusive)
        self._berths[upstream] = berth
        self._withdrawn.discard(upstream)
        self._apply(changes)

    def amend(self, upstream: str, berth: Berth) -> None:
        """`berth` holds for `upstream` from now on, but for its slots: see `resize`. Who waits keeps its own limit."""
        self._berths[upstream] = berth
        self._apply(self._lines.change(upstream, berth.queue, self._clock(), exclusive=berth.exclusive))

    def retire(self, upstream: str) -> None:
        """`upstream` takes nobody any more. Whoever runs there runs on; whoever waits for it alone is told so."""
        changes, stranded = self._lines.retire(upstream, self._clock())
        del self._berths[upstream]
        self._estimator.forget(upstream)
        self._withdrawn.add(upstream)
        for ticket in stranded:
            self._turns[ticket].end(Withdrawn("waiting in line: the upstream was taken out of the configuration"))
        self._apply(changes)

    def close(self) -> None:
        """Nobody joins any more, and those who wait are told so. Those who run are not touched."""
        self._closed = True
        for turn in list(self._turns.values()):
            turn.end(ShuttingDown("the gateway is shutting down"))

    @property
    def lines(self) -> Lines:
        """The lines themselves: to be read, never to be changed."""
        return self._lines

    def stand(self, numbers: Iterable[int]) -> dict[int, Standing]:
        """Where those of the turns `numbers` that wait stand at this moment."""
        standings: dict[int, Standing] = {}
        forecasts: dict[frozenset[str], Forecast] = {}
        for number in numbers:
            if (ticket := self._lines.ticket(number)) is not None:
                line, place = ticket.upstreams, self._lines.place(ticket)
                if line not in forecasts:
                    forecasts[line] = self._forecast(line, DEPTH)
                told = Told(place, forecasts[line].wait(place.position))
                standings[number] = Standing(told, self._lines.barred(ticket))
        return standings

    # ---- joining and leaving -----------------------------------------------------------------------------------------

    def _join(self, turn: Turn) -> None:
        if self._closed:
            raise ShuttingDown("the gateway is shutting down")
        turn.joined = self._clock()
        ask, upstreams = turn.ask, frozenset(turn.ask.upstreams) - self._withdrawn
        if ask.upstreams and not upstreams:
            raise Withdrawn("the upstream was taken out of the configuration")
        cost = self._estimator.cost(upstreams, ask.model, ask.run)
        try:
            turn.ticket, changes = self._lines.join(
                upstreams,
                turn.joined,
                ask.size,
                ask.party,
                _UNMEASURED if cost is None else cost,
                ask.model,
                ask.place,
            )
        except (Busy, LimitReached) as refusal:
            raise type(refusal)(str(refusal), retry_after=self._retry_after(upstreams)) from None
        self._turns[turn.ticket] = turn
        self._apply(changes)
        self._begin_wait(turn, turn.ticket)

    def _retry(self, turn: Turn) -> bool:
        if turn.ticket is None or (again := self._lines.retry(turn.ticket, self._clock())) is None:
            return False
        del self._turns[turn.ticket]
        turn.requeue()
        turn.ticket, changes = again
        self._turns[turn.ticket] = turn
        self._apply(changes)
        self._begin_wait(turn, turn.ticket)
        return True

    def _begin_wait(self, turn: Turn, ticket: Ticket) -> None:
        """Tells a turn that has just come to wait where it stands, and starts its clock."""
        if turn.upstream is not None:
            return
        if self._closed:  # it ran as the gate closed, and came back
            turn.end(ShuttingDown("the gateway is shutting down"))
            return
        place = self._lines.place(ticket)
        turn.tell(Told(place, self._forecast(ticket.upstreams, place.position - 1).wait(place.position)))
        self._limit(turn, ticket)

    def _leave(self, turn: Turn) -> None:
        if turn.ticket is None or self._turns.pop(turn.ticket, None) is None:
            return
        now = self._clock()
        if turn.upstream is not None:
            self._learn(turn, turn.upstream, turn.ticket, now)
        self._apply(self._lines.leave(turn.ticket, now))

    def _learn(self, turn: Turn, upstream: str, ticket: Ticket, now: float) -> None:
        """A request that ended by itself tells how long such requests are; one given back at once says nothing."""
        granted = self._lines.room(upstream).running[ticket]
        if turn.ask.run.complete and now - granted > _INSTANT:
            self._estimator.learn(upstream, ticket.model, turn.ask.run, granted, now)

    def _limit(self, turn: Turn, ticket: Ticket) -> None:
        """Starts the clock of `queue_wait`: the longest of its upstreams, and none if one of them has none."""
        waits = [self._berths[name].queue_wait for name in ticket.upstreams - self._withdrawn]
        limit = max(waits) if all(waits) else 0.0
        if limit:
            error = QueueTimeout(f"waiting in line: no slot became free within queue_wait = {limit:g} s")
            turn.limit(limit, error)

    # ---- telling -----------------------------------------------------------------------------------------------------

    def _apply(self, changes: Changes) -> None:
        for grant in changes.grants:
            self._turns[grant.ticket].grant(grant.upstream)
        for line in changes.moved:
            self._tell(self._lines.front(line, FIRST), self._forecast(line, FIRST), first=True)
        self._stirred.update(dict.fromkeys(changes.moved))
        if self._stirred and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_later(_JOIN, self._tell_the_rest)

    def _tell_the_rest(self) -> None:
        stirred, self._stirred = self._stirred, {}
        waiting = iter([ticket for line in stirred for ticket in self._lines.waiting(line)])
        self._tell_portion(waiting)

    def _tell_portion(self, waiting: Iterator[Ticket]) -> None:
        portion = list(islice(waiting, _PORTION))
        forecasts = {line: self._forecast(line, DEPTH) for line in {ticket.upstreams for ticket in portion}}
        for line, forecast in forecasts.items():
            self._tell((ticket for ticket in portion if ticket.upstreams == line), forecast, first=False)
        if len(portion) == _PORTION:
            asyncio.get_running_loop().call_soon(self._tell_portion, waiting)
            return
        self._telling = False
        self._apply(Changes())

    def _tell(self, tickets: Iterable[Ticket], forecast: Forecast, *, first: bool) -> None:
        for ticket in tickets:
            turn = self._turns.get(ticket)
            if turn is None or self._lines.phase(ticket) is not Phase.WAITING:
                continue
            place = self._lines.place(ticket)
            if not first or place.position <= FIRST:
                turn.tell(Told(place, forecast.wait(place.position)))

    # ---- estimates ---------------------------------------------------------------------------------------------------

    def _forecast(self, line: frozenset[str], depth: int) -> Forecast:
        """The waits in `line`, exact as far as can be for the first `depth` places."""
        rooms = [self._lines.room(name) for name in line - self._withdrawn]
        front = self._lines.front(line, min(depth, DEPTH)) if depth else ()
        return self._estimator.forecast(rooms, self._run_of, front, self._clock())

    def _run_of(self, ticket: Ticket) -> Run | None:
        turn = self._turns.get(ticket)
        return None if turn is None else turn.ask.run

    def _retry_after(self, line: frozenset[str]) -> int:
        """Whole seconds until it is worth coming again: about when a place in line will be free, spread by jitter."""
        low, high = _RETRY_AFTER
        wait = self._forecast(line, 0).wait(1)
        basis = 2.0 if wait is None else min(wait, high / 1.25)  # where every answer is the upper bound, none is spread
        return max(low, min(high, round(basis * (0.75 + self._jitter() / 2) + self._jitter())))
