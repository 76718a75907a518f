"""The vendor's Python client against the product, on the Responses API: raw, by helper, parsed, and whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from fakes.stage import Stage
from slotline.stub.received import Ask as Asked
from slotline.stub.received import count_tokens
from slotline.stub.script import Done, Finish, Head, Role, Script, Text, Usage
from slotline.stub.standard import die, ok, status, thinking, tool_call

MOUNTS = ["/llm/v1", "/v1"]
PROMPT_TOKENS = count_tokens(msgspec.convert({"messages": [{"role": "user", "content": "hello"}]}, Asked).prompt)
TEXT = "token-0 token-1 token-2 token-3 token-4"

Ask = Callable[[AsyncOpenAI, str], Awaitable[Response]]


def client(stage: Stage, mount: str = "/v1") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=stage.gateway.url + mount, api_key="any", max_retries=0)


async def by_helper(client: AsyncOpenAI, model: str) -> Response:
    deltas = ""
    async with client.responses.stream(model=model, input="hello") as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                deltas += event.delta
                assert event.snapshot == deltas
        response = await stream.get_final_response()
    assert response.output_text == deltas
    return response


async def raw(client: AsyncOpenAI, model: str) -> Response:
    deltas, last = "", None
    numbers = []
    async for event in await client.responses.create(model=model, input="hello", stream=True):
        numbers.append(event.sequence_number)
        match event.type:
            case "response.output_text.delta":
                deltas += event.delta
            case "response.completed":
                last = event.response
            case _:
                pass
    assert last is not None
    assert last.output_text == deltas
    assert numbers == list(range(len(numbers)))
    return last


async def whole(client: AsyncOpenAI, model: str) -> Response:
    return await client.responses.create(model=model, input="hello")


async def not_async(client: AsyncOpenAI, model: str) -> Response:
    """The client for programs without an event loop, in a thread of its own."""

    def ask() -> Response:
        vendor = OpenAI(base_url=client.base_url, api_key="any", max_retries=0)
        with vendor, vendor.responses.stream(model=model, input="hello") as stream:
            return stream.get_final_response()

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("ask", [by_helper, raw, whole, not_async])
@pytest.mark.parametrize("waiting", [False, True])
async def test_it_gets_the_right_response(stage: Stage, mount: str, ask: Ask, *, waiting: bool) -> None:
    """The right text, status and usage, whether or not it had to wait for its slot."""
    async with client(stage, mount) as vendor:
        if not waiting:
            response = await ask(vendor, "stub")
        else:
            async with stage.crowded():
                asking = asyncio.ensure_future(ask(vendor, "stub"))
                await stage.waiting(1)
                assert not asking.done()
            response = await asking
    assert (response.output_text, response.status, response.model) == (TEXT, "completed", "stub")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (PROMPT_TOKENS, 5)
    assert response.usage.total_tokens == PROMPT_TOKENS + 5


class Weather(BaseModel):
    """What the model is to answer with."""

    city: str
    degrees: int


def says(text: str) -> Script:
    return Script((Head(), Role(), *(Text(piece) for piece in (text[:9], text[9:])), Finish(), Usage(), Done()))


@pytest.mark.parametrize("stream", [False, True])
async def test_structured_output_is_parsed(stage: Stage, *, stream: bool) -> None:
    """The schema goes upstream, and what comes back is an object of the client's own class."""
    stage.stub.play(says('{"city":"Bern","degrees":21}'))
    async with client(stage) as vendor:
        if stream:
            async with vendor.responses.stream(model="stub", input="weather?", text_format=Weather) as events:
                response: Any = await events.get_final_response()
        else:
            response = await vendor.responses.parse(model="stub", input="weather?", text_format=Weather)
    assert response.output_parsed == Weather(city="Bern", degrees=21)
    sent = stage.stub.requests[-1].body["response_format"]["json_schema"]
    assert sorted(sent["schema"]["required"]) == ["city", "degrees"]


