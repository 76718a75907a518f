"""What the requests of one model were like, and what that says about those that run and wait.

A request holds its slot while its prompt is read and while its answer is made. Both have a rate, in seconds per byte of
the prompt and per piece of the answer, which is measured; how long the answer will be is not known, so the lengths of
the last answers stand for it: all of them for a request that has not begun, and for one that runs those that were
longer than what it has made already. (A constant guess fails there: who has made 500 pieces is not about to end because
the mean is 300.)

The rates are sums over sums, with the past fading, so that long requests count for more than short ones: they are what
a wait consists of. A prompt that was in the server's cache makes reading it cheaper; that is in the rate, too.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from typing import Protocol

_WINDOW = 200  # answers whose lengths are remembered
_FADE = 0.97  # what one more request leaves of all earlier ones in the rates
_OUTLIVED = 0.3  # an answer longer than all remembered ones is expected to need this share of its length again


class Run(Protocol):
    """One request that has a slot, seen from outside. Times in seconds of one clock."""

    @property
    def size(self) -> int:
        """Bytes of the prompt, or any other measure of its length, as long as it is the same for all."""
        ...

    @property
    def most(self) -> int | None:
        """The pieces that the answer may have at most; None: no bound is known."""
        ...

    @property
    def pieces(self) -> int:
        """The pieces of the answer that there are."""
        ...

    @property
    def began(self) -> float | None:
        """When the first of them came."""
        ...

    @property
    def complete(self) -> bool:
        """The answer came to its own end."""
        ...


@dataclass(slots=True)
class _Rate:
    """Seconds per unit of work."""

    seconds: float = 0.0
    units: float = 0.0

    def add(self, seconds: float, units: float) -> None:
        self.seconds = self.seconds * _FADE + max(0.0, seconds)
        self.units = self.units * _FADE + units

    @property
    def each(self) -> float:
        return self.seconds / self.units if self.units else 0.0


class Habits:
    """Of one model at one upstream."""

    __slots__ = ("_answering", "_lengths", "_newest", "_reading", "_sum")

    def __init__(self) -> None:
        self._reading = _Rate()
        self._answering = _Rate()
        self._lengths: list[int] = []  # ascending
        self._newest: deque[int] = deque()  # the same, by time
        self._sum = 0  # of them all

    @property
    def known(self) -> bool:
        """Whether there is a basis for anything that is asked here."""
        return bool(self._lengths)

    def learn(self, run: Run, granted: float, now: float) -> None:
        """A request had its slot from `granted` until `now`, and its answer came to its own end."""
        began = now if run.began is None else run.began
        self._reading.add(began - granted, max(1, run.size))
        self._answering.add(now - began, max(1, run.pieces))
        self._newest.append(run.pieces)
        insort(self._lengths, run.pieces)
        self._sum += run.pieces
        if len(self._newest) > _WINDOW:
            oldest = self._newest.popleft()
            self._sum -= oldest
            del self._lengths[bisect_right(self._lengths, oldest) - 1]

    def whole(self, size: int, most: int | None) -> float:
        """For how many seconds a request that has not begun will hold its slot."""
        return max(1, size) * self._reading.each + self._mean(0, most) * self._answering.each

    def rest(self, run: Run, granted: float, now: float) -> float:
        """For how many more seconds one that runs is expected to."""
        return self._reading_left(run, granted, now) + self._mean(run.pieces, run.most) * self._answering.each

    def rest_at(self, run: Run, granted: float, now: float, share: float) -> float:
        """The seconds within which it ends with a probability of `share`."""
        length = self._quantile(run.pieces, run.most, share)
        return self._reading_left(run, granted, now) + length * self._answering.each

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _reading_left(self, run: Run, granted: float, now: float) -> float:
        """Until its first piece; a prompt that takes longer than foretold may be done at any moment."""
        if run.pieces:
            return 0.0
        return max(0.0, max(1, run.size) * self._reading.each - (now - granted))

    def _longer(self, made: int) -> list[int]:
        return self._lengths[bisect_right(self._lengths, made) if made else 0 :]

    def _mean(self, made: int, most: int | None) -> float:
        """The further pieces of an answer that has `made`."""
        if not made and self._lengths:
            return _bounded(self._sum / len(self._lengths), made, most)
        longer = self._longer(made)
        left = sum(longer) / len(longer) - made if longer else 1 + made * _OUTLIVED
        return _bounded(left, made, most)

    def _quantile(self, made: int, most: int | None, share: float) -> float:
        longer = self._longer(made)
        left = longer[min(len(longer) - 1, int(share * len(longer)))] - made if longer else 1 + made * _OUTLIVED
        return _bounded(left, made, most)


def _bounded(left: float, made: int, most: int | None) -> float:
    return left if most is None else max(0.0, min(left, most - made))
