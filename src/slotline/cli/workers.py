"""`slotline serve --workers N`: several processes behind one address, and one line for all of them.

Each worker is a gateway of its own, a replica of one cluster (docs/cluster.md). This process serves nobody: it holds
the socket, on which all workers accept, so that no connection is lost where one of them dies; it passes signals on, and
starts a worker again that died. `slotline.cli.worker` is the other side.

    a worker          becomes
    starts            ready when it says that it listens; where it ends before, and was the first of its place, all end
    ready             dead when its process ends, and is started again after a rest
    is to end         gone when its process ends
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from slotline.cli.hangups import Hangups
from slotline.cli.line_server import PROGRAMS, NoLineServer, line_server
from slotline.cli.worker import Order
from slotline.config import Config
from slotline.upstream.beside import beside
from slotline.upstream.engine import Pace, describe, put_down
from slotline.wiring import bound, url

_log = logging.getLogger(__name__)

_READY = b"listening on "  # what `slotline serve` says, and nothing else on its standard output


class WorkersRefused(Exception):
    """There cannot be several here; the message says why, and what to do."""


class WorkerFailed(Exception):
    """One did not start, and has said why."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a worker ended before it was ready ({describe(status, ())})")
        self.status = status


def check(config: Config, count: int) -> None:
    """Raises WorkersRefused where there cannot be `count` workers."""
    if config.engine is not None:
        raise WorkersRefused(
            f"--workers {count}: the embedded engine is one gateway's own; name upstreams that all workers reach, "
            "with [[upstream]] or --upstream, or leave --workers out"
        )
    try:
        import redis.asyncio  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise WorkersRefused(
            f"--workers {count}: workers share one line, which needs the client of Redis: "
            "pip install 'slotline[cluster]', or leave --workers out"
        ) from None


@asynccontextmanager
async def orders(config: Config, listener: socket.socket) -> AsyncIterator[Order]:
    """What all workers are told: the line of the configuration, or one of their own. Raises WorkersRefused."""
    if config.cluster is not None:
        yield Order(listen=listener.fileno(), cluster=config.cluster)
        return
    try:
        async with line_server() as server:
            yield Order(listen=listener.fileno(), cluster=server.cluster, folder=str(server.folder))
    except NoLineServer as error:
        programs = " or ".join(PROGRAMS)
        raise WorkersRefused(
            f"--workers: workers share one line, and {error}; install {programs}, name a server with [cluster] url, "
            "or leave --workers out"
        ) from error


class Worker:
    """One place among the workers, whichever process has it. `run` is its life.

    `settled`: it was ready once, or never will be. `was_ready` tells which.
    """

    def __init__(self, number: int, command: Sequence[str], order: Order) -> None:
        self.settled = asyncio.Event()
        self.was_ready = False
        self._number = number
        self._command = command
        self._order = order
        self._process: asyncio.subprocess.Process | None = None
        self._listens = False
        self._owes = False  # a reload that came while it started
        self._ends = asyncio.Event()

    async def run(self) -> None:
        """One process after the other, until it is to end. Raises WorkerFailed, if it was never ready."""
        clock, pace, rest = asyncio.get_running_loop().time, Pace(), 0.0
        while not self._ends.is_set():
            began = clock()
            status = await self._live()
            if self._ends.is_set():
                break
            if not self.was_ready:
                raise WorkerFailed(status)
            rest = pace.rest_after(rest, clock() - began)
            how = describe(status, ())
            _log.error("workers: number %d ended (%s); it starts again in %g s", self._number, how, rest)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._ends.wait()
        self.settled.set()

    def end(self) -> None:
        """It is to end: the first time in good order, the second time at once."""
        self._ends.set()
        self._send(signal.SIGTERM)

    def reload(self) -> None:
        """It is to read its file again, as soon as it can hear that."""
        self._owes = not self._listens
        if self._listens:
            self._send(signal.SIGHUP)

    async def _live(self) -> int:
        """One process from birth to death; its exit status."""
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[self._order.listen],
            start_new_session=True,  # not in the terminal's group: signals come from here, and once
        )
        try:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("both are pipes")
            process.stdin.write(self._order.line())  # and never closed: this pipe is the leash
            if self._ends.is_set():
                self._send(signal.SIGTERM)
            async for line in process.stdout:
                if line.startswith(_READY):
                    self._begin()
            return await process.wait()
        finally:
            self._listens = False
            await put_down(process)

    def _begin(self) -> None:
        if self.was_ready:
            _log.info("workers: number %d is back", self._number)
        self._listens = self.was_ready = True
        self.settled.set()
        if self._owes:
            self.reload()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


class Workers:
    """All of them."""

    def __init__(self, count: int, order: Order) -> None:
        command = (sys.executable, "-P", "-m", "slotline", *sys.argv[1:], "--worker")
        self._all = [Worker(number + 1, command, order) for number in range(count)]

    async def run(self, ready: Callable[[], None]) -> None:
        """Runs until they have ended as they were to. `ready` is called once, when all accept connections.

        The first one goes ahead, so that what is wrong is said once. Raises WorkerFailed.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._all[0].run())
                await self._all[0].settled.wait()
                for worker in self._all[1:]:
                    tasks.create_task(worker.run())
                for worker in self._all:
                    await worker.settled.wait()
                if all(worker.was_ready for worker in self._all):
                    ready()
        except* WorkerFailed as failed:
            raise failed.exceptions[0] from None

    def end(self) -> None:
        """See `Worker.end`."""
        for worker in self._all:
            worker.end()

    def reload(self) -> None:
        """See `Worker.reload`."""
        for worker in self._all:
            worker.reload()


async def run_workers(config: Config, count: int, hangups: Hangups, ready: Callable[[str], None]) -> None:
    """Runs `count` workers until SIGTERM or SIGINT has ended them; a second one ends them at once.

    `ready` is called with the address when all accept connections. Raises WorkersRefused, WorkerFailed, CannotListen.
    """
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    if main is None:
        raise RuntimeError("runs as a task")
    _on_signals(loop, main.cancel)
    try:
        with bound(config.server) as listener:
            async with orders(config, listener) as order:
                workers = Workers(count, order)
                _on_signals(loop, workers.end)
                hangups.listen(loop)
                async with beside(hangups.pass_on(workers.reload)):
                    await workers.run(partial(ready, url(config.server, listener.getsockname()[1])))
    except asyncio.CancelledError:
        return  # it was told to end before there were any


def _on_signals(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, act)
