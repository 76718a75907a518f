"""`docs/metrics.md` has every metric, alert, label and attribute that there is, and no other."""

from __future__ import annotations

import json
import re

import pytest

from docs.pages import ROOT, page
from fakes.gateway import fronted
from fakes.numbers import OPEN, Numbers, numbers
from slotline.core.errors import Outcome
from slotline.core.record import SURFACES, Record
from slotline.observe import log
from slotline.observe.traces import _attributes

PAGE = page("docs/metrics.md")
ROWS = {row["metric"]: row for row in PAGE.table("metric", "type", "labels", "meaning")}
LABELS = {row["label"]: row["is"] for row in PAGE.table("label", "is")}


async def shown() -> Numbers:
    """A scrape, after one request."""
    async with fronted() as front:
        await front.fetch()
        return await numbers(front, OPEN)


async def test_every_metric_has_a_row_and_every_row_a_metric() -> None:
    ours = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in (await shown()).families
        if family.name.startswith("slotline_")
    }
    assert ours == set(ROWS)


async def test_a_row_has_the_type_and_the_labels() -> None:
    for family in (await shown()).families:
        if family.name.startswith("slotline_"):
            row = ROWS[family.name + ("_total" if family.type == "counter" else "")]
            assert row["type"] == family.type
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            assert labels == set(re.findall(r"\w+", row["labels"])), family.name
            assert labels <= {each for name in LABELS for each in re.findall(r"\w+", name)}


async def test_every_value_of_a_label_is_named() -> None:
    seen = await shown()
    states = {each["state"] for each in seen.series("slotline_slots")}
    directions = {each["direction"] for each in seen.series("slotline_tokens_total")}
    assert all(f"`{state}`" in ROWS["slotline_slots"]["meaning"] for state in states)
    assert all(f"`{way}`" in ROWS["slotline_tokens_total"]["meaning"] for way in directions)
    assert all(f"`{surface}`" in LABELS["surface"] for surface in SURFACES)
    surfaces = {each["surface"] for each in seen.series("slotline_requests_total")}
    assert surfaces == {*SURFACES, ""}


async def test_so_many_series_does_a_model_have() -> None:
    seen = await shown()
    outcomes = len(seen.series("slotline_requests_total", model="stub"))
    histograms = sum(
        len([sample for sample in family.samples if sample.labels.get("model") == "stub"])
        for family in seen.families
        if family.type == "histogram"
    )
    assert f"{outcomes} series of outcomes" in PAGE.text
    assert abs(histograms - 60) <= 5
    assert {each["outcome"] for each in seen.series("slotline_requests_total")} == set(Outcome)


def test_every_alert_has_a_row() -> None:
    alerts = re.findall(r"- alert: (\w+)", (ROOT / "deploy/prometheus/alerts.yml").read_text())
    assert [row["alert"] for row in PAGE.table("alert", "says")] == alerts


@pytest.mark.parametrize("arrived", [None, 1.0])
def test_every_attribute_of_a_span_is_named(arrived: float | None) -> None:
    record = Record(
        id="r", surface="messages", model="m", named="m", outcome=Outcome.STALLED, ended=1.0, arrived=arrived, most=1
    )
    for name in _attributes(record, "chat"):
        assert f"`{name}`" in PAGE.text, name


def test_the_log_has_the_fields_of_its_page_and_its_example() -> None:
    operations = page("docs/operations.md")
    rows = operations.table("field", "in", "meaning")
    documented = {
        name
        for row in rows
        if "request ended" in row["in"]
        for name in re.findall(r"\w+", row["field"].replace("`", ""))
    }
    fields = log._fields(Record(id="r", surface="messages", model="m", outcome=Outcome.COMPLETED, ended=1.0))
    assert documented == set(fields)
    (example,) = [
        line for line in operations.text.splitlines() if line.startswith('{"time"') and '"request ended"' in line
    ]
    told = json.loads(example)
    assert list(told)[:4] == ["time", "level", "logger", "message"]
    assert list(told)[4:] == list(fields)
