"""OpenAI's own Python client against the product: both mounts, waiting and not, in every way of asking it has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from fakes.stage import Stage
from slotline.stub import ErrorForm
from slotline.stub.script import Done, Finish, Head, Role, Script, Text
from slotline.stub.standard import die, mid_stream_error, ok, status, thinking, tool_call

MOUNTS = ["/llm", ""]
TEXT = "token-0 token-1 token-2 token-3 token-4"
HELLO: Any = [{"role": "user", "content": "hello"}]
TOOLS: Any = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}]

Told = tuple[str, str | None, int | None]
Ask = Callable[[str, str], Awaitable[Told]]


def client(url: str, mount: str = "") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}{mount}/v1", api_key="any", max_retries=0)


def told(answer: ChatCompletion) -> Told:
    """The text, why it ended, and how many tokens it has."""
    (choice,) = answer.choices
    usage = answer.usage
    return choice.message.content or "", choice.finish_reason, None if usage is None else usage.completion_tokens


async def whole(url: str, mount: str) -> Told:
    async with client(url, mount) as vendor:
        return told(await vendor.chat.completions.create(model="stub", messages=HELLO))


async def raw(url: str, mount: str) -> Told:
    """Reads the chunks one by one, as most programs do: the first choice of each that has one."""
    text, finish, tokens = "", None, None
    async with client(url, mount) as vendor:
        chunks = await vendor.chat.completions.create(
            model="stub", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in chunks:
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
                finish = chunk.choices[0].finish_reason or finish
            if chunk.usage is not None:
                tokens = chunk.usage.completion_tokens
    return text, finish, tokens


async def naive(url: str, mount: str) -> Told:
    """Asks for no usage, and so never looks whether a chunk has a choice."""
    text, finish = "", None
    async with client(url, mount) as vendor:
        async for chunk in await vendor.chat.completions.create(model="stub", messages=HELLO, stream=True):
            text += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
    return text, finish, None


async def by_helper(url: str, mount: str) -> Told:
    async with (
        client(url, mount) as vendor,
        vendor.chat.completions.stream(model="stub", messages=HELLO, stream_options={"include_usage": True}) as stream,
    ):
        pieces = [event.delta async for event in stream if event.type == "content.delta"]
        answer = told(await stream.get_final_completion())
    assert "".join(pieces) == answer[0]
    return answer


async def synchronous(url: str, mount: str) -> Told:
    """The other half of the client, on a thread of its own: streamed, then whole."""

    def talk() -> Told:
        with OpenAI(base_url=f"{url}{mount}/v1", api_key="any", max_retries=0) as vendor:
            chunks = vendor.chat.completions.create(model="stub", messages=HELLO, stream=True)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            answer = told(vendor.chat.completions.create(model="stub", messages=HELLO))
        assert text == answer[0]
        return answer

    return await asyncio.to_thread(talk)


async def plain(url: str, mount: str) -> Told:
    async with client(url, mount) as vendor:
        answer = await vendor.completions.create(model="stub", prompt="hello")
        chunks = await vendor.completions.create(model="stub", prompt="hello", stream=True)
        text = "".join([chunk.choices[0].text async for chunk in chunks])
    (choice,) = answer.choices
    assert text == choice.text
    return choice.text, choice.finish_reason, None if answer.usage is None else answer.usage.completion_tokens


@pytest.mark.parametrize("ask", [whole, raw, naive, by_helper, synchronous, plain])
async def test_it_gets_the_right_answer(stage: Stage, ask: Ask) -> None:
    """The right text, finish reason and usage, on both mounts, whether or not it had to wait for its slot."""
    right = (TEXT, "stop", None if ask is naive else 5)
    for mount in MOUNTS:
        assert await ask(stage.gateway.url, mount) == right
        async with stage.crowded():
            asking = asyncio.ensure_future(ask(stage.gateway.url, mount))
            await stage.waiting(1)
            assert not asking.done()
        assert await asking == right


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call_arrives_and_its_result_goes_back(stage: Stage, *, stream: bool) -> None:
    """What the client sends back next turn reaches the upstream as it was sent."""
    stage.stub.play(tool_call("lookup", '{"query":"slots"}'), ok(2))
    turns = list(HELLO)
    async with client(stage.gateway.url) as vendor:
        arguments: Any = {"model": "stub", "tools": TOOLS}
        if stream:
            async with vendor.chat.completions.stream(messages=turns, **arguments) as events:
                first: Any = await events.get_final_completion()
        else:
            first = await vendor.chat.completions.create(messages=turns, **arguments)
        (choice,) = first.choices
        (call,) = choice.message.tool_calls
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        assert (call.function.name, json.loads(call.function.arguments)) == ("lookup", {"query": "slots"})
        turns += [
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "two"},
        ]
        second = await vendor.chat.completions.create(messages=turns, **arguments)
    assert second.choices[0].finish_reason == "stop"
    sent = stage.stub.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == call.id


class Colour(BaseModel):
    """What a structured answer is to be."""

    name: str
    bright: bool


@pytest.mark.parametrize("stream", [False, True])
async def test_a_structured_answer_is_parsed_and_its_schema_reaches_the_upstream(stage: Stage, *, stream: bool) -> None:
    pieces = (Text('{"name":"re'), Text('d","bri'), Text('ght":true}'))
    stage.stub.play(Script((Head(), Role(), *pieces, Finish(), Done())))
    async with client(stage.gateway.url) as vendor:
        if stream:
            async with vendor.chat.completions.stream(model="stub", messages=HELLO, response_format=Colour) as events:
                answer: Any = await events.get_final_completion()
        else:
            answer = await vendor.chat.completions.parse(model="stub", messages=HELLO, response_format=Colour)
    assert answer.choices[0].message.parsed == Colour(name="red", bright=True)
    schema = stage.stub.requests[0].body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("Colour", True)


async def test_reasoning_is_there_for_those_who_look_for_it(stage: Stage) -> None:
    stage.stub.play(thinking(2, 2), thinking(2, 2))
    async with client(stage.gateway.url) as vendor:
        chunks = await vendor.chat.completions.create(model="stub", messages=HELLO, stream=True)
        extras = [chunk.choices[0].delta.model_extra or {} async for chunk in chunks]
        entire = await vendor.chat.completions.create(model="stub", messages=HELLO)
    texts = ["".join(extra.get("reasoning_content", "") for extra in extras)]
    texts.append((entire.choices[0].message.model_extra or {})["reasoning_content"])
    assert texts == ["thought-0 thought-1"] * 2


async def test_embeddings_are_unpacked(stage: Stage) -> None:
    """The client asks for them packed in base64 unless it is told otherwise."""
    async with client(stage.gateway.url, "/llm") as vendor:
        packed = await vendor.embeddings.create(model="stub", input=["a", "b"])
        plain = await vendor.embeddings.create(model="stub", input=["a", "b"], encoding_format="float")
    assert [len(each.embedding) for each in packed.data] == [8, 8]
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding)


async def test_its_error_classes_fit(stage: Stage) -> None:
    """An unknown model, a bad request and an upstream's refusal are the exceptions that its users catch."""
    async with client(stage.gateway.url) as vendor:
        ask: Any = vendor.chat.completions.create
        with pytest.raises(openai.NotFoundError, match="the models are: stub") as missing:
            await ask(model="no-such-model", messages=HELLO)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError, match="n: expected 1"):
            await ask(model="stub", messages=HELLO, n=2)
        with pytest.raises(openai.BadRequestError) as long:
            await ask(model="stub", messages=[{"role": "user", "content": "word " * 20_000}])
        assert long.value.code == "context_length_exceeded"
        stage.stub.play(status(429, '{"error":{"message":"slow down"}}'))
        with pytest.raises(openai.RateLimitError, match="slow down"):
            await ask(model="stub", messages=HELLO)
        with pytest.raises(openai.NotFoundError):
            await vendor.files.list()


