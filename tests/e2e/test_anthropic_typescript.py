"""The vendor's TypeScript client against the product: both mounts, waiting and not, by helper, raw, and whole."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakes.stage import Stage

NODE = Path(__file__).parent / "node"
TEXT = "token-0 token-1 token-2 token-3 token-4"

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        shutil.which("node") is None or not (NODE / "node_modules").exists(), reason="node or its packages are missing"
    ),
]


async def asked(base: str, model: str, way: str, max_tokens: int = 64) -> asyncio.subprocess.Process:
    """The client's process, once it has asked."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "anthropic.mjs",
        base,
        model,
        way,
        str(max_tokens),
        cwd=NODE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asking\n"
    return process


async def message(process: asyncio.subprocess.Process) -> Any:
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return msgspec.json.decode(out)


@pytest.mark.parametrize("mount", ["/llm", ""])
@pytest.mark.parametrize("way", ["helper", "raw", "whole"])
@pytest.mark.parametrize("waiting", [False, True])
async def test_it_gets_the_right_message(stage: Stage, mount: str, way: str, *, waiting: bool) -> None:
    """The right text, stop reason and usage, whether or not it had to wait for its slot."""
    base = stage.gateway.url + mount
    if not waiting:
        got = await message(await asked(base, "stub", way))
    else:
        async with stage.crowded():
            process = await asked(base, "stub", way)
            await stage.waiting(1)
        got = await message(process)
    assert got["content"][0]["text"] == TEXT
    assert got["stop_reason"] == "end_turn"
    assert got["usage"]["output_tokens"] == 5
    assert got["usage"]["input_tokens"] + got["usage"]["cache_read_input_tokens"] > 0


@pytest.mark.engine
async def test_a_real_model_answers_it(engine_url: str) -> None:
    """Streamed by the helper, from the real llama.cpp server."""
    got = await message(await asked(engine_url + "/llm", "smollm2", "helper", 12))
    assert got["content"][0]["text"]
    assert got["stop_reason"] in {"end_turn", "max_tokens"}
    assert 0 < got["usage"]["output_tokens"] <= 12
