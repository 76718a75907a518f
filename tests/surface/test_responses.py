"""The Responses routes, end to end: what is asked, what goes upstream, what comes back, and what never crosses."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.gateway import Front, fronted
from fakes.product import Answered
from fakes.product import ask as message
from fakes.responding import PIXEL, ask
from fakes.responses_checker import check, check_whole
from slotline.config import ModelConfig, ServerConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.script import Error, Script
from slotline.stub.standard import die, error, hang, held, mid_stream_error, ok, stall, status, thinking, tool_call

PATHS = ["/llm/v1/responses", "/v1/responses"]
mounts = pytest.mark.parametrize("path", PATHS)
RESPONSES = PATHS[1]
F = {"type": "function", "name": "lookup"}


async def asked(front: Front, path: str = RESPONSES, headers: dict[str, str] | None = None, **fields: Any) -> Answered:
    return await front.fetch(ask(**fields), path, headers)


def refused(front: Front, answer: Answered, status: int, type_: str, says: str) -> None:
    """A refusal before anything was acquired, in OpenAI's shape: the upstream never heard of it, nor did the line."""
    told = answer.json()["error"]
    assert (answer.status, told["type"]) == (status, type_)
    assert says in told["message"]
    assert set(told) == {"message", "type", "param", "code"}
    assert answer.json()["request_id"] == answer.headers["request-id"]
    assert front.stub.requests == ()
    assert not front.relay.passages
    assert front.log.faults == []


# ---- answers ---------------------------------------------------------------------------------------------------------


@mounts
async def test_a_response_is_streamed_on_both_mounts(path: str) -> None:
    async with fronted() as front:
        answer = await asked(front, path)
    seen = check(answer.body)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert (seen.complete, seen.text) == (True, "token-0 token-1 token-2")
    assert seen.response is not None
    assert seen.response["model"] == "stub"
    assert seen.response["usage"]["output_tokens"] == 3
    assert seen.comments == []


@mounts
async def test_a_response_is_answered_whole_on_both_mounts(path: str) -> None:
    async with fronted() as front:
        answer = await asked(front, path, stream=False)
    response = check_whole(answer.json())
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [item["content"][0]["text"] for item in response["output"]] == ["token-0 token-1 token-2"]


@pytest.mark.parametrize(
    "script",
    [ok(5), thinking(2, 3), tool_call(), ok(0), ok(2, reason="length")],
    ids=["text", "thinking", "tool", "none", "cut"],
)
async def test_a_stream_and_a_whole_answer_are_the_same_response(script: Script) -> None:
    async with fronted() as front:
        front.stub.default = script
        await asked(front, tools=[F])  # from now on the upstream has the prompt in its cache
        streamed = check((await asked(front, tools=[F])).body).response
        whole = check_whole((await asked(front, tools=[F], stream=False)).json())
    assert streamed is not None
    for response in (streamed, whole):
        assert response.pop("id").startswith("resp_")
        assert response.pop("created_at") > 1_700_000_000
        response.pop("completed_at")
        for item in response["output"]:
            assert item.pop("id")
    assert streamed == whole


async def test_an_alias_is_answered_by_its_name_and_asked_for_by_the_upstreams() -> None:
    model = ModelConfig(name="local", upstreams=("box",), target="qwen3:8b", aliases=("gpt-*",))
    async with fronted(models=(model,)) as front:
        answer = await asked(front, model="gpt-6", stream=False)
        assert answer.json()["model"] == "gpt-6"
        assert front.stub.requests[0].body["model"] == "qwen3:8b"


async def test_an_image_reaches_a_model_that_may_have_eyes() -> None:
    async with fronted(kind=Kind.OPENAI, stub=Stub(kind=Kind.OPENAI, tokens=3)) as front:
        assert check((await asked(front, input=IMAGE)).body).complete
        (sent,) = front.stub.requests[0].body["messages"]
    assert sent["content"][0]["image_url"]["url"].endswith(PIXEL)


