"""`slotline serve --workers N`: several processes, one address, one line. Nothing here is played but the upstream."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.checker import check
from fakes.gateway import MESSAGES, Stream
from fakes.processes import children, gone, stopped
from fakes.product import Program, ask, calling, fetch
from fakes.redis import redis_server
from slotline.stub import Stub
from slotline.stub.standard import held

SERVER = '[server]\nport = 0\ngrace = "30s"\nkeepalive = "30s"\n'


def box(stub: Stub, **more: object) -> str:
    keys = {"name": '"box"', "url": f'"{stub.url}"', "slots": 1, **more}
    return "[[upstream]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


@dataclass(slots=True)
class Crew:
    """The gateway with its workers."""

    program: Program

    @property
    def processes(self) -> dict[int, str]:
        return children(self.program.process.pid)

    @property
    def workers(self) -> list[int]:
        return [pid for pid, command in self.processes.items() if "--worker " in command]

    @asynccontextmanager
    async def streaming(self, text: str, worker: int) -> AsyncIterator[Stream]:
        """A request that this one of the workers takes: the others cannot, at that moment."""
        with stopped([pid for pid in self.workers if pid != self.workers[worker]]):
            call = calling(self.program.url, MESSAGES, ask(text))
            caller = await call.__aenter__()
            head = asyncio.create_task(caller.head())
            await self._accepted(caller.writer.get_extra_info("sockname")[1])
        try:
            yield Stream(caller, await head)
        finally:
            await call.__aexit__(None, None, None)

    async def _accepted(self, port: int) -> None:
        """Returns when a worker has taken the connection from `port`: its bytes do not wait for anybody any more."""
        async with asyncio.timeout(5):
            while not _is_read(port):  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(0)

    async def said(self, words: str, times: int = 1) -> list[str]:
        """The lines of the log with `words`, as soon as there are so many."""
        async with asyncio.timeout(20):
            while len(found := [line for line in self.program.errors if words in line]) < times:
                await fetch(self.program.url, "/healthz")
        return found


def _is_read(port: int) -> bool:
    """Whether nothing of what came from the local `port` is unread; /proc/net/tcp: rem_address, tx_queue:rx_queue."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, queues, *_ = line.split()
        if int(remote.rpartition(":")[2], 16) == port and state == "01":
            return queues.endswith(":00000000")
    return False


@asynccontextmanager
async def serving(folder: Path, *parts: str, workers: int = 2) -> AsyncIterator[Crew]:
    (folder / "slotline.toml").write_text("".join(parts))
    async with Program("serve", "--workers", str(workers), cwd=folder) as program:
        yield Crew(program)


async def test_one_line_goes_over_all_workers(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box(stub)) as crew:
        stub.play(held(4, before=1))
        assert crew.program.lines == [f"listening on {crew.program.url}"]
        assert len(crew.workers) == 2
        async with crew.streaming("1", 0) as first:
            await first.until(b"token-0")
            async with (
                crew.streaming("2", 1) as second,
                crew.streaming("3", 0) as third,
                crew.streaming("4", 1) as fourth,
            ):
                for position, stream in enumerate((second, third, fourth), 1):
                    assert f'"position":{position},"queue_length":{position}'.encode() in await stream.next()
                await second.caller.close()
                assert b'"position":1' in await third.next()
                assert b'"position":2' in await fourth.next()
                stub.release()
                assert [check(await stream.rest()).complete for stream in (first, third, fourth)] == [True] * 3


async def test_the_slot_of_a_worker_that_was_killed_is_the_next_ones_and_it_is_started_again(tmp_path: Path) -> None:
    async with redis_server() as redis, Stub(tokens=2) as stub:
        cluster = f'[cluster]\nurl = "{redis.url}"\nlease = "1s"\n'
        async with serving(tmp_path, SERVER, box(stub), cluster) as crew:
            stub.play(held(4, before=1))
            killed, other = crew.workers
            async with crew.streaming("1", 0) as first:
                await first.until(b"token-0")
                async with crew.streaming("2", 1) as second:
                    assert b'"position":1' in await second.next()
                    os.kill(killed, signal.SIGKILL)
                    assert check(await second.rest()).complete
            assert "number 1 ended (signal 9, Killed); it starts again in 0.5 s" in (await crew.said(" ended ("))[0]
            await crew.said("number 1 is back")
            assert other in crew.workers
            assert killed not in crew.workers
            assert len(crew.workers) == 2
            assert (await fetch(crew.program.url, MESSAGES, ask("3"))).status == 200
            assert not any("line.sock" in command for command in crew.processes.values())


