"""What is read off the gateway whenever its numbers are asked for, and kept nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from slotline.core.models import Model
from slotline.core.report import Line, Upstream

Rooms = Callable[[], tuple[Sequence[Upstream], Sequence[Line]]]
"""The upstreams and the lines, as they are now."""


class Gauges(Collector):
    """Upstreams and models that are taken out of the configuration are gone from it with the next look."""

    def __init__(self, version: str, rooms: Rooms, models: Callable[[], Sequence[Model]]) -> None:
        """`models`: those on offer; a line that somebody could stand in is told also while it is empty."""
        self._version = version
        self._rooms = rooms
        self._models = models

    def collect(self) -> Iterator[GaugeMetricFamily]:
        upstreams, lines = self._rooms()
        slots = GaugeMetricFamily(
            "slotline_slots", "Slots of an upstream by what they do.", labels=["upstream", "state"]
        )
        running = GaugeMetricFamily(
            "slotline_running", "Requests that have a slot of an upstream.", labels=["upstream"]
        )
        up = GaugeMetricFamily("slotline_upstream_up", "1: the upstream is up and takes requests.", labels=["upstream"])
        for upstream in upstreams:
            for state in ("free", "busy", "draining", "down"):
                slots.add_metric([upstream.name, state], getattr(upstream.slots, state))
            running.add_metric([upstream.name], upstream.running)
            up.add_metric([upstream.name], upstream.state == "up" and upstream.out_of_order_ms is None)
        waiting = GaugeMetricFamily(
            "slotline_waiting", "Requests in line, by the upstreams they wait for.", labels=["line"]
        )
        for line, length in self._lengths({upstream.name for upstream in upstreams}, lines).items():
            waiting.add_metric([line], length)
        build = GaugeMetricFamily("slotline_build_info", "Always 1; the version is a label.", labels=["version"])
        build.add_metric([self._version], 1)
        yield from (slots, waiting, running, up, build)

    def _lengths(self, there: set[str], lines: Sequence[Line]) -> dict[str, int]:
        served = (model.upstreams & there for model in self._models())
        lengths = {_name(upstreams): 0 for upstreams in served if upstreams}
        for line in lines:
            lengths[_name(line.upstreams)] = line.length
        return lengths


def _name(upstreams: Sequence[str] | frozenset[str]) -> str:
    return "+".join(sorted(upstreams))
