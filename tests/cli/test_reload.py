"""SIGHUP: a gateway that runs reads its file again. Real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fakes.checker import check
from fakes.gateway import Stream
from fakes.product import Program, ask, calling, fetch
from slotline.stub import Stub
from slotline.stub.standard import held


def box(name: str, at: Stub, **more: object) -> str:
    keys = {"name": f'"{name}"', "url": f'"{at.url}"', "slots": 1, **more}
    return "[[upstream]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


SERVER = '[server]\nport = 0\ngrace = "30s"\nkeepalive = "30s"\n'


@asynccontextmanager
async def serving(folder: Path, *parts: str) -> AsyncIterator[Program]:
    """The gateway with `parts` as its file."""
    write(folder, *parts)
    async with Program("serve", cwd=folder) as program:
        yield program


def write(folder: Path, *parts: str) -> None:
    """In one step: a gateway that reads meanwhile sees the old file or the new one."""
    (folder / "new.toml").write_text("".join(parts))
    (folder / "new.toml").replace(folder / "slotline.toml")


async def until(program: Program, condition: Callable[[], bool]) -> None:
    """Between two looks the gateway answers a question."""
    async with asyncio.timeout(10):
        while not condition():
            await fetch(program.url, "/healthz")


def said(program: Program, words: str) -> list[str]:
    return [line for line in program.errors if words in line]


async def reloaded(program: Program, times: int = 1) -> str:
    """SIGHUP, and the line that says what came of it."""
    program.kill(signal.SIGHUP)
    await until(program, lambda: len(said(program, '"message":"reload: ')) >= times)
    return said(program, '"message":"reload: ')[-1]


@asynccontextmanager
async def streaming(program: Program, text: str, model: str = "stub") -> AsyncIterator[Stream]:
    async with calling(program.url, "/llm/v1/messages", ask(text, model=model)) as caller:
        yield Stream(caller, await caller.head())


async def test_those_who_wait_keep_their_places_and_those_who_run_run_on(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box("box", stub)) as program:
        stub.play(held(4, before=1))
        async with (
            streaming(program, "1") as first,
            streaming(program, "2") as second,
            streaming(program, "3") as third,
        ):
            await first.until(b"token-0")
            assert b'"position":1' in await second.next()
            assert b'"position":2' in await third.next()
            write(tmp_path, SERVER.replace("30s", "40s"), box("box", stub, queue=2))
            line = await reloaded(program)
            assert "reload: slotline.toml: upstreams changed: box; [server] changed: grace, keepalive" in line
            assert (await fetch(program.url, "/llm/v1/messages", ask("4"))).status == 529
            stub.release()
            assert b'"position":1' in await third.next()
            for stream in (first, second, third):
                assert check(await stream.rest()).complete


async def test_those_who_wait_for_a_removed_upstream_are_told_so_within_a_second(tmp_path: Path) -> None:
    async with (
        Stub(tokens=2) as stub,
        Stub(models=("big",)) as other,
        serving(tmp_path, SERVER, box("box", stub)) as program,
    ):
        stub.play(held(4, before=1))
        async with streaming(program, "1") as first, streaming(program, "2") as second:
            await first.until(b"token-0")
            assert b'"position":1' in await second.next()
            write(tmp_path, SERVER, box("other", other))
            program.kill(signal.SIGHUP)
            async with asyncio.timeout(1):
                error = check(await second.rest()).error
            assert error is not None
            assert error["type"] == "overloaded_error"
            assert "taken out of the configuration" in error["message"]
            assert check((await fetch(program.url, "/llm/v1/messages", ask(model="big"))).body).complete
            stub.release()
            assert check(await first.rest()).complete
        assert said(program, "upstreams added: other; upstreams removed: box")


async def test_a_bad_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    async with Stub() as stub, serving(tmp_path, SERVER, box("box", stub)) as program:
        write(tmp_path, SERVER, box("other", stub, queue_wiat='"1s"'))
        line = await reloaded(program)
        assert '"level":"error"' in line
        assert "reload: nothing has changed: slotline.toml:9: [[upstream]] " in line
        assert "queue_wiat" in line
        assert "Did you mean `queue_wait`?" in line
        (tmp_path / "slotline.toml").unlink()
        assert "It cannot be read" in await reloaded(program, 2)
        assert (await fetch(program.url, "/llm/v1/messages", ask())).status == 200
        assert program.process.returncode is None


async def test_what_needs_a_restart_is_named(tmp_path: Path) -> None:
    async with Stub() as stub, serving(tmp_path, SERVER, box("box", stub)) as program:
        write(tmp_path, SERVER.replace("port = 0", 'port = 1\nprefix = "/x"'), box("box", stub, slots=2))
        assert "upstreams changed: box" in await reloaded(program, 3)
        warnings = said(program, "needs a restart")
        assert [key in line for key, line in zip(("[server] port", "[server] prefix"), warnings, strict=True)] == [
            True
        ] * 2


async def test_the_command_line_holds_as_it_did_at_the_start(tmp_path: Path) -> None:
    """The file says another port, now and before; nothing is different."""
    async with Stub() as stub:
        write(tmp_path, "[server]\nport = 1\n", box("box", stub))
        async with Program("serve", "--port", "0", cwd=tmp_path) as program:
            assert "nothing is different" in await reloaded(program)


async def test_several_in_a_row_are_done_one_after_the_other_and_the_last_file_holds(tmp_path: Path) -> None:
    async with Stub() as stub, serving(tmp_path, SERVER, box("box", stub)) as program:
        for number in range(5):
            write(tmp_path, SERVER, box(f"box{number}", stub))
            program.kill(signal.SIGHUP)
        await until(program, lambda: bool(said(program, "upstreams added: box4")))
        assert not said(program, '"level":"error"')
        assert (await fetch(program.url, "/llm/v1/messages", ask())).status == 200


async def test_without_a_file_there_is_nothing_to_read_and_the_gateway_lives(tmp_path: Path) -> None:
    async with Stub() as stub, Program("serve", "--port", "0", "--upstream", stub.url, cwd=tmp_path) as program:
        write(tmp_path, "nonsense")
        assert "there is no configuration file to read again" in await reloaded(program)
        assert (await fetch(program.url, "/llm/v1/messages", ask())).status == 200


async def test_one_that_comes_before_the_gateway_is_ready_is_remembered(tmp_path: Path) -> None:
    """An upstream that accepts and says nothing holds up the first look for `connect`."""
    async with Stub() as stub:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            silent.setblocking(False)
            mute = f'[[upstream]]\nname = "mute"\nurl = "http://127.0.0.1:{silent.getsockname()[1]}"\n'
            write(tmp_path, SERVER, mute, '[upstream.limits]\nconnect = "1s"\n')
            program = Program("serve", cwd=tmp_path)
            starting = asyncio.create_task(program.__aenter__())
            asked, _ = await asyncio.get_running_loop().sock_accept(silent)
            write(tmp_path, SERVER, box("box", stub))
            program.kill(signal.SIGHUP)
            await starting
            asked.close()
            try:
                await until(program, lambda: bool(said(program, "upstreams added: box; upstreams removed: mute")))
                assert (await fetch(program.url, "/llm/v1/messages", ask())).status == 200
            finally:
                assert await program.stop(signal.SIGTERM) == 0


async def test_during_a_shutdown_it_is_ignored(tmp_path: Path) -> None:
    async with Stub(tokens=2) as stub, serving(tmp_path, SERVER, box("box", stub)) as program:
        stub.play(held(4, before=1))
        async with streaming(program, "1") as first:
            await first.until(b"token-0")
            program.kill(signal.SIGTERM)
            async with asyncio.timeout(5):
                while (await fetch(program.url, "/readyz")).status == 200:
                    pass
            write(tmp_path, SERVER, box("other", stub))
            program.kill(signal.SIGHUP)
            assert (await fetch(program.url, "/readyz")).status == 503
            stub.release()
            assert check(await first.rest()).complete
        assert await program.process.wait() == 0
        assert not said(program, "reload")


@pytest.mark.skipif(sys.platform != "linux", reason="how a terminal ends")
async def test_when_the_terminal_is_gone_it_is_the_end(tmp_path: Path) -> None:
    """Somebody has closed the window: nobody would see the gateway any more, and its port would stay taken."""
    async with Stub() as stub:
        write(tmp_path, SERVER, box("box", stub))
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slotline", "serve"), cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=theirs
        )
        os.close(theirs)
        assert process.stdout is not None
        async with asyncio.timeout(20):
            assert (await process.stdout.readline()).startswith(b"listening")
            process.send_signal(signal.SIGHUP)
            text = b""
            while b"reload: slotline.toml: nothing is different" not in text:
                text += await asyncio.to_thread(os.read, ours, 65536)
            os.close(ours)
            process.send_signal(signal.SIGHUP)
            assert await process.wait() == 0
