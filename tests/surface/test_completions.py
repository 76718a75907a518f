"""OpenAI's older routes, end to end: what is asked, what goes upstream, what comes back, in the line and out of it."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from itertools import product
from typing import Any

import msgspec
import pytest

from fakes.bare import SSE_HEAD, Bare, Line, bare, chunk, event, whole
from fakes.gateway import PATIENT, Exit, Front, fronted, leave
from fakes.product import Answered
from fakes.web import Page, Web
from slotline.config import ModelConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.core.queue_frames import QueueForm
from slotline.core.sse import Parser
from slotline.stub import ErrorForm, Side, Stub
from slotline.stub.script import Done, Finish, Head, Raw, Reasoning, Repeat, Role, Script, Sleep, Text, Tokens, Usage
from slotline.stub.standard import (
    die,
    endless_thinking,
    error,
    hang,
    held,
    html,
    mid_stream_error,
    ok,
    reset,
    status,
    thinking,
    tool_call,
)

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
PIXEL = "data:image/png;base64,iVBORw0KGgo="

mounts = pytest.mark.parametrize("mount", ["/llm", ""])
streams = pytest.mark.parametrize("stream", [True, False])
routes = pytest.mark.parametrize("path", [CHAT, TEXT])


def ask(text: str = "hello", *, stream: bool = True, **fields: Any) -> dict[str, Any]:
    """A body that both routes take; each leaves the other's words alone."""
    body = {"model": "stub", "stream": stream, "messages": [{"role": "user", "content": text}], "prompt": text}
    return body | fields


def payloads(stream: bytes) -> list[bytes]:
    """The data of all events."""
    parser = Parser(1 << 22)
    return [found.data for found in parser.feed(stream) + parser.close()]


def chunks(stream: bytes) -> list[Any]:
    """The chunks of a stream that ended well."""
    found = payloads(stream)
    assert found.pop() == b"[DONE]"
    return [msgspec.json.decode(data) for data in found]


