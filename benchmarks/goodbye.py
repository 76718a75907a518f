"""How long is a slot lost when its client leaves? From the goodbye to a free slot, against the real engine.

    python benchmarks/goodbye.py [--rounds N]

The embedded engine has one slot. A client takes it, and leaves in some phase by FIN or by RST; the next request is
in line, and what is measured is the time until its answer begins, less what the same request takes on an idle engine.
So the figure holds everything: noticing, closing, the server stopping, and the slot being given out again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

PHASES = ("prefill", "mid-stream", "whole answer")
GOODBYES = ("FIN", "RST")
_NUMBERS = count()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--rounds", type=int, default=10)
    asyncio.run(run(options.parse_args().rounds))


async def run(rounds: int) -> None:
    with TemporaryDirectory() as folder:
        async with gateway(Path(folder)) as port:
            idle = statistics.median([await answered(port) for _ in range(5)])
            sys.stdout.write(f"an idle engine answers after {1000 * idle:.0f} ms; beyond that, in ms:\n\n")
            sys.stdout.write("| the client leaves in | by | median | worst |\n| --- | --- | --- | --- |\n")
            for phase in PHASES:
                for goodbye in GOODBYES:
                    lost = [1000 * (await lose(port, phase, goodbye) - idle) for _ in range(rounds)]
                    row = f"| {phase} | {goodbye} | {statistics.median(lost):.0f} | {max(lost):.0f} |"
                    sys.stdout.write(row + "\n")
                    sys.stdout.flush()


async def lose(port: int, phase: str, goodbye: str) -> float:
    """Seconds from the goodbye until the next answer begins."""
    # A prompt that the engine has not read yet.
    text = f"{next(_NUMBERS)} " + "word " * 3000 if phase == "prefill" else "Tell me a long story."
    reader, writer = await ask(port, text, stream=phase != "whole answer", tokens=2000)
    if phase == "mid-stream":
        await reader.readuntil(b"text_delta")
    else:
        await asyncio.sleep(0.3)  # it is being worked on; nothing tells a client so
    next_reader, next_writer = await ask(port, "Hello.", stream=True, tokens=1)
    await next_reader.readuntil(b"event: queue")
    began = asyncio.get_running_loop().time()
    if goodbye == "RST":
        writer.transport.abort()
    else:
        writer.close()
    await next_reader.readuntil(b"event: message_start")
    took = asyncio.get_running_loop().time() - began
    next_writer.close()
    await drained(next_reader)
    return took


async def answered(port: int) -> float:
    began = asyncio.get_running_loop().time()
    reader, writer = await ask(port, "Hello.", stream=True, tokens=1)
    await reader.readuntil(b"event: message_start")
    took = asyncio.get_running_loop().time() - began
    await drained(reader)
    writer.close()
    return took


async def drained(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(10):
        while await reader.read(65536):
            pass


async def ask(port: int, text: str, *, stream: bool, tokens: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    messages = [{"role": "user", "content": text}]
    body = json.dumps({"model": "smollm2", "max_tokens": tokens, "stream": stream, "messages": messages}).encode()
    head = f"POST /llm/v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[int]:
    (folder / "slotline.toml").write_text("[server]\nport = 0\n[engine]\nslots = 1\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slotline", "serve", "--quiet"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        found = re.search(r":(\d+)$", line.strip())
        if found is None:
            raise RuntimeError("the gateway did not start")
        yield int(found[1])
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    main()
