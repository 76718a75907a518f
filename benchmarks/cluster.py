"""What does a line cost that two gateways share? Two replicas, each in a process of its own, on a real Redis.

    python benchmarks/cluster.py [--seconds N]

One slot, and callers who want it again as soon as they have given it back, half of them at each replica. A hand-over is
the time from the moment at which one replica gives the slot back until a caller of the *other* one has it. Beside the
line, in the same run and under the same load, what people use in its place, with redis-py: its own `Lock`, as it comes,
and the counter that everybody writes once (INCR, and DECR with a look every 10 ms when it was too much). Both keep no
order; how many were served before somebody who had come 100 ms earlier stands in the last column.

Below that: whether a grant costs more when 10,000 wait than when 10 do, and how many bytes a waiting request takes, on
the server and in each gateway. A request's body is in neither: it stays with the gateway that has the client.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import os
import platform
import secrets
import shutil
import socket
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.connection import BlockingConnectionPool

from slotline.core.journal import Command, Entry, Join, Leave, Offer, See, drawn, written
from slotline.core.party import FairBy, Party
from slotline.core.shared import Shared
from slotline.gate.cluster import ClusterGate
from slotline.gate.journal import Journal
from slotline.gate.usher import Berth
from slotline.upstream.beside import beside

REPLICAS = 2
WAITING = (0, 20, 500)
FEW, MANY = 10, 10_000
SLACK = 0.1  # seconds: who came so much earlier ought to be served earlier
SPREAD = 500  # callers that come to each replica in a second, before it counts
ROUNDS = 5
GRANTS = 2_000

Served = tuple[float, float, float, int]  # when one came, had the slot, gave it back; and at which replica


# ---- one replica -----------------------------------------------------------------------------------------------------

Use = Callable[[], Any]  # an asynchronous context: within it the caller has the slot


@asynccontextmanager
async def line(url: str) -> AsyncIterator[Use]:
    """Ours."""
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    journal = Journal(url, "bench", 15.0, FairBy.KEY)
    gate = ClusterGate(journal, time.monotonic, lambda: name, lambda: None)

    @asynccontextmanager
    async def use() -> AsyncIterator[None]:
        async with gate.turn(("box",)) as turn:
            async for _ in turn:
                pass
            yield

    try:
        gate.open("box", Berth(1, 4 * MANY))
        await gate.begin(5)
        async with beside(gate.run()):
            yield use
    finally:
        await journal.close()


@asynccontextmanager
async def lock(url: str) -> AsyncIterator[Use]:
    """redis-py's own, as it comes; it waits for a connection, if there are none left."""
    async with aioredis.Redis(connection_pool=BlockingConnectionPool.from_url(url, max_connections=50)) as client:
        yield lambda: client.lock("bench-lock", timeout=30)


@asynccontextmanager
async def counter(url: str) -> AsyncIterator[Use]:
    """The one that is written in ten minutes."""
    async with aioredis.Redis(connection_pool=BlockingConnectionPool.from_url(url, max_connections=50)) as client:

        @asynccontextmanager
        async def use() -> AsyncIterator[None]:
            while await client.incr("bench-counter") > 1:
                await client.decr("bench-counter")
                await asyncio.sleep(0.01)
            try:
                yield
            finally:
                await client.decr("bench-counter")

        yield use


SYSTEMS = {"line": line, "lock": lock, "counter": counter}


async def caller(use: Use, first: float, replica: int, served: list[Served]) -> None:
    """One that comes at the moment `first`, and then again and again."""
    await asyncio.sleep(first - time.monotonic())
    while True:
        came = time.monotonic()
        async with use():
            had = time.monotonic()
        served.append((came, had, time.monotonic(), replica))


async def replica(system: str, url: str, number: int, callers: int, begin: float, seconds: float) -> None:
    """Prints what happened at this one within `seconds` after the moment `begin`, and its processor time meanwhile."""
    served: list[Served] = []
    async with AsyncExitStack() as stack:
        use = await stack.enter_async_context(SYSTEMS[system](url))
        firsts = [
            begin - 0.5 - each / SPREAD for each in range(callers)
        ]  # so that both replicas' are mixed in the line
        _tasks = [asyncio.create_task(caller(use, first, number, served)) for first in firsts]
        await asyncio.sleep(begin - time.monotonic())
        spent = time.process_time()
        await asyncio.sleep(seconds)
        spent = time.process_time() - spent
        within = [each for each in served if begin <= each[1] <= begin + seconds]
        print(json.dumps({"spent": spent, "served": within}), flush=True)
        os._exit(0)  # as they stand: thousands of callers need not take their leave


