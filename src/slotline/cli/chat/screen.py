"""One answer on a terminal, as it comes: the place in line, the last lines of the thinking, Markdown that grows."""

from __future__ import annotations

import asyncio
import sys
import termios
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.style import Style
from rich.text import Text as Line

from slotline.cli.chat.course import Course
from slotline.cli.chat.markdown import Page, settled
from slotline.cli.chat.rejoin import Lost
from slotline.cli.hearing import Heard
from slotline.cli.printable import printable

_EVERY: Final = 1 / 12  # seconds between two looks
_THOUGHTS: Final = 3  # lines of the thinking that are shown while it goes on
_DIM: Final = Style(dim=True)


class Screen:
    """Shows one answer; `course` is how far it came, also after it was cut off."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0  # characters of the answer that are printed for good
        self._thought = False  # whether that it thought is
        self._drawn: object = None
        self._time = asyncio.get_running_loop().time
        self.course = Course(self._time())

    async def show(self, hearing: AsyncGenerator[Heard | Lost]) -> None:
        """Until the answer has ended. Cancelled, it leaves on the terminal what came until then."""
        with quiet_keyboard(), Live(console=self._console, auto_refresh=False, transient=True) as live:
            try:
                async with asyncio.TaskGroup() as tasks:
                    heard = tasks.create_task(self._hear(hearing))
                    while not heard.done():
                        self._draw(live)
                        await asyncio.wait([heard], timeout=_EVERY)
            except asyncio.CancelledError:
                self.course.stop(self._time())
                raise
            finally:
                self._settle(whole=True)
        if footer := self.course.footer():
            self._console.print(Line(footer, _DIM))

    async def _hear(self, hearing: AsyncGenerator[Heard | Lost]) -> None:
        async with aclosing(hearing):
            async for heard in hearing:
                self.course.hear(heard, self._time())

    def _draw(self, live: Live) -> None:
        rest = self._settle()
        status = self.course.status(self._time())
        if (drawn := (rest, status, len(self.course.thought), self._console.size)) != self._drawn:
            self._drawn = drawn
            live.update(Group(*self._moving(rest), Line(status, _DIM, overflow="ellipsis", no_wrap=True)), refresh=True)

    def _moving(self, rest: str) -> Iterator[RenderableType]:
        """What is drawn again and again, above the status."""
        if rest:
            yield Page(rest, below=self._shown > 0, height=max(3, self._console.height - 3))
        elif self.course.thought and not self.course.text:
            thoughts = Line(printable("".join(self.course.thought)[-2000:]).strip(), _DIM + Style(italic=True))
            yield Group(*thoughts.wrap(self._console, self._console.width)[-_THOUGHTS:])

    def _settle(self, *, whole: bool = False) -> str:
        """Prints for good what no longer changes; the rest. `whole`: nothing changes any more."""
        course = self.course
        if not self._thought and (thoughts := course.thoughts()) and (course.text or whole):
            self._thought = True
            self._console.print(Line(thoughts, _DIM))
        text = printable("".join(course.text))
        rest = text[self._shown :]
        if cut := len(rest) if whole else settled(rest):
            if rest[:cut].strip():
                self._console.print(Page(rest[:cut], below=self._shown > 0))
            self._shown += cut
        return rest[cut:]


@contextmanager
def quiet_keyboard() -> Iterator[None]:
    """Keys that are pressed meanwhile do not show; they are there for the next prompt. Ctrl-C works as ever."""
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):  # not a terminal
        yield
        return
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
