"""Traces, where they are asked for: one OpenTelemetry span a request, and below it one for each of its phases.

    queue      from its arrival until it had a slot
    prefill    … until the first piece of its answer
    thinking   … until the first piece that is no reasoning
    answer     … until its end

It is asked for by OpenTelemetry's own environment variables (`docs/metrics.md`), and needs the package's extra `otel`.
A caller's `traceparent` is honoured: the request becomes a part of that trace, or is left out as its caller is. The
upstream is told of the request's span in the same way. No span has a word of what was said, or a key.

Source of the names: https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from slotline.core.errors import Outcome
from slotline.core.record import Record

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy
    from opentelemetry import trace as otel
    from opentelemetry.sdk.trace import TracerProvider

_log = logging.getLogger(__name__)

_SERVICE = "slotline"
_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"  # the logger of what sends spans
_SELDOM = 60.0  # seconds between two of its lines
_GOODBYE = 5.0  # seconds in which the last spans must be gone; a collector that is away holds up no shutdown
_LONG = 200  # characters of a model's name, which a client may have made up
_OPERATIONS = {
    "messages": "chat",
    "chat/completions": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
    "messages/count_tokens": "count_tokens",
}
_NO_FAULTS = frozenset(
    {
        Outcome.COMPLETED,
        Outcome.CLIENT_LEFT_WAITING,
        Outcome.CLIENT_LEFT_RUNNING,
        Outcome.INVALID,
        Outcome.REFUSED_LIMIT,
    }
)
"""Ends that are the client's own: to a server they are no errors."""


def asked_for(environ: Mapping[str, str]) -> bool:
    """Whether the environment wants traces. Setting an endpoint is enough, as for every program that sends traces.

    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    endpoint = _first(environ, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"))
    return exporter != "none" and bool(exporter or endpoint)


@asynccontextmanager
async def traces(environ: Mapping[str, str], goodbye: float = _GOODBYE) -> AsyncIterator[Traces | None]:
    """The traces that `environ` asks for; what is left of them is sent on leaving the block, within `goodbye` seconds.

    Where they cannot be had, that is a warning and no error: such variables are often set for a whole machine.
    """
    provider = _provider(environ) if asked_for(environ) else None
    if provider is None:
        yield None
        return
    _log.info("traces: each request is one, sent by OTLP over HTTP")
    seldom = Seldom(time.monotonic)
    exporter = logging.getLogger(_EXPORTER)
    exporter.addFilter(seldom)
    try:
        yield Traces(provider)
    finally:
        await _shut_down(provider, goodbye)
        exporter.removeFilter(seldom)


class Seldom(logging.Filter):
    """Lets one line through a minute: a collector that is away is told of with each try to reach it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._next = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + _SELDOM
        return True


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _provider(environ: Mapping[str, str]) -> TracerProvider | None:
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    protocol = _first(environ, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")) or "http/protobuf"
    if "otlp" not in exporter.split(",") or protocol != "http/protobuf":
        _log.warning(
            "traces: none: they go by otlp over http/protobuf, and %s over %s is asked for", exporter, protocol
        )
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - optional
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        _log.warning("traces: none: the environment asks for them, which needs pip install 'slotline[otel]'")
        return None
    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": _SERVICE}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


async def _shut_down(provider: TracerProvider, goodbye: float) -> None:
    """Sends what is left. It blocks, so it has a thread, which nobody waits for longer than `goodbye` seconds."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def shut_down() -> None:
        provider.shutdown()
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=shut_down, name="last spans", daemon=True).start()
    try:
        async with asyncio.timeout(goodbye):
            await done.wait()
    except TimeoutError:
        _log.warning("traces: the last ones could not be sent within %g s", goodbye)


class Traces:
    """Begins the span of each request. Made only where OpenTelemetry is there."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - optional
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self.otel = trace
        self.tracer = provider.get_tracer("slotline")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, method: str, surface: str, headers: CIMultiDictProxy[str]) -> RequestSpan:
        """A request has come, with these headers."""
        carrier = {name: ",".join(headers.getall(name, ())) for name in ("traceparent", "tracestate")}
        parent = self._propagator.extract(carrier)
        name = _OPERATIONS.get(surface) or f"{method} {surface or '/v1'}"
        root = self.tracer.start_span(name, parent, self.otel.SpanKind.SERVER, start_time=time.time_ns())
        return RequestSpan(self, root, surface)

    def headers(self, span: otel.Span) -> dict[str, str]:
        """What tells the next program that its span hangs below `span`."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self.otel.set_span_in_context(span))
        return carrier


class RequestSpan:
    """See `slotline.core.record.Span`. Spans of its phases are made at its end, from the moments on record."""

    def __init__(self, traces: Traces, root: otel.Span, surface: str) -> None:
        self._traces = traces
        self._root = root
        self._operation = _OPERATIONS.get(surface)
        self._epoch = time.time_ns() - time.monotonic_ns()  # of the monotonic clock, as it is now
        self.trace_id = traces.otel.format_trace_id(root.get_span_context().trace_id)
        self.headers: Mapping[str, str] = traces.headers(root)

    def end(self, record: Record) -> None:
        """The request has ended as `record` says."""
        if self._root.is_recording():
            if self._operation and record.named is not None:
                self._root.update_name(f"{self._operation} {record.named[:_LONG]}")
            self._root.set_attributes(_attributes(record, self._operation))
            if record.outcome not in _NO_FAULTS:
                self._root.set_status(self._traces.otel.StatusCode.ERROR, record.outcome)
            self._phases(record)
        self._root.end(self._wall(record.ended))

    def _phases(self, record: Record) -> None:
        below = self._traces.otel.set_span_in_context(self._root)
        thinks = record.began is not None and record.began != record.spoke
        starts = (
            ("queue", record.arrived),
            ("prefill", record.granted),
            ("thinking", record.began if thinks else None),
            ("answer", record.spoke),
        )
        reached = [(name, moment) for name, moment in starts if moment is not None]
        for (name, begin), (_, end) in pairwise([*reached, ("", record.ended)]):
            self._traces.tracer.start_span(name, below, start_time=self._wall(begin)).end(self._wall(end))

    def _wall(self, moment: float) -> int:
        """A moment of the monotonic clock as nanoseconds of Unix time."""
        return self._epoch + round(moment * 1e9)


def _attributes(record: Record, operation: str | None) -> dict[str, Any]:
    """By the conventions for generative AI, and our own below `slotline.`; what is not known is left out."""
    tokens = record.tokens
    found: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": operation and (record.kind or "slotline"),
        "gen_ai.request.model": record.named and record.named[:_LONG],
        "gen_ai.request.max_tokens": record.most,
        "gen_ai.request.stream": record.stream if record.arrived is not None else None,
        "gen_ai.response.time_to_first_chunk": record.first_token,
        "gen_ai.usage.input_tokens": tokens.input,
        "gen_ai.usage.cache_read.input_tokens": tokens.cached,
        "gen_ai.usage.output_tokens": tokens.output,
        "gen_ai.usage.reasoning.output_tokens": tokens.reasoning,
        "error.type": _error_type(record),
        "slotline.outcome": str(record.outcome),
        "slotline.request_id": record.id,
        "slotline.surface": record.surface,
        "slotline.model": record.model or None,
        "slotline.upstream": record.upstream,
    }
    return {name: value for name, value in found.items() if value is not None}


def _error_type(record: Record) -> str | None:
    if record.error is not None:
        return type(record.error).__name__
    return None if record.outcome is Outcome.COMPLETED else str(record.outcome)
