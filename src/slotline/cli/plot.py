"""Draws simulations. Needs matplotlib, which is imported when something is to be drawn and not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from slotline.core.simulation.report import Bucket, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = (".svg", ".png")
"""What can be drawn, by the end of the file's name."""
_HOUR = 3600.0


class NoLibrary(Exception):
    """matplotlib is not installed; the message says how it gets there."""


def ready() -> None:
    """Raises NoLibrary."""
    if find_spec("matplotlib") is None:
        raise NoLibrary("--plot needs matplotlib, which is not installed: pip install 'slotline[plot]'")


def draw(reports: Sequence[Report], file: Path) -> None:
    """Waits, the line, and how busy the slots are, over time: a line for each report.

    The same reports give the same file, byte by byte. Raises OSError.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - it takes half a second, and most calls draw nothing
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({"svg.hashsalt": "slotline", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(9, 8), layout="constrained")
        waits, line, busy = figure.subplots(3, 1, sharex=True)
        hours = max(report.step * len(report.series) for report in reports) > 2 * _HOUR
        scale, unit = (_HOUR, "hours") if hours else (60.0, "minutes")
        for report in reports:
            name = _name(report, reports)
            _line(waits, report, scale, name, lambda bucket: _minutes(bucket.p90))
            _line(line, report, scale, name, lambda bucket: bucket.waiting)
            _line(busy, report, scale, name, lambda bucket: 100 * bucket.busy)
        waits.set_title("Waits of those who came at that time: nine tenths waited less (minutes)", loc="left")
        line.set_title("How many waited", loc="left")
        busy.set_title("Slots that worked (%)", loc="left")
        busy.set_xlabel(f"{unit} since the first request")
        busy.set_ylim(0, 105)
        for axes in (waits, line, busy):
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
        waits.legend(frameon=False)
        figure.savefig(file, format=file.suffix[1:].lower(), dpi=120, metadata=_undated(file))


def _undated(file: Path) -> dict[str, str | None]:
    return {"Date": None} if file.suffix.lower() == ".svg" else {}


def _name(report: Report, reports: Sequence[Report]) -> str:
    """What tells it from the others."""
    slots = report.slots * report.upstreams
    named = f"{slots} slots" if slots > 1 else "1 slot"
    policies = {each.policy for each in reports}
    return named if len(policies) == 1 else f"{named}, {report.policy}"


def _minutes(wait: float | None) -> float | None:
    return None if wait is None else wait / 60


def _line(axes: Axes, report: Report, scale: float, name: str, value: Callable[[Bucket], float | None]) -> None:
    """Time in the middle of each piece; where there is no value, the line has a gap."""
    values = [value(bucket) for bucket in report.series]
    at = [(bucket.at + report.step / 2) / scale for bucket in report.series]
    axes.plot(at, [float("nan") if each is None else each for each in values], label=name, linewidth=1.2)
