"""The cap on thinking: counted here, whatever the upstream makes of the budget that it was told.

    below the cap                       go on
    the cap is passed                   the reasoning is to be ended: told once
    ended, `overrun` more still came    it cannot be ended: the request is

Counted are deltas of reasoning, which are tokens on every server known. A request's own budget holds where it is the
smaller one. Reasoning that has ended by itself is not to be ended: what tells is that text came with it, or after it.
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

    __slots__ = ("_ended_at", "_overrun", "_said", "_thought", "limit", "named")

    def __init__(self, limits: Limits, budget: int | None) -> None:
        """`budget`: the request's own, in tokens; None: it names none."""
        cap = limits.thinking_cap or None
        mine = budget is not None and (cap is None or budget < cap)
        self.limit = budget if mine else cap
        """Tokens of reasoning; None: as many as the model likes."""
        self.named = f"{'budget_tokens' if mine else 'thinking_cap'} = {self.limit}"
        """The limit and its value, for errors."""
        self._overrun = limits.thinking_overrun
        self._thought = self._said = 0
        self._ended_at: int | None = None

    @property
    def passed(self) -> bool:
        """The cap was passed, and the reasoning was to be ended."""
        return self._ended_at is not None

    def count(self, thought: int, pieces: int) -> Step:
        """`thought`: the reasoning deltas so far, of so many `pieces` of an answer in all.

        END is told once; raises ThinkingOverrun when it did not help.
        """
        said = pieces - thought
        reasons = thought > self._thought and said == self._said  # all that came since the last count
        self._thought, self._said = thought, said
        if self.limit is None or thought <= self.limit:
            return Step.GO_ON
        if self._ended_at is None:
            if not reasons and thought <= self.limit + self._overrun:
                return Step.GO_ON
            self._ended_at = thought
            return Step.END
        if thought - self._ended_at > self._overrun:
            raise ThinkingOverrun(
                f"thinking: it was to end after {self.named} tokens, and thinking_overrun = {self._overrun} more came"
            )
        return Step.GO_ON
