"""A trace, carried through the line event by event.

There are four kinds of event: a request comes, one that runs is done, one that waits loses patience, and one that left
comes again. The next one in time happens; at one moment slots are given back before anything else. Between events
nothing happens and no time is spent, so a day takes seconds.

What decides here is the gateway's own code, used as `gate.local` uses it: the line, the estimates that it is asked
with, and the places that are kept. What is simulated is only what is outside of it: clients and servers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import assert_never

import msgspec

from slotline.core.errors import Busy, LimitReached
from slotline.core.estimate import DEPTH, Estimator
from slotline.core.habits import Run
from slotline.core.line import Grant, Lines
from slotline.core.party import Party
from slotline.core.rejoin import Kept
from slotline.core.room import Ticket
from slotline.core.simulation.flight import Clock, Flight, Who
from slotline.core.simulation.plan import Plan
from slotline.core.simulation.report import Report
from slotline.core.simulation.request import Request
from slotline.core.simulation.tally import Tally

SAMPLES = 20_000
"""About so many requests are told a wait, evenly spread: an estimate costs as much as all else that a request needs."""
_UNMEASURED = 10.0  # slot-seconds: what the gateway takes a request to cost while none has been measured
_STEP = 4096  # requests between two reports of progress


class _Served(msgspec.Struct, frozen=True, gc=False):
    """A request that is done, to be learned from; a `core.habits.Run`."""

    size: int
    pieces: int
    began: float | None
    most: int | None = None
    complete: bool = True


class _Event(IntEnum):
    """In the order in which they happen at one moment."""

    DONE = 0
    GIVES_UP = 1
    COMES_AGAIN = 2


def simulate(
    requests: Sequence[Request],
    plan: Plan,
    target: float | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> Report:
    """What would have happened to `requests`, which are in the order of their arrival.

    `target`: seconds within which a request is to have its slot. `progress` is told now and then how many have come.
    Raises ValueError when there are none.
    """
    if not requests:
        raise ValueError("there are no requests to simulate")
    return _Replay(requests, plan).run(target, progress)


class _Replay:
    """The simulated gateway and its clients."""

    def __init__(self, requests: Sequence[Request], plan: Plan) -> None:
        self._requests = requests
        self._plan = plan
        self._clock = Clock()
        self._events: list[tuple[float, _Event, int, Flight]] = []
        self._lines = Lines(dict.fromkeys(plan.names, (plan.slots, plan.queue)), fair_by=plan.fair_by)
        self._upstreams = frozenset(plan.names)
        self._rooms = [self._lines.room(name) for name in plan.names]
        self._estimator = Estimator()
        self._kept = Kept(plan.rejoin)
        self._flights: dict[Ticket, Flight] = {}  # those that wait or run
        self._runs: dict[Ticket, Run] = {}
        self._parties: dict[tuple[str, str, bool], Party] = {}
        self._whos: dict[Who, Who] = {}
        self._waited = 0  # how many came to wait
        self._every = max(1, len(requests) // SAMPLES)
        self._reading, self._answering = array("d"), array("d")  # seconds, of each request
        for request in requests:
            reading, answering = plan.rates.times(request)
            self._reading.append(reading)
            self._answering.append(answering)
        mean = (sum(self._reading) + sum(self._answering)) / len(requests)
        arrivals = (requests[-1].at - requests[0].at) / plan.speed
        self._tally = Tally(plan, arrivals, mean, self._every)

    def run(self, target: float | None, progress: Callable[[int], None]) -> Report:
        first, speed, events, clock = self._requests[0].at, self._plan.speed, self._events, self._clock
        for index, request in enumerate(self._requests):
            at = (request.at - first) / speed
            while events and events[0][0] <= at:
                self._happen()
            clock.now = at
            self._come(index, request)
            if index % _STEP == 0:
                progress(index)
        while events:
            self._happen()
        progress(len(self._requests))
        return self._tally.report(clock.now, target)

    # ---- events ------------------------------------------------------------------------------------------------------

    def _happen(self) -> None:
        at, event, _, flight = heappop(self._events)
        if event is _Event.GIVES_UP and flight.granted is not None:
            return  # it was served in time; the clock does not move for what did not happen
        self._clock.now = at
        match event:
            case _Event.DONE:
                self._done(flight)
            case _Event.GIVES_UP:
                self._give_up(flight)
            case _Event.COMES_AGAIN:
                self._join(flight)
            case _:
                assert_never(event)

    def _come(self, index: int, request: Request) -> None:
        now = self._clock.now
        who = (request.key, self._plan.is_batch(request))
        reading, answering = self._reading[index], self._answering[index]
        who = self._whos.setdefault(who, who)
        flight = Flight(request, who, index, now, reading, answering, reading + answering, self._clock)
        self._tally.comes(flight, now)
        self._join(flight)

    def _join(self, flight: Flight) -> None:
        request, now = flight.request, self._clock.now
        flight.joined = now
        cost = self._estimator.cost(self._upstreams, request.model, flight)
        try:
            ticket, changes = self._lines.join(
                self._upstreams,
                now,
                request.prompt,
                self._party(request),
                _UNMEASURED if cost is None else cost,
                request.model,
                self._kept.take(_name(flight), now) if flight.comes_again else None,
            )
        except (Busy, LimitReached):
            self._tally.refused(flight)
            return
        flight.ticket = ticket
        self._flights[ticket] = flight
        if changes.grants and changes.grants[0].ticket is ticket:
            self._grant(changes.grants, waited=False)
        else:
            self._begin_wait(flight, ticket)
            self._grant(changes.grants)

    def _begin_wait(self, flight: Flight, ticket: Ticket) -> None:
        now = self._clock.now
        self._tally.waits(flight, now)
        patience = self._plan.patience if flight.request.patience is None else flight.request.patience
        if patience is not None:
            self._push(now + patience, _Event.GIVES_UP, flight)
        flight.told = self._estimate(ticket) if self._waited % self._every == 0 else None
        self._waited += 1

    def _estimate(self, ticket: Ticket) -> float | None:
        """What the gateway would tell one who has just come to wait."""
        position = self._lines.place(ticket).position
        ahead = self._lines.front(self._upstreams, min(position - 1, DEPTH)) if position > 1 else ()
        return self._estimator.forecast(self._rooms, self._runs.get, ahead, self._clock.now).wait(position)

    def _grant(self, grants: Iterable[Grant], *, waited: bool = True) -> None:
        now = self._clock.now
        for grant in grants:
            flight = self._flights[grant.ticket]
            flight.granted = now
            self._runs[grant.ticket] = flight
            self._tally.runs(flight, grant.upstream, now, waited=waited)
            self._push(now + flight.held, _Event.DONE, flight)
            flight.upstream = grant.upstream

    def _done(self, flight: Flight) -> None:
        now, ticket = self._clock.now, flight.ticket
        del self._flights[ticket], self._runs[ticket]
        self._tally.ends(now)
        run = _Served(flight.size, flight.length, now - flight.answering)
        self._estimator.learn(flight.upstream, flight.request.model, run, now - flight.held, now)
        self._grant(self._lines.release(ticket, now).grants)

    def _give_up(self, flight: Flight) -> None:
        now, ticket = self._clock.now, flight.ticket
        del self._flights[ticket]
        self._tally.leaves(flight, now)
        self._grant(self._lines.leave(ticket, now).grants)
        if self._plan.resend is None:
            self._tally.stays_away(flight)
            return
        if self._kept.seconds:
            self._kept.keep(_name(flight), ticket.number, now)
        self._push(now + self._plan.resend, _Event.COMES_AGAIN, flight)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _party(self, request: Request) -> Party:
        """One object for all requests of a party: they are many."""
        name = (request.key, request.flow, request.batch)
        party = self._parties.get(name)
        if party is None:
            party = self._parties[name] = self._plan.party(request)
        return party

    def _push(self, at: float, event: _Event, flight: Flight) -> None:
        heappush(self._events, (at, event, flight.index, flight))


def _name(flight: Flight) -> bytes:
    """Of the request, for the keeper of places."""
    return str(flight.index).encode()