TOOLS: Any = [
    {
        "type": "function",
        "name": "lookup",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    },
    {"type": "custom", "name": "note", "description": "keeps a note"},
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("script", "kind", "parsed"),
    [
        (tool_call("lookup", '{"query":"slots"}'), "function_call", {"query": "slots"}),
        (tool_call("note", '{"input":"a note"}'), "custom_tool_call", None),
    ],
    ids=["function", "custom"],
)
async def test_a_tool_call_arrives_whole_and_its_result_goes_back(
    stage: Stage, script: Script, kind: str, parsed: Any, *, stream: bool
) -> None:
    """What the client sends back next turn, with the tool's result, is accepted and keeps its meaning."""
    stage.stub.play(script, ok(2))
    turns: Any = [{"role": "user", "content": "what is free?"}]
    async with client(stage) as vendor:
        if stream:
            async with vendor.responses.stream(model="stub", input=turns, tools=TOOLS) as events:
                first: Any = await events.get_final_response()
        else:
            first = await vendor.responses.create(model="stub", input=turns, tools=TOOLS)
        (call,) = first.output
        assert call.type == kind
        if kind == "function_call":
            assert json.loads(call.arguments) == parsed
            assert not stream or call.parsed_arguments == parsed
        else:
            assert (call.name, call.input) == ("note", "a note")
        result = {"type": f"{kind}_output", "call_id": call.call_id, "output": "two"}
        turns += [*(item.to_dict() for item in first.output), result]
        second = await vendor.responses.create(model="stub", input=turns, tools=TOOLS)
    assert second.output_text == "token-0 token-1"
    sent = stage.stub.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == call.call_id
    assert sent[2]["content"] == "two"


@pytest.mark.parametrize("summary", [None, "auto"])
async def test_reasoning_is_shown_and_goes_back(stage: Stage, summary: Any) -> None:
    """As it comes, or as a summary for a client that asked for one; and the model has it again in the next turn."""
    stage.stub.play(thinking(2, 1), ok(1))
    deltas = ""
    async with client(stage) as vendor:
        async with vendor.responses.stream(
            model="stub",
            input="hello",
            reasoning={"effort": "high", "summary": summary},
            include=["reasoning.encrypted_content"],
        ) as stream:
            async for event in stream:
                if event.type in {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}:
                    deltas += event.delta
            first: Any = await stream.get_final_response()
        thought = first.output[0]
        shown = thought.content if summary is None else thought.summary
        assert shown[0].text == deltas == "thought-0 thought-1"
        back = {"type": "reasoning", "id": thought.id, "summary": [], "encrypted_content": thought.encrypted_content}
        turns: Any = [
            {"role": "user", "content": "hello"},
            back,
            first.output[1].to_dict(),
            {"role": "user", "content": "on"},
        ]
        await vendor.responses.create(model="stub", input=turns)
    assert first.usage.output_tokens_details.reasoning_tokens == 2
    assert stage.stub.requests[-1].body["messages"][1]["reasoning_content"] == deltas


async def test_a_cut_answer_says_why(stage: Stage) -> None:
    """The limit goes upstream, and the response is incomplete."""
    stage.stub.play(ok(2, reason="length"))
    async with client(stage) as vendor:
        response = await vendor.responses.create(model="stub", input="hello", max_output_tokens=2)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert stage.stub.requests[-1].body["max_tokens"] == 2


async def test_its_error_classes_fit(stage: Stage) -> None:
    """An unknown model, a bad request and an upstream's refusal are the exceptions that its users catch."""
    async with client(stage) as vendor:
        with pytest.raises(openai.NotFoundError, match="no-such-model"):
            await whole(vendor, "no-such-model")
        with pytest.raises(openai.BadRequestError, match="store"):
            await vendor.responses.create(model="stub", input="hello", store=True)
        with pytest.raises(openai.NotFoundError):
            await vendor.responses.retrieve("resp_1")
        stage.stub.play(status(429, '{"error":{"message":"slow down"}}'))
        with pytest.raises(openai.RateLimitError, match="slow down"):
            await whole(vendor, "stub")


@pytest.mark.parametrize("ask", [by_helper, raw])
async def test_a_failure_in_the_stream_is_raised(stage: Stage, ask: Ask) -> None:
    """Its users need not look for one."""
    stage.stub.play(die(2))
    async with client(stage) as vendor:
        with pytest.raises(openai.APIError, match="closed the stream"):
            await ask(vendor, "stub")


@pytest.mark.engine
async def test_a_real_model_answers_it(engine_url: str) -> None:
    """Streamed by the helper, from the real llama.cpp server, and held to a schema."""
    vendor = AsyncOpenAI(base_url=engine_url + "/v1", api_key="any", max_retries=0)
    asked = vendor.responses.stream(model="smollm2", input="How is the weather?", text_format=Weather, temperature=0)
    async with vendor, asked as stream:
        response = await stream.get_final_response()
    assert response.status == "completed"
    assert isinstance(response.output_parsed, Weather)
    assert response.usage is not None
    assert response.usage.input_tokens > 5
    assert response.usage.output_tokens > 5
