"""The prompt of the terminal chat: what a person types, and the commands that begin with a slash."""

from __future__ import annotations

import asyncio
import readline
from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Console
from rich.text import Text as Line

from slotline.cli.asking import Asker, NoAnswer, models, unserved
from slotline.cli.chat.course import Course
from slotline.cli.chat.rejoin import steadily
from slotline.cli.chat.screen import Screen
from slotline.cli.chat.talk import Talk
from slotline.cli.printable import printable

_PROMPT: Final = "\001\033[1m\002>\001\033[0m\002 "  # bold; \001 and \002 tell readline what takes no room
_MORE: Final = "\001\033[1m\002…\001\033[0m\002 "
_HELP: Final = """\
/new           forgets what was said
/model         lists the models; /model NAME goes on with another one
/help          these lines
/quit          leaves, as do Ctrl-D and Ctrl-C at the prompt
Ctrl-C         stops an answer; what came of it is kept
\\ at the end   of a line goes on in the next one"""


class Prompt:
    """A chat until the person leaves. `runner`: where answers are waited for, so that Ctrl-C ends them and no more."""

    def __init__(self, console: Console, asker: Asker, talk: Talk, runner: asyncio.Runner, at: tuple[str, str | None]):
        self._console = console
        self._asker = asker
        self._talk = talk
        self._runner = runner
        self._at = at  # the gateway's address, and the key
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/new": self._new,
            "/model": self._model,
            "/help": lambda _: self._dim(_HELP),
        }

    def run(self) -> None:
        """Returns when the person leaves."""
        readline.parse_and_bind("set enable-bracketed-paste on")
        self._dim(f"{self._talk.model} at {self._at[0]}. /help tells more, Ctrl-D leaves.")
        while True:
            try:
                text = typed().strip()
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                return
            if text in ("/quit", "/exit"):
                return
            if text.startswith("/") and "\n" not in text:
                self._obey(text)
            elif text:
                self._say(text)

    def _say(self, text: str) -> None:
        course: Course | None = None

        async def answer() -> None:
            nonlocal course
            screen = Screen(self._console)
            course = screen.course
            await screen.show(steadily(self._asker, self._talk.ask(text)))

        try:
            self._runner.run(answer())
        except KeyboardInterrupt:
            self._dim(course.footer() if course is not None else "stopped")
        if course is not None:
            if course.failed is not None:
                self._wrong(course.failed.message)
            self._talk.answered(text, "".join(course.text))

    # ---- commands ----------------------------------------------------------------------------------------------------

    def _obey(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        command = self._commands.get(name)
        if command is None:
            self._wrong(f"there is no command {name}; /help lists them")
            return
        try:
            command(rest.strip())
        except NoAnswer as error:
            self._wrong(str(error))

    def _new(self, _: str) -> None:
        self._talk.anew()
        self._dim("a new chat")

    def _model(self, name: str) -> None:
        if not name:
            self._dim("\n".join(f"{'*' if each == self._talk.model else ' '} {each}" for each in models(*self._at)))
        elif problem := unserved(*self._at, name):
            self._wrong(problem)
        else:
            self._talk.model = name
            self._dim(f"the next answers are of {name}")

    # ---- words -------------------------------------------------------------------------------------------------------

    def _dim(self, text: str) -> None:
        self._console.print(Line(printable(text), "dim"))

    def _wrong(self, text: str) -> None:
        self._console.print(Line.assemble(("error: ", "bold red"), printable(text)))


def typed() -> str:
    """What the person types; a line that ends with a backslash goes on. Raises EOFError, KeyboardInterrupt."""
    lines = [input(_PROMPT)]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(input(_MORE))
    return "\n".join(lines)
