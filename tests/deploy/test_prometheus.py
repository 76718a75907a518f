"""What is deployed beside the gateway works with it: every query of the dashboard and of the alerts finds its series.

A real Prometheus reads a real gateway, which is in all the states that an operator wants to see.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT
from fakes.gateway import Front, fronted
from fakes.numbers import numbers
from fakes.product import ask
from fakes.prometheus import Prometheus, prometheus
from slotline.config import UpstreamConfig
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.standard import endless_thinking, hang, ok

CONFIG = ROOT / "deploy/prometheus/prometheus.yml"
RULES = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = json.loads((ROOT / "deploy/grafana/slotline.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())


def filled(expression: str) -> str:
    """As Grafana asks it, with all jobs, gateways and models."""
    for variable in ("job", "instance", "model"):
        expression = expression.replace(f"${variable}", ".*")
    return expression.replace("$__rate_interval", "30s")


def compared(expression: str) -> str:
    """What is compared with something in the expression of an alert: series, whatever their values are."""
    return re.sub(r"\s(==|>|<)\s[\d.]+", " ", expression)


@asynccontextmanager
async def busy(tmp_path: Path) -> AsyncIterator[tuple[Front, Prometheus]]:
    """A gateway that has answered, refused and capped requests, where some run, wait and drain; and who reads it."""
    stub = Stub(slots=2, tokens=3, models=("stub", "held", "thinks"), abort_lag=30.0)
    stub.by_model["held"] = hang()
    stub.by_model["thinks"] = endless_thinking(gap=0.001)
    away = UpstreamConfig(name="away", url="http://127.0.0.1:1", slots=1, queue=1, limits=Limits(poll=0.05))
    async with fronted(stub=stub, slots=2, limits=Limits(poll=0.05, thinking_cap=5), before=(away,)) as front:
        config = CONFIG.read_text().replace("15s", "500ms").replace("127.0.0.1:8080", front.url.removeprefix("http://"))
        async with prometheus(config.replace("alerts.yml", str(RULES)), tmp_path) as reader:
            await reader.scraped(1)
            await asyncio.gather(*(front.fetch(ask(str(n))) for n in range(8)))
            await front.fetch(ask(model="thinks"))
            await front.fetch(ask(model="nope"))
            async with front.calling(ask("1", model="held")) as one, front.calling(ask("2", model="held")):
                await stub.until(lambda state: state.running == 2)
                async with front.streaming(ask("3", model="held")) as waiting:
                    await waiting.next()
                    one.reset()
                    async with asyncio.timeout(5):
                        while not (await numbers(front)).sum("slotline_slots", state="draining"):
                            pass
                    await reader.scraped(int((await reader.query("count_over_time(up[1m])"))[0]["value"][1]) + 3)
                    yield front, reader


async def test_every_query_of_the_dashboard_and_of_the_alerts_returns_a_series(tmp_path: Path) -> None:
    async with busy(tmp_path) as (_, reader):
        empty = [(title, query) for title, query in QUERIES if not await reader.query(filled(query))]
        assert empty == []
        (group,) = (await reader.asked("rules"))["groups"]
        assert [rule["name"] for rule in group["rules"]] == ALERTS
        assert [rule["name"] for rule in group["rules"] if not await reader.query(compared(rule["query"]))] == []
        assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
        (target,) = (await reader.asked("targets"))["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        values = {label: await reader.asked(f"label/{label}/values") for label in ("model", "upstream", "line")}
        assert values["upstream"] == ["away", "box"]
        assert values["model"] == ["held", "stub", "thinks"]
        draining = await reader.query('max_over_time(slotline_slots{upstream="box", state="draining"}[10s])')
        assert float(draining[0]["value"][1]) == 1


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    queries = " ".join(query for _, query in QUERIES)
    for name in (
        "slots",
        "waiting",
        "running",
        "wait_seconds",
        "first_token_seconds",
        "request_seconds",
        "requests_total",
        "tokens_total",
        "slot_idle_seconds",
        "upstream_up",
        "thinking_capped_total",
        "build_info",
    ):
        assert f"slotline_{name}" in queries, name


def test_the_dashboard_can_be_imported_where_the_data_source_has_any_name() -> None:
    sources = {json.dumps(panel["datasource"]) for panel in PANELS}
    sources |= {json.dumps(target["datasource"]) for panel in PANELS for target in panel["targets"]}
    assert sources == {json.dumps({"type": "prometheus", "uid": "${datasource}"})}
    variables = {each["name"]: each["type"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query", "instance": "query", "model": "query"}
    assert "id" not in DASHBOARD
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(identities)) == len(identities)
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


async def promtool(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "promtool", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


@pytest.mark.parametrize(("what", "file"), [("config", CONFIG), ("rules", RULES)])
async def test_promtool_finds_nothing_wrong(what: str, file: Path) -> None:
    status, said = await promtool("check", what, str(file))
    assert status == 0, said
    assert "FAILED" not in said


async def test_promtool_finds_nothing_wrong_with_the_names_of_our_metrics() -> None:
    """Units, suffixes and help as Prometheus' own guide wants them; of the process's, its library is the author."""
    async with fronted() as front:
        front.stub.play(ok(3))
        await front.fetch()
        body = (await front.get("/metrics")).body
    ours = [line for line in body.splitlines() if b"slotline_" in line]
    process = await asyncio.create_subprocess_exec(
        *("promtool", "check", "metrics"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate(b"\n".join(ours) + b"\n")
    assert (process.returncode, said) == (0, b"")


async def test_what_the_gateways_of_a_cluster_all_tell_is_counted_once_on_the_dashboard(tmp_path: Path) -> None:
    """Two gateways have one line, and a third one has another line, and so another job."""
    told = {
        'slotline_slots{upstream="box",state="free"': 2,
        'slotline_waiting{line="box"': 3,
        'slotline_running{upstream="box"': 1,
    }
    gateways = [("slotline", "a"), ("slotline", "b"), ("other", "c")]
    series = [
        {"series": f'{name},job="{job}",instance="{instance}"}}', "values": f"{value}x5"}
        for name, value in told.items()
        for job, instance in gateways
    ]
    queries = {
        filled(query): value for _, query in QUERIES for name, value in told.items() if name.partition("{")[0] in query
    }
    assert len(queries) == 6
    judgements = [
        {"expr": f"sum({query})", "eval_time": "3m", "exp_samples": [{"labels": "{}", "value": 2 * value}]}
        for query, value in queries.items()
    ]
    file = tmp_path / "dashboard.test.yml"
    file.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": judgements}]}))
    status, said = await promtool("test", "rules", str(file))
    assert status == 0, said


# ---- alerts that fire, and alerts that do not ------------------------------------------------------------------------

Series = dict[str, str]
OUTCOMES = 'slotline_requests_total{job="slotline",instance="a",model="m",surface="messages",outcome="%s"}'
WAIT = 'slotline_wait_seconds_bucket{job="slotline",instance="a",model="m",surface="messages",le="%s"}'
IDLE = 'slotline_slot_idle_seconds_bucket{job="slotline",instance="a",le="%s"}'
SLOTS = 'slotline_slots{job="slotline",instance="a",upstream="box",state="%s"}'
LINE = 'slotline_waiting{job="slotline",instance="a",line="box"}'
UP = 'slotline_upstream_up{job="slotline",instance="a",upstream="%s"}'
GATEWAY = 'up{job="slotline",instance="a"}'

FIRES: dict[str, list[Series]] = {
    "SlotlineGatewayDown": [{GATEWAY: "1x5 0x30"}],
    "SlotlineNothingServes": [{UP % "box": "0x30", UP % "attic": "0x30"}],
    "SlotlineUpstreamDown": [{UP % "box": "0x30", UP % "attic": "1x30"}],
    "SlotlineLineFull": [{OUTCOMES % "refused_full": "0+1x30"}],
    "SlotlineLongWait": [{WAIT % "60": "0+1x30", WAIT % "300": "0+10x30", WAIT % "+Inf": "0+10x30"}],
    "SlotlineSlotsIdle": [{SLOTS % "free": "1x30", LINE: "2x30"}],
    "SlotlineSlowHandover": [{IDLE % "1": "0+1x30", IDLE % "5": "0+10x30", IDLE % "+Inf": "0+10x30"}],
    "SlotlineDrainingStuck": [{SLOTS % "draining": "1x30"}],
    "SlotlineUpstreamFails": [
        {OUTCOMES % "stalled": "0+1x30", OUTCOMES % "completed": "0+9x30"},
        {OUTCOMES % "upstream_died": "0+1x30", OUTCOMES % "completed": "0+9x30"},
    ],
}
KEEPS_STILL: dict[str, list[Series]] = {
    "SlotlineGatewayDown": [{GATEWAY: "1x30"}, {'up{job="other",instance="a"}': "0x30"}],
    "SlotlineNothingServes": [{UP % "box": "0x30", UP % "attic": "1x30"}],
    "SlotlineUpstreamDown": [{UP % "box": "1x30"}, {UP % "box": "1x13 0x1 1x30"}],
    "SlotlineLineFull": [{OUTCOMES % "refused_full": "5x30", OUTCOMES % "completed": "0+9x30"}],
    "SlotlineLongWait": [{WAIT % "60": "0+10x30", WAIT % "300": "0+10x30", WAIT % "+Inf": "0+10x30"}],
    "SlotlineSlotsIdle": [{SLOTS % "free": "1x30", LINE: "0x30"}, {SLOTS % "free": "0x30", LINE: "2x30"}],
    "SlotlineSlowHandover": [{IDLE % "1": "0+10x30", IDLE % "5": "0+10x30", IDLE % "+Inf": "0+10x30"}],
    "SlotlineDrainingStuck": [{SLOTS % "draining": "0x12 1x1 0x30"}, {SLOTS % "busy": "1x30"}],
    "SlotlineUpstreamFails": [
        {OUTCOMES % "stalled": "0x30", OUTCOMES % "completed": "0+9x30"},
        {OUTCOMES % "stalled": "0x14 1x30", OUTCOMES % "completed": "0x30"},  # one of one is no rate
        {OUTCOMES % "invalid": "0+5x30", OUTCOMES % "client_left_running": "0+5x30"},
    ],
}


def judged(alert: str, series: Series, fires: bool) -> dict[str, Any]:
    """One test of promtool's: whether `alert` fires after 25 minutes."""
    expected = [{"labels": "{}", "value": 1}] if fires else []
    firing = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return {
        "name": alert,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": "25m", "exp_samples": expected}],
    }


async def test_each_alert_fires_when_it_should_and_keeps_still_when_it_should_not(tmp_path: Path) -> None:
    tests = [judged(alert, series, True) for alert, cases in FIRES.items() for series in cases]
    tests += [judged(alert, series, False) for alert, cases in KEEPS_STILL.items() for series in cases]
    file = tmp_path / "alerts.test.yml"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    status, said = await promtool("test", "rules", str(file))
    assert status == 0, said


def test_each_alert_has_both_kinds_of_cases() -> None:
    assert sorted(FIRES) == sorted(KEEPS_STILL) == sorted(ALERTS)
