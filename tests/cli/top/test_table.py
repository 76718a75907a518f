"""Columns give way to a narrow terminal, the least important ones first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.cli.top.table import Column, Span, Tone, cut, head, line, widths

COLUMNS = (
    Column("name", least=4, most=12),
    Column("n", least=3, most=6, right=True),
    Column("why", rank=2, least=5, most=30),
    Column("id", rank=3, least=4, most=20),
    Column("key", rank=1, least=3, most=9),
)
CELLS = [
    [Span("alpha"), Span("7"), Span("because of this and that"), Span("req_0123456789"), Span("alice")],
    [Span("a very long name"), Span("42"), Span("none"), Span("req_1"), Span("–")],
]


def shown(width: int) -> list[str]:
    fitted = widths(COLUMNS, CELLS, width)
    return [row.text for row in (head(COLUMNS, fitted), *(line(COLUMNS, cells, fitted) for cells in CELLS))]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,
            [
                "name           n why                      id             key",
                "alpha          7 because of this and that req_0123456789 alice",
                "a very long…  42 none                     req_1          –",
            ],
        ),
        (
            54,
            [
                "name           n why                      id     key",
                "alpha          7 because of this and that req_0… alice",
            ],
        ),
        (40, ["name           n why          id   key", "alpha          7 because of … req… alice"]),
        (24, ["name    n why   id   key", "alpha   7 beca… req… al…"]),
        (17, ["name        n key", "alpha       7 al…"]),
    ],
)
def test_what_gives_way_first_has_the_highest_rank(width: int, expected: list[str]) -> None:
    assert shown(width)[: len(expected)] == expected


@given(st.integers(18, 120), st.lists(st.lists(st.text(max_size=40), min_size=5, max_size=5), min_size=1, max_size=4))
def test_rows_are_never_wider_than_the_terminal(width: int, texts: list[list[str]]) -> None:
    cells = [[Span(text) for text in row] for row in texts]
    fitted = widths(COLUMNS, cells, width)
    assert all(len(line(COLUMNS, row, fitted).text) <= width for row in cells)
    assert fitted[0]
    assert fitted[1]


def test_a_column_without_a_word_is_not_shown() -> None:
    cells = [[Span("a"), Span(""), Span(""), Span("–"), Span("")]]
    assert widths(COLUMNS, cells, 80) == [4, 3, 0, 0, 0]


def test_a_cell_keeps_its_tone_and_a_row_its_request() -> None:
    row = line(COLUMNS[:1], [Span("down", Tone.BAD)], [6], "req_1")
    assert row.spans[0] == Span("down  ", Tone.BAD)
    assert row.request == "req_1"
    assert (cut("abcdef", 4), cut("abc", 4)) == ("abc…", "abc")
