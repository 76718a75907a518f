"""The real gateway in the test's own process, before the stub: everything but the command line, on real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fakes.checker import check
from fakes.product import Answered, Caller, ask, calling, fetch
from slotline.config import AdminConfig, Config, KeyConfig, ModelConfig, ServerConfig, UpstreamConfig
from slotline.core.anthropic.clients import BEAT_AFTER
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.relay import Relay
from slotline.stub import Stub
from slotline.stub.standard import ok
from slotline.wiring import Gateway, gateway

MESSAGES = "/llm/v1/messages"
PATIENT = ServerConfig(port=0, grace=30.0, keepalive=30.0)
"""Nothing is sent only because time has passed: what a client gets has another reason."""
_RST = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends RST in place of FIN


class Exit(Enum):
    """How a client leaves."""

    FIN = "FIN"
    RST = "RST"


def leave(caller: Caller, way: Exit) -> None:
    """The client is gone, without a word."""
    if way is Exit.RST:
        sock = caller.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
    caller.writer.transport.abort()  # which alone is a FIN, as long as the caller has read all that came


class Stream:
    """A streamed answer as it comes, piece by piece as it was written."""

    def __init__(self, caller: Caller, answer: Answered) -> None:
        self.caller = caller
        self.answer = answer
        self._pieces = caller.pieces(answer)

    async def next(self) -> bytes:
        """The next piece."""
        async with asyncio.timeout(5):
            return await anext(self._pieces)

    async def until(self, wanted: bytes) -> None:
        """Reads on until `wanted` has come."""
        while wanted not in self.answer.body:
            await self.next()

    async def rest(self) -> bytes:
        """The whole body, once it has ended."""
        async with asyncio.timeout(5):
            async for _ in self._pieces:
                pass
        return self.answer.body


@dataclass(frozen=True, slots=True)
class Ended:
    """One request's end, as the gateway logged it."""

    outcome: str
    request_id: str
    error: str | None


class Log(logging.Handler):
    """All that is logged, down to debug: by the gateway, the HTTP library and the event loop."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        """Everything in it, fields and stacks included."""
        return "\n".join(f"{self.format(record)} {record.__dict__.get('fields', '')}" for record in self.records)

    @property
    def ends(self) -> list[Ended]:
        """The end of each request that ended, in order."""
        fields: list[dict[str, Any]] = [
            record.__dict__["fields"] for record in self.records if record.getMessage() == "request ended"
        ]
        return [Ended(each["outcome"], each["request_id"], each["error"]) for each in fields]

    @property
    def faults(self) -> list[str]:
        """What was logged as an error."""
        return [self.format(record) for record in self.records if record.levelno >= logging.ERROR]


@dataclass(slots=True)
class Front:
    """A gateway that runs, and the stub behind it."""

    stub: Stub
    url: str
    relay: Relay
    log: Log
    idle: set[asyncio.Task[Any]]  # the tasks there are when nothing is going on
    gateway: Gateway

    @property
    def outcomes(self) -> list[str]:
        """How the requests ended, in order."""
        return [end.outcome for end in self.log.ends]

    @property
    def waiting(self) -> int:
        """How many requests stand in line."""
        return sum(passage.told is not None and passage.granted is None for passage in self.relay.passages)

    @asynccontextmanager
    async def calling(
        self, body: object = None, path: str = MESSAGES, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Caller]:
        """A message that is asked for; its connection closes with the block."""
        async with calling(self.url, path, ask() if body is None else body, headers) as caller:
            yield caller

    @asynccontextmanager
    async def streaming(
        self, body: object = None, path: str = MESSAGES, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        """A message whose stream has begun: its head is there."""
        async with self.calling(body, path, headers) as caller:
            async with asyncio.timeout(5):
                answer = await caller.head()
            yield Stream(caller, answer)

    async def fetch(self, body: object = None, path: str = MESSAGES, headers: dict[str, str] | None = None) -> Answered:
        """A message that is asked for, and the whole answer."""
        async with asyncio.timeout(5):
            return await fetch(self.url, path, ask() if body is None else body, headers)

    async def get(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answered:
        """Any other route."""
        async with asyncio.timeout(5):
            return await fetch(self.url, path, None, headers, method)

    async def until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Returns once `condition` holds; between two looks the gateway answers a question. TimeoutError after that."""
        async with asyncio.timeout(timeout):
            while not condition():
                await fetch(self.url, "/healthz")

    async def settled(self, *, within: float = 1.0) -> None:
        """Every request that came is over within a second: here, in the stub, and for the event loop."""
        await self.until(lambda: not self.relay.passages, within)
        await self.stub.until(lambda state: state.running == state.waiting == 0, within)
        async with asyncio.timeout(within):
            while left := self._tasks():  # a look at the upstream has short tasks of its own
                await asyncio.wait(left)

    async def serves(self) -> None:
        """The slot is free, or will be as soon as the server is: a further request has its answer within a second."""
        self.stub.play(ok(3))
        async with asyncio.timeout(1), self.streaming(ask("next")) as stream:
            assert check(await stream.rest()).complete

    def _tasks(self) -> set[asyncio.Task[Any]]:
        """Tasks beyond those of an idle gateway; an open connection has one that waits for the next request."""
        busy = asyncio.all_tasks() - self.idle - {asyncio.current_task()}
        return {task for task in busy if getattr(task.get_coro(), "__qualname__", "") != "RequestHandler.start"}


@asynccontextmanager
async def fronted(
    *,
    slots: int | None = 1,
    queue: int = 8,
    queue_wait: float = 0.0,
    server: ServerConfig = PATIENT,
    limits: Limits | None = None,
    stub: Stub | None = None,
    url: str | None = None,
    kind: Kind | None = None,
    pin_slots: bool = True,
    affinity: bool = False,
    one_model: bool = False,
    api_key_env: str | None = None,
    models: tuple[ModelConfig, ...] = (),
    before: tuple[UpstreamConfig, ...] = (),
    keys: tuple[KeyConfig, ...] = (),
    beat_after: float = BEAT_AFTER,
    admin: str | None = None,
) -> AsyncIterator[Front]:
    """A gateway before a stub, each with `slots` slots; None: as many as the stub tells.

    `url`: where the gateway looks for it, if not where it is. `before`: upstreams that are preferred to it.
    `admin`: the variable that holds the operator's token.
    """
    stub = stub or Stub(slots=slots or 1, tokens=3)
    with _logged() as log:
        async with stub:
            upstream = UpstreamConfig(
                name="box",
                url=url or stub.url,
                slots=slots,
                queue=queue,
                queue_wait=queue_wait,
                kind=kind,
                pin_slots=pin_slots,
                affinity=affinity,
                one_model=one_model,
                api_key_env=api_key_env,
                limits=Limits(poll=0.05) if limits is None else limits,
            )
            config = Config(
                source="a test",
                server=server,
                upstreams=(*before, upstream),
                models=models,
                keys=keys,
                admin=AdminConfig(token_env=admin),
            )
            async with gateway(config, None, lambda _: None, beat_after=beat_after) as running:
                yield Front(stub, running.url, running.relay, log, asyncio.all_tasks(), running)


@contextmanager
def _logged() -> Iterator[Log]:
    log, root, ours = Log(), logging.getLogger(), logging.getLogger("slotline")
    level = ours.level
    root.addHandler(log)
    ours.setLevel(logging.DEBUG)
    try:
        yield log
    finally:
        root.removeHandler(log)
        ours.setLevel(level)
