"""What the stub tells of itself at one moment: the numbers that tests wait for and assert on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """Counts of inference requests. "Ever" is since the stub was made; a restart keeps them."""

    received: int  # ever
    waiting: int  # in the stub's own queue now
    running: int  # being answered now
    held: int  # of these, how many wait for a release
    draining: int  # slots that still compute for a client that went
    max_waiting: int  # the most that ever waited at once; 0: the stub's own queue was never used
    max_running: int  # the most that ever ran at once
    max_in_flight: int  # the most that ever waited, ran or drained at once
    done: int  # ever: ended by the stub, well or badly
    aborted: int  # ever: the client went first
    tokens: int  # ever sent


@dataclass(frozen=True, slots=True)
class Call:
    """A request to any route but those of inference: polls, controls, and whatever should never have come."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    at: float  # `time.monotonic`
