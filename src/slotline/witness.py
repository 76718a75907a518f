"""Sees what becomes of each request, and tells those who count it, log it, trace it and remember it.

What they are told are plain values: none of them knows a passage.
"""

from __future__ import annotations

import time

from slotline.core.errors import Outcome, SlotlineError
from slotline.core.record import Moment, Record
from slotline.observe.metrics import Metrics
from slotline.observe.observer import Observer
from slotline.overview import Recent
from slotline.passage import Passage


class Witness:
    """What a relay tells of its passages goes here; see `slotline.relay.Relay`."""

    def __init__(self, recent: Recent, observer: Observer, metrics: Metrics) -> None:
        self._recent = recent
        self._observer = observer
        self._metrics = metrics

    def ended(self, passage: Passage, outcome: Outcome, error: SlotlineError | None) -> None:
        """A request has its one outcome."""
        self._recent.note(passage, outcome, error)
        self._observer.ended(_record(passage, outcome, error))

    def noted(self, passage: Passage, moment: Moment) -> None:
        """Something has happened to it that is counted when it happens, because an answer may take long to end."""
        surface, model = passage.call.surface, passage.call.name
        match moment:
            case Moment.ARRIVED:
                self._metrics.expect(surface, model)
            case Moment.GRANTED if passage.granted is not None and not passage.retried:
                self._metrics.waited(surface, model, passage.granted - passage.arrived)
            case Moment.SENT if passage.idle is not None:
                self._metrics.idled(passage.idle)
            case Moment.BEGAN if passage.began is not None:
                self._metrics.began(surface, model, passage.began - passage.arrived)


def _record(passage: Passage, outcome: Outcome, error: SlotlineError | None) -> Record:
    call, dialect, upstream = passage.call, passage.call.dialect, passage.trace.upstream
    return Record(
        id=call.id,
        surface=call.surface,
        model=call.name,
        outcome=outcome,
        ended=time.monotonic(),
        arrived=passage.arrived,
        stood=passage.told is not None,
        granted=passage.granted,
        began=passage.began,
        spoke=passage.spoke,
        retried=passage.retried,
        named=call.model,
        upstream=passage.upstream,
        kind=None if upstream is None else upstream.traits.kind,
        key=call.caller.name,
        batch=call.party.batch,
        stream=dialect.stream,
        most=dialect.most,
        size=passage.size,
        pieces=passage.pieces,
        capped=passage.capped,
        tokens=dialect.tokens,
        notes="; ".join(dict.fromkeys(dialect.notes)) or None,  # an upstream may earn the same one with each event
        error=error,
        span=call.span,
    )