def said(stream: bytes, key: str = "content") -> str:
    """What was said in a stream that ended well."""
    choices = [choice for each in chunks(stream) for choice in each["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get(key) or "" for choice in choices)


def failure(answer: Answered, *, stream: bool) -> Any:
    """The error of an answer that broke: the last thing in its stream, which has no good end, or the body."""
    if stream and answer.status == 200:
        *before, last = payloads(answer.body)
        assert b"[DONE]" not in before
        assert not any(b'"finish_reason":"' in each for each in before)
        return msgspec.json.decode(last)
    return answer.json()


def refused(front: Front, answer: Answered, status: int, says: str, code: str | None = None) -> None:
    """A refusal in OpenAI's shape before anything was acquired."""
    body = answer.json()
    assert set(body) == {"error", "request_id"}
    assert answer.status == status
    assert (body["error"]["type"], body["error"]["code"]) == ("invalid_request_error", code)
    assert says in body["error"]["message"]
    assert body["request_id"] == answer.headers["request-id"]
    assert front.stub.requests == ()
    assert not front.relay.passages


# ---- answers ---------------------------------------------------------------------------------------------------------


@mounts
@routes
async def test_an_answer_is_streamed_and_whole_on_both_mounts(mount: str, path: str) -> None:
    async with fronted() as front:
        streamed = await front.fetch(ask(), mount + path)
        entire = await front.fetch(ask(stream=False), mount + path)
    assert streamed.status == entire.status == 200
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert entire.headers["content-type"] == "application/json"
    assert said(streamed.body) == "token-0 token-1 token-2"
    (choice,) = entire.json()["choices"]
    assert (choice["text"] if path == TEXT else choice["message"]["content"]) == "token-0 token-1 token-2"
    assert choice["finish_reason"] == "stop"
    assert entire.json()["usage"]["completion_tokens"] == 3


@mounts
async def test_embeddings_go_through_the_line_unchanged(mount: str) -> None:
    body = b'{"input":["a", [1,2]],"model":"stub","dimensions": 8,"stream":true}'
    answer = b'{"data":[ {"embedding":[0.10,-2e3],"index":0} ],"odd":null}'
    async with fronted() as front:
        front.stub.sides[EMBEDDINGS] = Side(body=answer.decode())
        got = await front.fetch(body, mount + EMBEDDINGS)
        (sent,) = [call for call in front.stub.calls if call.path == EMBEDDINGS]
        assert front.outcomes == ["completed"]
    assert (got.status, got.body, got.headers["content-type"]) == (200, answer, "application/json")
    assert sent.body == b'{"input":["a", [1,2]],"model":"stub","dimensions":8,"stream":true}'


@pytest.mark.parametrize("write_size", [None, 1])
async def test_a_chat_passes_byte_for_byte_however_it_is_cut(write_size: int | None) -> None:
    odd = [
        b'{ "id":"x", "choices":[{"index":0,"delta":{"role":"assistant","content":""}}] }',
        '{"choices":[{"index":0,"delta":{"content":"\u2028é👋"},"novel":[1.50]}],"t":1e3}'.encode(),
        b'{"choices":[{"index":0,"delta":{"content":"a\\u00e9\\/"},"finish_reason":"stop"}]}',
        b"[DONE]",
    ]
    lines = b": ping\n\nevent: ping\ndata:\n\n" + b"".join(b"id: 7\ndata: %b\n\n" % each for each in odd)
    async with fronted() as front:
        front.stub.play(Script((Head(), Raw(lines)), write_size=write_size))
        got = await front.fetch(ask(), CHAT)
    assert got.body == b"".join(b"data: %b\n\n" % each for each in odd)


@routes
async def test_usage_comes_in_a_stream_only_if_it_was_asked_for(path: str) -> None:
    async with fronted() as front:
        without = await front.fetch(ask(), path)
        asked = await front.fetch(ask(stream_options={"include_usage": True}), path)
        bodies = [received.body for received in front.stub.requests]
    assert [each["usage"] for each in chunks(without.body) if "usage" in each] == []
    last = chunks(asked.body)[-1]
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 3)
    assert all(body["stream_options"] == {"include_usage": True} and body["stream"] is True for body in bodies)


async def test_progress_of_the_prompt_comes_only_if_it_was_asked_for() -> None:
    async with fronted() as front:
        assert b"prompt_progress" not in (await front.fetch(ask(), CHAT)).body
        assert b"prompt_progress" in (await front.fetch(ask(return_progress=True), CHAT)).body


async def test_unknown_fields_reach_the_upstream_untouched_and_slots_of_ones_own_choice_do_not() -> None:
    body = b'{"model":"stub","messages":[{"role":"user","content":"hi"}],"x_new": {"a" : 1.50},"id_slot":1,"top_k":40}'
    async with fronted(slots=2) as front:
        await front.fetch(body, CHAT)
        await front.fetch(body.replace(b'"messages"', b'"prompt":"a","messages"'), TEXT)
        for received in front.stub.requests:
            assert b'"x_new":{"a" : 1.50}' in received.raw
            assert b'"top_k":40' in received.raw
            assert received.body["id_slot"] == received.slot
        assert front.stub.requests[0].slot == 0


async def test_an_alias_is_asked_for_by_the_upstreams_own_name() -> None:
    model = ModelConfig(name="local", upstreams=("box",), target="qwen3:8b", aliases=("gpt-*",))
    async with fronted(models=(model,)) as front:
        for path in (CHAT, TEXT):
            assert (await front.fetch(ask(model="gpt-9"), path)).status == 200
        await front.fetch({"model": "gpt-9", "input": "x"}, EMBEDDINGS)
        models = [received.body["model"] for received in front.stub.requests]
        models += [msgspec.json.decode(call.body)["model"] for call in front.stub.calls if call.path == EMBEDDINGS]
    assert models == ["qwen3:8b"] * 3


@pytest.mark.parametrize(
    "script",
    [ok(5), thinking(2, 3), thinking(2, 3, key="reasoning"), tool_call(), tool_call(fragment=0)],
    ids=["text", "thinking", "reasoning", "tool", "tool at once"],
)
async def test_a_stream_and_a_whole_answer_say_the_same(script: Script) -> None:
    async with fronted() as front:
        front.stub.default = script
        streamed = chunks((await front.fetch(ask(), CHAT)).body)
        message = (await front.fetch(ask(stream=False), CHAT)).json()["choices"][0]["message"]
    deltas = [choice["delta"] for each in streamed for choice in each["choices"]]
    for key in ("content", "reasoning", "reasoning_content"):
        assert (message.get(key) or "") == "".join(delta.get(key) or "" for delta in deltas)
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    if calls:
        (call,) = message["tool_calls"]
        assert call["function"]["arguments"] == "".join(each["function"]["arguments"] for each in calls)
        assert (call["id"], message["content"]) == (calls[0]["id"], None)


@streams
async def test_an_upstream_that_answers_a_stream_in_one_piece_is_understood(*, stream: bool) -> None:
    answer = {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }

    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(whole(msgspec.json.encode(answer)))

    model = ModelConfig(name="stub", upstreams=("box",), target="stub")
    async with bare(talk) as server, fronted(url=server.url, kind=Kind.OPENAI, models=(model,)) as front:
        got = await front.fetch(ask(stream=stream), CHAT)
    if stream:
        assert said(got.body) == "hi"
    else:
        assert got.json() == answer


# ---- in line ---------------------------------------------------------------------------------------------------------

COMMENT = b": queue position=1 length=1 wait_ms=unknown\n\n"


@mounts
@routes
@pytest.mark.parametrize("header", [None, "comment", "event", "ping", "off"])
async def test_a_place_in_line_is_a_comment_or_nothing(mount: str, path: str, header: str | None) -> None:
    lively = msgspec.structs.replace(PATIENT, grace=0.05, keepalive=0.05)
    async with fronted(server=lively if header == "off" else PATIENT) as front:
        front.stub.play(held(1))
        async with front.calling():
            await front.stub.until(lambda state: state.held == 1)
            headers = {} if header is None else {"x-slotline-queue": header}
            async with front.streaming(ask(), mount + path, headers) as stream:
                assert await stream.next() == (b": keep-alive\n\n" if header == "off" else COMMENT)
                front.stub.release()
                body = await stream.rest()
    assert b"event:" not in body
    assert body.count(b": queue") == (0 if header == "off" else 1)
    assert said(body) == "token-0 token-1 token-2"


async def test_where_the_operator_tells_no_places_none_are_told_here() -> None:
    quiet = msgspec.structs.replace(PATIENT, grace=0.05, keepalive=0.05, root_queue_frames=QueueForm.OFF)
    async with fronted(server=quiet) as front:
        front.stub.play(held(1))
        async with front.calling():
            await front.stub.until(lambda state: state.held == 1)
            async with front.streaming(ask(), CHAT) as stream:
                assert await stream.next() == b": keep-alive\n\n"
            front.stub.release()


@pytest.mark.parametrize("path", [CHAT, TEXT, EMBEDDINGS])
async def test_a_form_that_does_not_exist_is_refused_by_name(path: str) -> None:
    async with fronted() as front:
        answer = await front.fetch(ask(), path, {"x-slotline-queue": "loud"})
        refused(front, answer, 400, "x-slotline-queue: expected one of event, ping, comment, off, got 'loud'")


@pytest.mark.parametrize("path", [CHAT, TEXT, EMBEDDINGS])
async def test_an_answer_that_is_no_stream_waits_and_tells_for_how_long(path: str) -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        async with front.calling(), asyncio.TaskGroup() as tasks:
            await front.stub.until(lambda state: state.held == 1)
            queued = tasks.create_task(front.fetch(ask(stream=False, input="x"), path))
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
        assert queued.result().status == 200
        assert int(queued.result().headers["x-slotline-wait-ms"]) > 0


def standing(front: Front, count: int) -> bool:
    return front.waiting == count


async def test_all_routes_stand_in_one_line_and_are_served_in_order() -> None:
    order: list[str] = []
    async with fronted() as front:
        front.stub.play(held(1))

        async def caller(path: str) -> None:
            assert (await front.fetch(ask(stream=False, input="x"), path)).status == 200
            order.append(path)

        async with front.calling(), asyncio.TaskGroup() as tasks:
            await front.stub.until(lambda state: state.held == 1)
            for number, path in enumerate((EMBEDDINGS, CHAT, TEXT, EMBEDDINGS), 1):
                tasks.create_task(caller(path))
                await front.until(partial(standing, front, number))
            front.stub.release()
        assert front.stub.state.max_running == 1
    assert order == [EMBEDDINGS, CHAT, TEXT, EMBEDDINGS]


@pytest.mark.parametrize("path", [CHAT, TEXT, EMBEDDINGS])
async def test_a_full_line_is_told_in_openais_shape_with_a_time_to_come_back(path: str) -> None:
    async with fronted(queue=1) as front:
        front.stub.default = hang()
        async with front.calling(), front.calling():
            await front.until(lambda: front.waiting == 1)
            answer = await front.fetch(ask(stream=False, input="x"), path)
    assert answer.status == 529
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.json()["error"]["type"] == "server_error"
    assert "error" in answer.json()


@streams
@pytest.mark.parametrize("path", [CHAT, TEXT, EMBEDDINGS])
async def test_who_leaves_is_out_of_the_line_or_closes_the_upstreams_connection(path: str, *, stream: bool) -> None:
    async with fronted() as front:
        front.stub.default = hang()
        front.stub.sides[EMBEDDINGS] = Side(hang=True)
        body = ask(stream=stream, input="x")
        async with front.calling(body, path) as running:
            await front.until(lambda: any(passage.granted is not None for passage in front.relay.passages))
            async with front.calling(body, path) as waiting:
                await front.until(lambda: front.waiting == 1)
                leave(waiting, Exit.FIN)
                await front.until(lambda: front.outcomes == ["client_left_waiting"])
            leave(running, Exit.RST)
            await front.settled()
        assert front.outcomes == ["client_left_waiting", "client_left_running"]
        front.stub.sides.clear()
        await front.serves()


# ---- embeddings and slots --------------------------------------------------------------------------------------------


async def test_embeddings_take_part_in_the_count_and_nobodys_slot() -> None:
    """A conversation comes back to its slot after them; they themselves go where the server likes."""
    async with fronted(slots=2) as front:
        await front.fetch(ask("first"), CHAT)
        for _ in range(3):
            await front.fetch({"model": "stub", "input": "x"}, EMBEDDINGS)
        talk = [{"role": "user", "content": "first"}, {"role": "user", "content": "more"}]
        await front.fetch(ask(messages=talk), CHAT)
        assert [received.slot for received in front.stub.requests] == [0, 0]
        assert all(b"id_slot" not in call.body for call in front.stub.calls if call.path == EMBEDDINGS)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "says", "code"),
    [
        (CHAT, b"{", 400, "body: not valid JSON", None),
        (CHAT, {"model": "stub"}, 400, "messages: a required field", None),
        (CHAT, ask(messages=[]), 400, "messages: expected at least one message", None),
        (CHAT, ask() | {"stream": "yes"}, 400, 'stream: expected true or false, got "yes"', None),
        (CHAT, ask(n=2), 400, "n: expected 1, because each answer would take a slot of its own, got 2", None),
        (CHAT, ask(model="gpt-9"), 404, "the models are: stub", "model_not_found"),
        (TEXT, ask(prompt=["a", "b"]), 400, "prompt: expected one prompt", None),
        (TEXT, ask(best_of=2), 400, "best_of: expected 1", None),
        (TEXT, ask(model="gpt-9"), 404, "the models are: stub", "model_not_found"),
        (EMBEDDINGS, {"input": "x"}, 400, "model: a required field", None),
        (EMBEDDINGS, {"input": "x", "model": "gpt-9"}, 404, "the models are: stub", "model_not_found"),
    ],
)
async def test_what_cannot_be_served_is_refused_before_anything_is_acquired(
    path: str, body: object, status: int, says: str, code: str | None
) -> None:
    async with fronted() as front:
        refused(front, await front.fetch(body, path), status, says, code)


