"""A real Prometheus, before whatever a test wants to be scraped."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp


@dataclass(frozen=True)
class Prometheus:
    """One that runs. `asked` is how its API is asked."""

    url: str
    session: aiohttp.ClientSession

    async def asked(self, path: str, **fields: str) -> Any:
        """The `data` of an answer of its API. Raises AssertionError with its own words for one that is an error."""
        async with self.session.get(f"{self.url}/api/v1/{path}", params=fields) as answer:
            told = await answer.json()
        assert told["status"] == "success", told["error"]
        return told["data"]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that `expression` gives now."""
        series: list[dict[str, Any]] = (await self.asked("query", query=expression))["result"]
        return series

    async def scraped(self, times: int) -> None:
        """Returns once it has read the numbers so often."""
        async with asyncio.timeout(30):
            while True:
                found = await self.query("count_over_time(slotline_build_info[1m])")
                if found and float(found[0]["value"][1]) >= times:
                    return
                await asyncio.sleep(0.1)  # between two looks at another process, which tells nobody when it has scraped


@asynccontextmanager
async def prometheus(config: str, folder: Path) -> AsyncIterator[Prometheus]:
    """Runs with the configuration `config`, and keeps what it stores in `folder`, until the block ends."""
    (folder / "prometheus.yml").write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            while b"Server is ready to receive web requests" not in (line := await process.stderr.readline()):
                assert line, "it has ended"
        async with aiohttp.ClientSession(trust_env=False) as session:
            yield Prometheus(f"http://127.0.0.1:{port}", session)
    finally:
        process.send_signal(signal.SIGKILL)  # nothing that it stores is wanted any more
        await process.communicate()
