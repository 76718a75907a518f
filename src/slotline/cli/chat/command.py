"""`slotline chat`: a small chat on the terminal, or one question in a pipe."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Self

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text as Line

from slotline.cli.asking import Asker, NoAnswer, about_key, first_model, key_option, unserved
from slotline.cli.chat.course import Course
from slotline.cli.chat.rejoin import steadily
from slotline.cli.chat.talk import Talk
from slotline.cli.hearing import Text
from slotline.cli.printable import printable
from slotline.cli.running import url_option

_TICK = 0.25  # seconds between two looks at the place


@click.command()
@click.argument("model", required=False)
@url_option
@key_option
@click.option("--system", metavar="TEXT", help="What the model is told before all else.")
@click.option(
    "--thinking/--no-thinking",
    default=None,
    help="Ask for it. Unasked, a model that can do without does so.",
)
@click.option(
    "--max-tokens",
    default=4096,
    show_default=True,
    type=click.IntRange(1),
    help="Of an answer, its thinking included.",
)
def chat(
    model: str | None, url: str, key: str | None, system: str | None, max_tokens: int, *, thinking: bool | None
) -> None:
    """Chat with MODEL: its place in line, its thinking and its answer, as they come.

    MODEL is the first one that the gateway lists, unless it is named. In a pipe all of standard input is one message,
    and only the answer comes out: echo "Why is the sky blue?" | slotline chat
    """
    try:
        talk = Talk(model or first_model(url, key), max_tokens, system, thinking)
        if sys.stdin.isatty() and sys.stdout.isatty():
            problem = unserved(url, key, model) if model is not None else None
            if problem is None:
                _on_terminal(talk, url, key)
        else:
            problem = asyncio.run(_in_pipe(_message(), talk, url, key))
    except NoAnswer as error:
        problem = about_key(str(error), error.status, key)
    if problem is not None:
        click.echo(f"slotline: {printable(problem)}", err=True)
        sys.exit(1)


def _message() -> str:
    """All of standard input. Raises UsageError where that is nothing to ask."""
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise click.UsageError("what comes in is no text in UTF-8") from None
    if not text.strip():
        raise click.UsageError("nothing came in; what is to be asked?")
    return text


def _on_terminal(talk: Talk, url: str, key: str | None) -> None:
    from slotline.cli.chat.prompt import Prompt  # noqa: PLC0415 - readline and termios are not for pipes

    async def opened() -> Asker:
        return await Asker(url, key).__aenter__()

    with asyncio.Runner() as runner:
        asker = runner.run(opened())
        try:
            Prompt(Console(highlight=False), asker, talk, runner, (url, key)).run()
        finally:
            runner.run(asker.__aexit__())


async def _in_pipe(text: str, talk: Talk, url: str, key: str | None) -> str | None:
    """One question, and its answer as it comes; what went wrong, if anything."""
    steers = sys.stdout.isatty()
    time = asyncio.get_running_loop().time
    course = Course(time())
    async with Asker(url, key) as asker, aclosing(steadily(asker, talk.ask(text))) as hearing, _Place(course) as place:
        async for heard in hearing:
            course.hear(heard, time())
            if isinstance(heard, Text):
                await place.leave()
                click.echo(printable(heard.text) if steers else heard.text, nl=False)
    if course.text and not course.text[-1].endswith("\n"):
        click.echo()
    if course.failed is None:
        return None
    return about_key(course.failed.message, course.failed.status, key)


class _Place:
    """The place in line on standard error, where that is a terminal, until the answer begins."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if sys.stderr.isatty():
            self._task = asyncio.create_task(self._show())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        """The line is gone from the terminal when this returns."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])

    async def _show(self) -> None:
        time = asyncio.get_running_loop().time
        with Live(console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True) as live:
            while True:
                live.update(Line(self._course.status(time()), "dim", no_wrap=True), refresh=True)
                await asyncio.sleep(_TICK)
