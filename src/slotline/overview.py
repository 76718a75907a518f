"""What goes on in the gateway, read off those who know it when somebody asks: nothing is counted or kept beside them.

Only the past is kept: how the last few requests ended, and the last hour in numbers. A look costs as much as there are
requests and slots.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from slotline import __version__
from slotline.core import why
from slotline.core.errors import Outcome, SlotlineError
from slotline.core.history import History, Hour
from slotline.core.keys import Priority
from slotline.core.line import Lines
from slotline.core.liveness import State as Silence
from slotline.core.report import (
    Gateway,
    Line,
    Phase,
    Prompt,
    Request,
    Slot,
    SlotState,
    Standing,
    State,
    Upstream,
    laid_out,
    ms,
)
from slotline.core.room import Ticket
from slotline.core.thinking import Cap
from slotline.passage import Passage
from slotline.relay import Relay
from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health

_REMEMBERED = 256  # requests that have ended
_SHOWN = 200  # characters of a model's name
_LOOK = 1.0  # seconds between two looks for the history


class Gate(Protocol):
    """The gate, as far as it can be looked at; see `slotline.gate.local` and `slotline.gate.cluster`."""

    @property
    def lines(self) -> Lines: ...
    @property
    def trouble(self) -> str | None: ...
    def stand(self, numbers: Iterable[int]) -> dict[int, Standing]: ...
    def running(self, upstream: str) -> Mapping[Ticket, float]: ...
    def elsewhere(self, upstream: str) -> tuple[frozenset[int], int]: ...


class Recent:
    """How the last requests ended. `history`: the last hour in numbers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.history = History(clock())
        self._ended: dict[str, tuple[float, Request, str]] = {}  # when, what, and the gateway's own words on it

    def note(self, passage: Passage, outcome: Outcome, error: SlotlineError | None) -> None:
        """A request has its outcome."""
        now, granted = self._clock(), passage.granted
        waited = (now if granted is None else granted) - passage.arrived
        self.history.ended(now, outcome, waited, passage.pieces)
        told = _told(
            passage,
            Phase.ENDED,
            passage.upstream,
            "",
            waited_ms=ms(waited),
            running_ms=None if granted is None else ms(now - granted),
            last_upstream_byte_ms_ago=None,
            last_client_write_ms_ago=None,
            outcome=outcome,
        )
        self._ended[told.id] = now, told, why.own_words(error)  # an error itself would keep all that it came through
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def request(self, id: str) -> Request | None:  # noqa: A002 - it is the id
        """How the request of this id ended; None for one that is not remembered."""
        if id not in self._ended:
            return None
        then, told, words = self._ended[id]
        ago = self._clock() - then
        ran = None if told.running_ms is None else told.running_ms / 1000
        said = why.ended(ago, told.waited_ms / 1000, ran, str(told.outcome), words)
        return msgspec.structs.replace(told, ended_ms_ago=ms(ago), why=said)


@dataclass(frozen=True, slots=True)
class _Look:
    """One moment: the time, who holds a slot of which upstream since when, and why each line stands still."""

    now: float
    held: Mapping[int, tuple[str, float]]  # by the number of the turn
    obstacles: dict[frozenset[str], str]


