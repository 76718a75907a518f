"""Traces: only where they are asked for, with the phases of each request, and not a word of what was said."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import SpanKind, StatusCode

from fakes.otlp import receiving
from slotline.core.errors import Busy, Invalid, Outcome, Stalled
from slotline.core.record import Record, Tokens
from slotline.observe.traces import RequestSpan, Seldom, Traces, asked_for, traces

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Kept:
    """The traces of one gateway, kept in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(ALWAYS_ON), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.traces = Traces(provider)

    def begin(self, surface: str = "messages", headers: Mapping[str, str] | None = None) -> RequestSpan:
        return self.traces.begin("POST", surface, CIMultiDictProxy(CIMultiDict(headers or {})))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def ended(self, record: Record, **headers: str) -> ReadableSpan:
        """The span of a request that ends as `record` says."""
        self.begin(record.surface, headers).end(record)
        return self.spans[-1]


@pytest.fixture
def kept() -> Kept:
    return Kept()


def record(**more: Any) -> Record:
    now = time.monotonic()
    whole = Record(
        id="req_1",
        surface="messages",
        model="m",
        named="alias",
        outcome=Outcome.COMPLETED,
        arrived=now + 1,
        granted=now + 2,
        began=now + 4,
        spoke=now + 7,
        ended=now + 11,
        upstream="box",
        kind="vllm",
        stream=True,
        most=64,
        tokens=Tokens(100, 40, 30, 5),
    )
    return dataclasses.replace(whole, **more)


# ---- what is in them -------------------------------------------------------------------------------------------------


def test_a_request_is_one_span_with_its_phases_below_it(kept: Kept) -> None:
    root = kept.ended(record())
    assert (root.name, root.kind, root.parent) == ("chat alias", SpanKind.SERVER, None)
    assert [span.name for span in kept.spans] == ["queue", "prefill", "thinking", "answer", "chat alias"]
    lengths = {span.name: ((span.end_time or 0) - (span.start_time or 0)) / 1e9 for span in kept.spans}
    assert lengths["queue"] == pytest.approx(1, abs=0.01)
    assert lengths["prefill"] == pytest.approx(2, abs=0.01)
    assert lengths["thinking"] == pytest.approx(3, abs=0.01)
    assert lengths["answer"] == pytest.approx(4, abs=0.01)
    assert lengths["chat alias"] == pytest.approx(11, abs=0.1)
    for span in kept.spans[:-1]:
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert span.context.trace_id == root.context.trace_id


def test_phases_follow_one_another_without_a_gap_in_time_of_the_clock_on_the_wall(kept: Kept) -> None:
    before = time.time_ns()
    kept.ended(record())
    phases = kept.spans[:-1]
    for one, next_ in itertools.pairwise(phases):
        assert one.end_time == next_.start_time
    assert abs((phases[0].start_time or 0) - before - 1_000_000_000) < 50_000_000


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"arrived": None, "granted": None, "began": None, "spoke": None}, []),
        ({"granted": None, "began": None, "spoke": None}, ["queue"]),
        ({"began": None, "spoke": None}, ["queue", "prefill"]),
        ({"spoke": None}, ["queue", "prefill", "thinking"]),
    ],
)
def test_a_phase_that_it_never_came_to_is_left_out(kept: Kept, more: dict[str, None], names: list[str]) -> None:
    root = kept.ended(record(**more))
    assert [span.name for span in kept.spans[:-1]] == names
    if names:
        assert kept.spans[-2].end_time == root.end_time


def test_an_answer_without_thinking_has_no_such_phase(kept: Kept) -> None:
    whole = record()
    kept.ended(dataclasses.replace(whole, spoke=whole.began))
    assert [span.name for span in kept.spans] == ["queue", "prefill", "answer", "chat alias"]


def test_its_attributes_are_those_of_the_conventions_and_our_own(kept: Kept) -> None:
    attributes = dict(kept.ended(record()).attributes or {})
    assert attributes.pop("gen_ai.response.time_to_first_chunk") == pytest.approx(3)
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "alias",
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "slotline.outcome": "completed",
        "slotline.request_id": "req_1",
        "slotline.surface": "messages",
        "slotline.model": "m",
        "slotline.upstream": "box",
    }


@pytest.mark.parametrize(
    ("surface", "name"),
    [
        ("messages", "chat alias"),
        ("chat/completions", "chat alias"),
        ("responses", "chat alias"),
        ("completions", "text_completion alias"),
        ("embeddings", "embeddings alias"),
        ("messages/count_tokens", "count_tokens alias"),
        ("models", "POST models"),
        ("", "POST /v1"),
    ],
)
def test_its_name_is_the_operation_and_the_model(kept: Kept, surface: str, name: str) -> None:
    assert kept.ended(record(surface=surface)).name == name


def test_a_made_up_name_of_a_model_is_cut(kept: Kept) -> None:
    assert len(kept.ended(record(named="x" * 10_000)).name) < 250


