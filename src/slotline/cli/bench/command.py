"""`slotline bench`: load on a running gateway, and how long everything took.

What is sent is in `slotline.cli.bench.load`, what is measured in `sample.py`, what is said of it in `report.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.live import Live

from slotline.cli.asking import KEY, Asker, NoAnswer, about_key, first_model, key_of, unserved
from slotline.cli.bench.load import Load, Plan
from slotline.cli.bench.report import Report, as_text, report
from slotline.cli.bench.sample import End
from slotline.cli.bench.screen import screen
from slotline.cli.printable import harmless, one_line
from slotline.cli.running import OPERATOR, url_option
from slotline.cli.top.feed import Feed, Trouble, decoded

_EVERY = 0.2  # seconds between two looks at how far it is
_STOPPED = 130  # the exit status of what Ctrl-C has ended, as shells have it
_GONE = 2.0  # seconds in which the gateway should have noticed that somebody left


def _keys(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str | None, ...]:
    return tuple(key_of(context, parameter, name) for name in names)


@click.command()
@url_option
@click.option("--model", metavar="NAME", help="Default: the first one that the gateway lists.")
@click.option("--clients", type=click.IntRange(1), metavar="N", help="That ask one after the other. Default: 4.")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="R", help="Requests a second, in place of clients."
)
@click.option("--requests", type=click.IntRange(1), metavar="N", help="In all. Default: 20.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="For so long new requests are sent."
)
@click.option("--prompt-tokens", default=128, show_default=True, type=click.IntRange(1), help="Of each prompt, about.")
@click.option("--max-tokens", default=64, show_default=True, type=click.IntRange(1), help="Of each answer.")
@click.option("--stream/--no-stream", default=True, show_default=True, help="How answers come.")
@click.option("--shared-prefix", is_flag=True, help="Prompts differ at their end only, so that they can be cached.")
@click.option(
    "--leave", default=0.0, show_default=True, type=click.FloatRange(0, 1), metavar="P",
    help="The share of requests whose client leaves the line, within a second of its first place.",
)  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Of arrivals, and of who leaves.")
@click.option(
    "--key-env", "keys", default=(KEY,), show_default=True, multiple=True, metavar="NAME", callback=_keys,
    help="The variable that holds a key, where the gateway has keys; repeatable: clients take them in turn.",
)  # fmt: skip
@click.option(
    "--token-env", default=OPERATOR, show_default=True, metavar="NAME",
    help="The variable that holds the operator's token: with --leave the gateway is asked who is still there.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For a program: one JSON object on standard output.")
def bench(
    *, url: str, model: str | None, keys: tuple[str | None, ...], token_env: str, as_json: bool, **settings: Any
) -> None:
    """Put load on a running gateway, and say how long everything took.

    Clients ask one after the other; with --rate requests come at their own times. Ctrl-C ends it, and prints what there
    is. The exit status is 1 if a stream had no end or no order, if a connection broke off, if who left is still
    there, or if nothing was answered.
    """
    try:
        plan = _plan(settings, _model(url, keys[0], model))
    except NoAnswer as error:
        click.echo(f"slotline: {one_line(about_key(str(error), error.status, keys[0]))}", err=True)
        sys.exit(1)
    told = asyncio.run(_run(url, plan, keys, os.environ.get(token_env) or None))
    click.echo(harmless(msgspec.json.encode(told)) if as_json else as_text(told, token_env))
    sys.exit(1 if not told.sound else _STOPPED if told.stopped else 0)


def _plan(settings: dict[str, Any], model: str) -> Plan:
    """Raises UsageError for what does not go together."""
    if settings["rate"] is not None and settings["clients"] is not None:
        raise click.UsageError("requests come at a --rate, or from so many --clients: one of the two")
    if settings["requests"] is not None and settings["seconds"] is not None:
        raise click.UsageError("--requests and --seconds both say when to end: one of them")
    if settings["leave"] and not settings["stream"]:
        raise click.UsageError("--leave needs places, and without --stream nobody is told one")
    settings["clients"] = settings["clients"] or 4
    if settings["seconds"] is None:
        settings["requests"] = settings["requests"] or 20
    return Plan(model=model, **settings)


def _model(url: str, key: str | None, model: str | None) -> str:
    """Raises NoAnswer where there is none to ask for."""
    if model is None:
        return first_model(url, key)
    if problem := unserved(url, key, model):
        raise NoAnswer(problem)
    return model


async def _run(url: str, plan: Plan, keys: tuple[str | None, ...], token: str | None) -> Report:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        load = Load(plan, [await stack.enter_async_context(Asker(url, key)) for key in keys])
        task = asyncio.create_task(load.run())
        loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            await _watched(load, task)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        left = {each.request_id for each in load.samples if each.end is End.LEFT and each.request_id is not None}
        behind = await _behind(url, token, left) if left else None
    return report(url, plan, load.samples, load.elapsed, stopped=task.cancelled(), behind=behind)


async def _watched(load: Load, task: asyncio.Task[None]) -> None:
    """Until `task` is done; on a terminal one sees how far it is."""
    console = Console(stderr=True, highlight=False)
    shown = Live(console=console, auto_refresh=False, transient=True) if sys.stderr.isatty() else nullcontext()
    with shown as live:
        while not task.done():
            if live is not None:
                live.update(screen(load), refresh=True)
            await asyncio.wait([task], timeout=None if live is None else _EVERY)
    if not task.cancelled():
        task.result()


async def _behind(url: str, token: str | None, left: set[str]) -> int | None:
    """How many of these requests the gateway still knows as waiting or running, soon after; None: it does not say."""
    still = left
    async with Feed(url, token) as feed:
        for _ in range(round(_GONE / _EVERY)):
            try:
                still = left & {request.id for request in decoded(await feed.state()).requests}
            except Trouble:
                return None
            if not still:
                break
            await asyncio.sleep(_EVERY)
    return len(still)
