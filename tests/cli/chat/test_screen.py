"""One answer on a terminal: what moves while it comes, and what stays when it has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from io import StringIO

import pytest
from rich.console import Console

from slotline.cli.chat.rejoin import Lost
from slotline.cli.chat.screen import Screen
from slotline.cli.hearing import Begun, Done, Failed, Fault, Heard, Progress, Queued, Text, Thinking

_STEERS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """What is written to a terminal of 90 columns and 12 rows."""

    def __init__(self) -> None:
        self.file = StringIO()
        self.console = Console(
            file=self.file, width=90, height=12, force_terminal=True, color_system=None, highlight=False
        )

    @property
    def written(self) -> str:
        """All that was ever shown, without what steers the cursor."""
        return _STEERS.sub("", self.file.getvalue())

    @property
    def left(self) -> list[str]:
        """What stays: a little terminal plays back what was written."""
        rows, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.file.getvalue()):
            match part[-1]:
                case "A" if part[0] == "\x1b":
                    row -= int(part[2:-1] or 1)
                case "K" if part[0] == "\x1b":
                    rows[row] = ""
                case "\r":
                    column = 0
                case "\n":
                    row, column = row + 1, 0
                    rows += [""] * (row + 1 - len(rows))
                case _ if part[0] != "\x1b":
                    rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
                    column += len(part)
        while rows and not rows[-1].strip():
            rows.pop()
        return [line.rstrip() for line in rows]


async def pieces(*heard: Heard | Lost, pause: float = 0.1) -> AsyncGenerator[Heard | Lost]:
    for each in heard:
        yield each
        await asyncio.sleep(pause)


@pytest.mark.looptime
async def test_place_thinking_and_answer_move_and_the_answer_with_its_footer_stays() -> None:
    terminal = Terminal()
    screen = Screen(terminal.console)
    await screen.show(
        pieces(
            *(Queued(2, 2, 5.0), Queued(1, 2, 3.0), Progress("prefill", 5, 10), Begun()),
            *(Thinking("Let me see."), Thinking(" Yes."), Text("# Yes\n\nSo *it*"), Text(" is.\n"), Done("end_turn")),
        )
    )
    shown = ("place 2 of 2, about 5 s", "place 1 of 2, about 3 s", "reading 5/10", "Let me see. Yes.", "answering")
    places = [terminal.written.index(each) for each in shown]
    assert places == sorted(places)
    assert [line.strip(" ┃┏┓┗┛━") for line in terminal.left if line.strip(" ┃┏┓┗┛━")] == [
        "thought for 0.1 s · 2 tokens",
        "Yes",
        "So it is.",
        "waited 0.2 s · first token after 0.2 s · 4 tokens · 10 tokens/s · end_turn",
    ]


@pytest.mark.looptime
async def test_of_a_long_answer_every_line_stays_once() -> None:
    terminal = Terminal()
    lines = [f"line {number}" for number in range(40)]
    text = "```\n" + "\n".join(lines) + "\n```\n\nThe end."
    await Screen(terminal.console).show(pieces(*(Text(each) for each in re.findall(r".{1,7}|\n", text))))
    kept = [line.strip() for line in terminal.left if line.strip()]
    assert kept[:41] == [*lines, "The end."]
    assert len(kept) == 42


@pytest.mark.looptime
async def test_stopped_it_leaves_what_came_and_closes_what_it_reads() -> None:
    closed = False

    async def endless() -> AsyncGenerator[Heard | Lost]:
        nonlocal closed
        try:
            while True:
                yield Text("word ")
                await asyncio.sleep(0.1)
        finally:
            closed = True

    terminal = Terminal()
    screen = Screen(terminal.console)
    task = asyncio.create_task(screen.show(endless()))
    await asyncio.sleep(0.45)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed
    assert [line.strip() for line in terminal.left] == ["word word word word word"]
    assert screen.course.footer().startswith("stopped · ")


@pytest.mark.looptime
async def test_stopped_in_line_it_says_how_long_it_waited() -> None:
    screen = Screen(Terminal().console)
    task = asyncio.create_task(screen.show(pieces(Queued(1, 1, None), pause=60.0)))
    await asyncio.sleep(12.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert screen.course.footer() == "stopped · waited 12 s"


@pytest.mark.looptime
async def test_nothing_of_an_answer_steers_the_terminal() -> None:
    terminal = Terminal()
    await Screen(terminal.console).show(pieces(Thinking("\x1b[2J"), Text("a\x1b]0;title\x07b\x9b"), Done("end_turn")))
    assert not re.search("\x1b[^\\[]|\x07|\x9b|\x1b\\[2J", terminal.file.getvalue())
    assert "a]0;titleb" in terminal.written


@pytest.mark.looptime
async def test_what_failed_before_a_word_leaves_nothing() -> None:
    terminal = Terminal()
    screen = Screen(terminal.console)
    await screen.show(pieces(Failed(Fault.REFUSED, "overloaded_error", "full", 529)))
    assert terminal.left == []
    assert screen.course.failed is not None
