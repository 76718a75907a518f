"""What a client that asks for it is told between its grant and the first token: `event: progress` frames.

An extension like the queue frames, and opt-in (`x-slotline-progress: 1`): taking every frame out leaves a complete
Messages stream. Counts are tokens of the prompt, those that came from a cache among them; null where nobody knows.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Stage(StrEnum):
    """What the upstream is at."""

    LOADING = "loading"
    PREFILL = "prefill"


class _Progress(msgspec.Struct, frozen=True, tag="progress"):
    stage: Stage
    processed: int | None
    total: int | None


def frame(stage: Stage, processed: int | None = None, total: int | None = None) -> bytes:
    """The whole frame."""
    return b"event: progress\ndata: %b\n\n" % msgspec.json.encode(_Progress(stage, processed, total))


def asked_for(header: str | None) -> bool:
    """Whether the header `x-slotline-progress` asks for them."""
    return header is not None and header.strip() == "1"