async def test_a_conversation_that_is_sent_back_keeps_its_reasoning_and_its_calls() -> None:
    """What a client that keeps items without looking into them sends next."""
    include = ["reasoning.encrypted_content"]
    async with fronted() as front:
        front.stub.play(thinking(2, 1), tool_call(), ok(1))
        user = {"role": "user", "content": "hello"}
        first = check((await asked(front, input=[user], include=include)).body).items
        thought, said = first
        sealed = {key: thought[key] for key in ("type", "id", "summary", "encrypted_content")}
        second = check((await asked(front, input=[user, sealed, said, user], tools=[F], include=include)).body).items
        given = {"type": "function_call_output", "call_id": second[0]["call_id"], "output": "two"}
        await asked(front, input=[user, sealed, said, user, *second, given], tools=[F])
        sent = front.stub.requests[-1].body["messages"]
    assert sent[1] == {"role": "assistant", "content": "token-0", "reasoning_content": "thought-0 thought-1"}
    assert sent[3]["tool_calls"][0]["id"] == sent[4]["tool_call_id"] == second[0]["call_id"]
    assert sent[4]["content"] == "two"


async def test_what_codex_sends_is_understood() -> None:
    """Its request, as far as it matters here, with every kind of tool and of item that it uses."""
    body = ask(
        instructions="You are a coding agent.",
        input=[
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
            {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAAABo"},
            {"type": "function_call", "name": "shell_command", "arguments": '{"command":"ls"}', "call_id": "call_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
            {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
        ],
        tools=[
            {"type": "function", "name": "shell_command", "strict": False, "parameters": {"type": "object"}},
            {"type": "custom", "name": "apply_patch", "description": "…", "format": {"type": "grammar"}},
            {"type": "local_shell"},
            {"type": "web_search", "external_web_access": True},
            {"type": "namespace", "name": "mcp__x", "description": "…", "tools": [{"type": "function", "name": "y"}]},
        ],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "medium", "summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="0199-…",
        text={"verbosity": "medium"},
        client_metadata={"x-codex-installation-id": "…"},
    )
    async with fronted() as front:
        front.stub.play(tool_call("apply_patch", '{"input":"*** Begin Patch"}'))
        seen = check((await front.fetch(body, RESPONSES)).body)
        sent = front.stub.requests[0].body
    assert [each["role"] for each in sent["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "user",
    ]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["shell_command", "apply_patch", "mcp__x__y"]
    assert "max_tokens" not in sent
    assert seen.calls[0]["input"] == "*** Begin Patch"


# ---- refused before anything is acquired -----------------------------------------------------------------------------


@mounts
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "body: not valid JSON"),
        ({"model": "stub"}, "input: a required field"),
        (ask(store=True), "store: true is not supported here"),
        (ask(previous_response_id="resp_1"), "previous_response_id: not supported here"),
        (ask(input=[{"type": "item_reference", "id": "msg_1"}]), "input.0.type: no item is kept here"),
        (ask(tools=[{"type": "web_search"}], tool_choice="required"), "tool_choice: a tool must be called"),
    ],
)
async def test_a_request_that_cannot_be_served_is_refused(path: str, body: Any, says: str) -> None:
    async with fronted() as front:
        refused(front, await front.fetch(body, path), 400, "invalid_request_error", says)


@mounts
async def test_an_unknown_model_has_the_code_that_clients_look_for(path: str) -> None:
    async with fronted() as front:
        answer = await asked(front, path, model="no-such-model")
        refused(front, answer, 404, "invalid_request_error", "no-such-model")
        assert answer.json()["error"]["code"] == "model_not_found"


IMAGE = [{"role": "user", "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}]}]


async def test_an_image_is_refused_for_a_model_without_eyes() -> None:
    async with fronted() as front:
        refused(front, await asked(front, input=IMAGE), 400, "invalid_request_error", "cannot see images")


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with fronted(server=ServerConfig(port=0, max_body=1000)) as front:
        refused(front, await asked(front, input="x" * 2000), 413, "invalid_request_error", "max_body")


@pytest.mark.parametrize("form", ["", "loud"])
async def test_a_form_of_queue_frames_that_there_is_not_is_refused(form: str) -> None:
    async with fronted() as front:
        answer = await asked(front, headers={"x-slotline-queue": form})
        refused(front, answer, 400, "invalid_request_error", "x-slotline-queue: expected one of")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/responses/resp_1", "/llm/v1/responses/resp_1/input_items"])
async def test_no_response_is_kept(method: str, path: str) -> None:
    async with fronted() as front:
        answer = await front.get(path, method)
    assert answer.status == 404
    assert answer.json()["error"]["type"] == "invalid_request_error"


# ---- waiting ---------------------------------------------------------------------------------------------------------


@mounts
@pytest.mark.parametrize("header", [None, "event", "ping", "comment"])
async def test_a_waiting_client_is_told_its_place_in_comments(path: str, header: str | None) -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        async with front.streaming(message()):
            headers = {} if header is None else {"x-slotline-queue": header}
            async with front.streaming(ask(), path, headers) as waiting:
                await waiting.until(b"queue position")
                assert check(waiting.answer.body, whole=False).places == [(1, 1)]
                front.stub.release()
                seen = check(await waiting.rest())
    assert (seen.complete, seen.places) == (True, [(1, 1)])


async def test_a_waiting_client_that_wants_to_hear_nothing_hears_nothing() -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        off = {"x-slotline-queue": "off"}
        async with front.streaming(message()), front.calling(ask(), RESPONSES, off) as caller:
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
            answer = await caller.answer()
    assert check(answer.body).comments == []


async def test_a_whole_answer_tells_how_long_it_waited() -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        async with front.streaming(message()), front.calling(ask(stream=False), RESPONSES) as caller:
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
            answer = await caller.answer()
    assert check_whole(answer.json())["status"] == "completed"
    assert int(answer.headers["x-slotline-wait-ms"]) >= 0


async def test_silence_is_broken_by_comments() -> None:
    async with fronted(server=ServerConfig(port=0, grace=0.05, keepalive=0.05)) as front:
        front.stub.play(held(1))
        async with front.streaming(ask(), RESPONSES) as stream:
            await stream.until(b": keep-alive\n\n: keep-alive\n\n")
            front.stub.release()
            assert check(await stream.rest()).complete


async def test_a_full_line_is_a_status() -> None:
    async with fronted(queue=0) as front:
        front.stub.play(held(1))
        async with front.streaming(message()):
            answer = await asked(front)
            front.stub.release()
    assert answer.status == 529
    assert answer.json()["error"]["type"] == "server_error"
    assert int(answer.headers["retry-after"]) >= 1


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        (status(400, '{"error":{"message":"bad schema"}}'), 400, "bad schema"),
        (status(401, '{"error":{"message":"wrong key sk-1"}}'), 502, "the gateway's own credentials"),
        (status(429, '{"error":{"message":"slow down"}}'), 429, "slow down"),
        (error(500, "out of memory"), 500, "out of memory"),
        (Script((Error(),)), 500, "Compute error."),
    ],
)
async def test_a_refusal_of_the_upstream_is_a_status(stream: bool, script: Script, code: int, says: str) -> None:
    async with fronted() as front:
        front.stub.play(script)
        answer = await asked(front, stream=stream)
    assert answer.status == code
    assert says in answer.json()["error"]["message"]
    assert front.log.faults == []


@pytest.mark.parametrize(
    ("script", "limits", "says"),
    [
        (mid_stream_error(2), {}, "Compute error."),
        (die(2), {}, "closed the stream"),
        (stall(2), {"liveness": 0.1}, "liveness = 0.1 s"),
    ],
    ids=["error", "died", "stalled"],
)
async def test_a_failure_in_an_open_stream_is_its_end(script: Script, limits: dict[str, float], says: str) -> None:
    async with fronted(limits=Limits(poll=0.05, **limits)) as front:  # type: ignore[arg-type]
        front.stub.play(script)
        seen = check((await asked(front)).body)
        await front.settled()
    assert seen.names[-2:] == ["response.failed", "error"]
    assert seen.error is not None
    assert says in seen.error["message"]
    assert seen.response is not None
    assert seen.response["output"][0]["status"] == "incomplete"


async def test_a_failure_of_a_whole_answer_is_a_status() -> None:
    async with fronted() as front:
        front.stub.play(die(2))
        answer = await asked(front, stream=False)
    assert (answer.status, answer.json()["error"]["type"]) == (502, "server_error")


async def test_a_client_that_leaves_frees_its_slot() -> None:
    async with fronted() as front:
        front.stub.play(hang())
        async with front.calling(ask(), RESPONSES):
            await front.stub.until(lambda state: state.running == 1)
        await front.settled()
        await front.serves()
        assert front.outcomes == ["client_left_running", "completed"]
