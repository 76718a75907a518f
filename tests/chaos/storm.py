"""A chaos run: gateways as processes, a real server, and all that can go wrong, in an order that a seed decides."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from chaos.history import Diary, Event, read
from fakes.network import Network, network
from fakes.redis import RedisServer, redis_server

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Weather:
    """What a run is like. `late`: seconds that a busy machine may be late, beyond the lease and a second."""

    seed: int
    seconds: float
    replicas: int = 2
    crowd: int = 60  # who wait and work at each gateway
    slots: int = 4
    lease: float = 1.0
    late: float = 2.0
    program: str = "redis-server"


@dataclass(eq=False)
class Replica:
    """One place for a gateway, and the process that is there now."""

    place: int
    net: Network
    name: str = ""
    process: asyncio.subprocess.Process | None = None


@dataclass(eq=False)
class Storm:
    """See above."""

    weather: Weather
    folder: Path
    server: RedisServer
    diary: Diary
    dice: random.Random
    replicas: list[Replica] = field(default_factory=list)
    _hurt: int = 0  # how much is broken at present
    _born: int = 0
    _busy: set[object] = field(default_factory=set)

    def note(self, does: str, who: str = "") -> None:
        self.diary.note("storm", does=does, who=who, well=self._hurt == 0)

    async def start(self, replica: Replica) -> None:
        self._born += 1
        replica.name = f"g{replica.place}-{self._born}"
        it = self.weather
        told = {
            "name": replica.name,
            "seed": it.seed * 1000 + self._born,
            "url": replica.net.url,
            "lease": it.lease,
            "slots": it.slots,
            "crowd": it.crowd,
            "folder": str(self.folder),
        }
        with (self.folder / f"{replica.name}.log").open("wb") as log:
            replica.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "chaos.gateway", json.dumps(told)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )

    # ---- what goes wrong ---------------------------------------------------------------------------------------------

    async def hurt(
        self, target: object, does: str, undoes: str, who: str, act: _Act, undo: _Act, seconds: float
    ) -> None:
        """One thing goes wrong, and is well again after so many seconds."""
        self._busy.add(target)
        self._hurt += 1
        self.note(does, who)
        await act()
        await asyncio.sleep(seconds)
        await undo()
        self._hurt -= 1
        self._busy.discard(target)
        self.note(undoes, who)

    async def kill(self, replica: Replica) -> None:
        """The process is gone at once; another one comes later."""

        async def act() -> None:
            assert replica.process is not None
            replica.process.kill()
            await replica.process.wait()

        await self.hurt(
            replica, "kills", "starts", replica.name, act, lambda: self.start(replica), self._some(0.5, 2.5)
        )

    async def stop(self, replica: Replica) -> None:
        """The process stands still."""
        process = replica.process
        assert process is not None

        async def send(number: signal.Signals) -> None:
            process.send_signal(number)

        await self.hurt(
            replica,
            "stops",
            "continues",
            replica.name,
            lambda: send(signal.SIGSTOP),
            lambda: send(signal.SIGCONT),
            self._some(0.3, 2.5),
        )

    async def cut_off(self, replica: Replica) -> None:
        """What it says does not arrive, and what it is told does not either."""

        async def swallow() -> None:
            self.dice.choice([replica.net.swallow, replica.net.swallow_answers])()

        async def mend() -> None:
            replica.net.mend()
            if self.dice.random() < 0.5:
                replica.net.cut()

        await self.hurt(replica, "cuts off", "mends", replica.name, swallow, mend, self._some(0.3, 2.5))

    async def tear(self, replica: Replica) -> None:
        """Its connections break."""
        self.note("tears", replica.name)
        replica.net.cut()

    async def restart(self) -> None:
        """The server is gone, and comes back with nothing."""

        async def act() -> None:
            await self.server.kill()
            for replica in self.replicas:
                await replica.net.refuse()

        async def undo() -> None:
            await self.server.start()
            for replica in self.replicas:
                await replica.net.listen()

        await self.hurt(self.server, "stops server", "starts server", "", act, undo, self._some(0.0, 2.0))

    async def silence(self) -> None:
        """The server stands still."""

        async def act() -> None:
            self.server.pause()

        async def undo() -> None:
            self.server.resume()

        await self.hurt(self.server, "silences", "resumes", "", act, undo, self._some(0.1, 1.5))

    def _some(self, least: float, most: float) -> float:
        return self.weather.lease * self.dice.uniform(least, most)

    # ---- its course --------------------------------------------------------------------------------------------------

    async def blow(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.weather.seconds
        self.diary.note(
            "storm",
            does="begins",
            well=True,
            lease=self.weather.lease,
            slots=self.weather.slots,
            late=self.weather.late,
        )
        async with asyncio.TaskGroup() as tasks:
            while loop.time() < until:
                await asyncio.sleep(self.dice.choice([0.3, 1.0, 2.0]) * self.dice.random() * 2)
                if self.dice.random() < 0.15:  # a while of peace, in which all must come back
                    await asyncio.sleep(self.weather.lease + 1.0 + self.weather.late)
                self._strike(tasks)
        self.note("is over")

    def _strike(self, tasks: asyncio.TaskGroup) -> None:
        replica = self.dice.choice(self.replicas)
        fault: Callable[[], Awaitable[None]]
        if self.dice.random() < 0.3:
            target: object = self.server
            fault = self.dice.choice([self.restart, self.silence])
        else:
            target = replica
            kind = self.dice.choice([self.kill, self.stop, self.cut_off, self.cut_off, self.tear])
            fault = lambda: kind(replica)  # noqa: E731 - it is called at once
        if target not in self._busy:
            tasks.create_task(_run(fault))

    async def calm(self) -> None:
        """Nobody comes any more; returns when everybody has been served."""
        async with asyncio.timeout(60):
            for replica in self.replicas:
                assert replica.process is not None
                assert replica.process.stdin is not None
                replica.process.stdin.write(b"calm\n")
                await replica.process.stdin.drain()
            for replica in self.replicas:
                assert replica.process is not None
                status = await replica.process.wait()
                if status:
                    raise RuntimeError((self.folder / f"{replica.name}.log").read_text())


_Act = Callable[[], Awaitable[None]]


async def _run(fault: Callable[[], Awaitable[None]]) -> None:
    await fault()


async def storm(weather: Weather, folder: Path) -> list[Event]:
    """One run, from the first gateway to the last; what happened in it. `folder`: where the diaries are."""
    diary = Diary(folder / "storm.jsonl", "storm")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(redis_server(weather.program))
        it = Storm(weather, folder, server, diary, random.Random(weather.seed))
        try:
            for place in range(weather.replicas):
                it.replicas.append(Replica(place, await stack.enter_async_context(network(server.url))))
                await it.start(it.replicas[-1])
            await it.blow()
            await it.calm()
        finally:
            for replica in it.replicas:
                if replica.process is not None and replica.process.returncode is None:
                    replica.process.kill()
                    await replica.process.wait()
            diary.close()
    return read(folder.glob("*.jsonl"))
