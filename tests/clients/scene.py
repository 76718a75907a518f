"""What happens around a client while it asks: a gateway before the stub or the real engine, and a line to stand in."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from clients.table import Case, Client, Way, node
from fakes.gateway import MESSAGES, Front, fronted
from fakes.product import Caller, ask
from slotline.config import ServerConfig
from slotline.core.kind import Kind
from slotline.stub import Stub
from slotline.stub.standard import hang, ok, tool_call

TEXT = "token-0 token-1 token-2 token-3 token-4"
RESULT = "two are free"
CROWD = ["client_left_running", "client_left_running", "client_left_waiting", "client_left_waiting"]
"""How those end who stand in line around the client: two hold the slots, one is before it, one behind it."""

_LIVELY = ServerConfig(port=0, keepalive=0.2)
_VENDORS = ("ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "OPENCODE", "LITELLM_", "LANG", "LLM_")
_STORY = "Tell me a very long story about a lighthouse keeper, with many chapters."


@dataclass(frozen=True, slots=True)
class Told:
    """What a client's program printed. `error`: what it wrote instead, if it failed."""

    text: str = ""
    tool: dict[str, Any] | None = None
    events: tuple[str, ...] = ()
    error: str | None = None


@asynccontextmanager
async def scene(engine: str | None) -> AsyncIterator[Front]:
    """A gateway with two slots; `engine` is the real engine's address, None stands for the stub."""
    stub = Stub(slots=2, tokens=5, models=("stub", "held"), context=1 << 20)
    stub.by_model["held"] = hang()
    kind = None if engine is None else Kind.LLAMA_CPP
    async with fronted(slots=2, server=_LIVELY, stub=stub, url=engine, kind=kind) as front:
        yield front


@asynccontextmanager
async def asked(
    client: Client, base: str, model: str, way: Way, home: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The client's program, which is about to ask. It is ended with the block."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_VENDORS)}
    path = f"{node().parent}{os.pathsep}{environment['PATH']}"
    process = await asyncio.create_subprocess_exec(
        str(client.interpreter),
        str(client.program),
        *(base, model, client.surface, way, client.pin),
        cwd=home,
        env={**environment, "HOME": str(home), "PWD": str(home), "PATH": path, **client.env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
        start_new_session=True,  # it and all that it starts can be ended together
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def told(process: asyncio.subprocess.Process) -> Told:
    """What the program has to say in the end."""
    async with asyncio.timeout(100):
        out, errors = await process.communicate()
    lines = [line for line in out.splitlines() if line and line != b"asking"]
    if process.returncode or not lines:
        return Told(error=errors.decode(errors="replace")[-20000:] or f"it ended with {process.returncode}")
    said = msgspec.json.decode(lines[-1])
    return Told(said["text"], said.get("tool"), tuple(sorted(set(said["events"]))))


async def perform(case: Case, front: Front, home: Path) -> Told:
    """Lets the client ask, standing in line or not."""
    model = "stub" if case.upstream == "stub" else "smollm2"
    base = front.url + case.mount + case.client.suffix
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(_line(front, case.upstream)) if case.waiting else None
        if case.way is Way.TOOLS:
            arguments = msgspec.json.encode(case.client.arguments).decode()
            front.stub.play(tool_call(case.client.tool, arguments), ok(5))
        process = await stack.enter_async_context(asked(case.client, base, model, case.way, home))
        if line is not None:
            await _wait(front, model, line, process)
        return await told(process)


def called(front: Front) -> tuple[str, Any, str]:
    """The tool call and its result as they came back to the stub: name, arguments, the result's text."""
    *_, call, result = front.stub.requests[-1].body["messages"]
    function = call["tool_calls"][0]["function"]
    return function["name"], msgspec.json.decode(function["arguments"]), str(result["content"])


@asynccontextmanager
async def _line(front: Front, upstream: str) -> AsyncIterator[list[Caller]]:
    """Both slots are taken, and one more waits. The callers, the one that waits last."""
    body = ask(model="held") if upstream == "stub" else ask(_STORY, model="smollm2", max_tokens=4000)
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(front.calling(body)) for _ in range(2)]
        await front.until(lambda: sum(each.granted is not None for each in front.relay.passages) == 2)
        callers.append(await stack.enter_async_context(front.calling(body)))
        await front.until(lambda: front.waiting == 1)
        yield callers


async def _wait(front: Front, model: str, line: list[Caller], process: asyncio.subprocess.Process) -> None:
    """The client stands in line until its place has changed and it was kept alive; then its turn comes."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()  # it is about to ask
    await front.until(lambda: front.waiting == 2 or process.returncode is not None, timeout=60)
    # One who joins later hears of nothing that those before it do not hear too.
    async with front.streaming(ask(model=model), MESSAGES, {"x-slotline-queue": "off"}) as behind:
        while behind.answer.body.count(b": keep-alive") < 3:
            await behind.next()
    await front.until(lambda: front.waiting <= 2)
    for caller in reversed(line):
        caller.reset()