# ---- a run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """`calls`, `each`: how many calls of the script the server had, and microseconds of its time for one."""

    served: Sequence[Served]
    seconds: float
    spent: float  # processor time of both replicas
    calls: int
    each: float

    @property
    def rate(self) -> float:
        return len(self.served) / self.seconds

    def handovers(self) -> list[float]:
        """Milliseconds, of those from one replica to the other, for which somebody waited."""
        return [
            1000 * (after[1] - before[2])
            for before, after in zip(self.served, self.served[1:], strict=False)
            if before[3] != after[3] and after[0] < before[2]
        ]

    def waits(self) -> list[float]:
        """Milliseconds from the arrival to the slot."""
        return [1000 * (had - came) for came, had, *_ in self.served]

    def overtaken(self) -> float:
        """The share of those who were served although somebody had come earlier, and was served later."""
        earliest, overtaking = float("inf"), 0
        for came, *_ in reversed(self.served):
            overtaking += earliest < came - SLACK
            earliest = min(earliest, came)
        return overtaking / len(self.served)


async def run(system: str, url: str, callers: int, seconds: float) -> Run:
    """`callers`: at all replicas together; one of them has the slot."""
    async with aioredis.Redis.from_url(url) as client:
        await client.flushall()
        begin = time.monotonic() + 3.5 + callers / REPLICAS / SPREAD
        replicas = min(REPLICAS, callers)
        share = [callers // replicas + (number < callers % replicas) for number in range(replicas)]
        arguments = [(system, url, number, count, begin, seconds) for number, count in enumerate(share)]
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, __file__, "--replica", json.dumps(each)), stdout=asyncio.subprocess.PIPE
            )
            for each in arguments
        ]
        await asyncio.sleep(begin - time.monotonic())
        await client.config_resetstat()
        await asyncio.sleep(seconds)
        stats: Any = await client.info("commandstats")
        told = [json.loads((await process.communicate())[0]) for process in processes]
    served = sorted((tuple(each) for one in told for each in one["served"]), key=lambda each: each[1])
    script = stats.get("cmdstat_evalsha", {"calls": 0, "usec_per_call": 0.0})
    return Run(served, seconds, sum(one["spent"] for one in told), script["calls"], script["usec_per_call"])


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f}"


