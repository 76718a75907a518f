"""Claude Code itself against the product: it waits, calls tools, and its prompts are read again from the cache."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fakes.claude_code import ClaudeCode, outcome, program
from fakes.product import Program
from fakes.stage import Stage
from slotline.stub import Received, Stub
from slotline.stub.standard import hang, ok, tool_call
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find

FILE = program(Path(__file__).parent / "node")
TEXT = "token-0 token-1 token-2 token-3 token-4"
LARGE = 200_000  # tokens of context: its first prompt alone is a good ten thousand

pytestmark = [pytest.mark.node, pytest.mark.skipif(FILE is None, reason="Claude Code is not installed")]


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeCode:
    """The program of the version that `tests/e2e/node` pins."""
    assert FILE is not None
    return ClaudeCode(FILE, tmp_path)


@asynccontextmanager
async def staged(context: int = LARGE) -> AsyncIterator[Stage]:
    """Two slots of `context` tokens and five tokens an answer; the model `held` is silent for ever."""
    async with Stub(slots=2, tokens=5, models=("stub", "held"), context=context) as stub:
        stub.by_model["held"] = hang()
        async with Program("serve", "--port", "0", "--upstream", stub.url, "--slots", "2") as gateway:
            yield Stage(stub, gateway)


def asked(stage: Stage) -> list[Received]:
    """What reached the upstream of it."""
    return [request for request in stage.stub.requests if request.model == "stub"]


async def test_it_gets_the_text_and_the_usage(claude: ClaudeCode) -> None:
    async with staged() as stage:
        got = await claude.ask(stage.gateway.url, "say something")
        assert len(asked(stage)) == 1
    assert (got["result"], got["is_error"], got["stop_reason"]) == (TEXT, False, "end_turn")
    assert got["usage"]["output_tokens"] == 5
    assert got["usage"]["input_tokens"] > 1000


async def test_it_waits_in_line_and_asks_once(claude: ClaudeCode) -> None:
    async with staged() as stage:
        async with stage.crowded():
            process = await claude.start(stage.gateway.url, "say something")
            await stage.waiting(1)
        got = await outcome(process)
        assert (got["result"], got["is_error"]) == (TEXT, False)
        assert len([request for request in asked(stage) if request.body.get("tools")]) == 1  # the others only looked


@pytest.mark.parametrize("mount", ["/llm", ""])
async def test_a_tool_is_called_and_the_next_prompt_extends_the_last_one_byte_for_byte(
    claude: ClaudeCode, mount: str
) -> None:
    """B72: whatever it adds to its requests, the part that a server has read already stays the same."""
    note = claude.home / "note.txt"
    note.write_text("the word is marzipan\n")
    async with staged() as stage:
        read = tool_call("Read", json.dumps({"file_path": str(note)}), id="call_1")
        again = tool_call("Bash", json.dumps({"command": "echo a$((1+1))b", "description": "adds"}), id="call_2")
        stage.stub.play(read, again, ok(5))
        got = await claude.ask(stage.gateway.url + mount, "read the note", "--allowedTools", "Read,Bash(echo:*)")
        first, second, third = asked(stage)
    assert (got["result"], got["num_turns"], got["permission_denials"]) == (TEXT, 3, [])
    _, call, result = second.body["messages"][-3:]
    assert call["tool_calls"][0]["function"]["name"] == "Read"
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")
    assert "the word is marzipan" in result["content"]
    assert "a2b" in third.body["messages"][-1]["content"]
    for earlier, later in ((first, second), (second, third)):
        assert later.raw.startswith(prompt(earlier))
    assert got["usage"]["cache_read_input_tokens"] > 0


def prompt(request: Received) -> bytes:
    """The request up to the end of its last message: all that a prompt is made of."""
    end = request.raw.index(b'],"max_tokens":')
    assert request.raw.index(b'"messages":[') < end
    assert request.raw.index(b'"tools":[') < end
    return request.raw[:end]


async def test_it_asks_for_more_tokens_than_fit_and_gets_those_that_do(claude: ClaudeCode) -> None:
    async with staged(context=20_000) as stage:
        got = await claude.ask(stage.gateway.url, "say something")
        (request,) = asked(stage)
    assert got["result"] == TEXT
    assert 0 < request.body["max_tokens"] < 20_000  # it asks for 32 000


async def test_a_prompt_that_does_not_fit_is_told_in_words_that_it_understands(claude: ClaudeCode) -> None:
    async with staged(context=4096) as stage:
        got = await claude.ask(stage.gateway.url, "say something")
        assert len(asked(stage)) == 1
    assert got["is_error"]
    assert (got["api_error_status"], got["terminal_reason"]) == (400, "prompt_too_long")
    assert "(limit 4096)" in got["result"]


@pytest.mark.engine
async def test_a_real_server_that_is_too_small_for_it_is_understood_as_well(claude: ClaudeCode) -> None:
    """llama.cpp counts with its own tokenizer and refuses in words of its own."""
    path, name = find("smollm2", default_cache(), lambda _: None)
    async with Engine(EngineSpec(path, name, slots=1, context=2048), lambda _: None) as engine:
        await engine.ready()
        async with Program("serve", "--port", "0", "--upstream", engine.url, "--slots", "1") as gateway:
            got = await claude.ask(gateway.url, "say something", ANTHROPIC_MODEL=name)
    assert (got["api_error_status"], got["terminal_reason"]) == (400, "prompt_too_long")
    assert "(limit 2048)" in got["result"]
