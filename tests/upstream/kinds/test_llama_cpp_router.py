"""llama.cpp's router: no slots of its own, and nothing that would load a model only to look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from fakes.asking import asking, plain, recorded, silence_means
from fakes.upstream import chat, client, follow, text
from slotline.core.kind import Kind
from slotline.core.liveness import State
from slotline.core.reading import Reading
from slotline.stub import Side, Stub
from slotline.stub.standard import endless_thinking
from slotline.upstream.kinds import llama_cpp
from slotline.upstream.kinds.facts import Facts, Listing
from slotline.upstream.probe import Health, Sighting, look

PROPS, MODELS = recorded("llama.cpp-router-props.json"), recorded("llama.cpp-router-models.json")
NAMES = ("gemma-3-4b", "qwen3-8b", "qwen3-30b", "broken")
PROMPT, TOKENS = Side(body='{"prompt":"<s>hello"}'), Side(body='{"tokens":[1,2]}')


@asynccontextmanager
async def router(**sides: Side) -> AsyncIterator[Stub]:
    """`sides`: paths without their slashes."""
    given = {"/health": Side(body='{"status":"ok"}'), "/props": PROPS, "/v1/models": MODELS}
    async with plain({**given, **{f"/{name}".replace("__", "/"): side for name, side in sides.items()}}) as stub:
        yield stub


def listing(*states: str) -> Side:
    entries = [{"id": f"m{number}", "status": {"value": state}} for number, state in enumerate(states)]
    return Side(body=msgspec.json.encode({"object": "list", "data": entries}).decode())


async def test_it_is_a_llama_cpp_that_lists_its_models_loaded_or_not_and_has_no_slots() -> None:
    async with router() as stub, asking(stub.url) as ask:
        assert await look(ask, None) == Sighting(Health.UP, Kind.LLAMA_CPP, NAMES)
        assert set(stub.hits) == {"/v1/models", "/health", "/props"}


async def test_its_context_is_not_that_of_its_models() -> None:
    async with router() as stub, asking(stub.url) as ask:
        assert await llama_cpp.facts(ask, Listing(None)) == Facts()


async def test_its_slots_are_not_asked_for() -> None:
    async with router() as stub, asking(stub.url) as ask:
        assert await llama_cpp.reading(ask) == Reading()
        assert set(stub.hits) == {"/health", "/props", "/v1/models"}


@pytest.mark.parametrize(
    ("models", "means"),
    [
        (listing("loaded", "loading"), State.LOADING),
        (listing("downloading"), State.LOADING),
        (listing("loaded", "unloaded", "sleeping"), State.BUSY),
        (Side(body='{"data":[{"id":"m","status":"loading"}]}'), State.BUSY),
        (Side(body='{"data":null}'), State.BUSY),
        (Side(body="<html>"), State.BUSY),
        (Side(hang=True), State.BUSY),
    ],
)
async def test_while_it_loads_a_model_that_is_what_a_silent_request_waits_for(models: Side, means: State) -> None:
    async with router(v1__models=models) as stub:
        assert await silence_means(Kind.LLAMA_CPP, stub.url, answering=5, limit=0.1) is means


async def test_the_prompt_of_a_loaded_model_is_counted_and_loads_none() -> None:
    async with router(**{"apply-template": PROMPT}, tokenize=TOKENS) as stub, asking(stub.url) as ask:
        assert await llama_cpp.count(ask, chat(model="gemma-3-4b")) == 2
        asked = {seen.path: seen for seen in stub.calls}
    for path in ("/apply-template", "/tokenize"):
        assert msgspec.json.decode(asked[path].body)["model"] == "gemma-3-4b"
        assert asked[path].query == "autoload=0"  # should it have been unloaded meanwhile


@pytest.mark.parametrize("model", [*NAMES[1:], "unknown"])
async def test_a_model_that_is_not_in_use_is_not_loaded_for_being_counted(model: str) -> None:
    async with router(**{"apply-template": PROMPT}, tokenize=TOKENS) as stub, asking(stub.url) as ask:
        assert await llama_cpp.count(ask, chat(model=model)) is None
        assert set(stub.hits) == {"/props", "/v1/models"}


async def test_a_sleeper_is_not_woken_for_being_counted() -> None:
    async with Stub(sleeping=True) as stub, asking(stub.url) as ask:
        assert await llama_cpp.count(ask, chat()) is None
        assert set(stub.hits) == {"/props"}


async def test_it_must_be_told_whose_reasoning_is_to_end() -> None:
    control = "/v1/chat/completions/control"
    async with plain({control: Side(body='{"success":true}')}) as stub, asking(stub.url) as ask:
        assert await llama_cpp.end_reasoning(ask, "chatcmpl-1", chat(model="qwen3-8b"))
        (asked,) = [seen for seen in stub.calls if seen.path == control]
    order = {"id": "chatcmpl-1", "action": "reasoning_end", "model": "qwen3-8b"}
    assert msgspec.json.decode(asked.body) == order


async def test_and_is_told_the_model_of_the_request_whose_reasoning_went_on_too_long() -> None:
    script = endless_thinking(gap=0.01)
    async with Stub(default=script, models=("qwen3-8b",)) as stub, client(stub.url) as upstream:
        async with upstream.answer(chat(model="qwen3-8b", reasoning_control=True)) as answer:
            await anext(answer)
            assert await answer.end_reasoning(stub.requests[0].id, "thinking_cap = 1 tokens")
            assert text(await follow(answer)) == "token-0 token-1 token-2"
        (asked,) = [seen for seen in stub.calls if seen.path.endswith("/control")]
    assert msgspec.json.decode(asked.body)["model"] == "qwen3-8b"
