"""Does it matter how long the line is? Times the line's commands before 10, 1,000 and 10,000 who wait.

    python benchmarks/line.py

Each command is timed in place: the ticket that left is replaced, the slot that was granted is granted again, so that
the line keeps its length. The best of several rounds is printed, in microseconds, and how many times as long it takes
with 10,000 waiting as with 10. Below that, one sweep of the gate that tells 10,000 callers their new place: the
processor time of the whole, and the longest that it held up the event loop, and with it the streams of those who run.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Callable

from slotline.core.line import Lines, Ticket
from slotline.gate.local import Berth, LocalGate
from slotline.gate.turn import Turn

LENGTHS = (10, 1_000, 10_000)
ROUNDS = 9
CALLS = 2_000


class Bench:
    """One slot, taken; `length` tickets wait for it, and this stays so from call to call."""

    def __init__(self, length: int) -> None:
        self.lines = Lines({"x": (1, length + 1)})
        self.running = self.lines.join(("x",), 0.0)[0]
        self.waiting = [self.join() for _ in range(length)]
        self.asked = 0

    def join(self) -> Ticket:
        return self.lines.join(("x",), 0.0)[0]

    def time_join(self) -> float:
        began = time.perf_counter()
        ticket = self.lines.join(("x",), 0.0)[0]
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
        ticket, self.running = self.running, self.waiting.pop(0)
        began = time.perf_counter()
        self.lines.release(ticket, 0.0)
        took = time.perf_counter() - began
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


def commands() -> None:
    print(f"{'µs a command, waiting:':24}" + "".join(f"{length:>9,}" for length in LENGTHS) + "    ratio")
    for name, command in COMMANDS.items():
        took = [microseconds(Bench(length), command) for length in LENGTHS]
        print(f"{name:24}" + "".join(f"{one:9.2f}" for one in took) + f"{took[-1] / took[0]:8.1f}x")


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
    commands()
    print()
    sweep(LENGTHS[-1])
