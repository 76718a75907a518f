"""Somebody's web server, as far as fetching needs one: what it has, how long it takes, and who asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Page:
    """What lies at a path. `hangs`: after all of this, nothing more comes and the connection stays open."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # as announced; None: not at all
    hangs: bool = False


def moved(to: str, status: int = 302) -> Page:
    """A redirect."""
    return Page(status=status, headers={"location": to})


@dataclass(eq=False)
class Web:
    """A web server on loopback, within the block."""

    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # the paths, in order
    heads: list[str] = field(default_factory=list)  # what was sent to ask, in small letters
    left: asyncio.Event = field(default_factory=asyncio.Event)  # someone gave up on a page that hangs
    port: int = 0
    _visit: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def visited(self, count: int) -> None:
        """Returns once so many have asked."""
        async with asyncio.timeout(5), self._visit:
            await self._visit.wait_for(lambda: len(self.asked) >= count)

    @property
    def host(self) -> str:
        """As it stands in a list of hosts."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1]
            self.asked.append(path)
            self.heads.append(head.lower())
            async with self._visit:
                self._visit.notify_all()
            await self._answer(self.pages.get(path, Page(status=404)), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _answer(self, page: Page, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = dict(page.headers)
        if page.length is not None:
            headers["content-length"] = str(page.length)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {page.status} X\r\nconnection: close\r\n{lines}\r\n".encode() + page.body)
        await writer.drain()
        if page.hangs:
            await reader.read()  # until the other end closes
            self.left.set()
