"""Which of the names that exist is the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.6  # difflib's own default: "slotz" finds "slots", "colour" does not find "slots"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `word`, or None where none is like it. Case does not count."""
    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_ALIKE)
    return by_lower[matches[0]] if matches else None