async def test_an_image_for_a_server_without_eyes_is_refused_by_the_models_name() -> None:
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    async with fronted() as front:
        answer = await front.fetch(ask(messages=[{"role": "user", "content": [image]}]), CHAT)
        refused(front, answer, 400, "messages.0.content.0: the model 'stub' cannot see images")
    async with fronted(stub=Stub(kind=Kind.OPENAI)) as front:
        assert (await front.fetch(ask(messages=[{"role": "user", "content": [image]}]), CHAT)).status == 200
        assert front.stub.requests[0].body["messages"][0]["content"] == [image]


async def test_an_image_elsewhere_is_had_by_the_gateway_or_refused_by_its_place() -> None:
    """Its address never goes upstream: a server that visits addresses for strangers reaches what they cannot."""
    png = base64.b64decode(PIXEL.partition(",")[2])
    async with Web({"/a": Page(png)}) as web:
        image = {"type": "image_url", "image_url": {"url": web.url("/a"), "detail": "low"}}
        talk = ask(messages=[{"role": "user", "content": [image]}])
        async with fronted(stub=Stub(kind=Kind.OPENAI)) as front:
            answer = await front.fetch(talk, CHAT)
            refused(
                front,
                answer,
                400,
                f"messages.0.content.0.image_url: image not read: nothing is fetched from {web.host}",
            )
            assert web.asked == []
        server = msgspec.structs.replace(PATIENT, image_hosts=(web.host,))
        async with fronted(stub=Stub(kind=Kind.OPENAI), server=server) as front:
            assert (await front.fetch(talk, CHAT)).status == 200
            (sent,) = front.stub.requests[0].body["messages"][0]["content"]
    assert sent == {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}