async def test_sigterm_lets_running_answers_end_and_leaves_no_process(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box(stub)) as crew:
        stub.play(held(4, before=1))
        processes = crew.processes
        assert len(processes) == 3
        async with crew.streaming("1", 0) as first, crew.streaming("2", 1) as second:
            await first.until(b"token-0")
            assert b'"position":1' in await second.next()
            crew.program.kill(signal.SIGTERM)
            error = check(await second.rest()).error
            assert error is not None
            assert "shutting down" in error["message"]
            stub.release()
            assert check(await first.rest()).complete
        async with asyncio.timeout(10):
            assert await crew.program.process.wait() == 0
        for pid in processes:
            await gone(pid)


async def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box(stub)) as crew:
        stub.play(held(4, before=1))
        async with crew.streaming("1", 0) as first:
            await first.until(b"token-0")
            crew.program.kill(signal.SIGINT)
            await gone(crew.workers[1])
            crew.program.kill(signal.SIGTERM)
            async with asyncio.timeout(10):
                assert await crew.program.process.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server of the line goes on")
async def test_where_the_parent_is_killed_running_answers_end_and_nothing_is_left(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box(stub)) as crew:
        stub.play(held(4, before=1))
        processes = crew.processes
        (socket,) = {word for command in processes.values() for word in command.split() if word.endswith("line.sock")}
        folder = Path(socket.removeprefix("unixsocket:")).parent
        assert folder.is_dir()
        async with crew.streaming("1", 0) as first:
            await first.until(b"token-0")
            crew.program.kill(signal.SIGKILL)
            stub.release()
            assert check(await first.rest()).complete
        async with asyncio.timeout(10):
            for pid in processes:
                await gone(pid)
        assert not folder.exists()


async def test_where_the_server_of_their_line_dies_who_runs_runs_on_and_who_waits_waits_on(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box(stub)) as crew:
        stub.play(held(4, before=1))
        async with crew.streaming("1", 0) as first, crew.streaming("2", 1) as second:
            await first.until(b"token-0")
            assert b'"position":1' in await second.next()
            (server,) = set(crew.processes) - set(crew.workers)
            reached = "the line that is shared is reached"
            before = sum(reached in line for line in crew.program.errors)
            os.kill(server, signal.SIGKILL)
            await crew.said(reached, before + 2)
            stub.release()
            assert check(await first.rest()).complete
            assert check(await second.rest()).complete


async def test_a_reload_is_passed_on_to_all(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box(stub)) as crew:
        (tmp_path / "slotline.toml").write_text(SERVER + box(stub, queue=3))
        crew.program.kill(signal.SIGHUP)
        lines = await crew.said("reload: slotline.toml: upstreams changed: box", 2)
        assert len(lines) == 2
        assert not any("needs a restart" in line for line in crew.program.errors)  # the line of their own is in no file


# ---- refusals --------------------------------------------------------------------------------------------------------


async def refused(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """What a start that fails says, once."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slotline", "serve", "--port", "0", "--workers", "2", *arguments),
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, errors = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    before, said = errors.decode().split("slotline: ")
    assert all(line.startswith("{") for line in before.splitlines())
    return said


UPSTREAM = ("--upstream", "http://127.0.0.1:1")


async def test_the_embedded_engine_is_one_gateways_own(tmp_path: Path) -> None:
    said = await refused(tmp_path)
    assert "the embedded engine is one gateway's own; name upstreams that all workers reach" in said


async def test_without_a_server_for_the_line_it_is_said_what_to_install(tmp_path: Path) -> None:
    said = await refused(tmp_path, *UPSTREAM, env={"PATH": str(tmp_path)})
    assert "neither valkey-server nor redis-server; install valkey-server or redis-server, name a server with" in said


async def test_without_the_client_it_is_said_what_to_install(tmp_path: Path) -> None:
    """Python finds this module in place of the client, and nothing in it."""
    (tmp_path / "redis.py").write_text("raise ImportError('there is none')\n")
    said = await refused(tmp_path, *UPSTREAM, env={"PYTHONPATH": str(tmp_path)})
    assert "needs the client of Redis: pip install 'slotline[cluster]'" in said


async def test_what_is_wrong_with_a_worker_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "slotline.toml").write_text(f'{SERVER}[admin]\ntoken_env = "NOT_SET"\n{BOX}')
    said = await refused(tmp_path)
    assert "NOT_SET is not set" in said


BOX = '[[upstream]]\nname = "box"\nurl = "http://127.0.0.1:1"\n'


async def test_one_worker_is_plain_serve(tmp_path: Path) -> None:
    async with Stub() as stub, serving(tmp_path, SERVER, box(stub), workers=1) as crew:
        assert crew.processes == {}
        assert (await fetch(crew.program.url, MESSAGES, ask())).status == 200
