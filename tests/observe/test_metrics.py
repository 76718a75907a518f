"""The numbers: there from the start, bounded whatever comes, and valid in both forms."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fakes.numbers import OPEN, Numbers
from slotline.core.errors import Outcome
from slotline.core.models import Model
from slotline.core.record import IN_LINE, SURFACES, Record, Tokens
from slotline.observe.metrics import Metrics

MODEL = Model("m", frozenset({"box"}), "m")
DONE = Record(
    id="req_1",
    surface="messages",
    model="m",
    outcome=Outcome.COMPLETED,
    arrived=10.0,
    stood=True,
    granted=12.0,
    began=13.0,
    spoke=13.0,
    ended=20.0,
    tokens=Tokens(input=100, cached=40, output=30, reasoning=5),
)


async def told(metrics: Metrics, accept: str = "") -> Numbers:
    body, content_type = await metrics.exposition(accept)
    return Numbers.read(body.decode(), content_type)


def changed(**more: object) -> Record:
    return dataclasses.replace(DONE, **more)  # type: ignore[arg-type]


async def test_what_can_be_known_at_the_start_is_there_with_0() -> None:
    """A rate cannot see the step from nothing to 1."""
    seen = await told(Metrics(lambda: [MODEL]))
    for outcome in Outcome:
        for surface in IN_LINE:
            assert seen.series("slotline_requests_total", surface=surface, model="m", outcome=outcome)
        for surface in (*SURFACES, ""):
            assert seen.series("slotline_requests_total", surface=surface, model="", outcome=outcome)
    assert len(seen.series("slotline_tokens_total", model="m")) == 4
    assert seen.series("slotline_thinking_capped_total", model="m")
    assert seen.sum("slotline_requests_total") == seen.sum("slotline_tokens_total") == 0


async def test_a_request_that_has_come_has_all_its_series_before_it_ends() -> None:
    metrics = Metrics(lambda: [MODEL])
    metrics.expect("messages", "m")
    seen = await told(metrics)
    for name in ("wait", "first_token", "request"):
        assert seen.sum(f"slotline_{name}_seconds_count", surface="messages", model="m") == 0
        assert seen.series(f"slotline_{name}_seconds_count", surface="messages", model="m")


async def test_an_aggregators_hundreds_of_models_begin_when_they_are_asked_for() -> None:
    many = [Model(f"m{n}", frozenset({"box"}), "x") for n in range(400)]
    metrics = Metrics(lambda: many)
    assert not (await told(metrics)).series("slotline_requests_total", model="m399")
    metrics.expect("messages", "m399")
    assert (await told(metrics)).series("slotline_requests_total", model="m399", outcome="stalled")


@pytest.mark.parametrize("accept", ["", OPEN])
async def test_both_forms_are_read_by_the_official_parsers_and_tell_the_same(accept: str) -> None:
    metrics = Metrics(lambda: [MODEL])
    metrics.waited("messages", "m", 2.0)
    metrics.began("messages", "m", 3.0)
    metrics.idled(0.002)
    metrics.ended(DONE)
    seen = await told(metrics, accept)
    assert seen.outcomes == {("messages", "m", "completed"): 1}
    assert seen.sum("slotline_wait_seconds_sum", surface="messages", model="m") == 2
    assert seen.sum("slotline_first_token_seconds_sum", surface="messages", model="m") == 3
    assert seen.sum("slotline_request_seconds_sum", surface="messages", model="m") == 10
    assert seen.sum("slotline_slot_idle_seconds_bucket", le="0.0025") == 1
    assert seen.sum("slotline_slot_idle_seconds_bucket", le="0.001") == 0
    assert [seen.sum("slotline_tokens_total", direction=way) for way in ("input", "cached", "output", "reasoning")] == [
        100,
        40,
        30,
        5,
    ]
    assert not [sample.name for sample in seen.samples if sample.name.endswith("_created")]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("application/openmetrics-text", "application/openmetrics-text"),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3", "application/openmetrics"),
        ("text/html", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=abc", "text/plain; version=0.0.4"),
        ("text/plain; version=1.0.x; escaping=\udce9", "text/plain; version=0.0.4"),
    ],
)
async def test_the_form_is_the_one_asked_for(accept: str, content_type: str) -> None:
    _, found = await Metrics(list).exposition(accept)
    assert found.startswith(content_type)


@pytest.mark.parametrize("outcome", Outcome)
async def test_a_request_that_never_had_a_slot_waited_until_its_end(outcome: Outcome) -> None:
    metrics = Metrics(lambda: [MODEL])
    metrics.ended(changed(outcome=outcome, granted=None, began=None, spoke=None, tokens=Tokens()))
    seen = await told(metrics)
    assert seen.outcomes == {("messages", "m", str(outcome)): 1}
    assert seen.sum("slotline_wait_seconds_sum") == 10
    assert seen.sum("slotline_first_token_seconds_count") == 0


async def test_who_is_refused_at_once_neither_waited_nor_took_any_time() -> None:
    """Else a rush of refusals would look like short waits."""
    metrics = Metrics(lambda: [MODEL])
    metrics.ended(changed(outcome=Outcome.REFUSED_FULL, stood=False, granted=None, began=None))
    metrics.ended(changed(outcome=Outcome.INVALID, arrived=None, stood=False, granted=None, began=None))
    seen = await told(metrics)
    assert seen.outcomes == {("messages", "m", "refused_full"): 1, ("messages", "m", "invalid"): 1}
    assert seen.sum("slotline_wait_seconds_count") == seen.sum("slotline_request_seconds_count") == 0


async def test_a_second_try_is_no_second_wait() -> None:
    metrics = Metrics(lambda: [MODEL])
    metrics.waited("messages", "m", 2.0)
    metrics.ended(changed(retried=True, granted=None, outcome=Outcome.LOAD_TIMEOUT))
    assert (await told(metrics)).sum("slotline_wait_seconds_count") == 1


async def test_a_cap_that_was_passed_is_counted_once() -> None:
    metrics = Metrics(lambda: [MODEL])
    metrics.ended(changed(capped=16384))
    metrics.ended(DONE)
    assert (await told(metrics)).sum("slotline_thinking_capped_total", model="m") == 1


async def test_tokens_that_make_no_sense_are_left_out() -> None:
    metrics = Metrics(lambda: [MODEL])
    metrics.ended(changed(tokens=Tokens(input=-5, output=0)))
    assert (await told(metrics)).sum("slotline_tokens_total") == 0


async def test_a_thousand_invented_names_make_no_series() -> None:
    """An upstream that loads may be asked for anything; such a name is not the catalogue's."""
    metrics = Metrics(lambda: [MODEL])
    metrics.expect("messages", "")
    metrics.ended(changed(model=""))
    before = len(list((await told(metrics)).samples))
    for number in range(1000):
        metrics.expect("messages", f"invented-{number}")
        metrics.waited("messages", f"invented-{number}", 1.0)
        metrics.began("messages", f"invented-{number}", 1.0)
        metrics.ended(changed(model=f"invented-{number}", capped=1))
    seen = await told(metrics)
    assert len(list(seen.samples)) == before + 1  # the cap, of no known model
    assert seen.outcomes == {("messages", "", "completed"): 1001}


