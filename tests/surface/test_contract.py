"""Edge cases of the Messages contract that need the whole gateway, each by its number (see `docs/test_cases.py`)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from fakes.checker import check
from fakes.gateway import MESSAGES, fronted
from fakes.product import ask
from slotline.config import ServerConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.script import Finish, Role, Script, Text, Usage
from slotline.stub.script import ToolCall as Call
from slotline.stub.standard import hang, status

COUNT = "/llm/v1/messages/count_tokens"


# ---- headers and paths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": "k"},
        {"authorization": "Bearer k"},
        {"x-api-key": "dummy", "authorization": "Bearer k"},
        {"Authorization": "bearer k"},
        {"x-api-key": "", "authorization": ""},
    ],
)
async def test_a_gateway_without_keys_takes_every_credential(headers: dict[str, str]) -> None:
    """Cases 1, 2, 3, 4: as long as no keys are configured, none is asked for; a wrong one is as good as none."""
    async with fronted() as front:
        assert (await front.fetch(headers=headers)).status == 200


@pytest.mark.parametrize("mount", ["/llm", ""])
async def test_a_query_makes_no_difference(mount: str) -> None:
    """Case 5."""
    async with fronted() as front:
        for query in ("", "?beta=true", "?beta=true&x=%20", "?"):
            assert check((await front.fetch(path=f"{mount}/v1/messages{query}")).body).complete


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21", "2099-01-01", "", "nonsense", None])
async def test_every_version_of_the_api_is_taken(version: str | None) -> None:
    """Case 6, and 41: also with sampling parameters, which the newest one has dropped."""
    headers = {"anthropic-beta": "a-2025-01-01,b"} | ({} if version is None else {"anthropic-version": version})
    async with fronted() as front:
        assert (await front.fetch(ask(temperature=1, top_p=0.5, top_k=3), headers=headers)).status == 200


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/html", "application/xml;q=0.1"])
async def test_the_body_decides_whether_an_answer_streams_and_no_header(accept: str) -> None:
    """Case 7."""
    async with fronted() as front:
        streamed = await front.fetch(ask(stream=True), headers={"accept": accept})
        whole = await front.fetch(ask(stream=False), headers={"accept": "text/event-stream"})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert check(streamed.body).complete
    assert whole.headers["content-type"].startswith("application/json")
    assert whole.json()["type"] == "message"


async def test_a_silence_of_the_gateway_is_never_longer_than_clients_and_balancers_allow() -> None:
    """Case 86, B70: the default. That it holds, `test_waiting` and `test_reply` measure with shorter ones."""
    assert ServerConfig().grace + ServerConfig().keepalive <= 15


# ---- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [300 * 1024, 1024 * 1024])
@pytest.mark.parametrize("tool", [True, False], ids=["arguments", "text"])
async def test_one_event_may_be_large(size: int, tool: bool) -> None:
    """B55: far more than the line limits of usual readers."""
    big = "é" * (size // 2)
    said = Call(0, "call_1", "write", json.dumps({"text": big}, ensure_ascii=False)) if tool else Text(big)
    async with fronted() as front:
        front.stub.play(Script((Role(), said, Finish("tool_calls" if tool else "stop"), Usage())))
        checked = check((await front.fetch()).body)
    assert checked.complete
    assert (checked.tools[0]["input"]["text"] if tool else checked.text) == big


async def test_an_event_beyond_every_measure_is_nonsense_with_the_limit_in_its_words() -> None:
    """B55: and what came before it has reached the client."""
    async with fronted(limits=Limits(poll=0.05, max_event=1 << 20)) as front:
        front.stub.play(Script((Role(), Text("before"), Text("x" * (3 << 20)), Finish())))
        checked = check((await front.fetch()).body)
        assert checked.text == "before"
        assert checked.error is not None
        assert (checked.error["type"], "1048576 bytes" in checked.error["message"]) == ("api_error", True)
        await front.settled()


# ---- what an upstream refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("keyword", ["pattern", "$ref", "format"])
async def test_a_schema_that_an_upstream_refuses_is_named_in_its_own_words(keyword: str, stream: bool) -> None:
    """B88: every keyword goes up as it came; a refusal comes back as a 400 with tool and path, and no slot is lost."""
    schema = {"type": "object", "properties": {"when": {keyword: "#/$defs/x" if keyword == "$ref" else "date"}}}
    tools = [{"name": "book", "input_schema": schema}]

    def refuse(body: Any) -> str | None:
        parameters = body["tools"][0]["function"]["parameters"]
        assert parameters == schema
        return f"tools[0] 'book': parameters.properties.when: the keyword {keyword!r} is not supported"

    async with fronted() as front:
        front.stub.refuse = refuse
        answer = await front.fetch(ask(stream=stream, tools=tools))
        assert answer.status == 400
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert (
            error["message"] == f"tools[0] 'book': parameters.properties.when: the keyword {keyword!r} is not supported"
        )
        front.stub.refuse = None
        await front.serves()


OVERFLOWS = {
    Kind.LLAMA_CPP: '{"error":{"code":400,"message":"request (20000 tokens) exceeds the available context size '
    '(16384 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":20000,"n_ctx":16384}}',
    Kind.OLLAMA: '{"error":{"message":"the input length exceeds the context length","type":"api_error"}}',
    Kind.VLLM: '{"error":{"message":"This model\'s maximum context length is 16384 tokens. However, your request has '
    '20000 input tokens. Please reduce the length of the input messages.","type":"BadRequestError","code":400}}',
    Kind.SGLANG: '{"object":"error","message":"The input (20000 tokens) is longer than the model\'s context length '
    '(16384 tokens).","type":"BadRequest","code":400}',
    Kind.OPENAI: '{"error":{"message":"This model\'s maximum context length is 16384 tokens. However, your messages '
    'resulted in 20000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}',
}


@pytest.mark.parametrize("kind", OVERFLOWS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_prompt_that_does_not_fit_is_said_so_that_the_client_can_compact(kind: Kind, stream: bool) -> None:
    """Case 77, B92: from every kind of server, in the words that clients act upon."""
    code = 500 if kind is Kind.OLLAMA else 400
    async with fronted(kind=kind, stub=Stub(kind=Kind.LLAMA_CPP if kind is Kind.LLAMA_CPP else Kind.OPENAI)) as front:
        front.stub.play(status(code, OVERFLOWS[kind]))
        answer = await front.fetch(ask(stream=stream))
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("prompt is too long: ")
    if kind is not Kind.OLLAMA:  # which tells no numbers
        assert error["message"] == "prompt is too long: 20000 tokens > 16384 maximum"


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.VLLM])
async def test_a_wish_for_more_tokens_than_there_are_is_cut_to_what_fits(kind: Kind) -> None:
    """Case 11, B92: `max_tokens: 128000` before a context of 8k."""
    async with fronted(stub=Stub(kind=Kind.LLAMA_CPP, context=8192)) as front:
        assert check((await front.fetch(ask("word " * 2000, max_tokens=128_000))).body).complete
        (sent,) = front.stub.requests
    assert 8192 // 8 <= sent.body["max_tokens"] < 8192 - 2000


# ---- counting --------------------------------------------------------------------------------------------------------

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUg=="}}
TOOL = {"name": "f", "description": "does a thing", "input_schema": {"type": "object"}}


def counted(**more: Any) -> dict[str, Any]:
    return {"model": "stub", "messages": [{"role": "user", "content": "hi"}], **more}


async def test_a_burst_of_counts_is_answered_at_once_while_the_line_is_full() -> None:
    """Case 91, B91: no slot, no place in line, and exactly one key in the answer."""
    async with fronted(slots=1, queue=1) as front:
        front.stub.default = hang()
        async with asyncio.TaskGroup() as tasks:
            crowd = [tasks.create_task(front.fetch(ask(stream=False))) for _ in range(2)]
            await front.until(lambda: front.waiting == 1)
            assert (await front.fetch()).status == 529
            answers = await asyncio.gather(*(front.fetch(counted(), COUNT) for _ in range(22)))
            assert front.waiting == 1
            for caller in crowd:
                caller.cancel()
        assert {answer.status for answer in answers} == {200}
        assert all(set(answer.json()) == {"input_tokens"} for answer in answers)
        assert front.stub.hits["/v1/chat/completions"] == 1


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.OPENAI])
async def test_a_count_grows_with_everything_that_a_prompt_is_made_of(kind: Kind) -> None:
    """B91: by the server's tokenizer or by estimate; never 0, whatever else the body says."""
    bodies = [
        counted(),
        counted(system="Be brief. " * 20),
        counted(system="Be brief. " * 20, tools=[TOOL], thinking={"type": "adaptive"}, stream=True, max_tokens=5),
    ]
    async with fronted(stub=Stub(kind=kind)) as front:
        tokens = [(await front.fetch(body, COUNT)).json()["input_tokens"] for body in bodies]
        pictured = await front.fetch(counted(messages=[{"role": "user", "content": [IMAGE]}]), COUNT)
    assert 0 < tokens[0] < tokens[1] <= tokens[2]
    assert pictured.status == 200
    assert pictured.json()["input_tokens"] > 0


