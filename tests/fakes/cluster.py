"""Gateways' gates that share their lines through a real Redis, in one process."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from slotline.core.errors import SlotlineError
from slotline.core.party import FairBy
from slotline.gate.cluster import ClusterGate
from slotline.gate.journal import Journal
from slotline.gate.turn import Turn
from slotline.gate.usher import Berth
from slotline.upstream.beside import beside


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Looks again and again, until `condition` holds. Raises TimeoutError when it does not."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it may be about anything
            await asyncio.sleep(0.002)


def new_name() -> str:
    return f"r-{secrets.token_hex(4)}"


@asynccontextmanager
async def gate_at(
    url: str,
    namespace: str,
    *,
    lease: float = 5.0,
    lapsed: Callable[[], None] = lambda: None,
    fair_by: FairBy = FairBy.KEY,
    jitter: Callable[[], float] = lambda: 0.5,
    max_waiting: int = 1 << 30,
    says_goodbye: bool = True,
    berths: Mapping[str, Berth],
) -> AsyncIterator[ClusterGate]:
    """One gate, which takes part within the block, as soon as it can. `says_goodbye`: it does not just vanish."""
    journal = Journal(url, namespace, lease, fair_by)
    gate = ClusterGate(journal, time.monotonic, new_name, lapsed, jitter, max_waiting, fair_by)
    try:
        async with beside(gate.run()):
            for name, berth in berths.items():
                gate.open(name, berth)
            yield gate
        if says_goodbye:
            await gate.leave()
    finally:
        await journal.close()


def knows(gate: ClusterGate, *upstreams: str) -> bool:
    """Whether slots are given out there: all has been said, and read."""
    replica = gate._replica
    if gate.trouble is not None or not replica._settled or replica._outbox:
        return False
    return all(name in replica.shared._upstreams and replica.shared.lines.room(name) for name in upstreams)


async def agreed(*gates: ClusterGate) -> None:
    """Returns once each gate has read all that any of them has said until now."""
    await until(lambda: not any(gate._replica._outbox for gate in gates))
    journal, name = gates[0]._replica._journal, gates[0]._replica.name
    beat = await journal.beat(name)  # the pens write before: theirs is the same connection, or has been answered
    await until(lambda: all(gate._replica._next >= beat.next for gate in gates))


@dataclass(eq=False)
class Runner:
    """One request that holds its slot until it is told to finish, or loses it. `order`: a list that all write into."""

    turn: Turn
    order: list[str]
    name: str
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    error: SlotlineError | None = None
    since: float | None = None  # when it began, by the loop's clock
    until: float | None = None

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with self.turn:
                async for _ in self.turn:
                    pass
                self.since = asyncio.get_running_loop().time()
                self.order.append(self.name)
                await self.finish.wait()
        except SlotlineError as error:
            self.error = error
        finally:
            self.until = asyncio.get_running_loop().time()

    @property
    def waits(self) -> bool:
        return self.turn.ticket is not None and self.since is None and not self.task.done()

    @property
    def runs(self) -> bool:
        return self.since is not None and not self.task.done()

    def stop(self) -> None:
        """It loses its slot, and ends."""
        self.task.cancel()