async def test_a_model_that_was_taken_out_keeps_its_name_in_what_was_counted() -> None:
    models = [MODEL]
    metrics = Metrics(lambda: models)
    metrics.ended(DONE)
    models.clear()
    metrics.ended(DONE)
    assert (await told(metrics)).outcomes == {("messages", "m", "completed"): 2}


async def test_two_gateways_in_one_process_count_for_themselves() -> None:
    one, other = Metrics(lambda: [MODEL]), Metrics(lambda: [MODEL])
    one.ended(DONE)
    assert (await told(one)).outcomes
    assert not (await told(other)).outcomes


async def test_the_process_tells_of_itself() -> None:
    seen = await told(Metrics(list))
    assert seen.sum("process_resident_memory_bytes") > 1 << 20
    assert seen.series("python_info")


async def test_those_who_ask_at_once_get_few_pages_and_each_is_read_after_it_was_asked_for() -> None:
    class Counting(Collector):
        reads = 0

        def collect(self) -> Iterator[Metric]:
            self.reads += 1
            yield GaugeMetricFamily("reads", "So far.", self.reads)

    counting = Counting()
    metrics = Metrics(list)
    metrics.add(counting)
    before = counting.reads
    pages = await asyncio.gather(*(metrics.exposition("text/plain") for _ in range(50)))
    assert counting.reads - before <= 2
    assert len(set(pages)) <= 2
    page, _ = await metrics.exposition("text/plain")
    assert f"reads {counting.reads:.1f}" in page.decode()
    assert counting.reads - before <= 3
