"""What strangers wrote, made fit for a terminal: a model's answer or a client's name for a model could steer it."""

from __future__ import annotations

import re
import sys

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 but for tab and line end, DEL, C1, and what turns the direction of writing around."""


def printable(text: str) -> str:
    """`text` without what a terminal would obey; line ends and tabs stay."""
    return _CONTROL.sub("", text)


def harmless(data: bytes) -> bytes:
    """JSON for standard output: on a terminal as `printable`; a program gets every character of it."""
    return printable(data.decode(errors="replace")).encode() if sys.stdout.isatty() else data


def one_line(text: str) -> str:
    """… and without line ends and tabs, for a cell of a table."""
    return " ".join(printable(text).split())
