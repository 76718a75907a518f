"""Who is told of each request that ends: it is counted, logged, and its part in a trace is closed."""

from __future__ import annotations

from multidict import CIMultiDictProxy

from slotline.core.record import Record, Span
from slotline.observe import log
from slotline.observe.metrics import Metrics
from slotline.observe.traces import Traces


class Observer:
    """See `slotline.surface.ports.Observer`."""

    def __init__(self, metrics: Metrics, traces: Traces | None) -> None:
        """`traces`: None where nobody asked for them; then nothing is done for them."""
        self.metrics = metrics
        self._traces = traces

    def begin(self, method: str, surface: str, headers: CIMultiDictProxy[str]) -> Span | None:
        return None if self._traces is None else self._traces.begin(method, surface, headers)

    def ended(self, record: Record) -> None:
        self.metrics.ended(record)
        log.tell(record)
        if record.span is not None:
            record.span.end(record)

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        return await self.metrics.exposition(accept)