@pytest.mark.parametrize(
    ("outcome", "error", "status"),
    [
        (Outcome.COMPLETED, None, StatusCode.UNSET),
        (Outcome.STALLED, Stalled("a-marker of an upstream's own words"), StatusCode.ERROR),
        (Outcome.REFUSED_FULL, Busy("full"), StatusCode.ERROR),
        (Outcome.INVALID, Invalid("a-marker of a client's own words"), StatusCode.UNSET),
        (Outcome.CLIENT_LEFT_RUNNING, None, StatusCode.UNSET),
    ],
)
def test_its_status_is_an_error_where_the_fault_is_not_the_clients(
    kept: Kept, outcome: Outcome, error: Any, status: StatusCode
) -> None:
    span = kept.ended(record(outcome=outcome, error=error))
    assert span.status.status_code is status
    attributes = span.attributes or {}
    assert attributes["slotline.outcome"] == outcome
    if error is not None:
        assert attributes["error.type"] == type(error).__name__
    elif outcome is not Outcome.COMPLETED:
        assert attributes["error.type"] == outcome
    assert "marker" not in span.to_json()


# ---- traces of others ------------------------------------------------------------------------------------------------


def test_a_callers_trace_goes_on_here_and_at_the_upstream(kept: Kept) -> None:
    span = kept.begin(headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b"})
    assert span.trace_id == TRACE
    span.end(record())
    root = kept.one("chat alias")
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == PARENT
    assert span.headers == {"traceparent": f"00-{TRACE}-{root.context.span_id:016x}-01", "tracestate": "a=b"}


def test_what_its_caller_leaves_out_is_left_out_and_passed_on_as_such(kept: Kept) -> None:
    span = kept.begin(headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    span.end(record())
    assert kept.spans == ()
    assert span.trace_id == TRACE
    assert span.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert span.headers["traceparent"].endswith("-00")


@pytest.mark.parametrize("nonsense", ["", "x", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "00-" * 1000])
def test_nonsense_begins_a_trace_of_its_own(kept: Kept, nonsense: str) -> None:
    span = kept.begin(headers={"traceparent": nonsense})
    span.end(record())
    assert kept.one("chat alias").parent is None
    assert span.trace_id != TRACE


# ---- where they are asked for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: "http://a:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://a:4318"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", ENDPOINT: "http://a:4318"}, False),
        ({"OTEL_SDK_DISABLED": "false", ENDPOINT: "http://a:4318"}, True),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_standard_environment_switches_them_on(environ: dict[str, str], wanted: bool) -> None:
    assert asked_for(environ) is wanted


async def test_nobody_who_did_not_ask_pays_for_them() -> None:
    async with traces({}) as made:
        assert made is None


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "jaeger over http/protobuf is asked for"),
        ({ENDPOINT: "http://a:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp over grpc is asked for"),
    ],
)
async def test_what_cannot_be_had_is_a_warning_and_no_error(
    environ: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with traces(environ) as made:
        assert made is None
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert said in warning.getMessage()


async def test_without_the_extra_the_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    async with traces({ENDPOINT: "http://a:4318"}) as made:
        assert made is None
    assert "pip install 'slotline[otel]'" in caplog.text


async def test_what_is_left_is_sent_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver:
        environ = {ENDPOINT: receiver.url}
        monkeypatch.setenv(ENDPOINT, receiver.url)
        async with traces(environ) as made:
            assert made is not None
            made.begin("POST", "messages", CIMultiDictProxy(CIMultiDict())).end(record())
        assert receiver.named("chat alias").resource["service.name"] == "slotline"
        assert len(receiver.spans) == 5


async def test_a_name_for_the_service_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "gpus")
        async with traces({ENDPOINT: receiver.url, "OTEL_SERVICE_NAME": "gpus"}) as made:
            assert made is not None
            made.begin("POST", "messages", CIMultiDictProxy(CIMultiDict())).end(record())
        assert {span.resource["service.name"] for span in receiver.spans} == {"gpus"}


async def test_a_receiver_that_says_nothing_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv(ENDPOINT, url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        async with asyncio.timeout(1):
            async with traces({ENDPOINT: url}, goodbye=0.2) as made:
                assert made is not None
                made.begin("POST", "messages", CIMultiDictProxy(CIMultiDict())).end(record())
    assert "could not be sent within 0.2 s" in caplog.text


def test_a_collector_that_is_away_is_told_of_once_a_minute() -> None:
    now = [0.0]
    seldom, line = Seldom(lambda: now[0]), logging.makeLogRecord({"msg": "away"})
    passed = []
    for moment in (0.0, 1.0, 59.0, 60.0, 61.0, 200.0):
        now[0] = moment
        if seldom.filter(line):
            passed.append(moment)
    assert passed == [0.0, 60.0, 200.0]
