"""`slotline stub` as a process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command and the address it printed; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "slotline",
        "stub",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        yield process, line.removeprefix("listening on ").removesuffix("\n")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "stub", "messages": [{"role": "user", "content": "say this"}], **fields}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_prints_one_line_answers_and_ends_at_once_with_0(number: signal.Signals) -> None:
    async with running("--port", "0", "--tokens", "3", "--gap", "0") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/v1/chat/completions", json=chat()) as response:
                whole = await response.json()
            assert whole["choices"][0]["message"]["content"] == "token-0 token-1 token-2"
            hanging = session.post(f"{url}/v1/chat/completions", json=chat(model="stub-silence", stream=True))
            async with hanging as response:
                assert response.status == 200
                process.send_signal(number)
                out, err = await asyncio.wait_for(process.communicate(), 5)
        assert (process.returncode, out, err) == (0, b"", b"")


async def test_options_make_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    options = ("--uds", str(path), "--slots", "3", "--model", "a", "--model", "b", "--echo", "--context", "99")
    async with running(*options, "--no-slots", "--thinking", "1") as (_, url):
        assert url == f"unix:{path}"
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session:
            async with session.get("http://x/props") as response:
                props = await response.json()
            async with session.get("http://x/slots") as response:
                assert response.status == 501
            async with session.get("http://x/v1/models") as response:
                models = await response.json()
            async with session.post("http://x/v1/chat/completions", json=chat()) as response:
                message = (await response.json())["choices"][0]["message"]
    assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (3, 99)
    assert [model["id"] for model in models["data"]] == ["a", "b"]
    assert (message["content"], message["reasoning_content"]) == ("say this", "thought-0")


@pytest.mark.parametrize("form", ["json", "file", "name"])
async def test_a_script_is_json_a_file_or_a_name(form: str, tmp_path: Path) -> None:
    script = {"steps": [{"do": "head", "status": 418, "content_type": "text/plain", "length": 0}]}
    given = {"json": json.dumps(script), "file": str(tmp_path / "script.json"), "name": "html-418"}[form]
    (tmp_path / "script.json").write_text(json.dumps(script))
    async with (
        running("--port", "0", "--script", given) as (_, url),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json=chat(stream=True)) as response,
    ):
        assert response.status == 418


async def test_a_script_that_does_not_exist_is_a_usage_error() -> None:
    async with running("--script", "nothing-3") as (process, line):
        _, err = await process.communicate()
        assert line == ""
        assert process.returncode == 2
        assert b"no script is named 'nothing'" in err


async def test_a_taken_port_is_said_in_one_line() -> None:
    async with running("--port", "0") as (_, url):
        port = url.rpartition(":")[2]
        async with running("--port", port) as (second, line):
            _, err = await second.communicate()
            assert line == ""
            assert second.returncode == 1
            assert err.decode().startswith(f"Error: cannot listen on {url}")