async def compare(url: str, seconds: float) -> None:
    print("| waiting | | grants/s | against the line | hand-over ms, p50 · p99 | against the line | overtaking |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for waiting in WAITING:
        ours: tuple[float, float] | None = None
        for system in SYSTEMS:
            result = await run(system, url, waiting + 1, seconds)
            times = result.handovers() if waiting else result.waits()
            median = percentile(times, 0.5)
            ours = ours or (result.rate, median)
            print(
                f"| {waiting} | {system} | {result.rate:,.0f} | {result.rate / ours[0]:.2f} "
                f"| {shown(median)} · {shown(percentile(times, 0.99))} | {shown(median / ours[1])} "
                f"| {100 * result.overtaken():.0f} % |",
                flush=True,
            )
    print("\nWith nobody waiting there is no hand-over: the time is that from the arrival to the slot.\n")


async def grow(url: str, seconds: float) -> None:
    """The live line, with few and with many."""
    print("| waiting | grants/s | calls a grant | server, µs a call | replicas, µs a grant, all of them |")
    print("| --- | --- | --- | --- | --- |")
    for waiting in (FEW, MANY):
        result = await run("line", url, waiting + 1, seconds)
        grants = len(result.served)
        print(
            f"| {waiting:,} | {result.rate:,.0f} | {result.calls / grants:.1f} | {result.each:.0f} "
            f"| {1e6 * result.spent / grants:,.0f} |",
            flush=True,
        )
    print()


# ---- what a replica does with an entry, and what it holds ------------------------------------------------------------


class Story:
    """A journal without a server, one slot, and `count` who wait for it, in turn at both replicas."""

    def __init__(self, count: int) -> None:
        self.shared = Shared()
        self.next = self.tickets = 1
        self.line: deque[tuple[str, int]] = deque()
        for who in "ab":
            self.write(who, Offer("box", 4 * MANY), See("box", 1))
        for number in range(count + 1):
            self.join("ab"[number % 2])

    def write(self, who: str, command: Command, *more: Command) -> None:
        entry = Entry(self.next, self.next / 1000, who, (command, *more))
        self.next = entry.next
        self.shared.apply(entry)

    def join(self, who: str) -> None:
        self.tickets += 1
        self.line.append((who, self.tickets))
        self.write(who, join(self.tickets))

    def grant(self) -> None:
        """Whoever has the slot gives it back, and comes again."""
        who, ticket = self.line.popleft()
        self.write(who, Leave(ticket))
        self.join(who)


def join(number: int) -> Join:
    """As they are: with a key, a flow and a model."""
    return Join(number, ["box"], 4_000, Party("alice", f"session-{number}"), 12.5, "qwen3-30b")


def applied(count: int) -> float:
    """Microseconds for both entries of a grant, in the best round."""
    rounds = []
    for _ in range(ROUNDS):
        story = Story(count)
        gc.collect()
        began = time.perf_counter()
        for _ in range(GRANTS):
            story.grant()
        rounds.append((time.perf_counter() - began) / GRANTS)
    return min(rounds) * 1e6


def size_of_replica() -> tuple[float, float]:
    """Bytes of memory for one waiting request in a replica, and in a picture."""
    Story(FEW)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    story = Story(MANY)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / MANY, len(drawn(story.shared.picture(story.next, 1.0))) / MANY


async def on_server(url: str) -> tuple[float, float]:
    """Bytes of the server's memory for one request's two entries, and microseconds of its time for one of them."""
    async with aioredis.Redis.from_url(url) as client:
        await client.flushall()
        before = await used(client)
        journal = Journal(url, "bench", 15.0, FairBy.KEY)
        await journal.enter("gateway-12345-0123abcd", 0, "")
        await client.config_resetstat()
        for number in range(MANY):
            command: Command = join(number) if number % 2 == 0 else Leave(number - 1)
            await journal.write("gateway-12345-0123abcd", number + 1, [command])
        await journal.close()
        stats: Any = await client.info("commandstats")
        return 2 * (await used(client) - before) / MANY, stats["cmdstat_evalsha"]["usec_per_call"]


async def used(client: aioredis.Redis) -> int:
    memory: Any = await client.info("memory")
    return int(memory["used_memory"])


async def listen(url: str, seconds: float) -> None:
    """What a replica that has no callers spends on those of another one."""
    begin = time.monotonic() + 3.5
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--replica", json.dumps(("line", url, 0, 21, begin, seconds))),
        stdout=asyncio.subprocess.PIPE,
    )
    async with line(url):
        await asyncio.sleep(begin - time.monotonic())
        spent = time.process_time()
        await asyncio.sleep(seconds)
        spent = time.process_time() - spent
        told = json.loads((await process.communicate())[0])
    grants = len(told["served"])
    print(f"{1e6 * told['spent'] / grants:,.0f} µs of processor time for a grant in the replica that has the callers,")
    print(f"{1e6 * spent / grants:,.0f} µs in one that only reads of it, at {grants / seconds:,.0f} a second\n")


async def sizes(url: str) -> None:
    held, pictured = size_of_replica()
    print(f"{applied(FEW):.0f} µs in each replica for the two entries of a grant with {FEW} waiting,")
    print(f"{applied(MANY):.0f} µs with {MANY:,}\n")
    print("bytes of memory for a waiting request:")
    print(f"  {held:,.0f} in each replica, whoever's it is")
    print(f"  {pictured:,.0f} in a picture, on the server")
    size, each = await on_server(url)
    print(f"  {size:,.0f} in the journal, on the server, for its coming and its going")
    print(f"  {len(written([join(1)]))} of which are what a replica wrote when it came")
    print(f"\n{each:.0f} µs of the server's time for an entry, where nobody else wants the processor")


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """A Redis of its own, on a unix socket."""
    program = next((path for name in ("redis-server", "valkey-server") if (path := shutil.which(name))), None)
    if program is None:
        sys.exit("benchmarks/cluster.py needs redis-server or valkey-server")
    with TemporaryDirectory() as folder:
        path = f"{folder}/redis.sock"
        process = await asyncio.create_subprocess_exec(
            *(program, "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder, "--loglevel", "warning"),
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(10), aioredis.Redis.from_url(f"unix://{path}") as client:
                while True:
                    with suppress(exceptions.ConnectionError):
                        print(f"Redis {(await client.info('server'))['redis_version']}", end=", ")
                        break
                    await asyncio.sleep(0.01)
            yield f"unix://{path}"
        finally:
            process.terminate()
            await process.wait()


async def everything(seconds: float) -> None:
    async with server() as url:
        print(f"Python {platform.python_version()}, one unix socket\n")
        await compare(url, seconds)
        await grow(url, seconds)
        await listen(url, seconds)
        await sizes(url)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--replica", help=argparse.SUPPRESS)
    given = options.parse_args()
    asyncio.run(replica(*json.loads(given.replica)) if given.replica else everything(given.seconds))
