"""Servers that show no slots but count: gauges in the Prometheus text of `/metrics`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping

from slotline.core.reading import Reading
from slotline.upstream.asker import FAILURES, Asker

_SERIES = re.compile(
    r"""(?P<name>[A-Za-z_:][\w:]*)
        (?:\s*\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}\s*|\s+)   # labels, in whose quoted values anything may stand
        (?P<value>\S+)
        (?:\s+[-+\d.]+)?\s*""",  # the time of the sample
    re.VERBOSE | re.ASCII | re.DOTALL,
)


async def reading(
    ask: Asker, names: Collection[str], works: Callable[[Mapping[str, float]], int | None], *, health: bool
) -> Reading:
    """How many requests run, which `works` finds in the gauges `names`; None where they are not shown.

    `health`: whether `/health` is asked first, whose 503 means that the server cannot serve yet.
    """
    try:
        if health and (await ask.get("/health")).status == 503:
            return Reading(loading=True)
        metrics = await ask.get("/metrics")
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
    shown = totals(metrics.body.decode("utf-8", "replace"), names) if metrics.status == 200 else {}
    return Reading(loading=metrics.status == 503, running=works(shown))


def totals(text: str, names: Collection[str]) -> dict[str, float]:
    """For each of the gauges `names`, the sum of its series; one is left out that has none, or one that is no number.

    The format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    sums: dict[str, float] = {}
    for line in text.split("\n"):
        if not line.startswith(tuple(names)):  # there are thousands, most of them buckets of histograms
            continue
        series = _SERIES.fullmatch(line)
        if series is not None and series["name"] in names:
            sums[series["name"]] = sums.get(series["name"], 0.0) + _number(series["value"])
    return {name: value for name, value in sums.items() if math.isfinite(value)}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
