"""`slotline serve`: how it starts, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fakes.product import Program, ask, calling, fetch
from slotline.stub import Stub
from slotline.stub.standard import head_then_silence


def started(program: Program) -> dict[str, Any]:
    """What the line of the log says in which the gateway tells what holds."""
    (line,) = [line for line in program.errors if '"message":"started"' in line]
    told: dict[str, Any] = json.loads(line)
    return told


async def run(*arguments: str, cwd: Path) -> tuple[int, str]:
    """A start that is to fail: its exit status, and what it says on standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slotline", "serve", *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        _, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, errors.decode()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


async def test_a_port_in_use_is_found_before_a_model_is_loaded(tmp_path: Path, taken: int) -> None:
    status, errors = await run("--port", str(taken), cwd=tmp_path)
    assert status == 1
    assert errors.splitlines()[-1] == (
        f"slotline: cannot listen on http://127.0.0.1:{taken}: address already in use; --port chooses another port"
    )
    assert "loading" not in errors


@pytest.mark.engine
async def test_a_model_that_cannot_be_loaded_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and nothing that makes sense after it")
    (tmp_path / "slotline.toml").write_text('[server]\nport = 0\n[engine]\nmodel = "broken.gguf"\n')
    status, errors = await run(cwd=tmp_path)
    assert status == 1
    assert "broken: the engine cannot be started" in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--slots", "4"), "--slots belongs to --upstream"),
        (("--kind", "vllm"), "--kind belongs to --upstream"),
        (("--upstream", "http://a:1", "--config", "x.toml"), "give one or the other"),
        (("--upstream", "http://a:1", "--slots", "1", "--slots", "2"), "2 times for 1 --upstream"),
        (("--upstream", "http://a:1", "--kind", "llama"), "llama.cpp"),
    ],
)
async def test_an_option_that_would_be_ignored_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    status, errors = await run(*arguments, cwd=tmp_path)
    assert status == 2
    assert said in errors


async def test_other_machines_are_let_in_only_on_purpose(tmp_path: Path) -> None:
    async with Stub() as stub:
        upstream = ("--upstream", stub.url, "--port", "0", "--host", "0.0.0.0")
        status, errors = await run(*upstream, cwd=tmp_path)
        assert status == 1
        assert "--open" in errors
        async with Program("serve", *upstream, "--open", cwd=tmp_path) as program:
            answer = await fetch(f"http://127.0.0.1:{program.port}", "/healthz")
            assert answer.status == 200


async def test_with_a_key_in_the_file_other_machines_are_let_in_who_have_it(tmp_path: Path) -> None:
    async with Stub() as stub:
        known = hashlib.sha256(b"sl-marker").hexdigest()
        (tmp_path / "slotline.toml").write_text(
            '[server]\nhost = "0.0.0.0"\nport = 0\n'
            f'[[upstream]]\nname = "box"\nurl = "{stub.url}"\n'
            f'[[key]]\nname = "alice"\nhash = "sha256:{known}"\n'
        )
        async with Program("serve", "--verbose", cwd=tmp_path) as program:
            url = f"http://127.0.0.1:{program.port}"
            assert (await fetch(url, "/v1/messages", ask())).status == 401
            assert (await fetch(url, "/v1/messages", ask(), {"x-api-key": "sl-marker"})).status == 200
        said = "\n".join(program.errors)
    assert '"name":"alice"' in said
    assert '"key":"alice"' in said
    assert "marker" not in said
    assert known not in said


async def test_an_operators_token_that_is_configured_and_not_there_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "slotline.toml").write_text(
        '[server]\nport = 0\n[admin]\ntoken_env = "SLOTLINE_TEST_NO_SUCH_TOKEN"\n'
        '[[upstream]]\nname = "box"\nurl = "http://127.0.0.1:1"\n'
    )
    status, errors = await run(cwd=tmp_path)
    assert status == 1
    assert "[admin] token_env\n  The environment variable SLOTLINE_TEST_NO_SUCH_TOKEN is not set." in errors


async def test_each_upstream_may_have_its_own_slots_and_kind(tmp_path: Path) -> None:
    async with Stub(slots=5) as one, Stub(slots=5) as other:
        upstreams = ("--upstream", one.url, "--upstream", other.url, "--slots", "1", "--slots", "3", "--kind", "openai")
        async with Program("serve", *upstreams, "--port", "0", cwd=tmp_path) as program:
            rows = started(program)["configuration"]["upstream"]
    assert [(row["kind"], row["slots"]) for row in rows] == [("openai", 1), ("openai", 3)]


