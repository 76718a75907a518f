"""The embedded engine: the real llama.cpp server as a child process of the gateway, watched, restarted, never orphaned.

    async with Engine(spec, report=print) as engine:
        await engine.ready()
        ...  # engine.url is an upstream of kind llama.cpp

One task watches the child, and the child's life is a row of this table:

    phase     the child                          becomes
    LOADING   runs, `/health` is not 200 yet     READY at the first 200; RESTING when it dies
    READY     runs and serves                    RESTING when it dies
    RESTING   is dead; the back-off runs         LOADING

It never gives up: an engine that cannot start says so once per try, ever more rarely, and is there again as soon as the
cause is gone (a model file put back, memory freed). The child ends with the gateway however that ends; its half of that
promise is in `engine_child`. Nothing here loads native code into the gateway's own process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from slotline.upstream.beside import beside
from slotline.upstream.engine_child import Order

# `-P` keeps the working directory out of the child's import path: a json.py there must not become the engine's.
CHILD = (sys.executable, "-P", "-m", "slotline.upstream.engine_child")
SOCKET = "engine.sock"
LONGEST_PATH = 103  # bytes of a unix socket's path: sun_path has 104 with its NUL on macOS, 108 on Linux (unix(7))
LAST_WORDS = 8  # lines of the child's standard error that a report of its death quotes


class EngineUnavailable(Exception):
    """The engine cannot be started here at all; the message says what to do."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What to run: `[engine]` of the configuration, with the model's file found."""

    model_path: Path
    alias: str
    slots: int = 2
    context: int = 8192  # tokens per slot
    threads: int = 2
    chat_template: Path | None = None  # a Jinja file; None: the model's own template


@dataclass(frozen=True, slots=True)
class Pace:
    """How quickly the engine is looked after. All in seconds."""

    rest: float = 0.5  # after the first death
    longest_rest: float = 30.0
    healthy: float = 60.0  # a child that served for so long died of something new
    look: float = 0.02  # between the first two looks at /health; then doubling
    longest_look: float = 0.5
    answer: float = 2.0  # how long one look waits for its answer
    still_loading: float = 10.0  # between two reports about a model that takes long

    def rest_after(self, previous: float, served: float) -> float:
        """The rest after a child that had served for `served`, when the rest before it was `previous` (0: none)."""
        if previous == 0 or served >= self.healthy:
            return self.rest
        return min(previous * 2, self.longest_rest)


class Phase(StrEnum):
    """Where the child is in its life; see the table above."""

    LOADING = "loading"
    READY = "ready"
    RESTING = "resting"


