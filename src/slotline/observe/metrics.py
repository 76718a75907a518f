"""The numbers that are counted, and the page that tells all of them: `docs/metrics.md` is about it.

Their number is bounded by the configuration, whatever clients send: of a request only its surface, one of a few, and
its model by the catalogue's own name become labels. Series are there with 0 before anything has happened, because a
rate cannot see the step from nothing to 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from slotline.core.errors import Outcome
from slotline.core.models import Model
from slotline.core.record import IN_LINE, SURFACES, UNKNOWN, Record, Tokens

_DIRECTIONS = ("input", "output", "cached", "reasoning")
_EARLY = 20
"""Models on offer whose series are there from the start. An aggregator may list hundreds: they begin when asked for."""

_WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800)
"""Seconds. From a free slot and a prompt in the cache (5 ms) to `busy_wait` as it is by default (30 min): a GPU of
one's own is slow rather than lost. Steps of 2 to 3 keep a quantile right within that factor."""
_IDLES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Seconds. To hand a slot on takes about a millisecond, and a long prompt has to be read again before it goes out; what
is above a second is a fault."""


class Metrics:
    """All of one gateway, in a registry of its own."""

    def __init__(self, models: Callable[[], Sequence[Model]]) -> None:
        """`models`: those on offer, whose names alone become labels."""
        self._models = models
        self._known: set[str] = {UNKNOWN}
        self._outcomes: dict[tuple[str, str], dict[Outcome, Counter]] = {}
        self._times: dict[tuple[str, str], _Times] = {}
        self._asked = 0  # times that somebody asked for a page
        self._making = asyncio.Lock()
        self._pages: dict[str, tuple[int, bytes]] = {}  # by content type: up to which asking it was read, and the page
        self._registry = CollectorRegistry()
        of_request = ("surface", "model")
        self._waits, self._firsts, self._durations = (
            Histogram(f"slotline_{name}_seconds", told, of_request, registry=self._registry, buckets=_WAITS)
            for name, told in (
                ("wait", "From the arrival of a request until it had a slot, or gave up."),
                ("first_token", "From the arrival of a request to the first piece of its answer."),
                ("request", "From the arrival of a request to its outcome."),
            )
        )
        self._requests = Counter(
            "slotline_requests", "Requests that have ended.", (*of_request, "outcome"), registry=self._registry
        )
        self._tokens = Counter("slotline_tokens", "Tokens.", ("model", "direction"), registry=self._registry)
        self._capped = Counter(
            "slotline_thinking_capped", "Answers whose thinking passed the cap.", ("model",), registry=self._registry
        )
        self._idle = Histogram(
            "slotline_slot_idle_seconds",
            "From the moment a slot was free until the next in line was sent there.",
            registry=self._registry,
            buckets=_IDLES,
        )
        for surface in (*SURFACES, UNKNOWN):
            self._outcomes_of(surface, UNKNOWN)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def add(self, collector: Collector) -> None:
        """From now on what `collector` reads is told as well."""
        self._registry.register(collector)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def expect(self, surface: str, model: str) -> None:
        """Such a request has come to the line: its series are there before it ends."""
        self._outcomes_of(surface, model)
        self._times_of(surface, model)

    def waited(self, surface: str, model: str, seconds: float) -> None:
        """It has its slot."""
        self._times_of(surface, model).wait.observe(seconds)

    def idled(self, seconds: float) -> None:
        """A slot was free for so long although somebody stood in line."""
        self._idle.observe(seconds)

    def began(self, surface: str, model: str, seconds: float) -> None:
        """The first piece of its answer is there."""
        self._times_of(surface, model).first.observe(seconds)

    def ended(self, record: Record) -> None:
        """It has its outcome. What was refused at once had no time to wait or to take."""
        self._outcomes_of(record.surface, record.model)[record.outcome].inc()
        if record.arrived is None:
            return
        if record.stood or record.granted is not None:
            times, seconds = self._times_of(record.surface, record.model), record.ended - record.arrived
            times.duration.observe(seconds)
            if record.granted is None and not record.retried:
                times.wait.observe(seconds)
        model = self._label(record.model)
        if record.capped is not None:
            self._capped.labels(model).inc()
        self._spend(model, record.tokens)

    def _spend(self, model: str, tokens: Tokens) -> None:
        for direction in _DIRECTIONS:
            if (count := getattr(tokens, direction)) and count > 0:
                self._tokens.labels(model, direction).inc(count)

    # ---- the page ----------------------------------------------------------------------------------------------------

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """All numbers in the form that the header `accept` prefers, and its content type.

        They are read at one moment. To write them down takes as long again, and holds up nobody: it has a thread. One
        page is made at a time, and those who ask meanwhile get the next one together, however many they are.
        """
        asked = self._asked = self._asked + 1
        encode, content_type = _form(accept)
        async with self._making:
            read, page = self._pages.get(content_type, (0, b""))
            if read < asked:
                read, page = self._asked, await self._page(encode)
                self._pages[content_type] = read, page
        return page, content_type

    async def _page(self, encode: Callable[[Collector], bytes]) -> bytes:
        for model in self._models()[:_EARLY]:
            for surface in IN_LINE:
                self._outcomes_of(surface, model.name)
        return await asyncio.to_thread(encode, _Read(self._registry.collect()))

    # ---- series, at hand: to find one by its labels costs more than to count -----------------------------------------

    def _label(self, model: str) -> str:
        """The name if it is, or was, one of the catalogue's; an upstream that loads may be asked for anything."""
        if model not in self._known:
            self._known.update(each.name for each in self._models())
        return model if model in self._known else UNKNOWN

    def _outcomes_of(self, surface: str, model: str) -> dict[Outcome, Counter]:
        name = surface, self._label(model)
        if name not in self._outcomes:
            self._outcomes[name] = {outcome: self._requests.labels(*name, outcome) for outcome in Outcome}
            if name[1] != UNKNOWN:
                self._capped.labels(name[1])
                for direction in _DIRECTIONS:
                    self._tokens.labels(name[1], direction)
        return self._outcomes[name]

    def _times_of(self, surface: str, model: str) -> _Times:
        name = surface, self._label(model)
        if name not in self._times:
            self._times[name] = _Times(*(each.labels(*name) for each in (self._waits, self._firsts, self._durations)))
        return self._times[name]


def _form(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """How to write the page, and its content type. Of what is no header the library makes an error: the plain form."""
    try:
        return choose_encoder(accept.encode("ascii", "ignore").decode())
    except (TypeError, ValueError):
        return choose_encoder("")


class _Times(NamedTuple):
    """The histograms of one surface and one model. They are many series, so only of what was asked for."""

    wait: Histogram
    first: Histogram
    duration: Histogram


class _Read(Collector):
    """What a registry told, without the `_created` of each series, which would double their number."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = [_without_dates(family) for family in families]

    def collect(self) -> Iterable[Metric]:
        return self._families


def _without_dates(family: Metric) -> Metric:
    family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    return family
