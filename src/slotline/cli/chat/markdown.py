"""Markdown that grows: which part of it will never look different, and what of the rest fits on a screen.

What is settled is printed once and scrolls away like any text. Only the last block of a page can still change, so that
only this one is drawn again and again.
"""

from __future__ import annotations

from typing import Final

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment

_WIDEST: Final = 100  # columns: longer lines are hard to read
_parse: Final = MarkdownIt().enable("strikethrough").enable("table").parse  # as Rich does


def settled(text: str) -> int:
    """How many characters of `text` are blocks that no further text can change.

    Only whole lines decide: the beginning of one may look like something that it is not.
    """
    lines = text.split("\n")[:-1]
    starts = [token.map[0] for token in _parse("\n".join(lines)) if token.level == 0 and token.map]
    return sum(len(line) + 1 for line in lines[: starts[-1]]) if starts else 0


class Page:
    """Markdown as it is shown, `below` what was shown before it; of what is too high its end, in `height` lines."""

    def __init__(self, text: str, *, below: bool, height: int | None = None) -> None:
        self._markdown = Markdown(text)
        self._below = below
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = rows(console, options, self._markdown)
        if self._below:
            lines.insert(0, [])
        for line in lines if self._height is None else lines[-self._height :]:
            yield from line
            yield Segment.line()


def rows(console: Console, options: ConsoleOptions, shown: RenderableType) -> list[list[Segment]]:
    """The lines of `shown`, without empty ones at either end, and not wider than is easy to read."""
    lines = console.render_lines(shown, options.update(width=min(options.max_width, _WIDEST), height=None), pad=False)
    while lines and not _text(lines[-1]):
        lines.pop()
    while lines and not _text(lines[0]):
        lines.pop(0)
    return lines


def _text(line: list[Segment]) -> str:
    return "".join(segment.text for segment in line).strip()
