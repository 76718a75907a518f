"""A conversation of an agent on the real engine: the second turn reads only what is new. Measured, in tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fakes.checker import check
from fakes.product import fetch
from slotline.config import Config, ServerConfig, UpstreamConfig
from slotline.core.kind import Kind
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find
from slotline.wiring import gateway

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

TEMPLATE = Path(__file__).parents[1] / "fakes" / "tools.jinja"
RULE = "Read a file before you change it, keep changes small, and say in one sentence what you did and why. "
TOOLS = [
    {
        "name": name,
        "description": f"{name}: {RULE}",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "An absolute path."}},
            "required": ["path"],
        },
    }
    for name in ("Read", "Write", "Edit", "Glob")
]
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front() -> AsyncIterator[str]:
    """The gateway before the real server with a template for tools; two slots."""
    path, name = find("smollm2", default_cache(), lambda _: None)
    async with Engine(EngineSpec(path, name, slots=2, context=4096, chat_template=TEMPLATE), lambda _: None) as engine:
        await engine.ready()
        upstream = UpstreamConfig(name="engine", url=engine.url, kind=Kind.LLAMA_CPP, slots=2)
        config = Config(source="a test", server=ServerConfig(port=0), upstreams=(upstream,))
        async with gateway(config, None, lambda _: None) as running:
            yield running.url


def text(words: str, *, cached: bool = False) -> Json:
    block: Json = {"type": "text", "text": words}
    return {**block, "cache_control": {"type": "ephemeral"}} if cached else block


def turn(number: int, name: str, messages: list[Json]) -> Json:
    """A request as Claude Code sends it: the attribution line differs with each, and the cache mark moves on."""
    system = [
        text(f"x-anthropic-billing-header: cc_version=2.1.{number}; cc_entrypoint=cli; cch={number * 7919:05x};"),
        text(f"You are an agent of {name}."),
        text(RULE * 64, cached=number % 2 == 0),
    ]
    messages = [
        {**message, "content": [*message["content"][:-1], {**message["content"][-1], **mark}]}
        for message in messages
        for mark in [{"cache_control": {"type": "ephemeral"}} if message is messages[-1] else {}]
    ]
    return {
        "model": "smollm2",
        "max_tokens": 8,
        "temperature": 0,
        "stream": True,
        "system": system,
        "tools": TOOLS,
        "messages": messages,
        "metadata": {"user_id": f"session-{number}"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }


def asked(name: str) -> list[Json]:
    return [
        {
            "role": "user",
            "content": [text("<system-reminder>\nToday is Sunday.\n</system-reminder>"), text(f"hi {name}")],
        }
    ]


def answered(messages: list[Json]) -> list[Json]:
    """The next turn: the call that was made, its result, and a reminder as a system message in between."""
    use = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "/etc/hosts"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("127.0.0.1 localhost")]}
    return [
        *messages,
        {"role": "assistant", "content": [text("I read it."), use]},
        {"role": "user", "content": [result]},
        {"role": "system", "content": [text("<system-reminder>\nBe brief.\n</system-reminder>")]},
    ]


async def usage(url: str, body: Json) -> dict[str, int]:
    answer = await fetch(url, "/v1/messages?beta=true", body, {"user-agent": "claude-cli/2.1.332 (external, cli)"})
    assert answer.status == 200, answer.body
    checked = check(answer.body)
    assert checked.complete
    return checked.usage


@pytest.mark.timeout(300)  # 2,000 tokens are read once: seconds, but not on a machine that does much else
async def test_the_second_turn_of_a_conversation_is_read_from_its_slots_cache(front: str) -> None:
    """B72, case 15: at least 95 of 100 tokens, though the attribution line changes with every request, and though
    somebody else had a turn in between; and a request that differs in that line alone costs nothing."""
    first = await usage(front, turn(1, "Ada", asked("Ada")))
    again = await usage(front, turn(2, "Ada", asked("Ada")))
    other = [{"role": "user", "content": [text("hello")]}]
    await usage(front, {**turn(3, "Bob", other), "tools": [], "system": "You are Bob."})
    second = await usage(front, turn(4, "Ada", answered(asked("Ada"))))
    prompt = first["input_tokens"] + first["cache_read_input_tokens"]
    total = second["input_tokens"] + second["cache_read_input_tokens"]
    assert prompt + 30 < total < prompt + 120
    assert again["input_tokens"] <= 4
    assert second["cache_read_input_tokens"] >= 0.95 * total