async def test_a_wrong_method_and_an_unknown_route_are_told_in_openais_shape() -> None:
    async with fronted() as front:
        for mount, path, method in product(("/llm", ""), (CHAT, TEXT, EMBEDDINGS), ("GET", "PUT", "DELETE")):
            answer = await front.get(mount + path, method)
            refused(front, answer, 405, f"{mount}{path}: this route does not take {method}")
            assert answer.headers["allow"] == "POST"
            refused(front, await front.get(f"{mount}{path}/x", method), 404, "there is no such route")


@routes
@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        (error(500), 500, "scripted error"),
        (status(429, '{"error":{"message":"slow down"}}'), 429, "slow down"),
        (status(401, '{"error":{"message":"bad key"}}'), 502, "the gateway's own credentials"),
        (html(502), 502, "a page of HTML"),
        (reset(), 502, "did not answer"),
    ],
    ids=["500", "429", "401", "html", "reset"],
)
async def test_an_error_before_the_answer_has_a_true_status(path: str, script: Script, status: int, says: str) -> None:
    async with fronted() as front:
        for stream in (True, False):
            front.stub.play(script)
            answer = await front.fetch(ask(stream=stream), path)
            assert answer.status == status
            assert says in answer.json()["error"]["message"]
            assert answer.json()["request_id"] == answer.headers["request-id"]


