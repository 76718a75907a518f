"""Does it matter how long the line is, and how many take turns in it? Times the line's commands before 10, 1,000 and
10,000 who wait, of one party and of twenty.

    python benchmarks/line.py

Each command is timed in place: the ticket that left is replaced, the slot that was granted is granted again, so that
the line keeps its length. The best of several rounds is printed, in microseconds, and how many times as long it takes
with 10,000 waiting as with 10. Below that, the processor time of a whole cycle (a request comes, is granted, and gives
its slot back) with lines of hundreds, and one sweep of the gate that tells 10,000 callers their new place: the
processor time of the whole, and the longest that it held up the event loop, and with it the streams of those who run.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import cycle

from slotline.core.line import Lines
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.room import Ticket
from slotline.gate.local import LocalGate
from slotline.gate.turn import Turn
from slotline.gate.usher import Berth

LENGTHS = (10, 1_000, 10_000)
ROUNDS = 9
CALLS = 2_000
CYCLES = 20_000
KEYS = tuple(Party(f"key {number}") for number in range(20))
FLOWS = tuple(Party(f"key {number // 4}", f"flow {number}") for number in range(20))


class Bench:
    """One slot, taken; `length` tickets wait for it, and this stays so from call to call."""

    def __init__(self, length: int, parties: Sequence[Party], fair_by: FairBy = FairBy.KEY) -> None:
        self.lines = Lines({"x": (1, length + 1)}, fair_by=fair_by)
        self.parties = cycle(parties)
        self.running = self.join()
        self.waiting = [self.join() for _ in range(length)]
        self.asked = 0

    def join(self) -> Ticket:
        return self.lines.join(("x",), 0.0, party=next(self.parties))[0]

    def time_join(self) -> float:
        party = next(self.parties)
        began = time.perf_counter()
        ticket = self.lines.join(("x",), 0.0, party=party)[0]
        took = time.perf_counter() - began
        self.lines.leave(ticket, 0.0)
        return took

    def time_leave(self) -> float:
        middle = len(self.waiting) // 2
        ticket = self.waiting.pop(middle)
        began = time.perf_counter()
        self.lines.leave(ticket, 0.0)
        took = time.perf_counter() - began
        self.waiting.append(self.join())
        return took

    def time_place(self) -> float:
        self.asked = (self.asked + 7_919) % len(self.waiting)  # a prime, so that every place comes up
        ticket = self.waiting[self.asked]
        began = time.perf_counter()
        self.lines.place(ticket)
        return time.perf_counter() - began

    def time_grant(self) -> float:
        began = time.perf_counter()
        changes = self.lines.release(self.running, 0.0)
        took = time.perf_counter() - began
        self.running = changes.grants[0].ticket
        self.waiting.remove(self.running)
        self.waiting.append(self.join())
        return took


COMMANDS: dict[str, Callable[[Bench], float]] = {
    "join": Bench.time_join,
    "leave from the middle": Bench.time_leave,
    "place": Bench.time_place,
    "release and grant": Bench.time_grant,
}


def microseconds(bench: Bench, command: Callable[[Bench], float]) -> float:
    """The mean of the best round: one that something else disturbed does not count."""
    return min(statistics.fmean(command(bench) for _ in range(CALLS)) for _ in range(ROUNDS)) * 1e6


def commands(parties: Sequence[Party]) -> None:
    print(f"{'µs a command, waiting:':24}" + "".join(f"{length:>9,}" for length in LENGTHS) + "    ratio")
    for name, command in COMMANDS.items():
        took = [microseconds(Bench(length, parties), command) for length in LENGTHS]
        print(f"{name:24}" + "".join(f"{one:9.2f}" for one in took) + f"{took[-1] / took[0]:8.1f}x")


def cycles(parties: Sequence[Party], fair_by: FairBy, length: int = 300) -> float:
    """Microseconds of processor time from a request that comes to the next."""
    bench = Bench(length, parties, fair_by)
    began = time.process_time()
    for second in range(CYCLES):
        bench.lines.join(("x",), float(second), party=next(bench.parties))
        bench.running = bench.lines.release(bench.running, second + 1.0).grants[0].ticket
    return (time.process_time() - began) / CYCLES * 1e6


async def crowd(length: int) -> tuple[LocalGate, list[Turn]]:
    """One turn that runs and `length` that wait, each of which has heard its place."""
    gate = LocalGate({"x": Berth(1, length)}, time.monotonic)
    turns = [gate.turn(("x",)) for _ in range(length + 1)]
    for turn in turns:
        await turn.__aenter__()
    for turn in turns[1:]:
        await anext(turn)
    return gate, turns


async def processor_time(length: int) -> float:
    """Seconds of processor time from the departure of the first until the last has heard of it."""
    _, turns = await crowd(length)
    began = time.process_time()
    await turns[1].__aexit__()
    await anext(turns[-1])
    return time.process_time() - began


async def longest_hold_up(length: int) -> float:
    """Seconds: the longest turn of the event loop during the sweep, seen by someone who wants to run in every one."""
    _, turns = await crowd(length)
    gc.collect()
    told = asyncio.ensure_future(anext(turns[-1]))
    await turns[1].__aexit__()
    longest, last = 0.0, time.perf_counter()
    while not told.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def sweep(length: int) -> None:
    took = min(asyncio.run(processor_time(length)) for _ in range(ROUNDS))
    held = min(asyncio.run(longest_hold_up(length)) for _ in range(ROUNDS))
    print(f"{took * 1e3:.1f} ms of processor time for a sweep over {length:,} turns, {took / length * 1e6:.2f} µs each")
    print(f"{held * 1e3:.1f} ms is the longest that it held up the event loop")


if __name__ == "__main__":
    print(f"Python {platform.python_version()}\n")
    for who, parties in {"one party": (NOBODY,), "twenty keys": KEYS}.items():
        print(who)
        commands(parties)
        print()
    for who, parties, fair_by in (
        ("one party", (NOBODY,), FairBy.KEY),
        ("twenty keys", KEYS, FairBy.KEY),
        ("five keys with four flows", FLOWS, FairBy.FLOW),
    ):
        print(f"{min(cycles(parties, fair_by) for _ in range(3)):.1f} µs of processor time a cycle, {who}")
    print()
    sweep(LENGTHS[-1])
