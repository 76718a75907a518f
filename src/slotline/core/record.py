"""What is kept of one request when it has ended, for those who count, log and trace: never what was said, nor a key.

Values only. Moments are readings of one monotonic clock, in seconds; one that never came is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import msgspec

from slotline.core.errors import Outcome, SlotlineError

IN_LINE = ("messages", "chat/completions", "completions", "embeddings", "responses")
"""The routes below `/v1/` whose requests get a slot, or a place in line."""
SURFACES = (*IN_LINE, "messages/count_tokens", "models")
"""All routes below `/v1/`."""
UNKNOWN = ""
"""The surface of a route that does not exist, and the model of a request that named none that does."""

_SHOWN = 500  # characters of an error: an upstream may have written a page


class Moment(Enum):
    """What happens to a request before its end, as far as somebody wants to know of it at once."""

    ARRIVED = auto()  # it is valid, and about to join the line
    GRANTED = auto()  # it has a slot
    SENT = auto()  # it goes out to the upstream
    BEGAN = auto()  # the first piece of its answer is there


class Tokens(msgspec.Struct, frozen=True):
    """What a request cost, in tokens, as far as it is known. `cached` is a part of `input`, `reasoning` of `output`."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None


NO_TOKENS = Tokens()


class Span(Protocol):
    """A request's part in a trace that goes through several programs; see `slotline.observe.traces`."""

    @property
    def trace_id(self) -> str:
        """The identity of the whole, 32 hexadecimal digits."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """What tells the next program of it."""
        ...

    def end(self, record: Record) -> None:
        """The request has ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request that has ended. What it never came to is None."""

    id: str
    surface: str  # one of SURFACES, or UNKNOWN
    model: str  # as the catalogue calls it, or UNKNOWN
    outcome: Outcome
    ended: float
    arrived: float | None = None  # None: it was refused, or answered, without a look at the line
    stood: bool = False  # it was told a place in line
    granted: float | None = None
    began: float | None = None
    spoke: float | None = None  # the first piece that was no reasoning
    retried: bool = False  # its first upstream failed it, and it was tried elsewhere
    named: str | None = None  # the model, as the client named it
    upstream: str | None = None
    kind: str | None = None  # the upstream's
    key: str | None = None  # the name of the caller's key
    batch: bool = False
    stream: bool = False
    most: int | None = None  # tokens of the answer, by the client's word
    size: int = 0  # bytes of the body
    pieces: int = 0
    capped: int | None = None  # the cap on thinking that it passed
    tokens: Tokens = NO_TOKENS
    notes: str | None = None
    error: SlotlineError | None = None
    span: Span | None = None

    @property
    def waited(self) -> float | None:
        """Seconds until it had its slot, or until its end in line."""
        if self.arrived is None:
            return None
        return (self.ended if self.granted is None else self.granted) - self.arrived

    @property
    def ran(self) -> float | None:
        """Seconds with a slot, and until the last byte was written."""
        return None if self.granted is None else self.ended - self.granted

    @property
    def first_token(self) -> float | None:
        """Seconds from its arrival to the first piece of its answer."""
        return None if self.began is None or self.arrived is None else self.began - self.arrived

    @property
    def fault(self) -> str | None:
        """What the client read, if that was an error; an upstream's own words may be in it."""
        return None if self.error is None else str(self.error)[:_SHOWN]
