"""How long an upstream may be silent, and what its silence means.

There is no total deadline. Every limit bounds a silence, and its clock starts anew when that changes its meaning:

    BUSY      the request's slot works, or nobody can say: prefill is silent, and so is a long batch   busy_wait
    LOADING   the server cannot answer yet: it loads a model, sleeps, or restarts                      load_wait
    IDLE      the slot is idle although the request was sent: it was swallowed                         idle_grace
    FLOWING   the answer comes, piece by piece                                                         liveness

The first three are told apart by asking the server, until the head of the answer is there: a head says BUSY for good.
Heads, comments and reports of progress are no pieces of an answer; they show that the connection lives, not that the
model gets on. In FLOWING both clocks run, and the text of the error says which of them has stopped.
"""

from __future__ import annotations

from enum import Enum, auto

from slotline.core.errors import LoadTimeout, Stalled, UpstreamFailure, WaitTimeout
from slotline.core.limits import Limits


class State(Enum):
    """What an upstream's silence means."""

    BUSY = auto()
    LOADING = auto()
    IDLE = auto()
    FLOWING = auto()


class Silence:
    """One call's silence. `now` is any clock of seconds that does not run backwards."""

    __slots__ = ("_heard", "_limits", "_since", "state")

    def __init__(self, limits: Limits, now: float) -> None:
        """The request goes out at `now`."""
        self._limits = limits
        self._since = now  # of the state before the first piece, of the last piece after it
        self._heard = now
        self.state = State.BUSY

    def saw(self, state: State, now: float) -> None:
        """The server was asked, and this is what its silence means at present."""
        if self.state is not State.FLOWING and state is not self.state:
            self.state = state
            self._since = now

    def bytes(self, now: float) -> None:
        """Something came, whatever it was: the connection lives, and the request was not swallowed."""
        self._heard = now
        self.saw(State.BUSY, now)

    def piece(self, now: float) -> None:
        """A piece of the answer came: a token, some reasoning, a part of a tool call."""
        self.state = State.FLOWING
        self._since = now

    def excuse(self, seconds: float) -> None:
        """For so long nobody listened, because the caller was busy with what had come: that was no silence."""
        self._since += seconds
        self._heard += seconds

    @property
    def deadline(self) -> float:
        """When the present silence has lasted too long."""
        return self._since + self._limit()[1]

    def overdue(self) -> UpstreamFailure:
        """The error of the limit that holds now; its text names phase, limit and value."""
        name, value = self._limit()
        limit = f"{name} = {value:g} s"
        match self.state:
            case State.BUSY:
                return WaitTimeout(f"waiting for the first token: the upstream is busy and sent none within {limit}")
            case State.LOADING:
                return LoadTimeout(f"waiting for the upstream to load or restart: it was not ready within {limit}")
            case State.IDLE:
                return Stalled(f"waiting for the first token: the request was swallowed, its slot was idle for {limit}")
            case State.FLOWING if self._heard > self._since:
                return Stalled(f"in the middle of the answer: only signs of life and no token came within {limit}")
            case State.FLOWING:
                return Stalled(f"in the middle of the answer: the upstream sent nothing more within {limit}")

    def _limit(self) -> tuple[str, float]:
        match self.state:
            case State.BUSY:
                return "busy_wait", self._limits.busy_wait
            case State.LOADING:
                return "load_wait", self._limits.load_wait
            case State.IDLE:
                return "idle_grace", self._limits.idle_grace
            case State.FLOWING:
                return "liveness", self._limits.liveness
