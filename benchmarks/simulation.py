"""What the line does to those who wait, by simulation: the tables and the plot of docs/simulation.md.

Everything here is seeded, so the same code gives the same page. `--write` puts it there; without it, it is printed.
"""

from __future__ import annotations

import random
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from slotline.cli import main
from slotline.cli.simulated import seconds
from slotline.core.simulation.mixes import MIXES, PEOPLE, mix
from slotline.core.simulation.plan import Plan, Policy
from slotline.core.simulation.replay import simulate
from slotline.core.simulation.report import Group, Report
from slotline.core.simulation.request import Request

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "simulation.md"
PLOT = DOCS / "simulation.svg"
REQUESTS = 6_000
SEED = 1
LONG = 100_000  # a queue that is never full
HELD = 10.0  # seconds, in the test of the greedy key

HOW_MANY = "slotline simulate mix:agents --slots 4,5,6,7,8 --waiting 16 --target 30s"
WHOM = "slotline simulate mix:agents --slots 7 --waiting 16 --target 30s"


def requests(name: str, count: int = REQUESTS) -> list[Request]:
    return mix(name, count, random.Random(SEED))  # noqa: S311 - the same requests from the same seed


def command(line: str) -> str:
    """The command and what it prints."""
    result = CliRunner().invoke(main, shlex.split(line)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return f"```sh\n{line}\n```\n\n```\n{result.output.rstrip()}\n```"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def plot() -> str:
    line = f"slotline simulate mix:burst --slots 3,4,6 --plot {PLOT.name}"
    result = CliRunner().invoke(main, [*shlex.split(line)[1:-1], str(PLOT)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return f"```sh\n{line}\n```\n\n![Waits, line and use of three, four and six slots over time]({PLOT.name})"


# ---- is it fair? -----------------------------------------------------------------------------------------------------


def fairness() -> str:
    rows = []
    for name in MIXES:
        asked = requests(name)
        for policy in Policy:
            report = simulate(asked, Plan(slots=4, queue=LONG, policy=policy))
            people = [group for group in report.keys if group.key in PEOPLE]
            others = [group for group in report.keys if group.key not in PEOPLE]
            due = [group.due for group in report.keys if group.due is not None]
            rows.append(
                [
                    name,
                    policy,
                    f"{report.fairness:.4f}",
                    f"{min(due):.2f} – {max(due):.2f}",
                    worst(people),
                    worst(others),
                ]
            )
    return table(["mix", "policy", "Jain's index", "got of what was due", "people: p90", "others: p90"], rows)


def worst(groups: Sequence[Group]) -> str:
    """The longest of their p90."""
    waits = [group.waits.p90 for group in groups if group.waits is not None]
    return seconds(max(waits)) if waits else "–"


def greedy() -> str:
    """The other key's requests come one by one: what they wait is what the greedy key costs them."""
    rows = []
    for slots in (1, 2, 4):
        for policy in (Policy.FIFO, Policy.FAIR):
            report = simulate(with_greedy(), Plan(slots=slots, queue=LONG, policy=policy))
            (small,) = [group for group in report.keys if group.key == "small"]
            assert small.waits is not None
            rows.append(
                [str(slots), policy, *(f"{wait:.1f}" for wait in (small.waits.p50, small.waits.p90, small.waits.max))]
            )
    return table(["slots", "policy", "p50, s", "p90, s", "max, s"], rows)


def with_greedy() -> list[Request]:
    thousand = [Request(0.0, "greedy", held=HELD) for _ in range(1_000)]
    return thousand + [Request(3.35 + 31.7 * number, "small", held=HELD) for number in range(60)]


def weights() -> str:
    plan = Plan(slots=4, queue=LONG, weights={"short": 3.0, "middle": 2.0})
    asked = requests("heavy")
    report = simulate(asked[: len(asked) // 2], plan)
    rows = [
        [group.key or "", f"{plan.weight(group.key or ''):g}", f"{group.due:.3f}"]
        for group in sorted(report.keys, key=lambda group: -plan.weight(group.key or ""))
        if group.due is not None
    ]
    return table(["key", "weight", "got of what was due"], rows) + f"\n\nJain's index: {report.fairness:.4f}."


# ---- what else there is to know --------------------------------------------------------------------------------------


def estimates() -> str:
    rows = []
    for name in ("steady", "burst", "agents", "heavy"):
        for policy in (Policy.FIFO, Policy.FAIR):
            for slots in (2, 8):
                plan = Plan(slots=slots, queue=LONG, policy=policy, speed=slots / 4)
                eta = simulate(requests(name), plan).eta
                assert eta is not None
                rows.append(
                    [
                        name,
                        policy,
                        str(slots),
                        str(eta.told),
                        f"{eta.median:.0%}",
                        f"{eta.p90:.0%}",
                        f"{eta.ratio:.2f}",
                        f"{eta.short:.2%}",
                    ]
                )
    return table(
        ["mix", "policy", "slots", "told", "half are off by less than", "nine tenths by", "told / true", "told < 1/10"],
        rows,
    )


def full() -> str:
    """Who is refused when the line is full."""
    rows = []
    for waiting in (None, 16):
        for name in ("greedy", "agents"):
            report = simulate(requests(name), Plan(slots=4, waiting=waiting))
            people = [group for group in report.keys if group.key in PEOPLE]
            rows.append(
                [
                    name,
                    "none" if waiting is None else str(waiting),
                    refused(people),
                    refused(report.keys),
                    index(report),
                ]
            )
    return table(["mix", "`waiting` of each key", "people refused", "all refused", "Jain's index"], rows)


def refused(groups: Sequence[Group]) -> str:
    return f"{sum(group.refused for group in groups) / sum(group.requests for group in groups):.1%}"


def index(report: Report) -> str:
    return f"{report.fairness:.3f}"


def impatient() -> str:
    """Clients that give up after two minutes and ask again."""
    plan = Plan(slots=3, queue=LONG, patience=120.0, resend=5.0)
    rows = []
    for name, tried in (
        ("they do not give up", replace(plan, patience=None, resend=None)),
        ("their place is kept", plan),
        ("they begin anew at the end", replace(plan, rejoin=0.0)),
    ):
        waits = simulate(requests("steady", 3_000), tried).whole.waits
        assert waits is not None
        rows.append([name, *(seconds(wait) for wait in (waits.p50, waits.p90, waits.p99, waits.max))])
    return table(["clients", "p50", "p90", "p99", "max"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "how many": lambda: command(HOW_MANY),
    "whom": lambda: command(WHOM),
    "plot": plot,
    "fairness": fairness,
    "greedy": greedy,
    "weights": weights,
    "full": full,
    "impatient": impatient,
    "estimates": estimates,
}


def written(page: str, made: dict[str, str]) -> str:
    """The page with what is made in it, each part between its marks."""
    for name, text in made.items():
        mark = f"<!-- benchmarks/simulation.py: {name} -->"
        page, found = re.subn(
            f"({re.escape(mark)}\n).*?(<!-- end -->)",
            lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}",  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
        assert found == 1, name
    return page


def speed(count: int = 200_000) -> str:
    asked = requests("steady", count)
    begin = time.process_time()
    simulate(asked, Plan(slots=4))
    return f"{(time.process_time() - begin) / count * 1e6:.0f} µs of processor time a request, of {count:,}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(written(PAGE.read_text(), {name: make() for name, make in PARTS.items()}))
    else:
        for name, make in PARTS.items():
            if name != "plot":  # which draws into the documentation
                print(f"\n-- {name}\n\n{make()}")
        print(f"\n{speed()}")