async def test_an_answer_that_breaks_off_is_an_exception_and_never_an_end(stage: Stage) -> None:
    """However the upstream's error looks, and also if it just closes."""
    async with client(stage.gateway.url) as vendor:
        for script in (die(3), *(mid_stream_error(3, form) for form in ErrorForm)):
            stage.stub.play(script, script)
            chunks = await vendor.chat.completions.create(model="stub", messages=HELLO, stream=True)
            seen: list[Any] = []
            with pytest.raises(openai.APIError):
                async for chunk in chunks:
                    seen.append(chunk.choices[0])  # noqa: PERF401 - what came before the exception counts too
            assert "token-2" in "".join(choice.delta.content or "" for choice in seen)
            assert all(choice.finish_reason is None for choice in seen)
            with pytest.raises(openai.InternalServerError):
                await vendor.chat.completions.create(model="stub", messages=HELLO)
            stage.stub.play(ok(1))
            assert (await vendor.chat.completions.create(model="stub", messages=HELLO)).choices  # the breaker rests


@pytest.mark.engine
async def test_a_real_model_answers_it(engine_url: str) -> None:
    """Streamed by the helper, whole, and a plain prompt, from the real llama.cpp server."""
    async with client(engine_url) as vendor:
        greedy: Any = {"model": "smollm2", "messages": HELLO, "max_tokens": 12, "temperature": 0.0}
        async with vendor.chat.completions.stream(**greedy, stream_options={"include_usage": True}) as stream:
            streamed = await stream.get_final_completion()
        entire = await vendor.chat.completions.create(**greedy, logprobs=True)
        prompt = await vendor.completions.create(model="smollm2", prompt="Once upon a", max_tokens=4)
    assert streamed.choices[0].message.content == entire.choices[0].message.content
    assert streamed.choices[0].finish_reason == entire.choices[0].finish_reason
    for answer in (streamed, entire, prompt):
        assert answer.usage is not None
        assert 0 < answer.usage.completion_tokens <= 12
    logprobs = entire.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(each.token for each in logprobs.content) == entire.choices[0].message.content
    assert prompt.choices[0].text
    assert prompt.choices[0].finish_reason in {"length", "stop"}
