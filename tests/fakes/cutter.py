"""A network between a client and a server that a test can cut: every connection at once, for as long as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Cutter:
    """Passes bytes on to `url`, both ways. `url` of its own is where clients reach it."""

    def __init__(self, url: str) -> None:
        self._there = url.removeprefix("http://").rpartition(":")
        self._open: set[asyncio.StreamWriter] = set()
        self._down = False
        self.url = ""

    def cut(self) -> None:
        """All connections break, and none comes about before `mend`."""
        self._down = True
        for writer in tuple(self._open):
            writer.transport.abort()

    def mend(self) -> None:
        """From now on connections come about again."""
        self._down = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, until either side ends it."""
        if self._down:
            writer.transport.abort()
            return
        host, _, port = self._there
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        self._open |= {writer, there_writer}
        ways = [asyncio.create_task(_pass(reader, there_writer)), asyncio.create_task(_pass(there_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= {writer, there_writer}
            for each in (writer, there_writer):
                each.transport.abort()
            await asyncio.gather(*ways)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        return


@asynccontextmanager
async def cuttable(url: str) -> AsyncIterator[Cutter]:
    """A network before `url`."""
    cutter = Cutter(url)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(cutter.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    cutter.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield cutter
    finally:
        server.close()
        cutter.cut()
        await asyncio.gather(*tasks)
