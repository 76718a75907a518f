"""One gateway of a chaos run, as a process: the gate, and requests that come, wait, work and leave at random.

Its arguments are one JSON object. A line on standard input calms it: nobody comes any more, and it ends when all others
have been served.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chaos.history import Diary
from slotline.core.errors import SlotlineError
from slotline.core.journal import written
from slotline.core.party import FairBy
from slotline.gate.cluster import ClusterGate
from slotline.gate.journal import Entered, Journal, Line
from slotline.gate.usher import Berth
from slotline.upstream.beside import beside


class Noted(Journal):
    """A journal, and a note of all that is read in it."""

    def __init__(self, diary: Diary, *args: Any) -> None:
        super().__init__(*args)
        self._diary = diary
        self._noted = 0

    async def enter(self, replica: str, floor: int, old: str) -> Entered:
        entered = await super().enter(replica, floor, old)
        self._diary.note("born", born=entered.born, replica=replica)
        return entered

    async def read(self, after: bytes, *, wait: bool = True) -> list[Line]:
        lines = await super().read(after, wait=wait)
        for entry in (line.entry for line in lines):
            if entry.number > self._noted:
                self._noted = entry.number
                commands: Sequence[object] = msgspec.msgpack.decode(written(entry.commands)) if entry.commands else []
                self._diary.note(
                    "entry", number=entry.number, moment=entry.moment, replica=entry.replica, commands=commands
                )
        return lines


class Gateway:
    """See above."""

    def __init__(self, name: str, seed: int, url: str, lease: float, slots: int, crowd: int, folder: str) -> None:
        self.diary = Diary(Path(folder) / f"{name}.jsonl", name)
        self.dice = random.Random(seed)
        self.crowd = crowd
        self.calm = asyncio.Event()
        self.running: set[asyncio.Task[None]] = set()
        self.there: set[asyncio.Task[None]] = set()
        journal = Noted(self.diary, url, "chaos", lease, FairBy.KEY)
        self.gate = ClusterGate(journal, time.monotonic, self.name(name), self.lapse)
        self.slots = slots
        self.last = 0

    def name(self, process: str) -> Any:
        lives = iter(range(1_000_000))
        return lambda: f"{process}.{next(lives)}"

    def lapse(self) -> None:
        """As a relay does: whatever runs ends."""
        self.diary.note("lapsed")
        for task in self.running:
            task.cancel()

    async def request(self, number: int) -> None:
        note = self.diary.note
        note("asked", id=number)
        me = asyncio.current_task()
        assert me is not None
        turn = self.gate.turn(["x"])
        granted = False
        try:
            async with turn:
                note("joined", id=number, number=turn.number)
                async for told in turn:
                    note("told", id=number, number=turn.number, position=told.place.position)
                claim = self.gate._claims.by_turn[turn]
                assert claim.held is not None
                self.running.add(me)
                granted = True
                note("granted", id=number, number=turn.number, fence=claim.held.fence)
                try:
                    await asyncio.sleep(self.dice.choice([0.0, 0.002, 0.02, 0.1]))
                finally:
                    self.running.discard(me)
                    note("released", id=number)
        except SlotlineError as error:
            note("refused", id=number, why=repr(error))
        except asyncio.CancelledError:
            if not granted:
                note("left", id=number)

    def come(self) -> None:
        self.last += 1
        task = asyncio.create_task(self.request(self.last))
        self.there.add(task)
        task.add_done_callback(self.there.discard)
        if self.dice.random() < 0.15:
            delay = self.dice.choice([0.0, 0.05, 1.0, 10.0]) * self.dice.random()
            asyncio.get_running_loop().call_later(delay, self.leaves, task)

    def leaves(self, task: asyncio.Task[None]) -> None:
        if not self.calm.is_set():
            task.cancel()

    async def people(self) -> None:
        while not self.calm.is_set():
            while len(self.there) < self.crowd:
                self.come()
            await asyncio.sleep(0.01)
        while self.there:
            await asyncio.wait(self.there)

    async def live(self) -> None:
        self.diary.note("began")
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self.calm.set)
        await self.gate.begin(1.0)
        async with beside(self.gate.run()):
            self.gate.open("x", Berth(self.slots, 1_000_000))
            await self.people()
        loop.remove_reader(sys.stdin.fileno())
        await self.gate.leave()
        self.diary.note("idle")
        self.diary.close()


async def main() -> None:
    await Gateway(**json.loads(sys.argv[1])).live()


if __name__ == "__main__":
    asyncio.run(main())