async def test_a_prompt_that_is_too_long_has_the_code_that_clients_look_for() -> None:
    async with fronted() as front:
        answer = await front.fetch(ask("word " * 20_000), CHAT)
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (400, "context_length_exceeded")
    assert "exceeds the available context size" in error["message"]


BROKEN = [
    *(mid_stream_error(3, form, done=True) for form in ErrorForm),
    die(3),
    Script((Head(), Role(), Tokens(3), Finish("abort"), Done())),
]


@routes
@pytest.mark.parametrize("script", BROKEN, ids=[*ErrorForm, "dies", "aborts"])
async def test_an_error_in_the_answer_is_an_error_object_and_no_good_end(path: str, script: Script) -> None:
    """In every form in which servers write one, also with `[DONE]` behind it."""
    async with fronted() as front:
        front.stub.play(script, script)
        streamed, entire = [await front.fetch(ask(stream=stream), path) for stream in (True, False)]
        assert set(front.outcomes) <= {"upstream_error", "upstream_died"}
        await front.serves()
    assert streamed.status == 200
    assert b"token-2" in streamed.body
    assert entire.status >= 500
    for told in (failure(streamed, stream=True), entire.json()):
        assert set(told) == {"error", "request_id"}
        assert told["error"]["message"]
        assert told["error"]["type"] == "server_error"


