"""Did each key get what it was due? Slot-seconds, as against those of a perfectly fair division.

Time is cut into windows, each many requests long. In a window a key has *wanted* some work: what it had waiting or
running as the window began, and what it brought since. What all keys of one class *got* in the window is then divided
between them as it ought to be: each as much as its weight allows, nobody more than it wanted, and what one does not
want goes to the others (max-min fairness). That is what it was *due*. Windows in which nobody wanted more than it got
say nothing, nor does one in which a single key wanted anything: they are left out.

A class is divided for itself, because interactive goes before batch by rule and not by share. Edges of windows cut
requests in two, so that a perfect line comes near 1 and does not reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from slotline.core.simulation.flight import Who

_ENOUGH = 1 - 1e-9


def jain(shares: Collection[float]) -> float | None:
    """Jain's index of fairness: 1 when all are equal, 1/n when one of n has everything; None for fewer than two.

    R. Jain, D. Chiu, W. Hawe: A quantitative measure of fairness, DEC-TR-301, 1984.
    """
    squares = sum(share * share for share in shares)
    if len(shares) < 2 or not squares:
        return None
    return sum(shares) ** 2 / (len(shares) * squares)


def divide(amount: float, wanted: Mapping[Who, float], weight: Callable[[Who], float]) -> dict[Who, float]:
    """`amount` divided fairly: by weight, and nobody has more than it wants."""
    due: dict[Who, float] = {}
    left = amount
    weights = {who: weight(who) for who in wanted}
    total = sum(weights.values())
    for who in sorted(wanted, key=lambda who: wanted[who] / weights[who]):  # who is satisfied first comes first
        due[who] = min(wanted[who], left * weights[who] / total)
        left -= due[who]
        total = max(total - weights[who], weights[who] * 1e-12)
    return due


@dataclass(slots=True)
class Account:
    """What one key got in the windows that say something, and what it was due in them: slot-seconds."""

    got: float = 0.0
    due: float = 0.0


class Shares:
    """The accounts of all keys. Whoever calls sees to it that `reach` is called before anything that happens later."""

    def __init__(self, window: float, weight: Callable[[Who], float]) -> None:
        """`window`: seconds."""
        self.accounts: dict[Who, Account] = {}
        self.end = window  # of the window that is open
        self._window = window
        self._weight = weight
        self._waiting: dict[Who, float] = {}  # work that waits, each request at most a window
        self._running: list[tuple[Who, float]] = []  # those who run beyond the window, and when they end
        self._wanted: dict[Who, float] = {}
        self._got: dict[Who, float] = {}

    def wants(self, who: Who, held: float, now: float) -> None:
        """A request has come, whatever becomes of it. `held`: for how long it needs a slot."""
        self._wanted[who] = self._wanted.get(who, 0.0) + min(held, self.end - now)

    def waits(self, who: Who, held: float) -> None:
        """It stands in line."""
        self._waiting[who] = self._waiting.get(who, 0.0) + min(held, self._window)

    def waits_no_more(self, who: Who, held: float) -> None:
        """It left the line, or gets a slot now."""
        self._waiting[who] -= min(held, self._window)

    def runs(self, who: Who, begin: float, end: float) -> None:
        """It has a slot from `begin`, which is now or when the window began, to `end`."""
        if end > self.end:
            self._running.append((who, end))
            end = self.end
        self._got[who] = self._got.get(who, 0.0) + end - begin

    def close(self) -> dict[Who, Account]:
        """The accounts, when all is over."""
        self._settle()
        return self.accounts

    def reach(self, now: float) -> None:
        """Closes the windows that are over."""
        while now >= self.end:
            self._settle()
            if not self._wanted and not self._running:  # nothing is left: on to the window of `now`
                self.end += (now - self.end) // self._window * self._window
            begin, self.end = self.end, self.end + self._window
            self._wanted = {who: work for who, work in self._waiting.items() if work > 0}
            self._got = {}
            running, self._running = self._running, []
            for who, end in running:
                self._wanted[who] = self._wanted.get(who, 0.0) + min(end - begin, self._window)
                self.runs(who, begin, end)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        for batch in (False, True):
            wanted = {who: work for who, work in self._wanted.items() if who[1] is batch}
            got = {who: self._got.get(who, 0.0) for who in wanted}
            amount = sum(got.values())
            if len(wanted) < 2 or amount >= sum(wanted.values()) * _ENOUGH:
                continue
            for who, due in divide(amount, wanted, self._weight).items():
                account = self.accounts.setdefault(who, Account())
                account.got += got[who]
                account.due += due
