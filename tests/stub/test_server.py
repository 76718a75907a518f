"""The stub as a server: slots, its own queue, clients that go, and what it tells of itself."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slotline.core.kind import Kind
from slotline.stub import Side, Stub
from slotline.stub.script import (
    Chunk,
    Close,
    Comment,
    Cut,
    Event,
    Finish,
    Head,
    Progress,
    Raw,
    Reasoning,
    Repeat,
    Role,
    Script,
    Text,
    ToolCall,
    Usage,
)
from slotline.stub.standard import error, hang, held, html, mid_stream_error, ok, swallowed, thinking, tool_call
from stub.wire import answer, chat, chunks, posted, text


async def get(stub: Stub, path: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(stub.url + path) as response:
        return response.status, await response.json(content_type=None)


async def post(stub: Stub, path: str, body: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(stub.url + path, json=body) as response:
        return response.status, await response.json(content_type=None)


# ---- slots and the queue ---------------------------------------------------------------------------------------------


async def test_beyond_its_slots_requests_wait_in_order_and_their_clients_see_no_byte() -> None:
    async with Stub(slots=1, default=held(1)) as stub:
        async with posted(stub) as (first, _), posted(stub) as (second, _):
            await stub.until(lambda s: (s.running, s.waiting, s.held) == (1, 1, 1))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(second.read(1), 0.02)
            assert stub.release() == 1
            assert b"[DONE]" in await first.read()
            await stub.until(lambda s: s.held == 1)
            assert stub.requests[1].state == "running"
            assert stub.release() == 1
            assert b"[DONE]" in await second.read()
        assert stub.state.max_running == 1
        assert stub.state.max_waiting == 1
        assert stub.state.max_in_flight == 2
        assert stub.state.done == 2


async def test_a_server_of_kind_openai_sends_its_head_while_the_request_waits() -> None:
    async with Stub(slots=1, kind=Kind.OPENAI, default=held(1)) as stub, posted(stub), posted(stub) as (second, _):
        await stub.until(lambda s: s.waiting == 1)
        assert (await second.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")


async def test_a_client_that_goes_frees_its_slot_at_once_or_leaves_the_queue() -> None:
    async with Stub(slots=1, default=hang()) as stub:
        async with posted(stub):
            await stub.until(lambda s: s.running == 1)
            async with posted(stub):
                await stub.until(lambda s: s.waiting == 1)
            await stub.until(lambda s: s.aborted == 1)
            assert stub.state.running == 1
            assert stub.floor.slots.busy == 1
        await stub.until(lambda s: s.aborted == 2)
        assert stub.floor.slots.busy == 0
        assert [request.state for request in stub.requests] == ["aborted", "aborted"]


async def test_a_client_that_goes_in_mid_stream_is_aborted_and_one_that_goes_after_the_end_is_done() -> None:
    async with Stub(slots=1, tokens=2) as stub:
        stub.play(held(3, before=1))
        async with posted(stub) as (reader, _):
            await reader.readuntil(b"token-0")
        await stub.until(lambda s: s.aborted == 1)
        async with posted(stub) as (reader, _):
            await reader.readuntil(b"[DONE]")
        assert (await stub.until(lambda s: s.done == 1)).aborted == 1


async def test_with_an_abort_lag_the_slot_works_on_after_its_client_has_gone() -> None:
    async with Stub(slots=1, abort_lag=0.5, tokens=1) as stub:
        stub.play(hang())
        async with posted(stub):
            await stub.until(lambda s: s.running == 1)
        await stub.until(lambda s: s.draining == 1)
        assert (await get(stub, "/slots"))[1][0]["is_processing"] is True
        async with posted(stub) as (reader, _):
            await stub.until(lambda s: s.waiting == 1)
            assert b"[DONE]" in await reader.read()
        assert stub.state.draining == 0
        assert stub.state.max_in_flight == 2


async def test_a_pinned_request_gets_its_slot_and_the_second_prompt_finds_what_the_slot_has_read() -> None:
    async with Stub(slots=2, tokens=1) as stub:
        body = chat(text="the same beginning of a prompt", id_slot=1)
        first, second = chunks(await answer(stub, body))[-1], chunks(await answer(stub, body))[-1]
        cold = chunks(await answer(stub, body | {"cache_prompt": False}))[-1]
    assert [request.slot for request in stub.requests] == [1, 1, 1]
    prompt = first["usage"]["prompt_tokens"]
    cached = [chunk["usage"]["prompt_tokens_details"]["cached_tokens"] for chunk in (first, second, cold)]
    assert cached == [0, prompt - 1, 0]
    assert second["timings"]["cache_n"] == prompt - 1


async def test_a_swallowed_request_is_open_while_slots_say_that_nothing_runs() -> None:
    async with Stub(slots=1, default=swallowed()) as stub, posted(stub):
        await stub.until(lambda s: s.running == 1)
        assert (await get(stub, "/slots"))[1][0]["is_processing"] is False


async def test_hundreds_of_clients_at_once_are_all_answered_and_never_more_run_than_there_are_slots() -> None:
    async with Stub(slots=4, tokens=5) as stub:
        answers = await asyncio.gather(*(answer(stub) for _ in range(200)))
        assert all(b"[DONE]" in raw for raw in answers)
        assert stub.state.max_running == 4
        assert stub.state.done == 200
        assert stub.state.tokens == 200 * 5
        assert len({request.id for request in stub.requests}) == 200


# ---- the usual answer ------------------------------------------------------------------------------------------------


async def test_the_usual_answer_is_what_the_settings_say_within_what_the_request_allows() -> None:
    async with Stub(tokens=4, thinking=3) as stub:
        full = await answer(stub)
        short = await answer(stub, chat(max_tokens=5))
        bounded = await answer(stub, chat(reasoning_budget_tokens=1))
        plain = await answer(stub, chat(chat_template_kwargs={"enable_thinking": False}))
    counts = [
        (text(raw, "reasoning_content").count("-"), text(raw).count("-")) for raw in (full, short, bounded, plain)
    ]
    assert counts == [(3, 4), (3, 2), (1, 4), (0, 4)]
    reasons = [chunks(raw)[-2]["choices"][0]["finish_reason"] for raw in (full, short)]
    assert reasons == ["stop", "length"]


async def test_usage_is_right_and_only_sent_on_request() -> None:
    async with Stub(tokens=2) as stub:
        asked, unasked = await answer(stub), await answer(stub, chat(stream_options=None))
        _, counted = await post(stub, "/apply-template", chat())
        _, tokens = await post(stub, "/tokenize", {"content": counted["prompt"]})
    usage = chunks(asked)[-1]["usage"]
    assert usage["prompt_tokens"] == len(tokens["tokens"])
    assert usage["completion_tokens"] == 2
    assert usage["total_tokens"] == usage["prompt_tokens"] + 2
    assert not any("usage" in chunk for chunk in chunks(unasked))
    assert "timings" in chunks(unasked)[-1]


async def test_echo_repeats_the_last_user_text_whatever_its_length() -> None:
    said = "one  two\nthree " * 10
    async with Stub(tokens=1, echo=True, gap=0.0001) as stub:
        assert text(await answer(stub, chat(text=said))) == said
        parts = [{"type": "text", "text": "in parts"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
        assert text(await answer(stub, chat(messages=[{"role": "user", "content": parts}]))) == "in parts"


async def test_progress_goes_out_when_the_slot_starts_then_silence_then_tokens() -> None:
    async with Stub(tokens=1, hold=0.2, prefill=0.02, batches=2) as stub:
        async with posted(stub, chat(return_progress=True)) as (reader, _):
            await reader.readuntil(b'"processed":0')
            state = await stub.until(lambda _: stub.floor.slots.all[0].task.processed > 5)  # type: ignore[union-attr]
            assert state.tokens == 0
            raw = await reader.read()
        unasked = await answer(stub)
    assert raw.count(b"prompt_progress") == 2
    assert b"prompt_progress" not in unasked
    assert b"[DONE]" in raw


async def test_an_answer_that_is_not_streamed_says_the_same_as_one_object() -> None:
    async with Stub() as stub:
        stub.play(thinking(2, 3), tool_call("f", '{"a":1}'), mid_stream_error(2), html(502))
        _, whole = await post(stub, "/v1/chat/completions", chat(stream=False, return_progress=True))
        _, call = await post(stub, "/v1/chat/completions", chat(stream=False))
        status, wrong = await post(stub, "/v1/chat/completions", chat(stream=False))
        page = await answer(stub, chat(stream=False))
    message = whole["choices"][0]["message"]
    expected = {"content": "token-0 token-1 token-2", "reasoning_content": "thought-0 thought-1"}
    assert message == {"role": "assistant", **expected}
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["completion_tokens"] == 5
    assert "prompt_progress" not in whole
    (tool,) = call["choices"][0]["message"]["tool_calls"]
    assert tool["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert (status, wrong["error"]["message"]) == (500, "Compute error.")
    assert page.startswith(b"HTTP/1.1 502")
    assert b"from a proxy" in page


async def test_a_chunk_of_ones_own_is_folded_into_a_whole_answer() -> None:
    choice = {"delta": {"content": "mine", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}}
    body = {"choices": [choice | {"finish_reason": "tool_calls"}], "system_fingerprint": "x"}
    async with Stub(default=Script((Chunk(body),))) as stub:
        _, whole = await post(stub, "/v1/chat/completions", chat(stream=False))
    (folded,) = whole["choices"]
    assert folded["message"]["content"] == "mine"
    assert folded["message"]["tool_calls"][0]["id"] == "c"
    assert (folded["finish_reason"], whole["system_fingerprint"]) == ("tool_calls", "x")
    assert whole["object"] == "chat.completion"


async def test_a_whole_answer_may_break_off_before_its_length_is_reached() -> None:
    async with Stub() as stub:
        stub.play(Script((Text("half of this"), Cut())), Script((Text("all of this"), Close())))
        half, whole = await answer(stub, chat(stream=False)), await answer(stub, chat(stream=False))
    head, _, body = half.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    assert 0 < len(body) < length
    assert json.loads(whole.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == "all of this"


# ---- scripts ---------------------------------------------------------------------------------------------------------


async def test_every_step_writes_what_its_name_says() -> None:
    script = Script((
        Head(200, {"X-Mine": "1"}),
        Comment(),
        Comment("keepalive"),
        Event("two\nlines", event="ping", id="7"),
        Raw(b"data: raw\n\n"),
        Chunk({"choices": [], "id": "mine"}),
        Progress(1, 2, 0, 9),
        Role(""),
        Repeat((Text("x"),), times=2),
        ToolCall(None, arguments={"a": 1}),
        Finish(None),
        Usage(1, 2, 3, always=True),
    ))  # fmt: skip
    async with Stub(default=script) as stub:
        raw = (await answer(stub, chat(stream_options=None))).decode()
    wanted = [
        "\r\nX-Mine: 1\r\n", ":\n\n", ": keepalive\n\n", "event: ping\nid: 7\ndata: two\ndata: lines\n\n",
        "data: raw\n\n", '"id":"mine"', '"prompt_progress":{"total":2,"cache":0,"processed":1,"time_ms":9}',
        '"delta":{"role":"assistant","content":""}', '"content":"x"', '"content":"x"',
        '"tool_calls":[{"function":{"arguments":{"a":1}}}]', '"delta":{},"finish_reason":null',
        '"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":3}}',
    ]  # fmt: skip
    place = 0
    for piece in wanted:
        place = raw.index(piece, place) + len(piece)


async def test_raw_bytes_before_any_head_are_on_the_wire_as_they_are() -> None:
    async with Stub(default=Script((Raw(b"not HTTP at all\n"),))) as stub:
        assert await answer(stub) == b"not HTTP at all\n"


async def test_a_body_may_be_shorter_than_its_content_length() -> None:
    async with Stub(default=Script((Head(200, length=1000), Raw(b"x" * 200), Cut()))) as stub:
        raw = await answer(stub)
    assert b"Content-Length: 1000" in raw
    assert raw.endswith(b"x" * 200)
    assert not raw.endswith(b"x" * 301)


async def test_an_endless_repeat_without_pauses_stops_when_its_client_goes() -> None:
    async with Stub(default=Script((Repeat((Comment("still here"), Reasoning("hm"))),))) as stub:
        async with posted(stub) as (reader, _):
            await reader.readuntil(b"still here")
        await stub.until(lambda s: s.aborted == 1)


async def test_scripts_come_from_the_queue_the_model_the_models_name_and_the_default() -> None:
    async with Stub(default=ok(4)) as stub:
        stub.play(ok(1))
        stub.by_model["two"] = ok(2)
        models = ("two", "two", "stub-ok-3", "any")
        counts = [text(await answer(stub, chat(model))).count("-") for model in models]
        assert counts == [1, 2, 3, 4]
        assert (await answer(stub, chat("stub-nothing"))).startswith(b"HTTP/1.1 400")


async def test_the_control_endpoint_answers_as_llama_servers_does() -> None:
    path = "/v1/chat/completions/control"
    async with Stub(default=held(1)) as stub, posted(stub):
        await stub.until(lambda s: s.held == 1)
        running = stub.requests[0].id
        assert (await post(stub, path, {"action": "reasoning_end"}))[0] == 400
        assert (await post(stub, path, {"id": running, "action": "other"}))[0] == 400
        status, reply = await post(stub, path, {"id": running, "action": "reasoning_end"})
        assert (status, reply["success"]) == (200, False)
        assert reply["message"] == "reasoning control not enabled for this completion"
        status, reply = await post(stub, path, {"id": "chatcmpl-gone", "action": "reasoning_end"})
        assert (status, reply["success"]) == (200, False)
        assert reply["message"] == "no active completion for this id"


# ---- refusals, loading, misbehaving side routes ----------------------------------------------------------------------


async def test_a_request_that_cannot_be_answered_is_refused_and_recorded() -> None:
    async with Stub(context=50, refuse=lambda body: "no pattern" if "pattern" in body else None) as stub:
        status, reply = await post(stub, "/v1/chat/completions", chat(text="x" * 1000))
        assert (status, reply["error"]["type"]) == (400, "exceed_context_size_error")
        assert reply["error"]["n_prompt_tokens"] > reply["error"]["n_ctx"] == 50
        status, reply = await post(stub, "/v1/chat/completions", chat(pattern=1))
        assert (status, reply["error"]["message"]) == (400, "no pattern")
        status, _ = await post(stub, "/v1/chat/completions", {"messages": None})
        assert status == 400
        assert (await answer(stub, b"{nonsense")).startswith(b"HTTP/1.1 400")
        assert stub.state.done == 4
        assert stub.state.max_running == 0
        assert (await get(stub, "/stub/requests"))[1][3]["body"] == "{nonsense"


async def test_while_it_loads_every_route_says_so() -> None:
    async with Stub(load=60, tokens=1) as stub:
        for path in ("/health", "/slots", "/v1/models"):
            status, reply = await get(stub, path)
            assert status == 503
            assert reply == {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
        assert (await answer(stub)).startswith(b"HTTP/1.1 503")
        assert stub.state.received == 0
        stub.finish_loading()
        assert await get(stub, "/health") == (200, {"status": "ok"})
        stub.start_loading()
        assert (await get(stub, "/health"))[0] == 503


async def test_a_side_route_may_answer_something_else_be_late_or_hang() -> None:
    async with Stub(slots=1) as stub:
        stub.sides["/health"] = Side(status=503, body='{"status":"loading model"}')
        stub.sides["/api/version"] = Side(body='{"version":"0.33"}')
        stub.sides["/props"] = Side(hang=True)
        stub.sides["/slots"] = Side(delay=0.05)
        assert await get(stub, "/health") == (503, {"status": "loading model"})
        assert await get(stub, "/api/version") == (200, {"version": "0.33"})
        asked = asyncio.create_task(get(stub, "/props"))
        await stub.until(lambda _: stub.hits["/props"] == 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, 0.02)
        late = asyncio.create_task(get(stub, "/slots"))
        await stub.until(lambda _: stub.hits["/slots"] == 1)
        async with posted(stub, chat("stub-hang")):
            await stub.until(lambda s: s.running == 1)
            assert (await late)[1][0]["is_processing"] is False, "the picture is from before the delay"
            stub.sides.clear()
            assert (await get(stub, "/slots"))[1][0]["is_processing"] is True


# ---- what it tells, life ---------------------------------------------------------------------------------------------


async def test_every_request_is_recorded_with_all_that_came() -> None:
    async with Stub(tokens=2) as stub, aiohttp.ClientSession() as session:
        headers = {"X-Secret-Marker": "m", "Authorization": "Bearer k"}
        url = stub.url + "/v1/chat/completions"
        async with session.post(url, json=chat("m", extra=1), headers=headers) as response:
            await response.read()
        async with session.get(stub.url + "/health", headers=headers) as response:
            await response.read()
        (request,) = stub.requests
        (call,) = stub.calls
        _, (listed,) = await get(stub, "/stub/requests")
        _, state = await get(stub, "/stub/state")
    assert request.model == "m"
    assert request.body == chat("m", extra=1)
    assert request.header("x-secret-marker") == "m"
    assert ("Authorization", "Bearer k") in request.headers
    assert request.state == "done"
    assert request.ended is not None
    assert request.ended >= request.started
    assert (call.method, call.path) == ("GET", "/health")
    assert ("X-Secret-Marker", "m") in call.headers
    assert listed["body"] == request.body
    assert (listed["id"], listed["model"], listed["state"], listed["tokens"]) == (request.id, "m", "done", 2)
    assert listed["headers"] == [list(pair) for pair in request.headers]
    assert (state["done"], state["received"], state["tokens"]) == (1, 1, 2)


async def test_another_process_may_change_the_scripts_and_release_what_is_held() -> None:
    async with Stub() as stub:
        plan = {"queue": ["held-2"], "default": "error-500", "models": {"m": "ok-1"}}
        assert await post(stub, "/stub/script", plan) == (200, {"queued": 1})
        async with posted(stub) as (reader, _):
            await stub.until(lambda s: s.held == 1)
            assert await post(stub, "/stub/release", {"count": 5}) == (200, {"released": 1})
            assert b"[DONE]" in await reader.read()
        assert text(await answer(stub, chat("m"))) == "token-0"
        assert (await answer(stub)).startswith(b"HTTP/1.1 500")
        assert (await post(stub, "/stub/script", {"default": "nothing"}))[0] == 400
        assert stub.default == error(500)


async def test_waiting_for_a_condition_ends_when_it_holds_or_tells_the_state() -> None:
    async with Stub() as stub:
        with pytest.raises(TimeoutError, match="running=0"):
            await stub.until(lambda s: s.running == 1, timeout=0.01)
        waiting = asyncio.create_task(stub.until(lambda _: stub.requests[1].tokens == 16))
        await answer(stub)
        assert not waiting.done()
        await answer(stub)
        assert (await waiting).received == 2


async def test_it_serves_a_unix_socket_and_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "stub.sock"
    async with Stub(uds=path, tokens=1) as stub:
        assert stub.url == f"unix:{path}"
        assert text(await answer(stub)) == "token-0"
        assert b"token-0" in await answer(stub, chat("stub-reset-1")), "a unix socket ends where TCP resets"
    assert not path.exists()


async def test_stopping_breaks_off_every_answer_and_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    stub = Stub(slots=2, abort_lag=60)
    stub.sides["/health"] = Side(hang=True)
    await stub.start()
    stub.play(hang(), held(3), ok(1))
    loop = asyncio.get_running_loop()
    async with posted(stub), posted(stub) as (streaming, _), posted(stub) as (waiting, _):
        async with aiohttp.ClientSession() as session:
            polling = asyncio.create_task(session.get(stub.url + "/health"))
            await stub.until(lambda s: (s.running, s.waiting, s.held, stub.hits["/health"]) == (2, 1, 1, 1))
            started = loop.time()
            await stub.stop()
            assert loop.time() - started < 0.9
            with pytest.raises(aiohttp.ClientError):
                await polling
        assert not (await streaming.read()).endswith(b"0\r\n\r\n")
        assert await waiting.read() == b""
    await stub.stop()
    gc.collect()
    assert asyncio.all_tasks() == before
    assert stub.state.aborted == 3
    assert stub.state.draining == 0
    assert stub.floor.slots.busy == 0


async def test_it_starts_again_on_its_old_port_and_keeps_its_records() -> None:
    stub = Stub(tokens=1)
    async with stub:
        await answer(stub)
        port = stub.port
    with pytest.raises(ConnectionRefusedError):
        await answer(stub)
    async with stub:
        await answer(stub)
    assert stub.port == port
    assert stub.state.done == 2


async def test_a_taken_port_is_an_error_and_nothing_is_left_open() -> None:
    async with Stub() as stub:
        with pytest.raises(OSError, match=str(stub.port)):
            await Stub(port=stub.port).start()
