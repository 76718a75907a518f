"""A real model that thinks, behind the real gateway: its thinking is streamed, ended, and kept apart from its answer.

The small model does not think by itself. A chat template of our own lets every answer begin inside `<think>`, which
llama.cpp recognises, so that it reads the reasoning apart, bounds it, and can be told to end it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fakes.checker import CheckedStream, check
from fakes.product import ask, fetch
from slotline.config import Config, ServerConfig, UpstreamConfig
from slotline.conversation import Conversation
from slotline.core.anthropic.stream import MessageStream
from slotline.core.chat import Chat, Reasoning, Text
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.limits import Limits
from slotline.core.thinking import Cap
from slotline.upstream.client import UpstreamClient
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find
from slotline.wiring import gateway

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

TEMPLATE = Path(__file__).parents[1] / "fakes" / "think.jinja"
THINKS = {"type": "adaptive"}
QUESTION = "Write a short story about a fox and a crow."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    """The real server on a unix socket, with two slots and the template."""
    path, name = find("smollm2", default_cache(), lambda _: None)
    async with Engine(EngineSpec(path, name, slots=2, context=2048, chat_template=TEMPLATE), lambda _: None) as made:
        await made.ready()
        yield made


@asynccontextmanager
async def fronted(engine: Engine, **limits: Any) -> AsyncIterator[str]:
    """The gateway before it; its address."""
    upstream = UpstreamConfig(name="engine", url=engine.url, kind=Kind.LLAMA_CPP, slots=None, limits=Limits(**limits))
    config = Config(source="a test", server=ServerConfig(port=0), upstreams=(upstream,))
    async with gateway(config, None, lambda _: None) as running:
        yield running.url


async def told(url: str, text: str = QUESTION, **fields: Any) -> CheckedStream:
    """A streamed answer, always the same for the same question."""
    body = ask(text, model="smollm2", temperature=0, **{"thinking": THINKS, "max_tokens": 60, **fields})
    answer = await fetch(url, "/llm/v1/messages", body)
    assert answer.status == 200, answer.body
    return check(answer.body)


async def test_reasoning_is_streamed_as_thinking(engine: Engine) -> None:
    async with fronted(engine) as url:
        seen = await told(url, max_tokens=30)
    assert [block["type"] for block in seen.blocks] == ["thinking"]
    deltas = [frame for frame in seen.frames if frame.data.get("delta", {}).get("type") == "thinking_delta"]
    assert 20 <= len(deltas) <= 30
    assert seen.stop_reason == "max_tokens"


async def test_a_request_that_wants_no_thinking_gets_none(engine: Engine) -> None:
    async with fronted(engine) as url:
        seen = await told(url, thinking={"type": "disabled"}, max_tokens=10)
    assert [block["type"] for block in seen.blocks] == ["text"]
    assert "think>" not in seen.text


@pytest.mark.parametrize(("cap", "budget"), [(12, None), (12, 500), (500, 12)])
async def test_the_smaller_of_cap_and_budget_ends_the_thinking_and_the_text_follows(
    engine: Engine, cap: int, budget: int | None
) -> None:
    thinking = THINKS if budget is None else {"type": "enabled", "budget_tokens": budget}
    async with fronted(engine, thinking_cap=cap) as url:
        seen = await told(url, thinking=thinking)
    assert [block["type"] for block in seen.blocks] == ["thinking", "text"]
    deltas = [frame for frame in seen.frames if frame.data.get("delta", {}).get("type") == "thinking_delta"]
    assert 1 <= len(deltas) <= 12 + 32
    assert len(seen.text.split()) > 5
    assert "think>" not in seen.text
    assert seen.complete


async def test_the_cap_holds_where_the_answer_is_in_one_piece_too(engine: Engine) -> None:
    async with fronted(engine, thinking_cap=12) as url:
        body = ask(QUESTION, model="smollm2", temperature=0, thinking=THINKS, max_tokens=60, stream=False)
        content = (await fetch(url, "/llm/v1/messages", body)).json()["content"]
        seen = await told(url)
    assert content == seen.blocks


class Unbounded(Chat):
    """A chat whose server is not told how long it may think, as if it overlooked it; and which never ends by itself."""

    def body(self, target: str, traits: Traits, terms: Terms) -> bytes:
        return super().body(target, traits, Terms(terms.slot))


async def test_thinking_that_passes_the_cap_is_ended_at_the_control_endpoint(engine: Engine) -> None:
    """At most 32 more tokens of it come, and what comes then is text."""
    stream = MessageStream(message_id="msg_1", model="smollm2", tool_id=lambda: "toolu_1")
    question = [{"role": "user", "content": QUESTION}]
    chat = Unbounded(question, {"max_tokens": 120, "temperature": 0, "ignore_eos": True}, stream)
    limits = Limits(thinking_cap=20, thinking_overrun=32)
    cap = Cap(limits, None)

    async def deliver(_: bytes) -> None:
        return

    async with UpstreamClient("engine", engine.url, limits, Kind.LLAMA_CPP) as upstream:
        await Conversation(upstream, chat, "smollm2", cap).hold(lambda: lambda: None, deliver)
    assert cap.passed
    assert 20 < stream.thought <= 20 + 32
    said = chat.take()
    kinds = [type(event) for event in said if isinstance(event, (Reasoning, Text))]
    assert kinds == sorted(kinds, key=[Reasoning, Text].index), "reasoning after text"
    text = "".join(event.text for event in said if isinstance(event, Text))
    assert text.strip()
    assert "think>" not in text


async def test_the_next_turn_of_a_conversation_finds_its_prompt_in_its_slot(engine: Engine) -> None:
    """Also after another conversation has had its turn in between."""

    def turn(name: str, *answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = [{"role": "user", "content": f"My name is {name}. " + "I like long walks. " * 20}]
        for number, answer in enumerate(answers):
            said += [
                {"role": "assistant", "content": answer},
                {"role": "user", "content": f"And question {number}: who am I?"},
            ]
        return said

    async with fronted(engine, thinking_cap=8) as url:
        first = await told(url, messages=turn("Ada"), max_tokens=20)
        other = await told(url, messages=turn("Bob"), max_tokens=20)
        second = await told(url, messages=turn("Ada", first.blocks), max_tokens=20)
        again = await told(url, messages=turn("Bob", other.blocks), max_tokens=20)
    for seen in (second, again):
        cached, new = seen.usage["cache_read_input_tokens"], seen.usage["input_tokens"]
        assert cached > 100
        assert cached > new