class Overview:
    """See `slotline.surface.ports.Overview`. `upstreams`: those that there are at any time, by name."""

    def __init__(
        self,
        relay: Relay,
        gate: Gate,
        upstreams: Mapping[str, UpstreamClient],
        recent: Recent,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: that of all the others, seconds."""
        self._relay = relay
        self._gate = gate
        self._upstreams = upstreams
        self._recent = recent
        self._clock = clock
        self._began = clock()
        self._started = int(time.time())

    def state(self) -> State:
        look = self._look()
        passages = list(self._relay.passages)
        return State(
            Gateway(__version__, self._started, ms(look.now - self._began), self._relay.closing),
            *self._rooms(passages, look),
            self._requests(passages, look),
        )

    def rooms(self) -> tuple[list[Upstream], list[Line]]:
        """The upstreams and the lines alone, without a word on each request."""
        return self._rooms(list(self._relay.passages), self._look())

    def _rooms(self, passages: Iterable[Passage], look: _Look) -> tuple[list[Upstream], list[Line]]:
        seated = self._seated(passages, look)
        lengths = self._gate.lines.lines()
        return (
            [self._upstream(each, seated.get(name, ()), lengths, look) for name, each in self._upstreams.items()],
            [Line(sorted(names), length) for names, length in lengths.items() if length],
        )

    def request(self, id: str) -> Request | None:  # noqa: A002 - it is the id
        passage = self._relay.passage(id)
        if passage is None or passage.over.is_set():
            return self._recent.request(id)
        return self._requests([passage], self._look())[0]

    def history(self) -> Hour:
        return self._recent.history.told(self._clock())

    async def watch(self) -> None:
        """Notes now and then how full the slots and the line are, until cancelled."""
        while True:
            total = sum(each.tenancy.slots for each in self._upstreams.values())
            busy = sum(len(self._running(name)) for name in self._upstreams)
            self._recent.history.looked(self._clock(), total, busy, sum(self._gate.lines.lines().values()))
            await asyncio.sleep(_LOOK)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _look(self) -> _Look:
        held = {
            ticket.number: (name, since) for name in self._upstreams for ticket, since in self._running(name).items()
        }
        return _Look(self._clock(), held, {})

    def _running(self, upstream: str) -> Mapping[Ticket, float]:
        """Who holds a slot of `upstream`, since when."""
        try:
            return self._gate.running(upstream)
        except KeyError:  # it is being taken out of the configuration
            return {}

    def _queue(self, upstream: str) -> int:
        """How many may wait for `upstream`."""
        try:
            return self._gate.lines.room(upstream).queue
        except KeyError:
            return 0

    def _requests(self, passages: Iterable[Passage], look: _Look) -> list[Request]:
        passages = list(passages)
        numbers = [each.number for each in passages if each.granted is None and each.number is not None]
        standings = self._gate.stand(numbers)
        return [
            self._one_in_line(each, standings.get(each.number or 0), look)
            if each.granted is None
            else _one_that_runs(each, str(each.upstream), each.granted, look.now)
            for each in passages
        ]

    def _one_in_line(self, passage: Passage, standing: Standing | None, look: _Look) -> Request:
        waited = look.now - passage.arrived
        if standing is None:
            if (held := self._unaware(passage, look)) is not None:
                return _one_that_runs(passage, *held, look.now)
            cause = self._gate.trouble or "it is about to join the line, or to leave it"
            said = f"waits for {why.spoken(waited)}: {cause}"
            return _told(passage, _phase(passage), None, said, waited_ms=ms(waited))
        place, wait = standing.told.place, standing.told.wait
        key = passage.call.caller.key
        cause = self._gate.trouble or (
            why.barred(None if key is None else key.running)
            if standing.barred
            else self._obstacle(passage.call.upstreams, look)
        )
        names = why.names(sorted(passage.call.upstreams))
        return _told(
            passage,
            _phase(passage),
            None,
            why.waiting(waited, place.position, place.length, wait, names, cause),
            cause=cause,
            position=place.position,
            queue_length=place.length,
            estimated_wait_ms=None if wait is None else ms(wait),
            waited_ms=ms(waited),
        )

    def _unaware(self, passage: Passage, look: _Look) -> tuple[str, float] | None:
        """The upstream of which it has a slot, and since when, if it was granted that in this very moment."""
        number = passage.number
        if passage.granted is not None or number is None or self._gate.lines.ticket(number) is not None:
            return None
        return look.held.get(number)

    def _obstacle(self, upstreams: frozenset[str], look: _Look) -> str:
        if upstreams not in look.obstacles:
            known = [self._upstreams[name] for name in sorted(upstreams) if name in self._upstreams]
            look.obstacles[upstreams] = why.obstacle([self._server(each, look.now) for each in known])
        return look.obstacles[upstreams]

    def _server(self, upstream: UpstreamClient, now: float) -> why.Server:
        tenancy = upstream.tenancy
        return why.Server(
            upstream.name,
            [now - since for since in self._running(upstream.name).values()],
            len(tenancy.draining),
            len(tenancy.outside),
            None if tenancy.closed_since is None else now - tenancy.closed_since,
            upstream.sighting.state is Health.LOADING,
        )

    # ---- upstreams ---------------------------------------------------------------------------------------------------

    def _seated(self, passages: Iterable[Passage], look: _Look) -> dict[str, list[Passage]]:
        """Those who sit in a slot, by the upstream that it belongs to."""
        seated: dict[str, list[Passage]] = {}
        for passage in passages:
            name, trace = passage.upstream, passage.trace
            if (held := self._unaware(passage, look)) is not None:
                seated.setdefault(held[0], []).append(passage)
            elif name is not None and trace.seat is not None and trace.upstream is self._upstreams.get(name):
                seated.setdefault(name, []).append(passage)  # and not at an address that is being left
        return seated

    def _upstream(
        self,
        upstream: UpstreamClient,
        seated: Iterable[Passage],
        lengths: Mapping[frozenset[str], int],
        look: _Look,
    ) -> Upstream:
        tenancy, seen = upstream.tenancy, upstream.sighting
        taken = [_slot(each, look.now) for each in seated]
        taken += [Slot(each.slot, SlotState.DRAINING, None, ms(look.now - each.since)) for each in tenancy.draining]
        seats, sharing = self._gate.elsewhere(upstream.name)
        taken += [Slot(seat, SlotState.ELSEWHERE) for seat in [*seats, *[None] * (sharing - len(seats))]]
        numbers = tenancy.numbers
        slots = laid_out(
            tenancy.slots,
            tenancy.allowed,
            taken,
            numbers=numbers if len(numbers) == tenancy.slots else (),
            outside=tenancy.outside,
            loading=seen.state is Health.LOADING,
        )
        return Upstream(
            upstream.name,
            upstream.traits.kind,
            seen.state,
            seen.reason,
            None if tenancy.closed_since is None else ms(look.now - tenancy.closed_since),
            seen.models,
            slots,
            running=slots.busy,
            waiting=sum(length for names, length in lengths.items() if upstream.name in names),
            queue=self._queue(upstream.name),
        )


def _slot(passage: Passage, now: float) -> Slot:
    index = None if passage.trace.seat is None else passage.trace.seat.slot
    held = 0.0 if passage.granted is None else now - passage.granted
    dialect = passage.call.dialect
    state = SlotState(_phase(passage, granted=True))
    pieces, cap = dialect.pieces, _cap(passage)
    return Slot(index, state, passage.call.id, ms(held), _prompt(passage), dialect.thought, pieces, cap)


def _one_that_runs(passage: Passage, upstream: str, granted: float, now: float) -> Request:
    trace, dialect = passage.trace, passage.call.dialect
    run = why.Run(
        _phase(passage, granted=True),
        upstream,
        None if trace.seat is None else trace.seat.slot,
        now - granted,
        _prompt(passage),
        dialect.pieces,
        dialect.thought,
        None if trace.answer is None else trace.answer.quiet,
        trace.silence,
    )
    return _told(
        passage,
        run.phase,
        upstream,
        why.running(run),
        waited_ms=ms(granted - passage.arrived),
        running_ms=ms(run.seconds),
    )


def _told(passage: Passage, phase: Phase, upstream: str | None, said: str, **more: Any) -> Request:
    """What is told of any request, and `more` that is told in its phase."""
    call, dialect, trace, reply = passage.call, passage.call.dialect, passage.trace, passage.reply
    key = call.caller.key
    return Request(
        id=call.id,
        model=call.model[:_SHOWN],  # an alias such as `claude-*` lets a client write what it likes
        surface=call.surface,
        upstream=upstream,
        upstreams=sorted(call.upstreams),
        phase=phase,
        why=said,
        key=call.caller.name,
        flow=call.caller.flow or None,
        priority=Priority.INTERACTIVE if key is None else key.priority,
        stream=dialect.stream,
        prompt=_prompt(passage),
        pieces=dialect.pieces,
        thought=dialect.thought,
        thinking_cap=_cap(passage),
        bytes=reply.written,
        **{
            "last_upstream_byte_ms_ago": None if trace.answer is None else ms(trace.answer.quiet),
            "last_client_write_ms_ago": None if reply.quiet is None else ms(reply.quiet),
            **more,
        },
    )


def _phase(passage: Passage, *, granted: bool = False) -> Phase:
    """`granted`: it has its slot, whether or not it knows that already."""
    dialect, trace = passage.call.dialect, passage.trace
    if passage.ending:
        return Phase.ENDING
    if passage.granted is None and not granted:
        return Phase.WAITING
    if dialect.pieces:
        return Phase.THINKING if dialect.thought == dialect.pieces else Phase.ANSWERING
    return Phase.LOADING if trace.silence is Silence.LOADING and trace.answer is None else Phase.PREFILL


def _cap(passage: Passage) -> int | None:
    """After how many pieces its reasoning is ended; None: never, or it has not been sent to anybody."""
    upstream = passage.trace.upstream
    return None if upstream is None else Cap(upstream.limits, passage.call.dialect.thinking_budget).limit


def _prompt(passage: Passage) -> Prompt | None:
    told = passage.call.dialect.progress
    return None if told is None else Prompt(told.processed, told.total)
