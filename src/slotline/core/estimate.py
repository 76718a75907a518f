"""How long the wait will be, from what has been measured so far.

The model is the simplest that is right for a line before equal slots: every request holds its slot for about as long
as the recent ones did. Then the next grants come when those who run now have used up that time, and from there on in
turns of one per slot. Nothing is told before one request has been measured: no number is better than a baseless one.
"""

from __future__ import annotations

from collections.abc import Sequence

_WEIGHT = 0.2  # of the newest measurement: about the last nine requests make up seven eighths of the mean
_OVERDUE = 0.1  # a request that has outlasted the mean is expected to need this share of it again


class Pace:
    """How long a slot is held: an exponentially weighted mean, in seconds."""

    __slots__ = ("_mean",)

    def __init__(self) -> None:
        self._mean: float | None = None

    def add(self, held: float) -> None:
        """One more request held its slot for `held` seconds."""
        self._mean = held if self._mean is None else self._mean + _WEIGHT * (held - self._mean)

    @property
    def mean(self) -> float | None:
        """Seconds; None until something was measured."""
        return self._mean


class Forecast:
    """The waits of everyone in a line, seen from one moment."""

    __slots__ = ("_mean", "_remaining")

    def __init__(self, ages: Sequence[float], mean: float | None) -> None:
        """`ages`: for each request that runs now, for how many seconds it has. `mean`: see `Pace`."""
        self._mean = mean
        self._remaining = [] if mean is None else sorted(_rest(mean, age) for age in ages)

    def wait(self, position: int) -> float | None:
        """Seconds until the caller at `position` (from 1) gets a slot; None without a basis."""
        if self._mean is None or not self._remaining:
            return None
        rounds, turn = divmod(position - 1, len(self._remaining))
        return self._remaining[turn] + rounds * self._mean


def _rest(mean: float, age: float) -> float:
    """For how much longer a request that has run for `age` is expected to run."""
    return mean - age if age < mean else mean * _OVERDUE
