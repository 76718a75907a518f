"""How long a client waits for an answer that is not streamed, as it says itself.

The vendors' SDKs (all made by Stainless) send their time-out along. For an answer that comes in one piece it is the
longest wait, after which nobody listens any more. For a stream it is the longest gap, and says nothing about a wait.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

_HEADERS: Final = ("x-stainless-timeout", "x-stainless-read-timeout")  # the second where the first is `NOT_GIVEN`
_MOST: Final = 7 * 24 * 3600.0  # seconds; whoever says more means no limit


def longest_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that the client waits at most; None where it says nothing that can be one. Names in any case."""
    for name in _HEADERS:
        seconds = _seconds(headers.get(name, ""))
        if seconds is not None:
            return seconds
    return None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 < seconds <= _MOST else None
