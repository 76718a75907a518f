"""What is to be tried with a trace: how many slots, and who goes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.simulation.request import Rates, Request


class Policy(StrEnum):
    """Who goes first when there is a line."""

    FIFO = "fifo"  # who came first, whatever their key or class
    FAIR = "fair"  # keys take turns: `fair_by = "key"`, as the gateway does by default
    FLOW = "flow"  # keys take turns, and inside a key its flows: `fair_by = "flow"`


@dataclass(frozen=True, slots=True)
class Plan:
    """One gateway to be tried. Times in seconds; the defaults are those of the gateway's configuration."""

    slots: int = 2  # of each upstream
    upstreams: int = 1  # all alike, and all before one line
    queue: int = 64  # how many may wait for each upstream
    policy: Policy = Policy.FAIR
    weights: Mapping[str, float] = field(default_factory=dict)  # by key; whoever is not named has 1
    batch: frozenset[str] = frozenset()  # keys whose requests are of this class, whatever the trace says
    running: int | None = None  # how many each key may have running, and waiting
    waiting: int | None = None
    patience: float | None = None  # how long a client waits before it gives up; None: as the trace says
    resend: float | None = None  # after so long it asks again; None: it does not come back
    rejoin: float = 60.0  # for so long its place is kept
    speed: float = 1.0  # how many times as fast as in the trace requests come
    rates: Rates = field(default_factory=Rates)

    @property
    def fair_by(self) -> FairBy:
        return FairBy.FLOW if self.policy is Policy.FLOW else FairBy.KEY

    @property
    def names(self) -> tuple[str, ...]:
        """The upstreams."""
        return tuple(f"upstream {number}" for number in range(1, self.upstreams + 1))

    def is_batch(self, request: Request) -> bool:
        """Its class, as the report shows it under any policy."""
        return request.batch or request.key in self.batch

    def weight(self, key: str) -> float:
        return self.weights.get(key, 1.0)

    def party(self, request: Request) -> Party:
        """Who it is, as far as the policy tells them apart."""
        if self.policy is Policy.FIFO:
            return NOBODY
        flow = request.flow if self.policy is Policy.FLOW else ""
        weight = self.weight(request.key)
        return Party(request.key, flow, weight, self.is_batch(request), self.running, self.waiting)
