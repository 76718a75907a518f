"""Warm slots first: what is saved, and who waits for it? On the real engine, with `affinity` on and off in turn.

    python benchmarks/affinity.py [--rounds N]

Two loads, both with more conversations than slots:

    talk    each caller asks, reads the answer and asks again, turn after turn of one conversation
    agents  each caller, with a key of its own, sends several questions about one text at once

The engine is that of the gateway, with two slots: once as it is, with llama.cpp's own cache of prompts that have lost
their slot, and once without that cache, as a server is that is older or has no memory left. One engine serves both
ways, and each run has texts of its own, so that nothing is left over from the one before.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import secrets
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from slotline.config import Config, KeyConfig, ServerConfig, UpstreamConfig
from slotline.core.simulation.fairshare import jain
from slotline.upstream.engine_child import PROMPT_CACHE_MIB, Order, parameters
from slotline.upstream.model_file import default_cache, find
from slotline.wiring import gateway

SLOTS = 2
TALKERS, TURNS = 5, 3
AGENTS, AT_ONCE = 3, 5
WORDS = 105  # in the text that a conversation begins with
CONTEXT = 2048  # tokens of a slot
ANSWER = 12  # tokens


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--serve", type=int, metavar="MIB", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve is not None:
        serve(given.serve)
    else:
        asyncio.run(run(given.rounds))


def serve(cache: int) -> None:
    """The engine, with `cache` MiB for prompts that have lost their slot: a process, until its input ends."""
    import xllamacpp  # noqa: PLC0415 - 100 MB of native code, in this process alone

    params = parameters(Order.read(sys.stdin.buffer.readline()))
    params.cache_ram_mib = cache
    _server = xllamacpp.Server(params)
    sys.stdin.buffer.read()
    os._exit(0)  # its native threads have no end of their own


@dataclass
class Tally:
    """What came of one way, over all rounds."""

    prompt: int = 0  # tokens
    cached: int = 0
    took: float = 0.0  # seconds, from the first request to the last answer
    waits: dict[int, list[float]] = field(default_factory=dict)  # seconds in line, by caller
    held: dict[int, float] = field(default_factory=dict)  # seconds with a slot

    @property
    def every(self) -> list[float]:
        return [wait for waits in self.waits.values() for wait in waits]


async def run(rounds: int) -> None:
    columns = ("load", "cache", "affinity", "tokens read", "of all", "time", "wait: mean", "p90", "worst", "of callers")
    sys.stdout.write(f"| {' | '.join(columns)} | Jain |\n|{' --- |' * 11}\n")
    for cache in (PROMPT_CACHE_MIB, 0):
        async with engine(cache) as url:
            for load in ("talk", "agents"):
                tallies = {False: Tally(), True: Tally()}
                for number in range(rounds):
                    for affinity in (False, True) if number % 2 == 0 else (True, False):
                        await one(url, load, affinity, tallies[affinity])
                for affinity, tally in tallies.items():
                    sys.stdout.write(row(load, tally, cache=cache > 0, affinity=affinity) + "\n")
                    sys.stdout.flush()


@asynccontextmanager
async def engine(cache: int) -> AsyncIterator[str]:
    """An engine that answers; its URL. `cache`: see `serve`."""
    file, name = find("smollm2", default_cache(), lambda _: None)
    with TemporaryDirectory(prefix="slotline-") as folder:
        socket = Path(folder) / "engine.sock"
        order = Order(os.getpid(), str(socket), str(file), name, SLOTS, CONTEXT, threads=2)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, "--serve", str(cache)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdin is not None
        try:
            process.stdin.write(order.line())
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as http:
                while not await answers(http):  # noqa: ASYNC110 - nothing tells when it has loaded
                    await asyncio.sleep(0.2)
            yield f"unix:{socket}"
        finally:
            process.stdin.close()
            await process.wait()


async def answers(http: aiohttp.ClientSession) -> bool:
    with suppress(aiohttp.ClientError):
        async with http.get("http://engine/health") as response:
            return response.status == HTTPStatus.OK
    return False


def row(load: str, tally: Tally, *, cache: bool, affinity: bool) -> str:
    waits, read = sorted(tally.every), tally.prompt - tally.cached
    means = [statistics.mean(waits) for waits in tally.waits.values()]
    cells = [
        load,
        "with" if cache else "without",
        "on" if affinity else "off",
        f"{read:,}",
        f"{read / tally.prompt:.0%}",
        f"{tally.took:.0f} s",
        f"{statistics.mean(waits):.2f} s",
        f"{waits[int(0.9 * len(waits))]:.2f} s",
        f"{waits[-1]:.2f} s",
        f"{min(means):.2f} – {max(means):.2f} s",
        f"{jain(list(tally.held.values())):.3f}",
    ]
    return f"| {' | '.join(cells)} |"


async def one(engine: str, load: str, affinity: bool, tally: Tally) -> None:
    """One load, once, from an idle engine."""
    callers = TALKERS if load == "talk" else AGENTS
    words = [f"sl-{secrets.token_hex(16)}" for _ in range(callers)]
    async with before(engine, words, affinity=affinity) as url, aiohttp.ClientSession(url) as http:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                caller = Caller(http, number, words[number], tally)
                group.create_task(caller.talk(TURNS) if load == "talk" else caller.work(AT_ONCE))
        tally.took += loop.time() - began


@asynccontextmanager
async def before(engine: str, words: Sequence[str], *, affinity: bool) -> AsyncIterator[str]:
    """A gateway before the engine; its URL."""
    keys = tuple(
        KeyConfig(name=f"key {number}", hash=f"sha256:{hashlib.sha256(word.encode()).hexdigest()}")
        for number, word in enumerate(words)
    )
    box = UpstreamConfig(name="box", url=engine, slots=SLOTS, affinity=affinity)
    config = Config(source="a benchmark", server=ServerConfig(port=0), upstreams=(box,), keys=keys)
    async with gateway(config, None, lambda _: None) as running:
        yield running.url


class Caller:
    """One of those who ask."""

    def __init__(self, http: aiohttp.ClientSession, number: int, key: str, tally: Tally) -> None:
        self.http = http
        self.number = number
        self.headers = {"x-api-key": key}
        self.tally = tally
        self.said: list[dict[str, str]] = [{"role": "user", "content": text()}]

    async def talk(self, turns: int) -> None:
        for turn in range(turns):
            answer = await self.ask(self.said)
            self.said += [
                {"role": "assistant", "content": answer},
                {"role": "user", "content": f"And what follows from that, in one sentence? ({turn})"},
            ]

    async def work(self, at_once: int) -> None:
        read = {"role": "assistant", "content": "I have read it."}
        questions = [{"role": "user", "content": f"Question {number}: what is it about?"} for number in range(at_once)]
        await asyncio.gather(*(self.ask([*self.said, read, question]) for question in questions))

    async def ask(self, messages: list[dict[str, str]]) -> str:
        """Adds one request to the tally; the text of its answer."""
        body: dict[str, Any] = {"model": "smollm2", "max_tokens": ANSWER, "messages": messages}
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self.http.post("/v1/messages", json=body, headers=self.headers) as response:
            response.raise_for_status()
            answer = await response.json()
            wait = float(response.headers.get("x-slotline-wait-ms", 0)) / 1000
        usage, tally = answer["usage"], self.tally
        tally.cached += usage["cache_read_input_tokens"]
        tally.prompt += usage["input_tokens"] + usage["cache_read_input_tokens"]
        tally.waits.setdefault(self.number, []).append(wait)
        tally.held[self.number] = tally.held.get(self.number, 0.0) + loop.time() - began - wait
        return str(answer["content"][0]["text"])


def text() -> str:
    """Of which no other one has the beginning."""
    return f"Text {secrets.token_hex(4)}: " + "the river goes down to the sea " * (WORDS // 7)


if __name__ == "__main__":
    main()
