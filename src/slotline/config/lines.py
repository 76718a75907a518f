"""The line on which a key stands. `tomllib` does not tell, so it is found by reading beginnings of the file.

The first beginning of whole lines that is valid TOML and holds the key ends with the line of the key's value; the key
itself starts after the beginning before it. This is exact for every way to write TOML, needs no second parser, and is
done only when there is an error to report.
"""

from __future__ import annotations

import tomllib
from typing import Any

KeyPath = tuple[str | int, ...]
"""Keys from the top of the file; a number is a place in an array of tables, from 0."""


def line_of(text: str, path: KeyPath) -> int | None:
    """The line, from 1, on which the value at `path` begins; None if it is not there."""
    lines = text.replace("\r\n", "\n").split("\n")
    without = 0  # a beginning of so many lines is valid and lacks the key
    looked = 0  # and so does, or is invalid, every longer one up to here
    have = len(lines)
    if not path or not _holds(_parsed(lines, have), path):
        return None
    while looked + 1 < have:
        middle = (looked + have) // 2
        for count in range(middle, looked, -1):  # down to the next beginning that is valid
            document = _parsed(lines, count)
            if document is not None:
                break
        else:
            looked = middle
            continue
        if _holds(document, path):
            have = count
        else:
            without, looked = count, middle
    return without + 1


def _parsed(lines: list[str], count: int) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines[:count]))
    except tomllib.TOMLDecodeError:
        return None


def _holds(document: Any, path: KeyPath) -> bool:
    try:
        for step in path:
            document = document[step]
    except (KeyError, IndexError, TypeError):  # not there, a shorter array, no table at all
        return False
    return True
