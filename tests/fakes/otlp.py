"""A receiver of traces: takes what OpenTelemetry's exporters send by OTLP over HTTP, and reads the protobuf."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

STATUS_ERROR = 2


@dataclass(frozen=True)
class Received:
    """One span."""

    name: str
    trace_id: str
    span_id: str
    parent: str  # "" where there is none
    kind: int
    begin: int  # nanoseconds of Unix time
    end: int
    status: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    state: str

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9


@dataclass
class Receiver:
    """`url`: for `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    url: str = ""
    spans: list[Received] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        told = ExportTraceServiceRequest.FromString(body)
        for batch in told.resource_spans:
            resource = _plain(batch.resource.attributes)
            self.spans += [_read(span, resource) for scope in batch.scope_spans for span in scope.spans]
        self.came.set()
        return web.Response(content_type="application/x-protobuf")

    def named(self, name: str) -> Received:
        """The only span of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on a free port, until the block ends."""
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/v1/traces", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield receiver
    finally:
        await runner.cleanup()


def _read(span: Any, resource: dict[str, Any]) -> Received:
    return Received(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        begin=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        status=span.status.code,
        attributes=_plain(span.attributes),
        resource=resource,
        state=span.trace_state,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
