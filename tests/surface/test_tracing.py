"""Traces through the whole gateway: from a caller's `traceparent` to the upstream's, sent to a real receiver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fakes.gateway import Front, fronted
from fakes.otlp import STATUS_ERROR, Receiver, receiving
from fakes.product import ask
from slotline.stub.script import Done, Finish, Head, Reasoning, Script, Sleep, Text, Usage
from slotline.stub.standard import die

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PROMPT = "a-marker-in-the-prompt"
THINKS = Script(
    (Head(), Sleep(0.1), Reasoning("a-marker"), Sleep(0.1), Text("a-marker"), Sleep(0.1), Finish(), Usage(), Done())
)


@asynccontextmanager
async def traced(monkeypatch: pytest.MonkeyPatch, **more: Any) -> AsyncIterator[tuple[Front, Receiver]]:
    """A gateway that sends its traces to a receiver within 50 ms."""
    async with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        async with fronted(**more) as front:
            yield front, receiver


async def until(receiver: Receiver, count: int) -> None:
    async with asyncio.timeout(5):
        while len(receiver.spans) < count:
            receiver.came.clear()
            await receiver.came.wait()


def upstreams(front: Front, number: int = -1) -> Mapping[str, str]:
    """The headers of a request as the upstream got it."""
    return dict(front.stub.requests[number].headers)


async def test_a_request_is_a_part_of_its_callers_trace_and_the_upstreams_is_a_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with traced(monkeypatch) as (front, receiver):
        front.stub.play(THINKS)
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
        before = time.time_ns()
        answer = await front.fetch(ask(PROMPT), headers=headers)
        await until(receiver, 5)
        root = receiver.named("chat stub")
        assert (root.trace_id, root.parent, root.state) == (TRACE, PARENT, "vendor=1")
        assert upstreams(front)["traceparent"] == f"00-{TRACE}-{root.span_id}-01"
        assert upstreams(front)["tracestate"] == "vendor=1"
        for name in ("queue", "prefill", "thinking", "answer"):
            phase = receiver.named(name)
            assert (phase.trace_id, phase.parent) == (TRACE, root.span_id)
            assert before <= phase.begin <= phase.end <= time.time_ns()
        for name in ("prefill", "thinking", "answer"):
            assert 0.05 < receiver.named(name).seconds < 0.5
        assert root.attributes["gen_ai.operation.name"] == "chat"
        assert root.attributes["gen_ai.provider.name"] == "llama.cpp"
        assert root.attributes["gen_ai.request.model"] == "stub"
        assert root.attributes["gen_ai.usage.output_tokens"] == 2
        assert root.attributes["slotline.request_id"] == answer.headers["request-id"]
        assert root.resource["service.name"] == "slotline"
        assert "marker" not in repr(receiver.spans)
        (fields,) = [
            record.__dict__["fields"] for record in front.log.records if record.getMessage() == "request ended"
        ]
        assert fields["trace_id"] == TRACE


async def test_without_a_caller_that_traces_each_request_is_a_trace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced(monkeypatch) as (front, receiver):
        await front.fetch()
        await front.fetch(ask("another"))
        await until(receiver, 6)
        roots = [span for span in receiver.spans if span.name == "chat stub"]
        assert [root.parent for root in roots] == ["", ""]
        assert len({root.trace_id for root in roots}) == 2
        assert roots[0].trace_id in upstreams(front, 0)["traceparent"]


async def test_a_caller_that_is_not_sampled_is_left_out_and_the_upstream_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with traced(monkeypatch) as (front, receiver):
        await front.fetch(headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        assert upstreams(front)["traceparent"].startswith(f"00-{TRACE}-")
        assert upstreams(front)["traceparent"].endswith("-00")
    assert receiver.spans == []


async def test_what_fails_and_what_is_refused_are_in_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced(monkeypatch) as (front, receiver):
        front.stub.play(die(2))
        await front.fetch(ask(PROMPT))
        assert (await front.fetch(ask(model="nope"))).status == 404
        await until(receiver, 5)
        died, refused = receiver.named("chat stub"), receiver.named("chat nope")
        assert (died.status, died.attributes["error.type"]) == (STATUS_ERROR, "StreamClosedEarly")
        assert died.attributes["slotline.outcome"] == "upstream_died"
        assert (refused.status, refused.attributes["error.type"]) == (0, "UnknownModel")


async def test_a_wait_in_line_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced(monkeypatch) as (front, receiver):
        front.stub.default = Script((Head(), Text("a"), Sleep(0.2), Finish(), Done()))
        await asyncio.gather(front.fetch(ask("1")), front.fetch(ask("2")))
        await until(receiver, 8)
        queued = sorted(span.seconds for span in receiver.spans if span.name == "queue")
        assert queued[0] < 0.15 < queued[1]


async def test_where_nobody_asked_for_traces_nothing_of_a_callers_reaches_the_upstream() -> None:
    async with fronted() as front:
        await front.fetch(headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        assert "traceparent" not in upstreams(front)
        (fields,) = [
            record.__dict__["fields"] for record in front.log.records if record.getMessage() == "request ended"
        ]
        assert fields["trace_id"] is None
