"""One request on its way through the simulated gateway."""

from __future__ import annotations

from dataclasses import dataclass

from slotline.core.room import Ticket
from slotline.core.simulation.request import Request

Who = tuple[str, bool]
"""A key, and whether it is of the class batch."""


_NO_TICKET = Ticket(0, frozenset())


@dataclass(slots=True)
class Clock:
    """What time it is: seconds since the first request."""

    now: float = 0.0


@dataclass(slots=True, eq=False)
class Flight:
    """A request and what became of it so far; to the estimator it looks as a real one does (`core.habits.Run`)."""

    request: Request
    who: Who
    index: int  # in the trace
    arrived: float
    reading: float  # seconds, as `Rates.times` gives them
    answering: float
    held: float  # for how many seconds it needs a slot: both together
    clock: Clock
    joined: float = 0.0  # when it last came to the line
    ticket: Ticket = _NO_TICKET
    granted: float | None = None
    upstream: str = ""
    told: float | None = None  # the wait that it was told as it joined

    @property
    def complete(self) -> bool:
        return True

    @property
    def most(self) -> None:
        """No trace tells what its clients would have taken at most."""
        return None

    @property
    def comes_again(self) -> bool:
        """It has been in line before, and left."""
        return self.ticket is not _NO_TICKET

    @property
    def size(self) -> int:
        return self.request.prompt

    @property
    def length(self) -> int:
        """The pieces of its answer; where a trace has no tokens, tenths of a second stand for them."""
        return self.request.output or round(self.answering * 10)

    @property
    def began(self) -> float | None:
        if self.granted is None:
            return None
        at = self.granted + self.reading
        return at if at <= self.clock.now else None

    @property
    def pieces(self) -> int:
        began = self.began
        if began is None:
            return 0
        return min(self.length, int((self.clock.now - began) / self.answering * self.length))
