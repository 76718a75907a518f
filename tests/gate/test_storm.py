"""Thousands of turns, cancelled at the worst moments: no slot is lost, none is given twice, nobody is passed over.

The storm runs in virtual time from a seed, so one that fails fails again. Its clock never gives the same time twice;
by it, all that happened can be put in one order afterwards, and held against the rules.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from slotline.core.errors import Busy, QueueTimeout
from slotline.core.line import Phase
from slotline.gate.local import LocalGate
from slotline.gate.turn import Turn
from slotline.gate.usher import Berth

pytestmark = pytest.mark.looptime

TURNS = 2_000
BERTHS = {
    "x": Berth(slots=2, queue=7, queue_wait=1.2),
    "y": Berth(slots=1, queue=4, queue_wait=0.8),
    "z": Berth(slots=3, queue=8, queue_wait=1.6),
}
SETS = (("x",), ("y",), ("z",), ("x", "y"), ("y", "z"), ("x", "y", "z"))


@dataclass(frozen=True)
class Wait:
    """One ticket's time in line, by the storm's clock: until it was granted `upstream`, or left."""

    number: int
    upstreams: frozenset[str]
    since: float
    until: float
    upstream: str | None


@dataclass
class Stay:
    """What became of one turn."""

    turn: Turn
    waits: list[Wait] = field(default_factory=list)
    since: float = 0.0  # when its present wait began
    ran: bool = False
    end: str = ""
    task: asyncio.Task[None] | None = None

    def is_woken_and_has_not_run(self) -> bool:
        return self.turn.upstream is not None and not self.ran and not self.end


@dataclass
class Storm:
    """The callers, and those who cancel them."""

    dice: random.Random
    stays: list[Stay] = field(default_factory=list)
    ticks: int = 0
    retries: int = 0

    def __post_init__(self) -> None:
        self.gate = LocalGate(BERTHS, self.clock, self.dice.random)

    def clock(self) -> float:
        """Loop time, and a nanosecond more each time it is asked."""
        self.ticks += 1
        return asyncio.get_running_loop().time() + self.ticks * 1e-9

    async def call(self, stay: Stay) -> None:
        try:
            async with stay.turn as turn:
                try:
                    await self.stay(stay, turn)
                finally:
                    self.note(stay, turn)
            stay.end = "served"
        except (Busy, QueueTimeout) as error:
            stay.end = type(error).__name__
        except asyncio.CancelledError:
            woken = stay.turn.upstream is not None
            stay.end = "left running" if stay.ran else "left woken" if woken else "left waiting"
            raise
        finally:
            self.check_the_cap()
            self.strike()

    async def stay(self, stay: Stay, turn: Turn) -> None:
        stay.since = turn.joined
        while True:
            await self.wait(turn)
            stay.ran = True
            await asyncio.sleep(self.dice.choice([0.0, 0.01, 0.3, 1.0, 2.0]) * self.dice.random())
            self.note(stay, turn)
            if self.dice.random() > 0.2 or not turn.retry():
                break
            stay.ran = False
            stay.since = self.clock()
            self.retries += 1

    async def wait(self, turn: Turn) -> None:
        self.check_the_cap()
        async for told in turn:
            assert 1 <= told.place.position <= told.place.length
            self.check_the_cap()
        assert turn.upstream in turn.ask.upstreams

    def note(self, stay: Stay, turn: Turn) -> None:
        """As a turn is about to give up its place or slot: when it was granted, even if it never came to know."""
        ticket, until = turn.ticket, self.clock()
        assert ticket is not None
        if turn.upstream is not None:
            until = self.gate.lines.room(turn.upstream).running[ticket]
        wait = Wait(ticket.number, ticket.upstreams, stay.since, until, turn.upstream)
        if wait not in stay.waits:
            stay.waits.append(wait)

    def check_the_cap(self) -> None:
        for name, berth in BERTHS.items():
            assert len(self.gate.lines.room(name).running) <= berth.slots

    def strike(self) -> None:
        """Right after a turn has left: cancels whom it woke, in the same tick, and now and then anybody, twice."""
        woken = [stay for stay in self.stays[-200:] if stay.is_woken_and_has_not_run()]
        if woken and self.dice.random() < 0.4:
            self.cancel(self.dice.choice(woken))
        if self.dice.random() < 0.15:
            self.cancel(self.dice.choice(self.stays[-60:]))

    def cancel(self, stay: Stay) -> None:
        assert stay.task is not None
        stay.task.cancel()
        if self.dice.random() < 0.3:
            stay.task.cancel()
        if self.dice.random() < 0.3:
            asyncio.get_running_loop().call_soon(stay.task.cancel)

    async def blow(self) -> None:
        for _ in range(TURNS):
            stay = Stay(self.gate.turn(self.dice.choice(SETS)))
            self.stays.append(stay)
            stay.task = asyncio.create_task(self.call(stay))
            if self.dice.random() < 0.25:
                delay = self.dice.choice([0.0, 0.1, 3.0, 8.0]) * self.dice.random()
                asyncio.get_running_loop().call_later(delay, self.cancel, stay)
            if self.dice.random() < 0.6:
                await asyncio.sleep(self.dice.choice([0.0, 0.02, 0.8]) * self.dice.random())
        await asyncio.wait([stay.task for stay in self.stays if stay.task is not None])
        await asyncio.sleep(1.0)  # the last of the telling


@pytest.fixture(params=range(3))
async def storm(request: pytest.FixtureRequest) -> Storm:
    return Storm(random.Random(request.param))


async def test_a_storm_of_cancellations_leaves_nothing_behind_and_passes_nobody_over(storm: Storm) -> None:
    await storm.blow()
    assert_nothing_is_left(storm)
    assert_nobody_failed(storm)
    assert_every_kind_of_end_was_met(storm)
    assert_nobody_was_passed_over(storm)


def assert_nothing_is_left(storm: Storm) -> None:
    gate = storm.gate
    assert [gate.lines.room(name).free for name in BERTHS] == [berth.slots for berth in BERTHS.values()]
    assert set(gate.lines.lines().values()) == {0}
    assert all(gate.lines.phase(stay.turn.ticket) is Phase.GONE for stay in storm.stays if stay.turn.ticket is not None)
    assert (gate._usher.turns, gate._usher._stirred, gate._usher._telling) == ({}, {}, False)
    assert (gate.lines._crowd.tickets, gate.lines._running) == ({}, {})
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def assert_nobody_failed(storm: Storm) -> None:
    for stay in storm.stays:
        assert stay.task is not None
        assert stay.task.cancelled() or stay.task.exception() is None


def assert_every_kind_of_end_was_met(storm: Storm) -> None:
    """A storm that never cancels a woken waiter, or never fills the line, would prove nothing."""
    ends = Counter(stay.end for stay in storm.stays if stay.end)
    for end in ("served", "left waiting", "left woken", "left running", "Busy", "QueueTimeout"):
        assert ends[end] >= 20, ends
    assert storm.retries >= 20


def assert_nobody_was_passed_over(storm: Storm) -> None:
    """Whoever was granted a slot: nobody who came earlier, and might have had it, was waiting in that moment.

    All that happened is gone through once, in its order. What happened in one moment was one command's doing, which
    grants in the order of arrival (`tests/core/test_line.py`): ends come before grants there, and beginnings after.
    """
    waits = [wait for stay in storm.stays for wait in stay.waits]
    ends = [(wait.until, 0, wait) for wait in waits]
    grants = [(wait.until, 1, wait) for wait in waits if wait.upstream is not None]
    begins = [(wait.since, 2, wait) for wait in waits if wait.since < wait.until]
    waiting: set[Wait] = set()
    for _, kind, wait in sorted(ends + grants + begins, key=lambda event: event[:2]):
        match kind:
            case 0:
                waiting.discard(wait)
            case 1:
                passed = [w for w in waiting if w.number < wait.number and wait.upstream in w.upstreams]
                assert passed == [], f"{wait} passed {passed}"
            case _:
                waiting.add(wait)
    assert waiting == set()
    assert len(grants) > TURNS / 2
