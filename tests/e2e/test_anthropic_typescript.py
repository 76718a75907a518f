"""The vendor's TypeScript client against the product: both mounts, waiting and not, by helper, raw, and whole."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakes.stage import Stage
from slotline.stub.script import Done, Finish, Head, Role, Script, Text, Usage
from slotline.stub.standard import ok, tool_call

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


async def test_a_tool_call_arrives_whole_and_its_result_goes_back(stage: Stage) -> None:
    """What the client sends back next turn, with the tool's result, is accepted and keeps its meaning."""
    stage.stub.play(tool_call("lookup", '{"query":"slots"}'), ok(2))
    first, second = await message(await asked(stage.gateway.url, "stub", "tools"))
    call = first["content"][-1]
    assert first["stop_reason"] == "tool_use"
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "lookup", {"query": "slots"})
    assert second["stop_reason"] == "end_turn"
    sent = stage.stub.requests[-1].body["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == call["id"]


async def test_an_answer_in_a_given_shape_is_parsed(stage: Stage) -> None:
    """Structured output: the upstream gets the schema, and the client the value."""
    stage.stub.play(Script((Head(), Role(), Text('{"city":'), Text('"Ulm"}'), Finish(), Usage(), Done())))
    assert await message(await asked(stage.gateway.url, "stub", "parsed")) == {"city": "Ulm"}
    format_ = stage.stub.requests[-1].body["response_format"]
    assert format_["json_schema"]["schema"]["required"] == ["city"]


@pytest.mark.engine
async def test_a_real_model_answers_it(engine_url: str) -> None:
    """Streamed by the helper, from the real llama.cpp server."""
    got = await message(await asked(engine_url + "/llm", "smollm2", "helper", 12))
    assert got["content"][0]["text"]
    assert got["stop_reason"] in {"end_turn", "max_tokens"}
    assert 0 < got["usage"]["output_tokens"] <= 12
