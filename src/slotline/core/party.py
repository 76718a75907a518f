"""Who asks for a slot, as far as the line tells them apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FairBy(StrEnum):
    """Who takes turns when there is a line."""

    KEY = "key"  # keys; what one key sent is served in the order of its arrival
    FLOW = "flow"  # keys, and inside a key its flows; what one flow sent is served in the order of its arrival


@dataclass(frozen=True, slots=True)
class Party:
    """A key, and a flow of it. Whoever has neither is one party with all others who have none."""

    key: str = ""
    flow: str = ""
    weight: float = 1  # its share, as against the weights of the others who wait
    batch: bool = False  # served when nobody else waits, but for a bound; see `slotline.core.pool`
    running: int | None = None  # at most so many slots at once, over all upstreams; None: no limit
    waiting: int | None = None  # at most so many in line, over all lines; None: no limit

    def __post_init__(self) -> None:
        """Raises ValueError for a weight that is no share."""
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"party {self.key!r}: weight must be more than 0, not {self.weight!r}")


NOBODY = Party()
"""Those of whom nothing is known."""
