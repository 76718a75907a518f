"""How far a bench is, on a terminal: drawn anew a few times a second, and gone when it has ended."""

from __future__ import annotations

from collections import Counter

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slotline.cli.bench.load import Load
from slotline.cli.bench.sample import End, Phase
from slotline.core.why import spoken


def screen(load: Load) -> RenderableType:
    """A bar, and beneath it the counts."""
    plan, elapsed = load.plan, load.elapsed
    total, done = plan.seconds, elapsed
    if plan.requests is not None:
        total, done = float(plan.requests), float(len(load.samples))
    whole = total or 1.0
    shown = Table.grid()
    shown.add_row(ProgressBar(total=whole, completed=min(done, whole), width=40))
    shown.add_row(Text(counts(load, elapsed), "dim"))
    return shown


def counts(load: Load, elapsed: float) -> str:
    """What there is to tell, in one line."""
    ends = Counter(sample.end for sample in load.samples)
    phases = Counter(measure.phase for measure in load.going)
    tokens = sum(sample.tokens for sample in load.samples) + sum(measure.pieces for measure in load.going)
    parts = [f"{ends[End.COMPLETED]} done", f"{phases[Phase.RUNNING]} running", f"{phases[Phase.WAITING]} in line"]
    parts += [f"{ends[end]} {end}" for end in (End.LEFT, End.FAILED) if ends[end]]
    if elapsed > 0:
        parts += [f"{ends[End.COMPLETED] / elapsed:.1f}/s", f"{tokens / elapsed:.0f} tokens/s"]
    if (left := remaining(load, elapsed)) is not None:
        parts.append(f"{spoken(left)} to go")
    return " · ".join(parts)


def remaining(load: Load, elapsed: float) -> float | None:
    """Seconds until the last request is sent or answered; None: nobody can say yet."""
    plan = load.plan
    if plan.seconds is not None:
        return max(0.0, plan.seconds - elapsed)
    done = len(load.samples)
    return elapsed / done * ((plan.requests or 0) - done) if done else None
