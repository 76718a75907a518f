"""What a simulation says: as text for a person, and as data for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from slotline.cli.check import columns
from slotline.core.simulation.plan import Plan
from slotline.core.simulation.report import Eta, Group, Report
from slotline.core.simulation.trace import Trace

MET = 0.9
"""The target is met when so large a share of all requests has its slot in time. Who is refused or leaves has not."""
_SHOWN = 20  # keys in the table; the rest are in the JSON
_WAITS = ("wait p50", "p90", "p99", "max")
_COUNTS = ("requests", "served", "refused", "left")


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the command. `plan`: what all tries have in common; `target`: seconds."""

    source: str
    trace: Trace
    plan: Plan
    reports: Sequence[Report]
    target: float | None


def as_json(run: Run) -> dict[str, Any]:
    """Durations in seconds, shares from 0 to 1."""
    answer = None if run.target is None else {"seconds": run.target, "share": MET, "slots": _fewest(run.reports)}
    return {
        "trace": {
            "source": run.source,
            "format": run.trace.format,
            "requests": len(run.trace.requests),
            "span": _arrivals(run),
            "notes": run.trace.notes,
        },
        "settings": msgspec.to_builtins({name: getattr(run.plan, name) for name in _SETTINGS}),
        "target": answer,
        "simulations": msgspec.to_builtins(run.reports),
    }


_SETTINGS = (
    "upstreams", "queue", "weights", "batch", "running", "waiting", "patience", "resend", "rejoin", "speed", "rates",
)  # fmt: skip


def as_text(run: Run) -> str:
    """What was assumed, the tries side by side, and of a single one what each key and class had."""
    parts = [_assumed(run), _compared(run)]
    if len(run.reports) == 1:
        parts.append(_in_detail(run.reports[0], run.target))
    if run.target is not None:
        parts.append(_answer(run.reports, run.target))
    return "\n\n".join(parts)


def seconds(value: float) -> str:
    """For people: 4.2s, 48s, 3m 20s, 2h 05m."""
    if value < 9.95:
        return f"{value:.1f}s"
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    minutes = round(value / 60)
    return f"{minutes // 60}h {minutes % 60:02}m"


# ---- the parts -------------------------------------------------------------------------------------------------------


def _assumed(run: Run) -> str:
    plan, rates = run.plan, run.plan.rates
    measured = sum(request.held is not None for request in run.trace.requests)
    requests = len(run.trace.requests)
    often = "" if plan.speed == 1 else f", {plan.speed:g} times as fast as recorded"
    lines = [("trace", f"{run.source}, {requests} requests in {seconds(_arrivals(run))}{often}")]
    lines += [("", note) for note in run.trace.notes]
    faster = "" if rates.faster == 1 else f", all {rates.faster:g} times as fast"
    if measured < requests:
        cached = f" but for the {rates.cached:.0%} that it still has" if rates.cached else ""
        made = f"reads {rates.prefill:g} tokens of a prompt a second{cached}, and makes {rates.decode:g} of an answer"
        lines.append(("a slot", made + ("" if measured else faster)))
    if measured:
        lines.append(("a slot", f"is held as long as was measured, by {measured} requests{faster}"))
    servers = f"{plan.upstreams} upstream" + ("s" if plan.upstreams > 1 else "")
    lines.append(("servers", f"{servers}, and a queue of {plan.queue * plan.upstreams}"))
    if patience := _patience(run):
        lines.append(("clients", patience))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def _patience(run: Run) -> str | None:
    plan = run.plan
    known = sum(request.patience is not None for request in run.trace.requests)
    parts = []
    if known:
        parts.append(f"{known} leave when they did")
    if plan.patience is not None:
        parts.append(f"{'the others' if known else 'they'} leave after {seconds(plan.patience)} in line")
    if plan.resend is not None:
        kept = f"place kept for {seconds(plan.rejoin)}" if plan.rejoin else "place not kept"
        parts.append(f"they ask again {seconds(plan.resend)} later, {kept}")
    return "; ".join(parts) or None