async def test_in_a_pipe_what_holds_and_where_to_go_is_one_line_of_the_log_once(tmp_path: Path) -> None:
    async with Stub() as stub, Program("serve", "--upstream", stub.url, "--port", "0", cwd=tmp_path) as program:
        await fetch(program.url, "/healthz")
        told = started(program)
        assert told["urls"]["dashboard"] == f"{program.url}/"
        assert told["urls"]["metrics"] == f"{program.url}/metrics"
        assert told["configuration"]["upstream"][0]["limits"]["busy_wait"] == 1800
        assert told["configuration"]["server"]["keepalive"] == 10
    assert len([line for line in program.errors if '"started"' in line]) == 1
    assert program.lines == [f"listening on {program.url}"]


async def test_quiet_means_quiet(tmp_path: Path) -> None:
    async with Stub() as stub, Program("serve", "-q", "--upstream", stub.url, "--port", "0", cwd=tmp_path) as program:
        assert (await fetch(program.url, "/v1/messages", ask())).status == 200
    assert program.errors == []
    assert program.lines == [f"listening on {program.url}"]


async def on_terminal(*arguments: str, cwd: Path, env: dict[str, str]) -> str:
    """What a gateway says on a terminal until it has answered one request and has been ended."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slotline", "serve", "--port", "0", *arguments),
            cwd=cwd,
            env={**os.environ, **env},
            stdout=asyncio.subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        assert process.stdout is not None
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().split()[-1]
            assert (await fetch(url, "/v1/messages", ask(stream=False))).status == 200
            process.send_signal(signal.SIGTERM)
            await process.wait()
        said = b""
        with suppress(OSError):  # how a terminal says that nobody writes to it any more
            while piece := terminal.read(4096):
                said += piece
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("colours", [True, False])
async def test_on_a_terminal_there_are_tables_addresses_and_a_line_for_each_request(
    tmp_path: Path, *, colours: bool
) -> None:
    async with Stub(tokens=3) as stub:
        env = {"NO_COLOR": "" if colours else "1", "TERM": "xterm"}
        said = await on_terminal("--upstream", stub.url, cwd=tmp_path, env=env)
    assert "busy_wait         30m" in said
    assert re.search(r"^dashboard +http://127\.0\.0\.1:\d+/$", said, re.MULTILINE)
    assert re.search(r"^Claude Code +ANTHROPIC_BASE_URL=http://127\.0\.0\.1:\d+$", said, re.MULTILINE)
    assert ("\x1b[" in said) is colours
    plain = re.sub(r"\x1b\[\d+m", "", said)
    assert re.search(r"^\d\d:\d\d:\d\d completed +stub  messages  waited 0\.0 s  ran \d", plain, re.MULTILINE)
    assert "{" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_answers_end_and_tells_those_who_wait(tmp_path: Path, number: signal.Signals) -> None:
    """B159: the running answer may end within `drain`, the queued get their error at once, and the exit is clean."""
    async with Stub(slots=1) as stub:
        stub.play(head_then_silence(0.5, tokens=2))
        config = tmp_path / "slotline.toml"
        config.write_text(
            f'[server]\nport = 0\ndrain = "5s"\n[[upstream]]\nname = "box"\nurl = "{stub.url}"\nslots = 1\n'
        )
        async with Program("serve", cwd=tmp_path) as program:
            async with (
                calling(program.url, "/v1/messages", ask()) as running,
                calling(program.url, "/v1/messages", ask()) as queued,
            ):
                waiting = await queued.head()
                pieces = queued.pieces(waiting)
                assert b'"position":1' in await anext(pieces)
                program.kill(number)
                assert b"overloaded_error" in await anext(pieces)
                answer = await running.answer()
            assert b"message_stop" in answer.body
            async with asyncio.timeout(6):
                assert await program.process.wait() == 0


async def test_a_signal_before_it_is_ready_ends_it_at_once(tmp_path: Path) -> None:
    """An upstream that accepts and says nothing holds up the first look for `connect`."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slotline", "serve", "--port", "0"),
            *("--upstream", f"http://127.0.0.1:{silent.getsockname()[1]}"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        silent.setblocking(False)
        asked, _ = await asyncio.get_running_loop().sock_accept(silent)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(3):
            assert await process.wait() == 0
        asked.close()
