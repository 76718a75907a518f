"""The vendor's Python client against the product: both mounts, waiting and not, streamed raw, by helper, and whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import msgspec
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message
from pydantic import BaseModel

from fakes.stage import Stage
from slotline.stub.received import Ask as Asked
from slotline.stub.received import count_tokens
from slotline.stub.script import Done, Finish, Head, Role, Script, Text, Usage
from slotline.stub.standard import ok, status, tool_call

MOUNTS = ["/llm", ""]
PROMPT_TOKENS = count_tokens(msgspec.convert({"messages": [{"role": "user", "content": "hello"}]}, Asked).prompt)
TEXT = "token-0 token-1 token-2 token-3 token-4"

Ask = Callable[[AsyncAnthropic, str], Awaitable[Message]]


class Place(BaseModel):
    """What a structured answer is to be."""

    city: str


def client(stage: Stage, mount: str) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=stage.gateway.url + mount, api_key="any", max_retries=0)


async def by_helper(client: AsyncAnthropic, model: str, max_tokens: int = 64) -> Message:
    async with client.messages.stream(
        model=model, max_tokens=max_tokens, messages=[{"role": "user", "content": "hello"}]
    ) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    assert text == message.content[0].text  # type: ignore[union-attr]
    return message


async def whole(client: AsyncAnthropic, model: str) -> Message:
    return await client.messages.create(model=model, max_tokens=64, messages=[{"role": "user", "content": "hello"}])


async def raw(client: AsyncAnthropic, model: str) -> Message:
    """Reads the events one by one, and folds what they say with no help."""
    text, start, delta = "", None, None
    events = await client.messages.create(
        model=model, max_tokens=64, stream=True, messages=[{"role": "user", "content": "hello"}]
    )
    async for event in events:
        match event.type:
            case "message_start":
                start = event.message
            case "content_block_delta":
                text += event.delta.text  # type: ignore[union-attr]
            case "message_delta":
                delta = event
            case _:
                pass  # newer clients hand `event: queue` on as an event of a type they do not know
    assert start is not None
    assert delta is not None
    block = anthropic.types.TextBlock(type="text", text=text)
    usage = start.usage.model_copy(update=delta.usage.model_dump(exclude_none=True))
    return start.model_copy(update={"content": [block], "stop_reason": delta.delta.stop_reason, "usage": usage})


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("ask", [by_helper, raw, whole])
@pytest.mark.parametrize("waiting", [False, True])
async def test_it_gets_the_right_message(stage: Stage, mount: str, ask: Ask, *, waiting: bool) -> None:
    """The right text, stop reason and usage, whether or not it had to wait for its slot."""
    async with client(stage, mount) as vendor:
        if not waiting:
            message = await ask(vendor, "stub")
        else:
            async with stage.crowded():
                asking = asyncio.ensure_future(ask(vendor, "stub"))
                await stage.waiting(1)
                assert not asking.done()
            message = await asking
    assert [block.model_dump(include={"type", "text"}) for block in message.content] == [{"type": "text", "text": TEXT}]
    assert message.role == "assistant"
    assert message.model == "stub"
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == 5
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) == PROMPT_TOKENS


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call_arrives_whole_and_its_result_goes_back(stage: Stage, *, stream: bool) -> None:
    """What the client sends back next turn, with the tool's result, is accepted and keeps its meaning."""
    stage.stub.play(tool_call("lookup", '{"query":"slots"}'), ok(2))
    tools: Any = [{"name": "lookup", "description": "looks up", "input_schema": {"type": "object", "properties": {}}}]
    turns: Any = [{"role": "user", "content": "what is free?"}]
    async with client(stage, "") as vendor:
        arguments: Any = {"model": "stub", "max_tokens": 64, "tools": tools}
        if stream:
            async with vendor.messages.stream(messages=turns, **arguments) as events:
                first: Any = await events.get_final_message()
        else:
            first = await vendor.messages.create(messages=turns, **arguments)
        assert first.stop_reason == "tool_use"
        call = first.content[-1]
        assert (call.type, call.name, call.input) == ("tool_use", "lookup", {"query": "slots"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "two"}
        turns += [
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
            {"role": "user", "content": [result]},
        ]
        second = await vendor.messages.create(messages=turns, **arguments)
    assert second.stop_reason == "end_turn"
    sent = stage.stub.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == call.id
    assert sent[2]["content"] == "two"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_in_a_given_shape_is_parsed(stage: Stage, *, stream: bool) -> None:
    """Structured output: the upstream gets the schema, and the client a value of the class that it asked for."""
    stage.stub.play(Script((Head(), Role(), Text('{"city":'), Text('"Ulm"}'), Finish(), Usage(), Done())))
    arguments: Any = {"model": "stub", "max_tokens": 64, "messages": [{"role": "user", "content": "where?"}]}
    async with client(stage, "") as vendor:
        if stream:
            async with vendor.messages.stream(output_format=Place, **arguments) as events:
                message: Any = await events.get_final_message()
        else:
            message = await vendor.messages.parse(output_format=Place, **arguments)
    assert message.parsed_output == Place(city="Ulm")
    format_ = stage.stub.requests[-1].body["response_format"]
    assert format_["type"] == "json_schema"
    assert format_["json_schema"]["schema"]["required"] == ["city"]


@pytest.mark.parametrize("mount", MOUNTS)
async def test_the_client_that_blocks_gets_the_same(stage: Stage, mount: str) -> None:
    """The synchronous client, in a thread of its own, whole and by its helper."""

    def asked() -> list[str]:
        with Anthropic(base_url=stage.gateway.url + mount, api_key="any", max_retries=0) as vendor:
            arguments: Any = {"model": "stub", "max_tokens": 64, "messages": [{"role": "user", "content": "hello"}]}
            whole: Any = vendor.messages.create(**arguments)
            with vendor.messages.stream(**arguments) as stream:
                return [whole.content[0].text, stream.get_final_text()]

    assert await asyncio.to_thread(asked) == [TEXT, TEXT]


async def test_its_error_classes_fit(stage: Stage) -> None:
    """An unknown model, a bad request and an upstream's refusal are the exceptions that its users catch."""
    async with client(stage, "") as vendor:
        with pytest.raises(anthropic.NotFoundError, match="no-such-model"):
            await whole(vendor, "no-such-model")
        with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
            await vendor.messages.create(model="stub", max_tokens=-1, messages=[{"role": "user", "content": "hello"}])
        stage.stub.play(status(429, '{"error":{"message":"slow down"}}'))
        with pytest.raises(anthropic.RateLimitError, match="slow down"):
            await whole(vendor, "stub")


async def test_models_and_token_counts_need_no_slot(stage: Stage) -> None:
    """Both answer while every slot is taken."""
    async with client(stage, "") as vendor, stage.crowded():
        models = [model.id async for model in vendor.models.list()]
        assert models == ["stub", "held"]
        assert (await vendor.models.retrieve("stub")).display_name == "stub"
        count = await vendor.messages.count_tokens(model="stub", messages=[{"role": "user", "content": "hello there"}])
        assert count.input_tokens > 1


@pytest.mark.engine
@pytest.mark.parametrize("mount", MOUNTS)
async def test_a_real_model_answers_it(engine_url: str, mount: str) -> None:
    """Streamed by the helper, from the real llama.cpp server."""
    async with AsyncAnthropic(base_url=engine_url + mount, api_key="any", max_retries=0) as vendor:
        message = await by_helper(vendor, "smollm2", max_tokens=12)
    assert message.stop_reason in {"end_turn", "max_tokens"}
    assert 0 < message.usage.output_tokens <= 12
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 5