async def test_embeddings_that_fail_have_a_status() -> None:
    async with fronted() as front:
        for side, status in (
            (Side(status=501, body='{"error":{"message":"no embeddings"}}'), 501),
            (Side(body='{"error":{"message":"no embeddings"}}'), 500),
            (Side(body='{"data":[0.1,'), 502),
            (Side(body="<html>no</html>", content_type="text/html"), 502),
        ):
            front.stub.sides[EMBEDDINGS] = side
            answer = await front.fetch({"model": "stub", "input": "x"}, EMBEDDINGS)
            assert answer.status == status
            assert answer.json()["error"]["message"]


async def test_a_stream_without_a_finish_reason_gets_one_for_clients_that_raise_without() -> None:
    async with fronted() as front:
        front.stub.play(Script((Head(), Role(), Tokens(2), Done())))
        last = chunks((await front.fetch(ask(), CHAT)).body)[-1]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert last["id"].startswith("chatcmpl-")


async def test_a_stream_that_just_stops_after_its_finish_reason_gets_its_mark() -> None:
    async with fronted() as front:
        front.stub.play(Script((Head(), Role(), Tokens(2), Finish(), Usage())))
        assert said((await front.fetch(ask(), CHAT)).body) == "token-0 token-1"


async def test_an_event_of_one_megabyte_passes() -> None:
    async with fronted() as front:
        front.stub.play(Script((Head(), Role(), Text("x" * (1 << 20)), Finish(), Done())))
        assert len(said((await front.fetch(ask(), CHAT)).body)) == 1 << 20


# ---- thinking --------------------------------------------------------------------------------------------------------


@streams
async def test_thinking_that_passes_the_cap_is_ended_and_no_tag_reaches_the_client(*, stream: bool) -> None:
    leak = Script(
        (
            Head(),
            Role(),
            Repeat((Reasoning("hm "), Sleep(0.002)), 60),
            Text("and so</th"),
            Text("ink>\n\nThe answer"),
            Text("."),
            Finish(),
            Usage(),
            Done(),
        )
    )
    async with fronted(limits=Limits(poll=0.05, thinking_cap=20)) as front:
        front.stub.play(leak)
        answer = await front.fetch(ask(stream=stream, stream_options={"include_usage": True}), CHAT)
        controls = [call for call in front.stub.calls if call.path.endswith("/control")]
        assert len(controls) == 1
        assert front.stub.requests[0].body["thinking_budget_tokens"] == 20
        if stream:
            text, reasoning = said(answer.body), said(answer.body, "reasoning_content")
            assert {each["id"] for each in chunks(answer.body)} == {front.stub.requests[0].id}
            assert chunks(answer.body)[-1]["usage"]["completion_tokens"] > 20
        else:
            message = answer.json()["choices"][0]["message"]
            text, reasoning = message["content"], message["reasoning_content"]
    assert text == "The answer."
    assert reasoning.startswith("hm hm ")
    assert reasoning.endswith("and so")


@streams
async def test_the_clients_own_budget_holds_where_it_is_smaller(*, stream: bool) -> None:
    async with fronted() as front:
        front.stub.play(endless_thinking(gap=0.001))
        answer = await front.fetch(ask(stream=stream, thinking_budget_tokens=5), CHAT)
        assert front.stub.requests[0].body["thinking_budget_tokens"] == 5
    assert b"token-2" in answer.body