class Engine:
    """An async context manager that keeps one engine alive. `report` gets one line of plain text per event."""

    def __init__(
        self,
        spec: EngineSpec,
        report: Callable[[str], None],
        *,
        child: Sequence[str] = CHILD,
        pace: Pace | None = None,
    ) -> None:
        self.spec = spec
        self.phase = Phase.RESTING
        self._report = report
        self._child = child
        self._pace = pace or Pace()
        self._ready = asyncio.Event()
        self._first = asyncio.Event()  # the first child serves, or is dead
        self._first_end: str | None = None
        self._ready_at: float | None = None
        self._pid: int | None = None
        self._socket = Path()
        self._order = b""
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<Engine {self.spec.alias} {self.phase} pid={self._pid} {self.url}>"

    @property
    def url(self) -> str:
        """The address for an upstream, `unix:/path`; it stays the same across restarts."""
        return f"unix:{self._socket}"

    async def ready(self) -> None:
        """Return as soon as the engine serves. There is no limit here: a big model loads for minutes."""
        await self._ready.wait()

    async def started(self) -> None:
        """Like `ready`, for the very first start: raises EngineUnavailable when that child dies before it serves.

        Later deaths are ridden out, but a model that cannot be loaded at all is for a person to mend.
        """
        await self._first.wait()
        if self._first_end is not None:
            raise EngineUnavailable(f"{self.spec.alias}: the engine cannot be started: {self._first_end}")

    async def __aenter__(self) -> Self:
        check(self.spec)
        async with AsyncExitStack() as stack:
            folder = private_folder()
            stack.callback(sweep, folder)
            self._socket = folder / SOCKET
            self._order = order(self.spec, self._socket).line()
            await stack.enter_async_context(beside(self._watch()))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def _watch(self) -> None:
        """One child after the other, until cancelled."""
        clock = asyncio.get_running_loop().time
        rest = 0.0
        while True:
            end = await self._live()
            if not self._first.is_set():
                self._first_end = end.rpartition(" | ")[2]
                self._first.set()
            served = 0.0 if self._ready_at is None else clock() - self._ready_at
            rest = self._pace.rest_after(rest, served)
            self._enter(Phase.RESTING)
            self._report(f"{self.spec.alias}: the engine died ({end}); it starts again in {rest:g} s")
            await asyncio.sleep(rest)

    async def _live(self) -> str:
        """One child from birth to death; returns how it died, for people."""
        self._enter(Phase.LOADING)
        self._report(f"loading {self.spec.alias} …")
        self._socket.unlink(missing_ok=True)  # llama.cpp does not bind over the socket of its predecessor
        try:
            child = await asyncio.create_subprocess_exec(
                *self._child,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # not in the terminal's group: Ctrl-C goes to the gateway, which drains
            )
        except OSError as error:
            return f"it could not be started: {error}"
        self._pid = child.pid
        try:
            async with asyncio.TaskGroup() as group:
                look = group.create_task(self._await_health())
                words = await self._listen(child)
                look.cancel()
            return describe(await child.wait(), words)
        finally:
            await put_down(child)
            self._pid = None

    async def _listen(self, child: asyncio.subprocess.Process) -> list[str]:
        """Hand over the order, then read what the child says until it is dead; returns its last words."""
        assert child.stdin is not None and child.stderr is not None  # noqa: S101, PT018  (both are pipes, see _live)
        child.stdin.write(self._order)  # and never closed: this pipe is the leash
        words: deque[str] = deque(maxlen=LAST_WORDS)
        rest = b""
        while data := await child.stderr.read(4096):
            *lines, rest = (rest + data).split(b"\n")
            words.extend(line.decode(errors="replace").strip() for line in lines if line.strip())
            rest = rest[-4096:]  # a line without an end is not worth memory
        return [*words, *filter(None, [rest.decode(errors="replace").strip()])]

    async def _await_health(self) -> None:
        """Look at `/health` until it is 200, at a rhythm that slows down; a long load is reported now and then."""
        clock = asyncio.get_running_loop().time
        start, reported, pause = clock(), clock(), self._pace.look
        connector = aiohttp.UnixConnector(str(self._socket))
        timeout = aiohttp.ClientTimeout(total=self._pace.answer)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            while not await is_healthy(session):
                if clock() - reported >= self._pace.still_loading:
                    reported = clock()
                    self._report(f"still loading {self.spec.alias} … {reported - start:.0f} s")
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._pace.longest_look)
        self._enter(Phase.READY)
        spec = self.spec
        self._report(
            f"{spec.alias} is ready after {clock() - start:.1f} s: {spec.slots} slots of {spec.context} tokens"
        )

    def _enter(self, phase: Phase) -> None:
        """The one place where the phase changes."""
        self.phase = phase
        match phase:
            case Phase.READY:
                self._ready_at = asyncio.get_running_loop().time()
                self._ready.set()
                self._first.set()
            case Phase.LOADING:
                self._ready_at = None
            case Phase.RESTING:
                self._ready.clear()


def check(spec: EngineSpec) -> None:
    """Raise EngineUnavailable for what no restart can mend."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise EngineUnavailable(
            "the embedded engine needs the package xllamacpp, which comes with the extra [local]: "
            "pip install '.[local]' in a clone of Slotline, or make run there"
        )
    for path in filter(None, (spec.model_path, spec.chat_template)):
        if not path.is_file():
            raise EngineUnavailable(f"the embedded engine needs the file {path}, which is not there")


def order(spec: EngineSpec, socket: Path) -> Order:
    """The specification in the child's terms, with the gateway as its parent."""
    return Order(
        parent=os.getpid(),
        socket=str(socket),
        model=str(spec.model_path.absolute()),
        alias=spec.alias,
        slots=spec.slots,
        context=spec.context,
        threads=spec.threads,
        chat_template=spec.chat_template.read_text() if spec.chat_template else "",
    )


def private_folder() -> Path:
    """A new folder that only this user can enter, with room in a unix socket's path for the socket's name."""
    places = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")  # noqa: S108  (mkdtemp: fresh and 0700)
    for place in filter(None, places):
        if len(os.fsencode(f"{place}/slotline-12345678/{SOCKET}")) > LONGEST_PATH:
            continue
        with suppress(OSError):  # as after `su`: the variable names a folder of somebody else
            return Path(tempfile.mkdtemp(prefix="slotline-", dir=place)).absolute()
    raise EngineUnavailable("no folder for the engine's socket: set XDG_RUNTIME_DIR or TMPDIR to a short path")


def sweep(folder: Path) -> None:
    """Remove the socket's folder; the child may have been quicker."""
    with suppress(OSError):
        (folder / SOCKET).unlink(missing_ok=True)
        folder.rmdir()


async def is_healthy(session: aiohttp.ClientSession) -> bool:
    """One look: 503 while the model loads, no connection before the socket is there."""
    try:
        async with session.get("http://engine/health") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def put_down(child: asyncio.subprocess.Process) -> None:
    """End the child, if it still lives, and see it dead. It keeps nothing that SIGKILL could damage."""
    with suppress(ProcessLookupError):
        child.kill()
    await child.wait()


def describe(status: int, words: Sequence[str]) -> str:
    """An exit status and last words as one line."""
    how = f"signal {-status}, {signal.strsignal(-status)}" if status < 0 else f"exit status {status}"
    return " | ".join([how, *words])
