"""Nothing that a stranger wrote steers a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from slotline.cli.printable import harmless, one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext, Grüße, 世界 🙂", "plain\n\ttext, Grüße, 世界 🙂"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x1b]0;title\x07", "]0;title"),
        ("\x9b2J over\rwritten\b\x7f", "2J overwritten"),
        ("abc\u202ecba\u2066", "abccba"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_cell_is_one_line() -> None:
    assert one_line(" a\n\tb\x1b \r\n c ") == "a b c"


@pytest.mark.parametrize(("terminal", "shown"), [(True, '{"model":"2J"}'), (False, '{"model":"\x9b2J"}')])
def test_json_is_whole_for_programs_and_harmless_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, shown: str
) -> None:
    """JSON escapes a part only of what a terminal obeys."""

    class Output(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    monkeypatch.setattr(sys, "stdout", Output())
    assert harmless('{"model":"\x9b2J"}'.encode()).decode() == shown
