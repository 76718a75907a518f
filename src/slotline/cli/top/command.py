"""`slotline top`: who has which slot, who waits, and why, on a terminal, as it changes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from importlib.util import find_spec

import click

from slotline.cli.printable import harmless, one_line, printable
from slotline.cli.running import OPERATOR, url_option
from slotline.cli.top.feed import Feed, Trouble, decoded
from slotline.cli.top.view import Speeds, rows, totals

_WIDE = 160  # columns, where nobody says how many there are
_MISSING = (
    "slotline top needs Textual, which is not installed: pip install 'slotline[top]'; "
    "--once prints what there is now, without it"
)


@click.command()
@url_option
@click.option(
    "--token-env",
    default=OPERATOR,
    show_default=True,
    metavar="NAME",
    help="The variable that holds the operator's token, where the gateway has one.",
)
@click.option("--once", is_flag=True, help="Print what there is now, and end; so it is in a pipe.")
@click.option("--json", "as_json", is_flag=True, help="Print the state as one JSON object, and end.")
def top(url: str, token_env: str, *, once: bool, as_json: bool) -> None:
    """Watch slots and lines: who has which slot since when, who waits, and why.

    Arrows choose a request; enter says all about it, and k ends it.
    """
    token = os.environ.get(token_env) or None
    live = not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    if live and find_spec("textual") is None:
        raise click.ClickException(_MISSING)
    try:
        asyncio.run(_live(url, token, token_env) if live else _once(url, token, token_env, as_json=as_json))
    except Trouble as trouble:
        click.echo(f"slotline: {one_line(str(trouble))}", err=True)
        sys.exit(1)


async def _once(url: str, token: str | None, token_env: str, *, as_json: bool) -> None:
    async with Feed(url, token, token_env) as feed:
        said = await feed.state()
    state = decoded(said)
    if as_json:
        click.echo(harmless(said))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    speeds = Speeds()
    shown = "\n".join(row.text for row in rows(state, speeds, width))
    click.echo(f"{totals(state, speeds)}\n\n{printable(shown)}")


async def _live(url: str, token: str | None, token_env: str) -> None:
    from slotline.cli.top.app import Top  # noqa: PLC0415 - it takes a while, and pipes do without

    async with Feed(url, token, token_env) as feed:
        await Top(feed, url).run_async()
