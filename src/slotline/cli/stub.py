"""`slotline stub`: a scripted upstream on a port, for trying and testing without a GPU."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import click

from slotline.core.kind import Kind
from slotline.stub import Plan, Stub
from slotline.stub.plan import parse
from slotline.stub.standard import named

_KINDS = [Kind.LLAMA_CPP.value, Kind.OPENAI.value]


def _plan(context: click.Context, parameter: click.Parameter, value: str | None) -> Plan | None:
    """JSON, a file of JSON, or a script's short name."""
    if value is None:
        return None
    try:
        if value.lstrip().startswith(("{", "[", '"')):
            return parse(value)
        if Path(value).is_file():
            return parse(Path(value).read_bytes())
        return Plan(default=named(value))
    except (OSError, ValueError) as wrong:
        raise click.BadParameter(str(wrong)) from wrong


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8081, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--uds", type=click.Path(path_type=Path), help="A unix socket in place of a port.")
@click.option("--kind", default=_KINDS[0], show_default=True, type=click.Choice(_KINDS), help="Whose routes it has.")
@click.option("--slots", default=2, show_default=True, type=click.IntRange(1), help="Answers that run at once.")
@click.option(
    "--model", "models", default=["stub"], show_default=True, multiple=True, help="Listed models; repeatable."
)
@click.option("--context", default=8192, show_default=True, type=click.IntRange(1), help="Longest prompt, in tokens.")
@click.option("--tokens", default=16, show_default=True, type=click.IntRange(0), help="Tokens of each answer.")
@click.option("--thinking", default=0, show_default=True, type=click.IntRange(0), help="Reasoning tokens before them.")
@click.option("--gap", default=0.02, show_default=True, type=click.FloatRange(0), help="Seconds between tokens.")
@click.option(
    "--hold", default=0.0, show_default=True, type=click.FloatRange(0), help="Seconds of silence before them."
)
@click.option("--prefill", default=0.0, show_default=True, type=click.FloatRange(0), help="Seconds to read a prompt.")
@click.option("--echo", is_flag=True, help="Answers repeat the last user text.")
@click.option(
    "--load", default=0.0, show_default=True, type=click.FloatRange(0), help="Seconds of loading at the start."
)
@click.option(
    "--abort-lag",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds a slot works on after its client has gone.",
)
@click.option("--no-slots", is_flag=True, help="/slots answers 501.")
@click.option("--keep", default=10_000, show_default=True, type=click.IntRange(0), help="Requests to remember.")
@click.option(
    "--script",
    "plan",
    callback=_plan,
    metavar="SCRIPT",
    help="What to answer: JSON, a file of it, or a name such as die-3.",
)
def stub(*, kind: str, no_slots: bool, plan: Plan | None, **settings: Any) -> None:
    """A scripted OpenAI-compatible upstream, to try things without a GPU.

    It has slots and a queue of its own like llama-server's, answers with numbered words, and fails on demand. A model
    named `stub-NAME` asks for a script by its short name: `stub-die-3`, `stub-hang`, `stub-html-502`. Look at it with
    GET /stub/state and /stub/requests, and change it with POST /stub/script while it runs.
    """
    server = Stub(kind=Kind(kind), has_slots=not no_slots, **settings)
    if plan is not None:
        server.apply(plan)
    try:
        asyncio.run(_serve(server))
    except OSError as error:
        raise click.ClickException(f"cannot listen on {server.url}: {error.strerror or error}") from error


async def _serve(server: Stub) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with server:
        click.echo(f"listening on {server.url}")
        await ended.wait()
