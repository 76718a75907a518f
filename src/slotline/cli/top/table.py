"""Rows of text for a terminal of any width: columns give way, the least important ones first.

Rows know tones, not colours, and every tone goes with a word that says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Tone(StrEnum):
    """What a piece of text is like."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    GOOD = "good"
    BUSY = "busy"
    BAD = "bad"


class Span(msgspec.Struct, frozen=True):
    """A piece of a row."""

    text: str
    tone: Tone = Tone.PLAIN


class Row(msgspec.Struct, frozen=True):
    """One row. `request`: the id of the one that it is about, which can be chosen."""

    spans: Sequence[Span]
    request: str | None = None

    @property
    def text(self) -> str:
        """Without tones."""
        return "".join(span.text for span in self.spans).rstrip()


class Column(msgspec.Struct, frozen=True):
    """`least`, `most`: of its width. The highest `rank` gives way first, and is dropped first; 0: never dropped."""

    head: str
    rank: int = 0
    least: int = 4
    most: int = 40
    right: bool = False


def widths(columns: Sequence[Column], cells: Sequence[Sequence[Span]], width: int) -> list[int]:
    """A width for each column, 0 for one that is dropped, so that all of them, one apart, fit into `width`.

    Those without a word in them are not shown, unless they are always.
    """
    natural = [_natural(column, [row[place].text for row in cells]) for place, column in enumerate(columns)]
    by_rank = sorted(range(len(columns)), key=lambda place: columns[place].rank, reverse=True)
    given: list[int] = []
    for dropped in range(len(columns)):
        given = [0 if place in by_rank[:dropped] else each for place, each in enumerate(natural)]
        for place in by_rank[dropped:]:
            given[place] -= max(0, min(given[place] - columns[place].least, _sum(given) - width))
        if _sum(given) <= width or not columns[by_rank[dropped]].rank:
            break
    return given


def head(columns: Sequence[Column], fitted: Sequence[int]) -> Row:
    """The row of the columns' names."""
    return line(columns, [Span(column.head, Tone.DIM) for column in columns], fitted)


def line(columns: Sequence[Column], cells: Sequence[Span], fitted: Sequence[int], request: str | None = None) -> Row:
    """One row of cells."""
    spans: list[Span] = []
    for column, cell, width in zip(columns, cells, fitted, strict=True):
        if width:
            text = cut(cell.text, width)
            spans += [Span(text.rjust(width) if column.right else text.ljust(width), cell.tone), Span(" ")]
    return Row(spans, request)


def cut(text: str, width: int) -> str:
    """`text` in `width` characters, with a sign where some are missing."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _natural(column: Column, texts: Sequence[str]) -> int:
    if column.rank and all(text in ("", "–") for text in texts):
        return 0
    return min(column.most, max(column.least, *map(len, (column.head, *texts))))


def _sum(given: Sequence[int]) -> int:
    return sum(width + 1 for width in given if width) - 1
