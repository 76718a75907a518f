"""Servers that show no slots but count: gauges in the Prometheus text of `/metrics`."""

from __future__ import annotations

from slotline.core.reading import Reading
from slotline.upstream.asker import FAILURES, Asker


async def reading(ask: Asker, gauge: str) -> Reading:
    """Loading as `/health` says; else how many requests run, from `gauge`, summed over its labels."""
    try:
        if (await ask.get("/health")).status == 503:
            return Reading(loading=True)
        metrics = await ask.get("/metrics")
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
    return Reading(running=total(metrics.body.decode("utf-8", "replace"), gauge) if metrics.status == 200 else None)


def total(text: str, gauge: str) -> int | None:
    """The sum of all series of `gauge`; None where there is none.

    The format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    values = []
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        if "{" not in line:
            name, _, rest = line.partition(" ")
        value = rest.rpartition("}")[2].split()
        if name.strip() == gauge and value:
            try:
                values.append(float(value[0]))
            except ValueError:
                return None
    return round(sum(values)) if values else None
