"""OpenAI's TypeScript client against the product: both APIs and mounts, waiting and not, by helper, raw, and whole."""

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
ENDS = {"chat": "stop", "responses": "completed"}

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        shutil.which("node") is None or not (NODE / "node_modules/openai").exists(),
        reason="node or its packages are missing",
    ),
]


async def asked(base: str, model: str, surface: str, way: str, max_tokens: int = 64) -> asyncio.subprocess.Process:
    """The client's process, once it has asked."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "openai.mjs",
        *(base, model, surface, way, str(max_tokens)),
        cwd=NODE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asking\n"
    return process


async def answer(process: asyncio.subprocess.Process) -> Any:
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return msgspec.json.decode(out)


@pytest.mark.parametrize("mount", ["/llm", ""])
@pytest.mark.parametrize("surface", ["chat", "responses"])
@pytest.mark.parametrize("way", ["helper", "raw", "whole"])
@pytest.mark.parametrize("waiting", [False, True])
async def test_it_gets_the_right_answer(stage: Stage, mount: str, surface: str, way: str, *, waiting: bool) -> None:
    """The right text, end and usage by one request, whether or not it had to wait for its slot."""
    base = stage.gateway.url + mount
    if not waiting:
        got = await answer(await asked(base, "stub", surface, way))
    else:
        async with stage.crowded():
            process = await asked(base, "stub", surface, way)
            await stage.waiting(1)
        got = await answer(process)
    assert (got["text"], got["end"], got["output"]) == (TEXT, ENDS[surface], 5)
    assert got["input"] > 0
    assert len([each for each in stage.stub.requests if each.model == "stub"]) == 1


@pytest.mark.engine
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_a_real_model_answers_it(engine_url: str, surface: str) -> None:
    """Streamed by the helper, from the real llama.cpp server."""
    got = await answer(await asked(engine_url, "smollm2", surface, "helper", 12))
    assert got["text"]
    assert got["end"] in {"chat": {"stop", "length"}, "responses": {"completed", "incomplete"}}[surface]
    assert 0 < got["output"] <= 12
