"""The server of the workers' line: theirs alone, and there for as long as they are. A real one."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest
import redis.asyncio as aioredis

from fakes.processes import children, gone
from slotline.cli.line_server import NoLineServer, line_server


def process() -> int:
    """The server, among those that this process has started."""
    (found,) = (pid for pid, command in children(os.getpid()).items() if "line.sock" in command)
    return found


async def test_it_answers_on_a_socket_that_only_its_user_can_reach_and_leaves_nothing() -> None:
    async with line_server() as server:
        pid = process()
        assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
        async with aioredis.Redis.from_url(server.cluster.url) as client:
            info = await client.info("server")
            assert (info["tcp_port"], info["process_id"]) == (0, pid)
            assert (await client.config_get("save"))["save"] == ""
            assert (await client.config_get("appendonly"))["appendonly"] == "no"
            assert (await client.config_get("maxmemory-policy"))["maxmemory-policy"] == "noeviction"
        assert [path.name for path in server.folder.iterdir()] == ["line.sock"]
    async with asyncio.timeout(5):
        await gone(pid)
    assert not server.folder.exists()


async def test_one_that_dies_is_started_again_at_the_same_address(caplog: pytest.LogCaptureFixture) -> None:
    async with line_server() as server:
        first = process()
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(10):
            await gone(first)
            while not await server.answers():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        assert process() != first
    (line,) = caplog.messages
    assert line.startswith("workers: the server of their line died (signal 9, Killed")
    assert line.endswith("; it starts again in 0.5 s")


def program(folder: Path, script: str) -> None:
    """Takes the place of the real one."""
    (folder / "redis-server").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "redis-server").chmod(0o755)


async def test_where_there_is_none_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLineServer, match="there is neither valkey-server nor redis-server"):
        async with line_server():
            pass


async def test_where_it_does_not_start_its_last_word_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "echo one; echo no room for me; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLineServer, match=r"redis-server does not start: exit status 3 \| no room for me"):
        async with line_server():
            pass
