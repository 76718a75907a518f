"""A network between clients and a server, with the faults that networks have: see the methods of `Network`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Network:
    """Passes bytes on to `url`, both ways. `url` of its own is where clients reach it."""

    def __init__(self, url: str) -> None:
        self.url = ""
        self._address = _address(url)
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._there = asyncio.Event()  # what is sent arrives …
        self._back = asyncio.Event()  # … and what is answered
        self.mend()

    def cut(self) -> None:
        """Every connection breaks at once. New ones come about."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def refuse(self) -> None:
        """Every connection breaks, and nobody listens any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def swallow(self) -> None:
        """Nothing arrives any more, and nobody is told so: connections come about, and stay."""
        self._there.clear()
        self._back.clear()

    def swallow_answers(self) -> None:
        """What is sent arrives, and what is answered does not."""
        self._back.clear()

    def lead_to(self, url: str) -> None:
        """New connections lead to another server; those that are there stay as they are."""
        self._address = _address(url)

    def mend(self) -> None:
        """All that was held back arrives, on connections that are still there."""
        self._there.set()
        self._back.set()

    async def listen(self) -> None:
        """Somebody listens, at the same address as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
            self._port = int(self._server.sockets[0].getsockname()[1])
            self.url = f"redis://127.0.0.1:{self._port}/0"

    async def close(self) -> None:
        """There is no network any more."""
        self.mend()
        await self.refuse()
        while self._serving:
            self.cut()
            await asyncio.wait(self._serving, timeout=0.1)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._address)
        except OSError:
            self._open.discard(writer)
            writer.transport.abort()
            return
        self._open.add(there_writer)
        ways = [
            asyncio.create_task(_pass(reader, there_writer, self._there)),
            asyncio.create_task(_pass(there_reader, writer, self._back)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= {writer, there_writer}
            for each in (writer, there_writer):
                each.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            await passes.wait()
            writer.write(piece)
            await writer.drain()


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


@asynccontextmanager
async def network(url: str) -> AsyncIterator[Network]:
    """A network before `url`, which is whole at first."""
    net = Network(url)
    await net.listen()
    try:
        yield net
    finally:
        await net.close()
