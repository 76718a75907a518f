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
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from slotline.core.errors import Busy, QueueTimeout, ShuttingDown
from slotline.core.estimate import Forecast, Pace
from slotline.core.line import Changes, Lines, Phase, Ticket
from slotline.core.queue_frames import Told
from slotline.gate.turn import FIRST, Turn

_JOIN = 0.1  # seconds: further back, changes within this time are joined into one
_INSTANT = 0.001  # seconds: no request is served in less
_PORTION = 256  # callers told in one turn of the event loop
_RETRY_AFTER = (1, 60)  # seconds, the bounds of `retry-after`


@dataclass(frozen=True, slots=True)
class Berth:
    """One upstream as the gate sees it. `queue_wait`: seconds that a request may wait for it; 0: without end."""

    slots: int
    queue: int
    queue_wait: float = 0.0


class LocalGate:
    """All turns of one process. Not thread-safe; belongs to one event loop."""

    def __init__(
        self,
        berths: Mapping[str, Berth],
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        max_waiting: int = 1 << 30,
    ) -> None:
        """`clock`: seconds, monotonic. `jitter`: a number in [0, 1), to spread those who are asked to come again.

        `max_waiting`: bytes that all bodies of those who wait may take together.
        """
        self._berths = dict(berths)
        rooms = {name: (berth.slots, berth.queue) for name, berth in berths.items()}
        self._lines = Lines(rooms, max_waiting)
        self._paces = {name: Pace() for name in berths}
        self._turns: dict[Ticket, Turn] = {}
        self._clock = clock
        self._jitter = jitter
        self._stirred: dict[frozenset[str], None] = {}  # lines with moves that are not told yet, in order
        self._telling = False
        self._closed = False

    def turn(self, upstreams: Collection[str], size: int = 0) -> Turn:
        """A turn at a slot of any of `upstreams`; it joins the line when its `async with` begins.

        `size`: the bytes that the request keeps in memory while it waits.
        """
        return Turn(upstreams, size, self._join, self._leave, self._retry)

    def resize(self, upstream: str, slots: int) -> None:
        """`upstream` has `slots` slots from now on."""
        self._apply(self._lines.resize(upstream, slots, self._clock()))

    def close(self) -> None:
        """Nobody joins any more, and those who wait are told so. Those who run are not touched."""
        self._closed = True
        for turn in list(self._turns.values()):
            turn.end(ShuttingDown("the gateway is shutting down"))

    @property
    def lines(self) -> Lines:
        """The lines themselves: to be read, never to be changed."""
        return self._lines

    # ---- joining and leaving -----------------------------------------------------------------------------------------

    def _join(self, turn: Turn) -> None:
        if self._closed:
            raise ShuttingDown("the gateway is shutting down")
        turn.joined = self._clock()
        try:
            turn.ticket, changes = self._lines.join(turn.upstreams, turn.joined, turn.size)
        except Busy as full:
            raise Busy(str(full), retry_after=self._retry_after(frozenset(turn.upstreams))) from None
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
        turn.tell(Told(place, self._forecast(ticket.upstreams).wait(place.position)))
        self._limit(turn, ticket)

    def _leave(self, turn: Turn) -> None:
        if turn.ticket is None or self._turns.pop(turn.ticket, None) is None:
            return
        now = self._clock()
        if turn.upstream is not None:
            self._measure(turn.upstream, now - self._lines.room(turn.upstream).running[turn.ticket])
        self._apply(self._lines.leave(turn.ticket, now))

    def _measure(self, upstream: str, held: float) -> None:
        """A slot was held for so long; one that was given back in the moment it was granted says nothing."""
        if held > _INSTANT:
            self._paces[upstream].add(held)

    def _limit(self, turn: Turn, ticket: Ticket) -> None:
        """Starts the clock of `queue_wait`: the longest of its upstreams, and none if one of them has none."""
        waits = [self._berths[name].queue_wait for name in ticket.upstreams]
        limit = max(waits) if all(waits) else 0.0
        if limit:
            error = QueueTimeout(f"waiting in line: no slot became free within queue_wait = {limit:g} s")
            turn.limit(limit, error)

    # ---- telling -----------------------------------------------------------------------------------------------------

    def _apply(self, changes: Changes) -> None:
        for grant in changes.grants:
            self._turns[grant.ticket].grant(grant.upstream)
        moved = dict.fromkeys(line for shift in changes.shifts for line in shift.lines)
        for line in moved:
            self._tell(islice(self._lines.waiting(line), FIRST), self._forecast(line), first=True)
        self._stirred.update(moved)
        if self._stirred and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_later(_JOIN, self._tell_the_rest)

    def _tell_the_rest(self) -> None:
        stirred, self._stirred = self._stirred, {}
        waiting = iter([ticket for line in stirred for ticket in self._lines.waiting(line)])
        self._tell_portion(waiting)

    def _tell_portion(self, waiting: Iterator[Ticket]) -> None:
        portion = list(islice(waiting, _PORTION))
        forecasts = {line: self._forecast(line) for line in {ticket.upstreams for ticket in portion}}
        for line, forecast in forecasts.items():
            self._tell((ticket for ticket in portion if ticket.upstreams == line), forecast, first=False)
        if len(portion) == _PORTION:
            asyncio.get_running_loop().call_soon(self._tell_portion, waiting)
            return
        self._telling = False
        self._apply(Changes())

    def _tell(self, tickets: Iterator[Ticket], forecast: Forecast, *, first: bool) -> None:
        for ticket in tickets:
            turn = self._turns.get(ticket)
            if turn is None or self._lines.phase(ticket) is not Phase.WAITING:
                continue
            place = self._lines.place(ticket)
            if not first or place.position <= FIRST:
                turn.tell(Told(place, forecast.wait(place.position)))

    # ---- estimates ---------------------------------------------------------------------------------------------------

    def _forecast(self, line: frozenset[str]) -> Forecast:
        measured = [mean for name in line if (mean := self._paces[name].mean) is not None]
        mean = sum(measured) / len(measured) if measured else None
        now = self._clock()
        return Forecast([now - since for since in self._lines.held_since(line)], mean)

    def _retry_after(self, line: frozenset[str]) -> int:
        """Whole seconds until it is worth coming again: about when a place in line will be free, spread by jitter."""
        low, high = _RETRY_AFTER
        wait = self._forecast(line).wait(1)
        basis = 2.0 if wait is None else min(wait, high / 1.25)  # where every answer is the upper bound, none is spread
        return max(low, min(high, round(basis * (0.75 + self._jitter() / 2) + self._jitter())))
