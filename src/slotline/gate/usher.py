"""Tells those who wait where they stand, and those whose turn it is that it is.

It decides nothing: a gate gives the commands to `core.line`, and what they caused comes here. Moves are told in two
ways. The first three places hear of each change at once; everyone else at most every 100 ms, in portions, so that a
long line does not hold up the streams of those who run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from slotline.core.affinity import LINKS
from slotline.core.errors import QueueTimeout, ShuttingDown, Withdrawn
from slotline.core.estimate import DEPTH, Estimator, Forecast, Unseen
from slotline.core.habits import Run
from slotline.core.line import Changes, Lines, Phase
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
    """One upstream as a gate sees it. `queue_wait`: seconds that a request may wait for it; 0: without end.

    `exclusive`: it runs one model at a time. `affinity`: whoever finds its conversation in a free slot may go before
    others, within bounds.
    """

    slots: int
    queue: int
    queue_wait: float = 0.0
    exclusive: bool = False
    affinity: bool = False


class Usher:
    """Those who wait and run by one gate, by their tickets. Belongs to one event loop."""

    def __init__(
        self,
        lines: Callable[[], Lines],
        moment: Callable[[], float],
        clock: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        """`lines`: as they are, to be read. `moment`: on the clock of the lines, seconds. `clock`: the process's own.

        `jitter`: a number in [0, 1), to spread those who are asked to come again.
        """
        self.berths: dict[str, Berth] = {}
        self.withdrawn: set[str] = set()  # names of upstreams that have been retired
        self.turns: dict[Ticket, Turn] = {}
        self.closed = False
        self._lines = lines
        self._moment = moment
        self._clock = clock
        self._jitter = jitter
        self._estimator = Estimator()
        self._stirred: dict[frozenset[str], None] = {}  # lines with moves that are not told yet, in order
        self._telling = False

    # ---- upstreams ---------------------------------------------------------------------------------------------------

    def open(self, upstream: str, berth: Berth) -> None:
        """A new upstream, or one that was retired."""
        self.berths[upstream] = berth
        self.withdrawn.discard(upstream)

    def retire(self, upstream: str) -> None:
        """`upstream` takes nobody any more."""
        del self.berths[upstream]
        self.withdrawn.add(upstream)
        self._estimator.forget(upstream)

    # ---- those who come ----------------------------------------------------------------------------------------------

    def admit(self, turn: Turn) -> frozenset[str]:
        """The upstreams for which `turn` may join the line. Raises ShuttingDown, and Withdrawn where there are none."""
        if self.closed:
            raise ShuttingDown("the gateway is shutting down")
        turn.joined = self._clock()
        upstreams = frozenset(turn.ask.upstreams) - self.withdrawn
        if turn.ask.upstreams and not upstreams:
            raise Withdrawn("the upstream was taken out of the configuration")
        return upstreams

    def cost(self, ask: Ask, upstreams: frozenset[str]) -> float:
        """The slot-seconds that it is taken to need."""
        cost = self._estimator.cost(upstreams, ask.model, ask.run)
        return _UNMEASURED if cost is None else cost

    def chain(self, ask: Ask) -> Sequence[int]:
        """Its conversation, as far as a line wants to know it."""
        return ask.chain()[:LINKS]

    def retry_after(self, line: frozenset[str]) -> int:
        """Whole seconds until it is worth coming again: about when a place in line will be free, spread by jitter."""
        low, high = _RETRY_AFTER
        wait = self._forecast(line, 0).wait(1)
        basis = 2.0 if wait is None else min(wait, high / 1.25)  # where every answer is the upper bound, none is spread
        return max(low, min(high, round(basis * (0.75 + self._jitter() / 2) + self._jitter())))

    def begin_wait(self, turn: Turn, ticket: Ticket) -> None:
        """Tells a turn that has just come to wait where it stands, and starts its clock."""
        if turn.upstream is not None:
            return
        if self.closed:  # it ran as the gate closed, and came back
            turn.end(ShuttingDown("the gateway is shutting down"))
            return
        place = self._lines().place(ticket)
        turn.tell(Told(place, self._forecast(ticket.upstreams, place.position - 1).wait(place.position)))
        self._limit(turn, ticket)

    def _limit(self, turn: Turn, ticket: Ticket) -> None:
        """Starts the clock of `queue_wait`."""
        limit = self.limit(ticket.upstreams)
        if limit is not None:
            error = QueueTimeout(f"waiting in line: no slot became free within queue_wait = {limit:g} s")
            turn.limit(limit, error)

    def limit(self, line: frozenset[str]) -> float | None:
        """The seconds that one may wait in a line: the longest of its upstreams; None if one of them has no end."""
        waits = [self.berths[name].queue_wait for name in line - self.withdrawn]
        return max(waits, default=None) if all(waits) else None

    # ---- those who go ------------------------------------------------------------------------------------------------

    def learn(self, turn: Turn, upstream: str, ticket: Ticket, granted: float) -> None:
        """A request that ended by itself tells how long such requests are; one given back at once says nothing."""
        now = self._moment()
        if turn.ask.run.complete and now - granted > _INSTANT:
            self._estimator.learn(upstream, ticket.model, self._on_their_clock(turn.ask.run), granted, now)

    def close(self) -> None:
        """Nobody joins any more, and those who wait are told so. Those who run are not touched."""
        self.closed = True
        for turn in list(self.turns.values()):
            turn.end(ShuttingDown("the gateway is shutting down"))

    # ---- telling -----------------------------------------------------------------------------------------------------

    def tell(self, changes: Changes) -> None:
        """Wakes whoever has a slot now, and tells the others where they stand. Tickets of others mean nothing here."""
        for grant in changes.grants:
            if (turn := self.turns.get(grant.ticket)) is not None:
                turn.grant(grant.upstream, self._clock())
        for line in changes.moved:
            self._tell(self._lines().front(line, FIRST), self._forecast(line, FIRST), first=True)
        self._stirred.update(dict.fromkeys(changes.moved))
        if self._stirred and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_later(_JOIN, self._tell_the_rest)

    def _tell_the_rest(self) -> None:
        stirred, self._stirred = self._stirred, {}
        waiting = iter([ticket for line in stirred for ticket in self._lines().waiting(line)])
        self._tell_portion(waiting)

    def _tell_portion(self, waiting: Iterator[Ticket]) -> None:
        portion = list(islice(waiting, _PORTION))
        # Meanwhile others may have become the lines, where these tickets, and perhaps their upstreams, are not known.
        known = [ticket for ticket in portion if self._lines().phase(ticket) is Phase.WAITING]
        for line in dict.fromkeys(ticket.upstreams for ticket in known):
            self._tell((each for each in known if each.upstreams == line), self._forecast(line, DEPTH), first=False)
        if len(portion) == _PORTION:
            asyncio.get_running_loop().call_soon(self._tell_portion, waiting)
            return
        self._telling = False
        self.tell(Changes())

    def _tell(self, tickets: Iterable[Ticket], forecast: Forecast, *, first: bool) -> None:
        lines = self._lines()
        for ticket in tickets:
            turn = self.turns.get(ticket)
            if turn is None or lines.phase(ticket) is not Phase.WAITING:
                continue
            place = lines.place(ticket)
            if not first or place.position <= FIRST:
                turn.tell(Told(place, forecast.wait(place.position)))

    # ---- estimates ---------------------------------------------------------------------------------------------------

    def stand(self, numbers: Iterable[int]) -> dict[int, Standing]:
        """Where those of the turns `numbers` that wait stand at this moment."""
        standings: dict[int, Standing] = {}
        forecasts: dict[frozenset[str], Forecast] = {}
        lines = self._lines()
        for number in numbers:
            if (ticket := lines.ticket(number)) is not None:
                line, place = ticket.upstreams, lines.place(ticket)
                if line not in forecasts:
                    forecasts[line] = self._forecast(line, DEPTH)
                told = Told(place, forecasts[line].wait(place.position))
                standings[number] = Standing(told, lines.barred(ticket))
        return standings

    def _forecast(self, line: frozenset[str], depth: int) -> Forecast:
        """The waits in `line`, exact as far as can be for the first `depth` places."""
        lines = self._lines()
        rooms = [lines.room(name) for name in line - self.withdrawn]
        front = lines.front(line, min(depth, DEPTH)) if depth else ()
        return self._estimator.forecast(rooms, self._run_of, front, self._moment())

    def _run_of(self, ticket: Ticket) -> Run | None:
        turn = self.turns.get(ticket)
        return None if turn is None else self._on_their_clock(turn.ask.run)

    def _on_their_clock(self, run: Run) -> Run:
        """A request knows when its answer began by the clock of its process, and the lines go by their own."""
        if self._moment is self._clock or run.began is None:
            return run
        return Unseen(run.size, run.most, run.pieces, run.began + self._moment() - self._clock(), run.complete)