@streams
async def test_a_server_that_cannot_be_told_is_asked_again_without_thinking(*, stream: bool) -> None:
    limits = Limits(poll=0.05, thinking_cap=5)
    async with fronted(stub=Stub(kind=Kind.OPENAI), kind=Kind.VLLM, limits=limits) as front:
        front.stub.play(endless_thinking(gap=0.001), ok(2))
        answer = await front.fetch(ask(stream=stream), CHAT)
        _, again = front.stub.requests
        assert again.body["chat_template_kwargs"] == {"enable_thinking": False}
        assert again.body["messages"] == ask()["messages"]
        assert front.outcomes == ["completed"]
    if stream:
        assert said(answer.body) == "token-0 token-1"
        assert said(answer.body, "reasoning_content").startswith("thought-0")
        assert len({each["id"] for each in chunks(answer.body)}) == 1
    else:
        assert answer.json()["choices"][0]["message"]["content"] == "token-0 token-1"


async def test_thinking_that_cannot_be_ended_is_an_error_in_openais_shape() -> None:
    limits = Limits(poll=0.05, thinking_cap=5, thinking_overrun=5)
    async with fronted(limits=limits) as front:
        front.stub.play(endless_thinking(gap=0.001, heeds_control=False))
        answer = await front.fetch(ask(), CHAT)
        assert front.outcomes == ["thinking_overrun"]
    assert "thinking_overrun = 5" in failure(answer, stream=True)["error"]["message"]


async def test_a_plain_prompt_has_no_cap_on_thinking() -> None:
    async with fronted(limits=Limits(poll=0.05, thinking_cap=2)) as front:
        front.stub.play(Script((Head(), Text("<think>"), Tokens(9), Finish(), Done())))
        answer = await front.fetch(ask(), TEXT)
    assert said(answer.body).startswith("<think>token-0")
    assert said(answer.body).endswith("token-8")


# ---- what never crosses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, TEXT, EMBEDDINGS])
async def test_no_header_crosses_either_way(path: str) -> None:
    headers = {"authorization": "Bearer theirs", "cookie": "theirs", "openai-organization": "theirs"}
    async with fronted() as front:
        front.stub.play(Script((Head(headers={"Set-Cookie": "ours"}), *ok(3).steps[1:])))
        answer = await front.fetch(ask(input="x"), path, headers)
        heard = [received.headers for received in front.stub.requests] + [call.headers for call in front.stub.calls]
    assert "theirs" not in str(heard)
    assert "set-cookie" not in answer.headers


async def test_a_server_that_is_read_slowly_or_sends_many_events_at_once_loses_nothing() -> None:
    events = [b'{"choices":[{"index":0,"delta":{"content":"%d "}}]}' % number for number in range(500)]

    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        last = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
        await line.say(SSE_HEAD + chunk(b"".join(b"data: %b\n\n" % each for each in events)) + event(last))
        await line.say(event(b"[DONE]") + chunk(b""))

    model = ModelConfig(name="stub", upstreams=("box",), target="stub")
    async with bare(talk) as server, fronted(url=server.url, kind=Kind.OPENAI, models=(model,)) as front:
        got = await front.fetch(ask(), CHAT)
    assert said(got.body) == "".join(f"{number} " for number in range(500))


@pytest.mark.parametrize(
    ("path", "fields", "at"),
    [
        ("embeddings", {"messages": [{"content": [{"image_url": {"url": "http://169.254.169.254/"}}]}]}, "messages.0"),
        ("embeddings", {"input": [{"image": "https://inner.example/a.png"}]}, "input.0.image"),
        ("completions", {"prompt": "x", "messages": [{"content": [{"image_url": " HTTP://inner/"}]}]}, "messages.0"),
        ("completions", {"prompt": {"prompt_string": "x", "multimodal_data": ["file:///etc/passwd"]}}, "prompt"),
    ],
)
async def test_no_server_is_given_an_address_to_visit_by_the_plain_routes(
    path: str, fields: dict[str, Any], at: str
) -> None:
    async with fronted() as front:
        answer = await front.fetch({"model": "stub", **fields}, path=f"/v1/{path}")
        assert answer.status == 400
        assert answer.json()["error"]["message"].startswith(at)
        assert front.stub.requests == ()


async def test_a_text_may_name_any_address() -> None:
    async with fronted() as front:
        body = {"model": "stub", "input": ["see https://example.com", "http://a"]}
        assert (await front.fetch(body, path="/v1/embeddings")).status == 200
