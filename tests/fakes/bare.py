"""Servers of few lines, for what the stub cannot do: a test writes down, byte for byte, what they say."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

_RST = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends RST in place of FIN

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; b"" is the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(data: bytes) -> bytes:
    """One chunk with one event."""
    return chunk(b"data: %b\n\n" % data)


SSE_END = event(b"[DONE]") + chunk(b"")


def whole(body: bytes, status: str = "200 OK", content_type: str = "application/json") -> bytes:
    """A whole answer, after which the connection is kept."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass(slots=True)
class Line:
    """One connection, from the server's end."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int  # 0, 1, 2 … by arrival

    async def request(self) -> tuple[bytes, bytes]:
        """The next request: its head, and its body as long as `content-length` says. EOFError when the client goes."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return head, await self.reader.readexactly(int(lengths[0])) if lengths else b""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Ends the connection with RST."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Returns when the client has closed the connection, with whatever it still sent."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            return


@dataclass(slots=True)
class Bare:
    """A server that listens. Each connection is closed when its conversation has ended."""

    server: asyncio.Server
    url: str
    connections: int = 0
    notes: list[bytes] = field(default_factory=list)  # for what a conversation wants to tell its test

    def refuse(self) -> None:
        """Listens no more; the connections that there are stay."""
        self.server.close()


@asynccontextmanager
async def bare(talk: Callable[[Line, Bare], Awaitable[None]], scheme: str = "http") -> AsyncIterator[Bare]:
    """A server on a free port of loopback. What `talk` raises is raised at the end, but for a client that went."""
    talks: set[asyncio.Task[None]] = set()

    async def converse(line: Line) -> None:
        try:
            await talk(line, made)
        except (EOFError, ConnectionError):
            pass
        finally:
            line.writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.create_task(converse(Line(reader, writer, made.connections))))
        made.connections += 1

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
    made = Bare(server, f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield made
    finally:
        server.close()
        for task in talks:
            task.cancel()
        ends = await asyncio.gather(*talks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def unused_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(slots=True)
class Crowded:
    """A listening socket whose queue is full: nobody is refused, and nobody gets through."""

    sock: socket.socket

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sock.getsockname()[1]}"

    def make_room(self) -> None:
        """Takes those who stand in the queue, and drops them."""
        self.sock.setblocking(False)
        while True:
            try:
                self.sock.accept()[0].close()
            except BlockingIOError:
                return


@contextmanager
def crowded() -> Iterator[Crowded]:
    """Linux drops a SYN when the queue of accepted connections is full, so a connection attempt hangs."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(sock.getsockname())
            yield Crowded(sock)
        finally:
            for each in waiting:
                each.close()
