"""The cap on thinking: counted here, whatever the upstream makes of the budget that it was told.

    below the cap                       go on
    the cap is passed                   the reasoning is to be ended: told once
    ended, `overrun` more still came    it cannot be ended: the request is

Counted are deltas of reasoning, which are tokens on every server known. A request's own budget holds where it is the
smaller one.
"""

from __future__ import annotations

from enum import Enum, auto

from slotline.core.errors import ThinkingOverrun
from slotline.core.limits import Limits


class Step(Enum):
    """What is to be done about the reasoning so far."""

    GO_ON = auto()
    END = auto()


class Cap:
    """One answer's reasoning."""

    __slots__ = ("_ended_at", "_overrun", "limit")

    def __init__(self, limits: Limits, budget: int | None) -> None:
        """`budget`: the request's own, in tokens; None: it names none."""
        bounds = [bound for bound in (limits.thinking_cap or None, budget) if bound is not None]
        self.limit = min(bounds, default=None)
        """Tokens of reasoning; None: as many as the model likes."""
        self._overrun = limits.thinking_overrun
        self._ended_at: int | None = None

    @property
    def passed(self) -> bool:
        """The cap was passed, and the reasoning was to be ended."""
        return self._ended_at is not None

    def count(self, thought: int) -> Step:
        """`thought`: the reasoning deltas so far. END is told once; raises ThinkingOverrun when it did not help."""
        if self.limit is None or thought <= self.limit:
            return Step.GO_ON
        if self._ended_at is None:
            self._ended_at = thought
            return Step.END
        if thought - self._ended_at > self._overrun:
            raise ThinkingOverrun(
                f"thinking: it was to end after thinking_cap = {self.limit} tokens, and {self._overrun} more have come"
            )
        return Step.GO_ON
