"""The standard scripts, played on a socket."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from slotline.stub import ErrorForm, Stub
from slotline.stub.standard import (
    cut,
    die,
    endless_thinking,
    error,
    hang,
    head_then_silence,
    html,
    mid_stream_error,
    named,
    ok,
    reset,
    stall,
    status,
    thinking,
    tool_call,
    words,
)
from stub.wire import answer, chat, chunks, dechunked, payloads, pieces, posted, text


async def test_ok_is_role_content_finish_usage_and_done() -> None:
    async with Stub() as stub:
        stub.play(ok(3))
        raw = await answer(stub)
    body, complete = dechunked(raw)
    assert complete
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Type: text/event-stream\r\n" in raw
    assert payloads(body)[-1] == "[DONE]"
    role, *tokens, finish, usage = chunks(raw)
    assert role["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]
    assert [t["choices"][0]["delta"] for t in tokens] == [
        {"content": "token-0"}, {"content": " token-1"}, {"content": " token-2"},
    ]  # fmt: skip
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3
    assert {chunk["id"] for chunk in chunks(raw)} == {stub.requests[0].id}
    assert {chunk["object"] for chunk in chunks(raw)} == {"chat.completion.chunk"}


async def test_thinking_comes_before_the_answer_and_counts_as_completion_tokens() -> None:
    async with Stub() as stub:
        stub.play(thinking(2, 3), thinking(1, 1, key="reasoning"))
        raw, other = await answer(stub), await answer(stub)
    assert text(raw, "reasoning_content") == "thought-0 thought-1"
    assert text(raw) == "token-0 token-1 token-2"
    assert chunks(raw)[-1]["usage"]["completion_tokens"] == 5
    assert text(other, "reasoning") == "thought-0"


async def test_a_tool_call_gives_its_name_first_and_its_arguments_in_pieces_or_all_at_once() -> None:
    async with Stub() as stub:
        stub.play(tool_call("f", '{"a":1}', fragment=3), tool_call("f", '{"a":1}', fragment=0))
        pieces, whole = chunks(await answer(stub)), chunks(await answer(stub))
    calls = [c["choices"][0]["delta"]["tool_calls"][0] for c in pieces[1:-2]]
    assert calls[0] == {"index": 0, "id": "call_0", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a":1}'
    assert pieces[-2]["choices"][0]["finish_reason"] == "tool_calls"
    (once,) = (c["choices"][0]["delta"]["tool_calls"][0] for c in whole[1:-2])
    assert once["function"] == {"name": "f", "arguments": '{"a":1}'}


async def test_die_ends_the_body_cleanly_and_cut_does_not() -> None:
    async with Stub() as stub:
        stub.play(die(2), cut(2))
        died, was_cut = await answer(stub), await answer(stub)
    assert text(died) == text(was_cut) == "token-0 token-1"
    assert dechunked(died)[1]
    assert not dechunked(was_cut)[1]
    for raw in (died, was_cut):
        assert b"[DONE]" not in raw
        assert all(choice["finish_reason"] is None for chunk in chunks(raw) for choice in chunk["choices"])


async def test_reset_resets_the_connection_after_k_tokens_or_before_any_byte() -> None:
    async with Stub() as stub:
        stub.play(reset(2), reset())
        async with posted(stub) as (reader, _):
            await reader.readuntil(b" token-1")
            with pytest.raises(ConnectionResetError):
                await reader.read()
        async with posted(stub) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.read()
        assert stub.state.done == 2


async def test_hang_sends_nothing_and_head_then_silence_sends_only_the_head() -> None:
    async with Stub() as stub:
        stub.play(hang(), head_then_silence(), stall(1))
        async with posted(stub) as (silent, _), posted(stub, chat()) as (head, _):
            await stub.until(lambda s: s.running == 2)
            assert (await head.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
            for reader in (silent, head):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.02)
        async with posted(stub) as (reader, _):
            await reader.readuntil(b"token-0")
            assert stub.requests[2].tokens == 1


async def test_a_head_may_be_silent_for_a_while_and_then_answer() -> None:
    async with Stub() as stub:
        stub.play(head_then_silence(0.01, tokens=2))
        assert text(await answer(stub)) == "token-0 token-1"


async def test_status_error_and_html_answer_at_once_even_if_every_slot_is_taken() -> None:
    async with Stub(slots=1) as stub:
        stub.play(hang(), status(302, headers={"Location": "http://internal/"}), error(429, "slow down"), html(502))
        async with posted(stub):
            await stub.until(lambda s: s.running == 1)
            moved, refused, page = await answer(stub), await answer(stub), await answer(stub)
        assert moved.startswith(b"HTTP/1.1 302")
        assert b"\r\nLocation: http://internal/\r\n" in moved
        assert refused.startswith(b"HTTP/1.1 429")
        assert json.loads(refused.partition(b"\r\n\r\n")[2])["error"] == {
            "code": 429, "message": "slow down", "type": "server_error",
        }  # fmt: skip
        assert page.startswith(b"HTTP/1.1 502")
        assert b"text/html" in page


@pytest.mark.parametrize("form", ErrorForm)
async def test_an_error_in_the_stream_has_the_form_of_its_server(form: ErrorForm) -> None:
    async with Stub() as stub:
        stub.play(mid_stream_error(1, form))
        body, _ = dechunked(await answer(stub))
    frames = body.decode().split("\n\n")
    last = frames[-2] if frames[-2] != "data: [DONE]" else frames[-3]
    fields = {"code": 500, "message": "Compute error.", "type": "server_error"}
    match form:
        case ErrorForm.FIELD:
            assert json.loads(last.removeprefix("error: ")) == {"error": fields}
        case ErrorForm.HTML:
            assert last.startswith("<html>")
        case ErrorForm.TEXT:
            assert json.loads(last.removeprefix("data: ")) == {"error": "Compute error."}
        case _:
            assert last.startswith("event: error\n") == (form is ErrorForm.EVENT)
            assert json.loads(last.rpartition("data: ")[2])["error"].items() >= fields.items()
    assert ("data: [DONE]" in frames) == (form in {ErrorForm.VLLM, ErrorForm.SGLANG})


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("write_size", [None, 1, 7, 100_000])
async def test_write_size_and_line_ending_change_the_bytes_but_not_the_events(
    newline: str, write_size: int | None
) -> None:
    script = msgspec.structs.replace(ok(2), newline=newline, write_size=write_size)
    async with Stub() as stub:
        stub.play(script, ok(2))
        cut_up, plain = await answer(stub), await answer(stub)
    assert text(cut_up) == text(plain) == "token-0 token-1"
    body, complete = dechunked(cut_up)
    assert complete
    assert body.endswith(f"data: [DONE]{newline * 2}".encode())
    sizes = [len(piece) for piece in pieces(cut_up)]
    if write_size is not None:
        assert all(size == write_size for size in sizes[:-2])
        assert 0 < sizes[-2] <= write_size


async def test_endless_thinking_goes_on_until_the_control_endpoint_ends_it() -> None:
    async with Stub() as stub:
        stub.play(endless_thinking(gap=0.001))
        async with posted(stub, chat(reasoning_control=True)) as (reader, _):
            await stub.until(lambda _: stub.requests[0].tokens > 5)
            order = {"id": stub.requests[0].id, "action": "reasoning_end"}
            async with posted(stub, order, "/v1/chat/completions/control") as (reply, _):
                assert (await reply.read()).endswith(b'{"success":true}')
            assert text(await reader.read()) == "token-0 token-1 token-2"


def test_a_name_stands_for_a_builder_and_its_numbers() -> None:
    assert named("hang") == hang()
    assert named("die-3") == die(3)
    assert named("thinking-9-2") == thinking(9, 2)
    assert named("html-504") == html(504)
    for wrong in ("nothing", "die", "die-x", "hang-1"):
        with pytest.raises(ValueError, match=wrong.partition("-")[0]):
            named(wrong)


def test_the_words_of_a_text_joined_are_the_text() -> None:
    for whole in ("hello  there,\nworld \n", " a", "", "one"):
        assert "".join(words(whole)) == whole
