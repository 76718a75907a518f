"""A real Redis of the test's own, on a free port, that can be stopped, emptied and started again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import redis.asyncio as aioredis
from redis import exceptions

SERVERS = [name for name in ("redis-server", "valkey-server") if shutil.which(name)]


class RedisServer:
    """`port` stays the same, whatever happens to the process."""

    def __init__(self, folder: Path, program: str = "redis-server") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._program = program
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *, keep: bool = False) -> None:
        """Starts it, and waits until it answers. `keep`: what is written is on disk, and there at the next start."""
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""),
            *("--appendonly", "yes" if keep else "no", "--appendfsync", "always"),
            *("--repl-diskless-sync-delay", "0"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(10), aioredis.Redis.from_url(self.url) as client:
            while True:
                with suppress(exceptions.ConnectionError):
                    await client.ping()
                    return
                await asyncio.sleep(0.01)

    def client(self) -> aioredis.Redis:
        """A connection of the test's own."""
        return aioredis.Redis.from_url(self.url)

    async def kill(self) -> None:
        """It is gone at once; what it did not have on disk, too."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
                self._process.kill()
            await self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It does nothing any more, though its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is None:
            raise RuntimeError("the server does not run")
        self._process.send_signal(number)


@asynccontextmanager
async def redis_server(program: str = "redis-server", *, keep: bool = False) -> AsyncIterator[RedisServer]:
    """One that runs, within the block."""
    with TemporaryDirectory(prefix="slotline-redis-") as folder:
        server = RedisServer(Path(folder), program)
        await server.start(keep=keep)
        try:
            yield server
        finally:
            await server.kill()