def _compared(run: Run) -> str:
    within = () if run.target is None else (f"in {seconds(run.target)}",)
    several = run.plan.upstreams > 1
    head = ("slots", "policy", *_COUNTS, *_WAITS, "busy", "line", "fairness", *within)
    rows = [
        (
            f"{report.upstreams} x {report.slots}" if several else str(report.slots),
            report.policy,
            *_counts(report.whole),
            *_waits(report.whole),
            _percent(sum(report.busy.values()) / len(report.busy)),
            str(report.longest_line),
            "–" if report.fairness is None else f"{report.fairness:.3f}",
            *(() if run.target is None else (_percent(report.whole.within),)),
        )
        for report in run.reports
    ]
    return columns(head, rows)


def _in_detail(report: Report, target: float | None) -> str:
    within = () if target is None else (f"in {seconds(target)}",)
    head = ("key", "class", *_COUNTS, *_WAITS, "slot time", "share", "due", *within)
    groups = [*report.keys[:_SHOWN], *(report.classes if len(report.classes) > 1 else ())]
    rows = [
        (
            _key(group),
            "batch" if group.batch else "interactive",
            *_counts(group),
            *_waits(group),
            seconds(group.slot_seconds),
            _percent(group.share),
            "–" if group.due is None else f"{group.due:.2f}",
            *(() if target is None else (_percent(group.within),)),
        )
        for group in groups
    ]
    lines = [columns(head, rows)]
    if len(report.keys) > _SHOWN:
        lines.append(f"and {len(report.keys) - _SHOWN} more keys, which --json shows")
    if report.upstreams > 1:
        lines += ["", *(f"{upstream}: busy {_percent(busy)}" for upstream, busy in report.busy.items())]
    return "\n".join([*lines, "", *_estimates(report.eta)])


def _estimates(eta: Eta | None) -> Iterator[str]:
    if eta is None:
        yield "estimates  nobody was told one"
        return
    which = "all who waited" if eta.every == 1 else f"each {eta.every}th who waited"
    yield f"estimates  told on joining, to {which}: {eta.told} of them were served"
    off = f"half are off by less than {eta.median:.0%} of the true wait, nine tenths by less than {eta.p90:.0%}"
    yield f"           {off}"
    yield f"           {eta.short:.2%} were told less than a tenth of it"


def _answer(reports: Sequence[Report], target: float) -> str:
    """How many slots it takes, policy by policy."""
    lines = []
    for policy, slots in _fewest(reports).items():
        of = f"with which {MET:.0%} of all requests have their slot within {seconds(target)} ({policy})"
        if slots is not None:
            lines.append(f"{slots} slots are the fewest tried {of}" if slots > 1 else f"1 slot is enough {of}")
            continue
        best = max((report for report in reports if report.policy == policy), key=lambda each: each.whole.within or 0.0)
        reached = f"with {best.slots * best.upstreams} it is {_percent(best.whole.within)}"
        lines.append(f"no number of slots tried is one {of}; {reached}")
    return "\n".join(lines)


# ---- the cells -------------------------------------------------------------------------------------------------------


def _fewest(reports: Sequence[Report]) -> dict[str, int | None]:
    """Policy → the fewest slots, over all upstreams, that meet the target; None: none that was tried."""
    met: dict[str, list[int]] = {report.policy: [] for report in reports}
    for report in reports:
        if (report.whole.within or 0.0) >= MET:
            met[report.policy].append(report.slots * report.upstreams)
    return {policy: min(slots, default=None) for policy, slots in met.items()}


def _arrivals(run: Run) -> float:
    return run.trace.requests[-1].at / run.plan.speed


def _key(group: Group) -> str:
    return "all" if group.key is None else group.key or "(no key)"


def _counts(group: Group) -> tuple[str, ...]:
    return tuple(str(number) for number in (group.requests, group.served, group.refused, group.left))


def _waits(group: Group) -> tuple[str, ...]:
    waits = group.waits
    if waits is None:
        return ("–",) * len(_WAITS)
    return tuple(seconds(value) for value in (waits.p50, waits.p90, waits.p99, waits.max))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"
