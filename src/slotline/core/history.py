"""The last hour in numbers: how requests ended, how long they had waited, how full slots and line were. For plots.

Two rings of spans. Ends are counted by the minute: a GPU at home has few in ten seconds. How full it is changes faster,
so that is kept for each ten seconds, as the most that any look in them saw. What a span shows is what happened in it,
and nobody is named. Times are seconds of the caller's clock; nothing outlives the process.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from slotline.core.errors import Outcome
from slotline.core.report import ms

_T = TypeVar("_T")

_HOUR = 3600.0
MINUTE = 60.0
LOOK = 10.0


class End(StrEnum):
    """How requests ended, as coarsely as a plot can show it."""

    COMPLETED = "completed"
    LEFT = "left"  # the client went away
    REFUSED = "refused"  # nothing was tried: the line is full, a limit is reached, the request is wrong
    FAILED = "failed"  # … or was ended by the gateway, however far it had come


ENDS = {
    Outcome.COMPLETED: End.COMPLETED,
    Outcome.CLIENT_LEFT_WAITING: End.LEFT,
    Outcome.CLIENT_LEFT_RUNNING: End.LEFT,
    Outcome.REFUSED_FULL: End.REFUSED,
    Outcome.REFUSED_LIMIT: End.REFUSED,
    Outcome.INVALID: End.REFUSED,
    Outcome.WAIT_TIMEOUT: End.FAILED,
    Outcome.LOAD_TIMEOUT: End.FAILED,
    Outcome.STALLED: End.FAILED,
    Outcome.UPSTREAM_DIED: End.FAILED,
    Outcome.UPSTREAM_ERROR: End.FAILED,
    Outcome.THINKING_OVERRUN: End.FAILED,
    Outcome.SHUTDOWN: End.FAILED,
}


class Minutes(msgspec.Struct, frozen=True):
    """Each a list with one number a minute, the oldest first; the last minute goes on."""

    completed: Sequence[int]
    left: Sequence[int]
    refused: Sequence[int]
    failed: Sequence[int]
    pieces: Sequence[int]
    wait_p50_ms: Sequence[int | None]  # None: nobody who was let in has ended
    wait_p95_ms: Sequence[int | None]


class Looks(msgspec.Struct, frozen=True):
    """Each a list with one number for each ten seconds, the oldest first; None: nobody looked."""

    slots: Sequence[int | None]
    busy: Sequence[int | None]
    waiting: Sequence[int | None]


class Hour(msgspec.Struct, frozen=True):
    """The last hour, or as much of it as there was. `…_began_ms_ago`: when the last span of each kind did."""

    minutes: Minutes
    minutes_began_ms_ago: int
    looks: Looks
    looks_began_ms_ago: int


@dataclass(slots=True)
class _Minute:
    ends: dict[End, int] = field(default_factory=lambda: dict.fromkeys(End, 0))
    pieces: int = 0
    waits: list[float] = field(default_factory=list)
    quantiles: tuple[float | None, float | None] = (None, None)  # once it is over, and its waits are forgotten


@dataclass(slots=True)
class _Look:
    slots: int | None = None
    busy: int | None = None
    waiting: int | None = None


class _Ring(Generic[_T]):
    """Spans of `length` seconds since `began`, as many as an hour has. `over` is told of each that is over."""

    def __init__(self, began: float, length: float, make: Callable[[], _T], over: Callable[[_T], None]) -> None:
        self._began, self._length, self._make, self._over = began, length, make, over
        self._number = 0  # of the newest span
        self.spans: deque[_T] = deque([make()], maxlen=round(_HOUR / length))

    def at(self, now: float) -> _T:
        """The span of this moment."""
        passed = int((now - self._began) / self._length) - self._number
        if passed > 0:
            self._over(self.spans[-1])
            self._number += passed
            for _ in range(min(passed, self.spans.maxlen or 0)):
                self.spans.append(self._make())
        return self.spans[-1]

    def age(self, now: float) -> float:
        """How long ago the newest span began."""
        return now - self._began - self._number * self._length


class History:
    """See the module. `now` never goes back."""

    def __init__(self, now: float) -> None:
        self._minutes = _Ring(now, MINUTE, _Minute, _forget)
        self._looks = _Ring(now, LOOK, _Look, lambda _: None)

    def ended(self, now: float, outcome: Outcome, waited: float, pieces: int) -> None:
        """A request has its outcome. `waited`: seconds until it had its slot, or left. `pieces`: of its answer."""
        minute, end = self._minutes.at(now), ENDS[outcome]
        minute.ends[end] += 1
        minute.pieces += pieces
        if end is not End.REFUSED:
            minute.waits.append(waited)

    def looked(self, now: float, slots: int, busy: int, waiting: int) -> None:
        """How full it is at this moment."""
        look = self._looks.at(now)
        look.slots = slots
        look.busy = max(busy, look.busy or 0)
        look.waiting = max(waiting, look.waiting or 0)

    def told(self, now: float) -> Hour:
        """All of it, as it goes out."""
        self._minutes.at(now)
        self._looks.at(now)
        minutes, looks = self._minutes.spans, self._looks.spans
        quantiles = [_quantiles(each) for each in minutes]
        return Hour(
            Minutes(
                completed=[each.ends[End.COMPLETED] for each in minutes],
                left=[each.ends[End.LEFT] for each in minutes],
                refused=[each.ends[End.REFUSED] for each in minutes],
                failed=[each.ends[End.FAILED] for each in minutes],
                pieces=[each.pieces for each in minutes],
                wait_p50_ms=[_ms(half) for half, _ in quantiles],
                wait_p95_ms=[_ms(most) for _, most in quantiles],
            ),
            ms(self._minutes.age(now)),
            Looks([each.slots for each in looks], [each.busy for each in looks], [each.waiting for each in looks]),
            ms(self._looks.age(now)),
        )


def _forget(minute: _Minute) -> None:
    minute.quantiles = _quantiles(minute)
    minute.waits.clear()


def _quantiles(minute: _Minute) -> tuple[float | None, float | None]:
    waits = sorted(minute.waits)
    return (_rank(waits, 0.5), _rank(waits, 0.95)) if waits else minute.quantiles


def _rank(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else ms(seconds)
