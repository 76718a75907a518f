"""The Messages routes, end to end: what is asked, what goes upstream, what comes back, and what never crosses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from fakes.checker import check
from fakes.gateway import MESSAGES, PATIENT, Front, fronted
from fakes.product import Answered, Caller, ask
from slotline.config import ModelConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.script import Error, Head, Script
from slotline.stub.standard import die, error, hang, ok, reset, status, thinking, tool_call

COUNT = "/llm/v1/messages/count_tokens"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

mounts = pytest.mark.parametrize("path", [MESSAGES, "/v1/messages", "/v1/messages?beta=true"])


def picture(source: dict[str, str]) -> dict[str, object]:
    return ask(messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])


def refused(front: Front, answer: Answered, status: int, type_: str, says: str) -> None:
    """A refusal before anything was acquired: the upstream never heard of it, and neither did the line."""
    error = answer.json()["error"]
    assert (answer.status, error["type"]) == (status, type_)
    assert says in error["message"]
    assert answer.json()["request_id"] == answer.headers["request-id"]
    assert front.stub.requests == ()
    assert not front.relay.passages
    assert front.log.faults == []


# ---- answers ---------------------------------------------------------------------------------------------------------


@mounts
async def test_a_message_is_streamed_on_both_mounts(path: str) -> None:
    async with fronted() as front:
        answer = await front.fetch(path=path)
    seen = check(answer.body)
    assert answer.status == 200
    assert seen.complete
    assert seen.text == "token-0 token-1 token-2"
    assert seen.message is not None
    assert seen.message["model"] == "stub"
    assert seen.usage["output_tokens"] == 3


@mounts
async def test_a_message_is_answered_whole_on_both_mounts(path: str) -> None:
    async with fronted() as front:
        answer = await front.fetch(ask(stream=False), path=path)
    message = answer.json()
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert message.pop("id").startswith("msg_")
    assert message.pop("usage")["output_tokens"] == 3
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": [{"type": "text", "text": "token-0 token-1 token-2"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }


@pytest.mark.parametrize(
    "script", [ok(5), thinking(2, 3), tool_call(), ok(0)], ids=["text", "thinking", "tool", "none"]
)
async def test_a_stream_and_a_whole_answer_are_the_same_message(script: Script) -> None:
    tools = [{"name": "lookup", "input_schema": {"type": "object"}}]
    async with fronted() as front:
        front.stub.default = script
        await front.fetch(ask(tools=tools))  # from now on the upstream has the prompt in its cache
        streamed = check((await front.fetch(ask(tools=tools))).body).message
        whole = (await front.fetch(ask(tools=tools, stream=False))).json()
    assert streamed is not None
    assert streamed.pop("id") != whole.pop("id")
    assert streamed == whole


@pytest.mark.parametrize("stream", [True, False])
async def test_the_upstream_is_always_asked_for_a_stream_with_its_usage(stream: bool) -> None:
    async with fronted() as front:
        await front.fetch(ask(stream=stream))
        (received,) = front.stub.requests
    assert received.body["stream"] is True
    assert received.body["stream_options"] == {"include_usage": True}


async def test_an_alias_is_answered_by_its_name_and_asked_for_by_the_upstreams() -> None:
    model = ModelConfig(name="local", upstreams=("box",), target="qwen3:8b", aliases=("claude-*",))
    async with fronted(models=(model,)) as front:
        answer = await front.fetch(ask(model="claude-opus-5-5", stream=False))
        assert answer.json()["model"] == "claude-opus-5-5"
        assert front.stub.requests[0].body["model"] == "qwen3:8b"


async def test_a_connection_carries_one_message_after_another_each_with_an_identity_of_its_own() -> None:
    async with fronted() as front, front.calling(ask(stream=False)) as caller:
        first = await caller.answer()
        await caller.send("POST", MESSAGES, ask())
        second = await caller.answer()
        await caller.send("POST", MESSAGES, ask(stream=False))
        third = await caller.answer()
    assert check(second.body).complete
    assert len({answer.headers["request-id"] for answer in (first, second, third)}) == 3
    assert first.json()["id"] != third.json()["id"]


async def test_a_warming_call_reads_the_prompt_and_says_nothing() -> None:
    async with fronted() as front:
        whole = (await front.fetch(ask(max_tokens=0, stream=False))).json()
        seen = check((await front.fetch(ask(max_tokens=0))).body)
    assert (whole["content"], whole["stop_reason"]) == ([], "max_tokens")
    assert (seen.blocks, seen.stop_reason) == ([], "max_tokens")


# ---- refused before anything is acquired -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "body: not valid JSON"),
        (b"{", "body: not valid JSON"),
        (b"[]", "body: expected an object"),
        (b'{"model":"\xff"}', "not valid UTF-8"),
        ({}, "model: a required field"),
        ({"model": "stub", "max_tokens": 5}, "messages: a required field"),
        ({"model": "stub", "messages": None, "max_tokens": 5}, "messages: expected"),
        ({**ask(), "max_tokens": "x"}, 'max_tokens: expected an integer of at least 0, got "x"'),
        ({**ask(), "max_tokens": -1}, "max_tokens: expected"),
        ({**ask(), "stream": "yes"}, "stream: expected"),
        ({**ask(), "tools": [{"name": "a", "input_schema": []}]}, "tools.0"),
        ({**ask(), "messages": [{"role": "robot", "content": "hi"}]}, "messages.0.role"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_body_that_cannot_be_served_is_refused_by_name(body: object, says: str) -> None:
    """Cases 8, 10, 11."""
    async with fronted() as front:
        refused(front, await front.fetch(body), 400, "invalid_request_error", says)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_nobody_has_is_not_found_and_those_there_are_are_named(stream: bool) -> None:
    async with fronted() as front:
        answer = await front.fetch(ask(model="gpt-9", stream=stream))
        refused(front, answer, 404, "not_found_error", "the models are: stub")


async def test_an_image_for_a_server_without_eyes_is_refused_and_an_image_elsewhere_is_never_fetched() -> None:
    async with fronted() as front:
        answer = await front.fetch(picture({"type": "base64", "media_type": "image/png", "data": PIXEL}))
        refused(front, answer, 400, "invalid_request_error", "image")
        assert PIXEL not in answer.body.decode()
        for address in (f"{front.stub.url}/secret", "http://169.254.169.254/latest", "file:///etc/passwd"):
            answer = await front.fetch(picture({"type": "url", "url": address}))
            refused(front, answer, 400, "invalid_request_error", "image")
        assert front.stub.hits["/secret"] == 0


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "x-unknown"])
async def test_a_compressed_body_is_refused(coding: str) -> None:
    async with fronted() as front:
        answer = await front.fetch(ask(), headers={"content-encoding": coding})
        refused(front, answer, 400, "invalid_request_error", f"content-encoding: '{coding}' is not supported")


async def test_a_body_that_says_it_is_not_compressed_is_taken() -> None:
    async with fronted() as front:
        assert (await front.fetch(headers={"content-encoding": "Identity"})).status == 200


async def test_a_body_may_be_as_large_as_max_body_and_not_larger() -> None:
    """Case 9."""
    fits = msgspec.json.encode(ask("x" * 5000))
    server = msgspec.structs.replace(PATIENT, max_body=len(fits))
    async with fronted(server=server) as front:
        answer = await front.fetch(fits + b" ")
        refused(front, answer, 413, "request_too_large", f"max_body = {len(fits)} bytes")
        assert (await front.fetch(fits)).status == 200


async def test_a_body_without_an_announced_length_is_bounded_all_the_same() -> None:
    server = msgspec.structs.replace(PATIENT, max_body=1000)
    async with fronted(server=server) as front:
        caller = await Caller.connect(front.url)
        caller.writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n")
        caller.writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
        async with asyncio.timeout(5):
            refused(front, await caller.answer(), 413, "request_too_large", "max_body = 1000 bytes")
        await caller.close()


async def test_a_hundred_bad_requests_hold_nothing() -> None:
    async with fronted() as front:
        async with front.calling(b"") as caller:
            assert (await caller.answer()).status == 400
            for _ in range(99):
                await caller.send("POST", MESSAGES, {**ask(), "max_tokens": "x"})
                assert (await caller.answer()).status == 400
        await front.settled()
        assert front.stub.requests == ()
        await front.serves()


async def test_a_long_body_that_comes_in_many_pieces_arrives_whole() -> None:
    text = "0123456789abcdef" * (5 * 65536)
    payload = msgspec.json.encode(ask(text))
    async with fronted() as front:
        front.stub.context = len(text)
        caller = await Caller.connect(front.url)
        caller.writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: test\r\ncontent-length: %d\r\n\r\n" % len(payload))
        for start in range(0, len(payload), 65536):
            caller.writer.write(payload[start : start + 65536])
            await caller.writer.drain()
            await front.get("/healthz")  # time goes by
        async with asyncio.timeout(10):
            assert check((await caller.answer()).body).complete
        await caller.close()
        assert front.stub.requests[0].body["messages"][-1]["content"] == text


# ---- counting --------------------------------------------------------------------------------------------------------


def counted(text: str = "hello there") -> dict[str, object]:
    return {"model": "stub", "messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("path", [COUNT, "/v1/messages/count_tokens?beta=true"])
async def test_tokens_are_counted_by_the_server_that_would_read_them(path: str) -> None:
    """Case 91, B91."""
    async with fronted() as front:
        answer = await front.fetch(counted(), path)
        (asked,) = [call for call in front.stub.calls if call.path == "/tokenize"]
    prompt = "<|im_start|>user\nhello there<|im_end|>\n<|im_start|>assistant\n"
    assert msgspec.json.decode(asked.body)["content"] == prompt
    assert answer.json() == {"input_tokens": -(-len(prompt) // 4)}


async def test_tokens_are_estimated_where_the_server_cannot_count() -> None:
    """Case 91, B91."""
    async with fronted(stub=Stub(kind=Kind.OPENAI)) as front:
        short, long = [(await front.fetch(counted(text), COUNT)).json() for text in ("hi", "hi " * 100)]
    assert set(short) == {"input_tokens"}
    assert 0 < short["input_tokens"] < long["input_tokens"]


@pytest.mark.parametrize(
    ("body", "status", "type_"),
    [
        ({**counted(), "model": "gpt-9"}, 404, "not_found_error"),
        ({"model": "stub"}, 400, "invalid_request_error"),
        (b"{", 400, "invalid_request_error"),
    ],
)
async def test_counting_refuses_what_a_message_would_refuse(body: object, status: int, type_: str) -> None:
    """B91: 404 only for a model that is not there."""
    async with fronted() as front:
        refused(front, await front.fetch(body, COUNT), status, type_, "")


# ---- what never crosses ----------------------------------------------------------------------------------------------

CLIENTS = "sl-the-clients-own-key"
OURS = "the-key-of-the-gateway"
HEADERS = {
    "authorization": f"Bearer {CLIENTS}",
    "x-api-key": CLIENTS,
    "cookie": f"session={CLIENTS}",
    "proxy-authorization": f"Basic {CLIENTS}",
    "x-forwarded-for": f"1.2.3.4, {CLIENTS}",
    "forwarded": f"for={CLIENTS}",
    "anthropic-beta": CLIENTS,
    "anthropic-version": "2023-06-01",
    "user-agent": CLIENTS,
    "referer": f"http://{CLIENTS}/",
    "x-stainless-lang": CLIENTS,
}


@asynccontextmanager
async def secretive(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Front]:
    """A gateway with a key of its own, for the stub alone."""
    monkeypatch.setenv("BOX_KEY", OURS)
    async with fronted(api_key_env="BOX_KEY", limits=Limits(poll=0.02, busy_wait=0.1)) as front:
        yield front


async def test_no_header_of_the_client_reaches_the_upstream_which_gets_the_gateways_own_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with secretive(monkeypatch) as front:
        await front.fetch(headers=HEADERS)
        await front.fetch(counted(), COUNT, headers=HEADERS)
        (received,) = front.stub.requests
        sent = [received.headers, *(call.headers for call in front.stub.calls)]
        bodies = [received.raw, *(call.body for call in front.stub.calls)]
    assert received.header("authorization") == f"Bearer {OURS}"
    assert {name.lower() for name, _ in received.headers} <= {
        "host",
        "authorization",
        "accept",
        "content-type",
        "content-length",
        "user-agent",
    }
    assert CLIENTS not in str(sent)
    assert CLIENTS.encode() not in b"".join(bodies)


async def test_no_header_of_the_upstream_reaches_the_client() -> None:
    theirs = {"Set-Cookie": "session=theirs", "Location": "http://internal/", "X-Powered-By": "theirs", "Via": "theirs"}
    async with fronted() as front:
        for stream in (True, False):
            front.stub.play(Script((Head(headers=theirs), *ok(3).steps[1:])))
            answer = await front.fetch(ask(stream=stream))
            assert answer.status == 200
            assert not {"set-cookie", "location", "x-powered-by", "via"} & set(answer.headers)
            assert "theirs" not in str(answer.headers)


@pytest.mark.parametrize("stream", [True, False])
async def test_no_key_is_in_any_error_or_log(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    echo = msgspec.json.encode({"error": {"message": f"Incorrect API key provided: {OURS}"}})
    failures = [
        ok(2),
        error(500),
        status(401, echo),
        status(403, echo, headers={"WWW-Authenticate": OURS}),
        Script((Head(), Error(message=f"bad key {OURS}", code=401))),
        hang(),
        reset(),
        die(2),
    ]
    async with secretive(monkeypatch) as front:
        front.stub.play(*failures)
        wrong = [b"{", {**ask(), "max_tokens": "x"}, ask(model="gpt-9")]
        bodies = [ask(stream=stream)] * len(failures) + wrong
        answers = [await front.fetch(body, headers=HEADERS) for body in bodies]
        answers.append(await front.get("/nowhere", headers=HEADERS))
        log = front.log.text
    for secret in (CLIENTS, OURS):
        assert secret not in str(answers)
        assert secret not in log


async def test_no_word_of_a_conversation_is_in_the_log() -> None:
    async with fronted(limits=Limits(poll=0.02, busy_wait=0.1)) as front:
        for script in (ok(2), error(500), hang(), die(2)):
            front.stub.play(script)
            await front.fetch(ask("a very private question"))
        assert len(front.outcomes) == 4
        for word in ("private", "token-0"):
            assert word not in front.log.text
