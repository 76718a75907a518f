"""The limits on one upstream: how long which silence may last, and how much is too much. Seconds and bytes.

There is no total deadline among them, on purpose: an answer that flows may flow for ever (docs/decisions/).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ThinkingEnd(StrEnum):
    """How the reasoning is ended on servers without a control for that."""

    ASK_AGAIN = "ask_again"  # the same question on the same slot, with reasoning switched off
    ERROR = "error"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`[upstream.limits]`; times in seconds, sizes in bytes."""

    connect: float = 5.0
    """Making the connection."""
    poll: float = 1.0
    """How often a silent upstream is asked about its slots."""
    busy_wait: float = 1800.0
    """Silence before the first byte while the slot is busy."""
    load_wait: float = 900.0
    """… while the upstream is loading or restarting."""
    idle_grace: float = 60.0
    """… while the slot is idle: the request was swallowed."""
    liveness: float = 60.0
    """Silence between events once they flow."""
    max_event: int = 4 * 1024 * 1024
    """One event of the upstream's stream."""
    client_write: float = 60.0
    """A client that does not read."""
    drain: float = 30.0
    """After an abort, how long a slot that still works is kept out of use."""
    thinking_cap: int = 16384
    """Reasoning deltas, streamed or not; 0: no cap."""
    thinking_overrun: int = 512
    """Reasoning deltas after the end of the reasoning was asked for."""
    thinking_end: ThinkingEnd = ThinkingEnd.ASK_AGAIN
    """What is done about too much reasoning where the server cannot be told to end it."""
