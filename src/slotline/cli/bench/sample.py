"""One request of a bench, as its client sees it: when what came, and how it ended.

All durations are in seconds from the moment at which the request was due. In a closed loop that is when it was sent; in
an open loop it is when it should have been, so that a client that falls behind counts its own lateness, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from slotline.cli.hearing import (
    Begun,
    Done,
    Failed,
    Fault,
    Heard,
    Opened,
    Progress,
    Queued,
    Text,
    Thinking,
    Untrue,
    Usage,
)


class End(StrEnum):
    """How a request ended."""

    COMPLETED = "completed"
    LEFT = "left"  # its client left the line, as it was told to
    FAILED = "failed"
    STOPPED = "stopped"  # the bench was, while it was going on


class Phase(StrEnum):
    """What a request does that has not ended."""

    SENT = "sent"
    WAITING = "waiting"
    RUNNING = "running"


class Sample(msgspec.Struct, frozen=True):
    """One request. What there was nothing to measure of is None."""

    client: int
    end: End
    late: float  # from when it was due until it was sent
    wait: float | None  # in line; 0.0 where there was none
    first_frame: float | None  # the first place told
    first_token: float | None
    between: Sequence[float]  # from each piece of the answer to the next
    total: float
    tokens: int  # of the answer
    prompt: int
    cached: int
    speed: float | None  # tokens a second, from the first piece to the last
    places: Sequence[int]
    request_id: str | None
    error: str | None  # its type
    message: str | None  # … and what it said
    untrue: Sequence[str]


@dataclass(slots=True, eq=False)
class Measure:
    """A request that goes on. `due`, `sent`: times of the clock that all others are of."""

    client: int
    due: float
    sent: float
    request_id: str | None = None
    pieces: int = 0
    _wait: float | None = None
    _first_frame: float | None = None
    _first: float | None = None
    _latest: float = 0.0
    _between: list[float] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)
    _begun: bool = False
    _usage: Usage | None = None
    _failed: Failed | None = None
    _done: bool = False
    _untrue: list[str] = field(default_factory=list)

    @property
    def phase(self) -> Phase:
        """What it does."""
        if self._begun:
            return Phase.RUNNING
        return Phase.WAITING if self._places else Phase.SENT

    def hear(self, heard: Heard, now: float) -> None:
        """The next thing that is heard, and when."""
        match heard:
            case Opened(request_id, waited):
                self.request_id, self._wait = request_id, waited
            case Queued(position):
                self._first_frame = self._first_frame or now
                self._places.append(position)
            case Progress() | Begun():
                self._granted(now)
            case Thinking() | Text():
                self._piece(now)
            case Usage():
                self._usage = heard
            case Done():
                self._done = True
            case Failed():
                self._failed = heard
                if heard.fault in (Fault.ENDLESS, Fault.STRANGE):
                    self._untrue.append(heard.message)
            case Untrue(message):
                self._untrue.append(message)

    def sample(self, now: float, end: End | None = None) -> Sample:
        """It has ended; `end` where its client ended it."""
        usage = self._usage or Usage(0, 0, self.pieces)
        span = self._latest - (self._first or now)
        return Sample(
            client=self.client,
            end=end or (End.COMPLETED if self._done else End.FAILED),
            late=self.sent - self.due,
            wait=self._wait if self._wait is not None or not self._begun else 0.0,
            first_frame=self._since(self._first_frame),
            first_token=self._since(self._first),
            between=self._between,
            total=now - self.due,
            tokens=usage.answer,
            prompt=usage.prompt,
            cached=usage.cached,
            speed=(usage.answer - 1) / span if usage.answer > 1 and span > 0 else None,
            places=self._places,
            request_id=self.request_id,
            error=self._failed.kind if self._failed else None,
            message=self._failed.message if self._failed else None,
            untrue=self._untrue,
        )

    def _granted(self, now: float) -> None:
        """The first thing after the last place: nothing tells more exactly when a slot was granted."""
        if not self._begun:
            self._begun = True
            if self._places:
                self._wait = now - self.due

    def _piece(self, now: float) -> None:
        self.pieces += 1
        if self._first is None:
            self._first = now
        else:
            self._between.append(now - self._latest)
        self._latest = now

    def _since(self, when: float | None) -> float | None:
        return None if when is None else when - self.due
