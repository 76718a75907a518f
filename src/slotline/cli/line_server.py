"""A Redis or Valkey of the workers' own, for the line that they share, where none is configured.

It listens on a unix socket in a folder that only this user can enter, and on no port; nothing of it is on the disk; and
it ends with its parent, however that ends (`tied.py`). One that dies is started again, empty: the workers tell it
everything anew (`slotline.gate.replica`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from slotline.cli import tied
from slotline.config.values import ClusterConfig
from slotline.upstream.beside import beside
from slotline.upstream.engine import Pace, describe, private_folder, put_down

_log = logging.getLogger(__name__)

PROGRAMS = ("valkey-server", "redis-server")
LEASE = 5.0
"""Seconds: shorter than between machines, because neither a network nor a server far away can be in the way."""

_BEGINS = 10.0  # seconds within which the first one must answer
_LOOK = 0.01  # seconds between two looks meanwhile


class NoLineServer(Exception):
    """There is none, or it does not start."""


@asynccontextmanager
async def line_server() -> AsyncIterator[LineServer]:
    """One that answers, within the block. Raises NoLineServer."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        raise NoLineServer(f"there is neither {' nor '.join(PROGRAMS)}")
    folder = private_folder()
    try:
        server = LineServer(program, folder)
        async with beside(server.watch()):
            await server.started()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class LineServer:
    """See `line_server`. `folder`: where its socket is, and nothing else."""

    def __init__(self, program: str, folder: Path) -> None:
        self.folder = folder
        self._socket = folder / "line.sock"
        self._command = (
            *(sys.executable, "-P", str(tied.__file__), str(os.getpid())),
            *(program, "--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
            *("--dir", str(folder), "--save", "", "--appendonly", "no", "--loglevel", "warning"),
        )
        self._end: str | None = None  # how the last one died

    @property
    def cluster(self) -> ClusterConfig:
        """As the workers find it."""
        return ClusterConfig(url=f"unix:{self._socket}", namespace="workers", lease=LEASE)

    async def watch(self) -> None:
        """One process after the other, until cancelled."""
        clock, pace, rest = asyncio.get_running_loop().time, Pace(), 0.0
        while True:
            began = clock()
            self._end = await self._live()
            rest = pace.rest_after(rest, clock() - began)
            _log.error("workers: the server of their line died (%s); it starts again in %g s", self._end, rest)
            await asyncio.sleep(rest)

    async def started(self) -> None:
        """Returns when it answers. Raises NoLineServer when it dies first, or is too slow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEGINS):
                while self._end is None:
                    if await self.answers():
                        return
                    await asyncio.sleep(_LOOK)
        raise NoLineServer(f"{Path(self._command[4]).name} does not start: {self._end or f'silent for {_BEGINS:g} s'}")

    async def _live(self) -> str:
        """One process from birth to death; how it died, for people."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # not in the terminal's group: Ctrl-C is for the gateway, which drains first
        )
        try:
            words = deque[str](maxlen=1)
            if process.stdout is not None:
                async for line in process.stdout:
                    words.append(line.decode(errors="replace").strip())
            return describe(await process.wait(), words)
        finally:
            await put_down(process)

    async def answers(self) -> bool:
        """Whether it does, now."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return await reader.readline() == b"+PONG\r\n"
        except OSError:
            return False
        finally:
            writer.close()