# ---- what is never forwarded -----------------------------------------------------------------------------------------

VENDORS = {
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "speed": "fast",
    "service_tier": "auto",
    "inference_geo": "eu",
    "cache_control": {"type": "ephemeral"},
    "container": None,
    "mcp_servers": [],
    "betas": ["x"],
    "diagnostics": {"previous_message_id": "msg_1"},
    "fallbacks": ["other"],
    "billing_policy": {},
    "user_profile_id": "u",
    "metadata": {"user_id": '{"device":"d"}'},
    "a_field_of_next_year": {"x": 1},
    "output_config": {"task_budget": {"type": "tokens", "total": 5}},
}


@pytest.mark.parametrize("kind", list(Kind))
async def test_what_only_the_vendor_understands_never_reaches_a_server(kind: Kind) -> None:
    """Cases 12, 42, B89: accepted, and not one word of it in the upstream's body, whatever its kind."""
    content = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}, "citations": []}]
    tools = [{**TOOL, "cache_control": {"type": "ephemeral"}, "defer_loading": True, "eager_input_streaming": True}]
    body = {**ask(), **VENDORS, "messages": [{"role": "user", "content": content}], "tools": tools}
    stub = Stub(kind=Kind.LLAMA_CPP if kind is Kind.LLAMA_CPP else Kind.OPENAI)
    async with fronted(kind=kind, stub=stub) as front:
        assert check((await front.fetch(body, MESSAGES)).body).complete
        (sent,) = front.stub.requests
    text = msgspec.json.encode(sent.body).decode()
    for word in (*VENDORS, "ephemeral", "citations", "defer_loading", "eager_input_streaming", "task_budget"):
        assert f'"{word}"' not in text, word
