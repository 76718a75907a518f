"""The product as its users run it: `slotline …` as a process of its own, and plain sockets that talk to it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

READY = "listening on "


class Program:
    """`async with Program("serve", "--port", "0") as gateway:` runs `python -m slotline serve --port 0`.

    `url` is what it printed as its address. Leaving the block ends it with SIGTERM and waits for it.
    """

    def __init__(self, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.arguments = arguments
        self.url = ""
        self.lines: list[str] = []  # of standard output, as they come
        self.errors: list[str] = []  # of standard error
        self._env = {**os.environ, **(env or {})}
        self._cwd = cwd

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "slotline",
            *self.arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=self._cwd,
        )
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._readers = [asyncio.create_task(self._read_out(ready)), asyncio.create_task(self._read_errors())]
        try:
            async with asyncio.timeout(60):
                self.url = await ready
        except BaseException:
            await self.stop(signal.SIGKILL)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(signal.SIGTERM)

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self, number: signal.Signals) -> None:
        """Sends a signal, and does not wait for what comes of it."""
        self.process.send_signal(number)

    async def stop(self, number: signal.Signals) -> int:
        """Ends the process with `number`, SIGKILL after 40 s; its exit status."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            async with asyncio.timeout(40):
                status = await self.process.wait()
        except TimeoutError:
            self.process.kill()
            status = await self.process.wait()
        await asyncio.gather(*self._readers)
        return status

    async def _read_out(self, ready: asyncio.Future[str]) -> None:
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            line = raw.decode().rstrip()
            self.lines.append(line)
            if line.startswith(READY) and not ready.done():
                ready.set_result(line.removeprefix(READY))
        if not ready.done():
            await self._readers[1]
            ready.set_exception(RuntimeError(f"{self.arguments} ended before it was ready: {self.errors}"))

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            self.errors.append(raw.decode().rstrip())


@dataclass(slots=True)
class Answered:
    """One answer as a raw client sees it: `body` without the transfer coding, `at` when each piece of it came."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes = b""
    at: list[tuple[float, bytes]] = field(default_factory=list)  # loop time, piece

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Caller:
    """A client on a plain socket, so that a test decides about every byte, and about when it leaves."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, url: str) -> Self:
        host, _, port = url.removeprefix("http://").rpartition(":")
        return cls(*await asyncio.open_connection(host.strip("[]"), int(port), limit=1 << 24))

    async def send(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> None:
        """Sends one request; `body`: bytes as they are, anything else as JSON."""
        payload = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        fields = {"host": "127.0.0.1", "content-type": "application/json", **(headers or {})}
        lines = [f"{method} {path} HTTP/1.1", f"content-length: {len(payload)}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self.writer.write("\r\n".join(lines).encode(errors="surrogateescape") + b"\r\n\r\n" + payload)
        await self.writer.drain()

    async def head(self) -> Answered:
        """The head of the answer."""
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in raw[1:] if line)
        return Answered(int(raw[0].split()[1]), {name.lower(): value.strip() for name, value in pairs})

    async def pieces(self, answer: Answered) -> AsyncIterator[bytes]:
        """The body, piece by piece as it was written, also added to `answer`."""
        time = asyncio.get_running_loop().time
        if answer.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                piece = (await self.reader.readexactly(size + 2))[:-2]
                answer.at.append((time(), piece))
                answer.body += piece
                yield piece
            await self.reader.readline()
        elif length := int(answer.headers.get("content-length", "0")):
            answer.body = await self.reader.readexactly(length)
            answer.at.append((time(), answer.body))
            yield answer.body

    async def answer(self) -> Answered:
        """The whole answer."""
        answer = await self.head()
        async for _ in self.pieces(answer):
            pass
        return answer

    def reset(self) -> None:
        """Closes the connection at once, without a word."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


@asynccontextmanager
async def calling(
    url: str, path: str, body: object, headers: dict[str, str] | None = None, method: str = "POST"
) -> AsyncIterator[Caller]:
    """A request that is out; its connection closes with the block."""
    caller = await Caller.connect(url)
    try:
        await caller.send(method, path, body, headers)
        yield caller
    finally:
        await caller.close()


async def fetch(
    url: str, path: str, body: object = None, headers: dict[str, str] | None = None, method: str | None = None
) -> Answered:
    """One request and its whole answer, on a connection of its own."""
    async with calling(url, path, body, headers, method or ("GET" if body is None else "POST")) as caller:
        return await caller.answer()


def ask(
    text: str = "hello", *, model: str = "stub", stream: bool = True, max_tokens: int = 64, **more: object
) -> dict[str, object]:
    """The body of a simple call to the Messages API."""
    messages = [{"role": "user", "content": text}]
    return {"model": model, "max_tokens": max_tokens, "stream": stream, "messages": messages, **more}
