"""`slotline simulate`: how long would people wait, with so many slots and under such a policy?

What it prints is made in `slotline.cli.simulated`, what it draws in `slotline.cli.plot`; what it does is in
`slotline.core.simulation`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click
import msgspec

from slotline.cli.plot import KINDS, NoLibrary, draw, ready
from slotline.cli.simulated import Run, as_json, as_text
from slotline.cli.trace_source import MIXED, requests_of
from slotline.config.error import BadValue
from slotline.config.units import parse_duration
from slotline.core.simulation.formats import Format
from slotline.core.simulation.mixes import MIXES
from slotline.core.simulation.plan import Plan, Policy
from slotline.core.simulation.replay import simulate as replay
from slotline.core.simulation.request import Rates
from slotline.core.simulation.trace import Trace


def _duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration(value)
    except BadValue as wrong:
        raise click.BadParameter(str(wrong)) from None


def _slots(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(sorted({int(part) for part in value.split(",")}))
    except ValueError:
        raise click.BadParameter("numbers with commas between them, as in 1,2,4") from None
    if numbers[0] < 1:
        raise click.BadParameter("1 or more")
    return numbers


def _policies(context: click.Context, parameter: click.Parameter, value: str) -> tuple[Policy, ...]:
    try:
        return tuple(dict.fromkeys(Policy(part.strip()) for part in value.split(",")))
    except ValueError:
        raise click.BadParameter(f"one or more of {', '.join(Policy)}, with commas between them") from None


def _weights(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, float]:
    weights = {}
    for part in (value or "").split(",") if value else ():
        key, _, weight = part.rpartition("=")
        try:
            weights[key] = float(weight)
        except ValueError:
            raise click.BadParameter(f"{part!r} is not of the form KEY=WEIGHT") from None
        if not 0 < weights[key] < float("inf"):
            raise click.BadParameter(f"the weight of {key!r} must be more than 0")
    return weights


def _plot(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is None:
        return None
    if value.suffix.lower() not in KINDS:
        raise click.BadParameter(f"the name must end in {' or '.join(KINDS)}")
    try:
        ready()
    except NoLibrary as missing:
        raise click.ClickException(str(missing)) from None
    return value


def _mix_list() -> str:
    return "\n".join(f"  mix:{name:<8}{what}" for name, (what, _) in MIXES.items())


@click.command(epilog=f"\b\nMixes, made for four slots of the default speed:\n{_mix_list()}")
@click.argument("source", metavar="TRACE")
@click.option(
    "--format",
    "format_",
    type=click.Choice([each.value for each in Format]),
    help="Of the trace. Default: found out by its fields.",
)
@click.option("--key-column", metavar="NAME", help="The column or field of the trace that says whose a request is.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help=f"The first N requests only; of a mix: {MIXED}.")
@click.option("--seed", default=1, show_default=True, help="Of a mix: another seed, other requests.")
@click.option(
    "--slots",
    default="2",
    show_default=True,
    callback=_slots,
    metavar="N[,N…]",
    help="Of each upstream; all are tried.",
)
@click.option("--upstreams", default=1, show_default=True, type=click.IntRange(1), help="All alike, before one line.")
@click.option("--queue", default=64, show_default=True, type=click.IntRange(0), help="How many may wait for each.")
@click.option(
    "--policy",
    "policies",
    default="fair",
    show_default=True,
    callback=_policies,
    metavar="NAME[,NAME…]",
    help="fifo: by arrival alone; fair: keys take turns; flow: and inside a key its flows. All are tried.",
)
@click.option("--weights", callback=_weights, metavar="KEY=W[,…]", help="Shares of keys; 1 for those not named.")
@click.option("--batch", multiple=True, metavar="KEY", help="A key that goes after the others; repeatable.")
@click.option("--running", type=click.IntRange(1), metavar="N", help="How many each key may have running.")
@click.option("--waiting", type=click.IntRange(0), metavar="N", help="How many each key may have waiting.")
@click.option(
    "--prefill-rate", default=1000.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Tokens of a prompt that a slot reads in a second while all slots work.",
)  # fmt: skip
@click.option(
    "--decode-rate", default=30.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Tokens of an answer that it makes in a second while all slots work.",
)  # fmt: skip
@click.option(
    "--cached", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="Share of each prompt not read anew."
)
@click.option(
    "--faster", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="A slot is so many times as fast as that, or as the log has measured.",
)  # fmt: skip
@click.option(
    "--speed", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Requests come so many times as fast as in the trace.",
)  # fmt: skip
@click.option("--patience", callback=_duration, metavar="TIME", help="A client leaves the line after this, as in 5m.")
@click.option("--resend", callback=_duration, metavar="TIME", help="… and asks again after this.")
@click.option(
    "--rejoin",
    default="60s",
    show_default=True,
    callback=_duration,
    metavar="TIME",
    help="For so long it has its place.",
)
@click.option("--target", callback=_duration, metavar="TIME", help="How many slots does it take for waits below this?")
@click.option(
    "--plot", callback=_plot, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Draw waits, line and use of the slots over time, as .svg or .png.",
)  # fmt: skip
@click.option("--json", "wants_json", is_flag=True, help="For a program: one JSON object on standard output.")
def simulate(
    *,
    source: str,
    slots: tuple[int, ...],
    policies: tuple[Policy, ...],
    target: float | None,
    plot: Path | None,
    wants_json: bool,
    **settings: Any,
) -> None:
    """Replay TRACE against any number of slots, without a GPU: how long would people wait?

    TRACE is a file, which may be compressed with gzip, or - for standard input: Slotline's own log in a pipe, a public
    trace (Azure LLM inference, BurstGPT, Mooncake), or JSON lines with at (seconds), key, prompt_tokens and
    output_tokens. Or it is the name of a mix, see below.
    """
    plan = _plan(settings, policies)
    trace = requests_of(source, *(settings[name] for name in ("format_", "key_column", "limit", "seed")))
    _check_keys(trace, plan)
    plans = [replace(plan, slots=number, policy=policy) for number, policy in product(slots, policies)]
    gc.freeze()  # a million requests, none of which will go away
    with _progress(len(trace.requests) * len(plans)) as step:
        reports = [replay(trace.requests, each, target, step()) for each in plans]
    run = Run(source, trace, plan, tuple(reports), target)
    if plot is not None:
        draw(reports, plot)
    click.echo(msgspec.json.encode(as_json(run)) if wants_json else as_text(run))


# ---- what was asked for ----------------------------------------------------------------------------------------------


def _plan(settings: Mapping[str, Any], policies: tuple[Policy, ...]) -> Plan:
    """The plan that all tries have in common. Raises UsageError for settings that have no effect together."""
    limits = [name for name in ("weights", "batch", "running", "waiting") if settings[name]]
    if limits and policies == (Policy.FIFO,):
        raise click.UsageError(f"under fifo there are no keys, so --{limits[0]} has no effect: --policy fair")
    if settings["resend"] is not None and settings["patience"] is None:
        raise click.UsageError("--resend says what a client does that lost its patience: --patience says when")
    rates = Rates(settings["prefill_rate"], settings["decode_rate"], settings["cached"], settings["faster"])
    same = ("upstreams", "queue", "weights", "running", "waiting", "patience", "resend", "rejoin", "speed")
    return Plan(batch=frozenset(settings["batch"]), rates=rates, **{name: settings[name] for name in same})


def _check_keys(trace: Trace, plan: Plan) -> None:
    named = plan.weights.keys() | plan.batch
    unknown = sorted(named - {request.key for request in trace.requests}) if named else ()
    if unknown:
        raise click.UsageError(f"no request of the trace is of the key {unknown[0]!r}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], Callable[[int], None]]]:
    """On a terminal a bar; nothing in a pipe. What it gives is called as each try begins, and gives its progress."""
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=total, label="simulating", file=sys.stderr, hidden=hidden) as bar:

        def begin() -> Callable[[int], None]:
            start = bar.pos
            return lambda count: bar.update(start + count - bar.pos)

        yield begin
