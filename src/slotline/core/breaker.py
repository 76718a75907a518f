"""When to stop sending to an upstream, and when to try it again.

    CLOSED     it works                                   failures in a row reach the threshold → OPEN
                                                          it swallowed a request → HALF_OPEN
    OPEN       nothing is sent to it until the rest ends  the rest has passed → HALF_OPEN
    HALF_OPEN  one request may try                        it is answered → CLOSED; it fails → OPEN, for twice as long

Only the upstream's own doing counts: a client that leaves says nothing about it, an answer that broke off in the middle
says as much as a connection that was refused.
"""

from __future__ import annotations

from enum import Enum, auto

from slotline.core.errors import (
    LoadTimeout,
    Protocol,
    SlotlineError,
    Stalled,
    StreamClosedEarly,
    Unreachable,
    UpstreamStatus,
    WaitTimeout,
)
from slotline.core.liveness import State as Silent

_THRESHOLD = 3  # failures in a row
_FIRST_REST = 1.0  # seconds
_LONGEST_REST = 30.0
_FAILURES = (LoadTimeout, Protocol, Stalled, StreamClosedEarly, Unreachable, WaitTimeout)


class State(Enum):
    """Whether an upstream is sent requests."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class Breaker:
    """One upstream's. `now` is any clock of seconds that does not run backwards."""

    __slots__ = ("_failures", "_rest", "_until", "state")

    def __init__(self) -> None:
        self.state = State.CLOSED
        self._failures = 0
        self._rest = _FIRST_REST
        self._until = 0.0

    def slots(self, configured: int) -> int:
        """How many of the upstream's `configured` slots may be used at present."""
        match self.state:
            case State.CLOSED:
                return configured
            case State.OPEN:
                return 0
            case State.HALF_OPEN:
                return min(1, configured)

    def began(self) -> None:
        """A piece of an answer came: who was tried again gets all slots back, and loses them at the next failure."""
        if self.state is State.HALF_OPEN:
            self.state = State.CLOSED
            self._failures = _THRESHOLD - 1

    def worked(self) -> None:
        """An answer came to its end."""
        self.state = State.CLOSED
        self._failures = 0
        self._rest = _FIRST_REST

    def failed(self, error: SlotlineError, now: float, state: Silent = Silent.BUSY) -> None:
        """A request ended with `error`; what is not the upstream's doing is passed over.

        `state`: what the silence of the upstream meant at the end. IDLE: it swallowed the request while it calls itself
        healthy; the next one shows whether it does so with all. An answer with a status, whatever it says, comes from a
        server that works; an error in the middle of an answer does not.
        """
        midway = isinstance(error, UpstreamStatus) and state is Silent.FLOWING
        if isinstance(error, UpstreamStatus) and not midway:
            self.worked()
        if not isinstance(error, _FAILURES) and not midway:
            return
        self._failures += 1
        if self.state is State.HALF_OPEN:
            self._rest = min(self._rest * 2, _LONGEST_REST)
        elif self._failures < _THRESHOLD:
            self.state = State.HALF_OPEN if state is Silent.IDLE else self.state
            return
        self.state = State.OPEN
        self._until = now + self._rest

    def look(self, now: float) -> None:
        """The upstream answers a probe at `now`: once its rest is over, one request may try."""
        if self.state is State.OPEN and now >= self._until:
            self.state = State.HALF_OPEN
