"""Whatever llama.cpp's own `/v1/messages` takes, the gateway takes: who puts it in front of a server loses nothing.

Every body goes to the real engine's own route and to the gateway before the same engine. Where the first answers 200,
the second does; what is refused all the same stands in `REFUSED`, with its reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from fakes.checker import check
from fakes.product import fetch
from slotline.config import Config, ServerConfig, UpstreamConfig
from slotline.core.kind import Kind
from slotline.upstream.address import Address
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find
from slotline.wiring import gateway

pytestmark = pytest.mark.engine

Json = dict[str, Any]
HI = [{"role": "user", "content": "hi"}]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
TOOL = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
USED = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def turns(*contents: Any) -> list[Json]:
    """Messages by turns, the user's first."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]


def answered(content: Any = None, *more: Json, **fields: Any) -> list[Json]:
    """A call and its result."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}
    return turns("weather?", [USED], [result, *more])


def body(messages: Any = HI, **fields: Any) -> Json:
    return {"model": "smollm2", "max_tokens": 1, "messages": messages, **fields}


def without(*keys: str) -> Json:
    return {key: value for key, value in body().items() if key not in keys}


BODIES: dict[str, Json] = {
    # what a message may be
    "a string": body(),
    "blocks": body(turns([text("hi"), text("there", cache_control={"type": "ephemeral"})])),
    "an empty string": body(turns("")),
    "an empty block": body(turns([text("")])),
    "no block": body([*HI, {"role": "user", "content": []}]),
    "two of the user": body([*HI, *HI]),
    "an assistant first": body([{"role": "assistant", "content": "hello"}, *HI]),
    "a prefill": body(turns("hi", "Hel")),
    "a prefill in blocks": body(turns("hi", [text("Hel")])),
    "an empty prefill": body(turns("hi", "")),
    "an empty answer in history": body(turns("hi", [], "and?")),
    "characters of every plane": body(turns("é 你好 👋🏽 \u2028 \x00")),
    "a system message in the middle": body([*HI, {"role": "system", "content": "Be brief."}, *HI]),
    "a system message at the end": body([*HI, {"role": "system", "content": "<system-reminder>x</system-reminder>"}]),
    "a system message first": body([{"role": "system", "content": "Be brief."}, *HI]),
    "a thought in history": body(
        turns("hi", [{"type": "thinking", "thinking": "hm", "signature": "x"}, text("hello")], "and?")
    ),
    "a redacted thought": body(turns("hi", [{"type": "redacted_thinking", "data": "x"}, text("hello")], "and?")),
    "an image without eyes": body(turns([IMAGE, text("what is it?")])),
    "a document of text": body(
        turns([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}, text("?")])
    ),
    "an unknown block": body(turns([{"type": "hologram", "data": "x"}, text("?")])),
    "an unknown role": body([{"role": "developer", "content": "hi"}]),
    "no message": body([]),
    # system
    "system, a string": body(system="Be brief."),
    "system, blocks": body(system=[text("Be brief."), text("Be kind.", cache_control={"type": "ephemeral"})]),
    "system, empty": body(system=""),
    "system, no block": body(system=[]),
    "system, null": body(system=None),
    "system, the attribution line": body(
        system=[text("x-anthropic-billing-header: cc_version=2.1.1; cch=abc12;"), text("Be brief.")]
    ),
    # tools
    "a tool": body(tools=[TOOL]),
    "a tool without words": body(tools=[{"name": "f", "input_schema": {"type": "object", "properties": {}}}]),
    "a tool without a schema": body(tools=[{"name": "f", "description": "x"}]),
    "a tool of a named type": body(tools=[{**TOOL, "type": "custom"}]),
    "a tool with odd letters": body(tools=[{**TOOL, "name": "a.b/c"}]),
    "the same tool twice": body(tools=[TOOL, TOOL]),
    "a tool of the vendor's servers": body(tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"}]),
    "no tool": body(tools=[]),
    "tools, null": body(tools=None),
    "a choice: auto": body(tools=[TOOL], tool_choice={"type": "auto"}),
    "a choice: any": body(tools=[TOOL], tool_choice={"type": "any"}),
    "a choice: a tool": body(tools=[TOOL], tool_choice={"type": "tool", "name": "weather"}),
    "a choice: none": body(tools=[TOOL], tool_choice={"type": "none"}),
    "a choice: one at a time": body(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    "a choice without tools": body(tool_choice={"type": "auto"}),
    "a result": body(answered("sunny"), tools=[TOOL]),
    "a result in blocks": body(answered([text("sunny"), text("warm")]), tools=[TOOL]),
    "a result of nothing": body(answered(""), tools=[TOOL]),
    "a result of null": body(answered(None), tools=[TOOL]),
    "a result of no block": body(answered([]), tools=[TOOL]),
    "a result that is an error": body(answered("no such city", is_error=True), tools=[TOOL]),
    "a result with words behind it": body(answered("sunny", text("so?")), tools=[TOOL]),
    "a result with an image": body(answered([text("a map"), IMAGE]), tools=[TOOL]),
    "a result without its tool": body(answered("sunny")),
    "a result of no call": body(
        turns([{"type": "tool_result", "tool_use_id": "toolu_9", "content": "x"}, text("?")]), tools=[TOOL]
    ),
    "a call without a result": body(turns("weather?", [USED], "never mind"), tools=[TOOL]),
    "a call as the last word": body(turns("weather?", [USED]), tools=[TOOL]),
    "a call without input": body(
        [*turns("weather?", [{**USED, "input": {}}]), *answered("sunny")[2:]],
        tools=[TOOL],
    ),
    # switches
    "streamed": body(stream=True),
    "stream, null": body(stream=None),
    "thinking": body(thinking={"type": "enabled", "budget_tokens": 1024}),
    "thinking, no budget": body(thinking={"type": "enabled"}),
    "thinking, a small budget": body(thinking={"type": "enabled", "budget_tokens": 1}),
    "thinking, disabled": body(thinking={"type": "disabled"}),
    "thinking, adaptive": body(thinking={"type": "adaptive"}),
    "thinking, null": body(thinking=None),
    "stop": body(stop_sequences=["END", "\n\n"]),
    "stop, empty": body(stop_sequences=[]),
    "stop, an empty string": body(stop_sequences=[""]),
    "stop, null": body(stop_sequences=None),
    "temperature 0": body(temperature=0),
    "temperature 2": body(temperature=2),
    "temperature, more": body(temperature=3.5),
    "temperature, null": body(temperature=None),
    "top_p": body(top_p=0.9),
    "top_p 0": body(top_p=0),
    "top_k": body(top_k=40),
    "top_k 0": body(top_k=0),
    "top_k -1": body(top_k=-1),
    "max_tokens 0": body(max_tokens=0),
    "max_tokens, a whole float": body(max_tokens=2.0),
    "max_tokens beyond the context": body(turns("Say hi."), max_tokens=10_000_000, stop_sequences=["e", "o", "i", "a"]),
    "metadata": body(metadata={"user_id": "u"}),
    "metadata, empty": body(metadata={}),
    "metadata, null": body(metadata=None),
    "an effort": body(output_config={"effort": "high"}),
    "a format": body(output_config={"format": {"type": "json_schema", "schema": TOOL["input_schema"]}}),
    "fields of the vendor": body(context_management={"edits": []}, service_tier="auto", speed="fast", betas=["x"]),
    "a field of nobody": body(a_field_of_next_year=1),
    "no max_tokens": without("max_tokens"),
    "no model": without("model"),
    "another model's name": body() | {"model": "claude-sonnet-4-5"},
    # nonsense
    "max_tokens, a word": body(max_tokens="many"),
    "max_tokens, negative": body(max_tokens=-1),
    "messages, a string": body("hi"),
    "content, a number": body(turns(7)),
    "content, null": body(turns(None)),
    "stop, a string": body(stop_sequences="END"),
    "tools, an object": body(tools={}),
}

REFUSED: dict[str, str] = {
    "an empty string": "there is nothing to answer; the vendor's API refuses it too",
    "an empty block": "the same",
    "content, null": "the same",
    "no message": "the same",
    "an unknown block": "what the client says now would be left out in silence; in history it is left out",
    "an unknown role": "nobody knows whose words they are",
    "the same tool twice": "an answer could not tell which of the two it calls; the vendor's API refuses it too",
    "temperature, more": "the API's range is 0 to 1, OpenAI's 0 to 2; more is most likely a slip",
    "max_tokens, a whole float": "an integer is an integer",
    "max_tokens, a word": "the same; only the engine's counting overlooks it",
    "max_tokens, negative": "it means no limit to the engine alone; the API has no such meaning",
    "no max_tokens": "required by the API, and its clients always send it",
    "no model": "the gateway serves more than one",
    "another model's name": "the gateway serves more than one, and says which",
    "messages, a string": "malformed, which the engine overlooks",
    "stop, a string": "the same",
    "tools, an object": "the same",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    path, name = find("smollm2", default_cache(), lambda _: None)
    async with Engine(EngineSpec(path, name, slots=2, context=1024), lambda _: None) as made:
        await made.ready()
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(engine: Engine) -> AsyncIterator[str]:
    """The gateway before it; its address."""
    upstream = UpstreamConfig(name="engine", url=engine.url, kind=Kind.LLAMA_CPP, slots=2)
    async with gateway(
        Config(source="a test", server=ServerConfig(port=0), upstreams=(upstream,)), None, lambda _: None
    ) as running:
        yield running.url


async def native(engine: Engine, path: str, sent: Json) -> tuple[int, bytes]:
    """What the engine's own route says."""
    address = Address.parse(engine.url)
    async with (
        aiohttp.ClientSession(connector=address.connector()) as session,
        session.post(address.url(path), json=sent) as answer,
    ):
        return answer.status, await answer.read()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", BODIES)
async def test_what_the_servers_own_routes_take_is_taken(name: str, engine: Engine, front: str) -> None:
    sent = BODIES[name]
    status, said = await native(engine, "/v1/messages", sent)
    ours = await fetch(front, "/v1/messages", sent)
    counting, _ = await native(engine, "/v1/messages/count_tokens", sent)
    counted = await fetch(front, "/v1/messages/count_tokens", sent)
    assert ours.status < 500
    assert counted.status < 500
    if name in REFUSED:
        assert 200 in {status, counting}, "the engine refuses it too: nothing to explain"
        assert {ours.status, counted.status} & {400, 404}
        return
    if status == 200:
        assert ours.status == 200, (ours.body, said)
        assert check(ours.body).complete if sent.get("stream") else ours.json()["type"] == "message"
    if counting == 200:
        assert counted.status == 200, counted.body
        assert counted.json()["input_tokens"] > 0


def test_there_is_no_reason_for_a_body_that_is_not_there() -> None:
    assert set(REFUSED) < set(BODIES)
