"""Decoding one chunk of a chat completion stream."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import Protocol
from slotline.core.openai.chunk import Failure, Progress, decode


def of(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_a_llama_cpp_chunk() -> None:
    chunk = decode(
        b'{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1795973279,'
        b'"id":"chatcmpl-poeXvFVk0Kxs61MxsOiTllDeKWMUvPtY","model":"smol","system_fingerprint":"b0-unknown",'
        b'"object":"chat.completion.chunk","prompt_progress":{"total":171,"cache":3,"processed":17,"time_ms":3296}}'
    )
    assert chunk.id == "chatcmpl-poeXvFVk0Kxs61MxsOiTllDeKWMUvPtY"
    assert chunk.prompt_progress == Progress(total=171, cache=3, processed=17)
    assert chunk.choice is not None
    assert chunk.choice.delta is not None
    assert chunk.choice.delta.role == "assistant"
    assert chunk.choice.delta.blank
    assert not chunk.begins
    assert chunk.failure is None


def test_every_field_that_is_read() -> None:
    call = {"index": 1, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    delta = {
        "role": "assistant",
        "content": "t",
        "reasoning_content": "r",
        "reasoning": "s",
        "tool_calls": [call],
        "function_call": {"name": "g", "arguments": {"x": 1}},
        "refusal": "no",
    }
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    choice = {"index": 0, "delta": delta, "finish_reason": "stop", "stop_reason": "END", "matched_stop": 7}
    chunk = decode(of(id="i", choices=[choice], usage=usage))
    read = chunk.choice
    assert read is not None
    assert (read.finish_reason, read.stop_reason, read.matched_stop) == ("stop", "END", 7)
    assert read.delta is not None
    assert (read.delta.content, read.delta.reasoning_content, read.delta.reasoning) == ("t", "r", "s")
    assert read.delta.refusal == "no"
    assert read.delta.tool_calls is not None
    assert (read.delta.tool_calls[0].index, read.delta.tool_calls[0].id) == (1, "c")
    assert read.delta.function_call is not None
    assert read.delta.function_call.arguments == {"x": 1}
    assert chunk.usage is not None
    assert (chunk.usage.prompt_tokens, chunk.usage.completion_tokens) == (10, 5)
    assert (chunk.usage.cached_tokens, chunk.usage.thinking_tokens) == (4, 2)
    assert chunk.begins


def test_sglang_tells_reasoning_tokens_beside_the_others() -> None:
    usage = decode(of(choices=[], usage={"prompt_tokens": 1, "reasoning_tokens": 9})).usage
    assert usage is not None
    assert (usage.thinking_tokens, usage.cached_tokens, usage.completion_tokens) == (9, None, None)


def test_null_may_stand_anywhere() -> None:
    fields = dict.fromkeys(("id", "choices", "usage", "prompt_progress", "error", "object"))
    assert decode(of(**fields)).choice is None
    choice = dict.fromkeys(("index", "delta", "message", "finish_reason", "stop_reason", "matched_stop"))
    assert decode(of(choices=[choice])).choice is not None
    delta = dict.fromkeys(("role", "content", "reasoning", "tool_calls", "function_call", "refusal"))
    assert decode(of(choices=[{"delta": delta}])).choice is not None
    call = {"index": None, "id": None, "function": None}
    usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"))
    chunk = decode(of(choices=[{"delta": {"tool_calls": [call]}}], usage=usage))
    assert chunk.usage is not None
    assert chunk.usage.cached_tokens is None
    assert chunk.usage.thinking_tokens is None


def test_fields_of_a_wrong_type_count_as_absent_and_the_rest_is_kept() -> None:
    chunk = decode(
        of(
            id=7,
            model=[1],
            choices=[
                "no choice",
                {
                    "index": "0",
                    "delta": {
                        "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
                        "reasoning": {"x": 1},
                        "role": 3,
                        "tool_calls": {"index": 0.0, "id": 12, "function": {"name": "f", "arguments": ["x"]}},
                    },
                    "finish_reason": 5,
                },
            ],
            usage={
                "prompt_tokens": "12",
                "completion_tokens": 3.0,
                "prompt_tokens_details": [],
                "reasoning_tokens": True,
            },
            prompt_progress={"total": "x", "processed": 2.0},
        )
    )
    assert chunk.id is None
    assert chunk.choice is not None
    assert chunk.choice.finish_reason is None
    delta = chunk.choice.delta
    assert delta is not None
    assert (delta.content, delta.reasoning, delta.role) == ("ab", None, None)
    assert delta.tool_calls is not None
    assert (delta.tool_calls[0].index, delta.tool_calls[0].id) == (0, "12")
    assert delta.tool_calls[0].function is not None
    assert delta.tool_calls[0].function.arguments == ["x"]
    assert chunk.usage is not None
    assert (chunk.usage.prompt_tokens, chunk.usage.completion_tokens) == (12, 3)
    assert (chunk.usage.cached_tokens, chunk.usage.thinking_tokens) == (None, None)
    assert chunk.prompt_progress == Progress(total=0, cache=0, processed=2)


@pytest.mark.parametrize(
    "fields", [{"usage": 5}, {"choices": [{"delta": 5}]}, {"prompt_progress": "x"}, {"choices": 5}]
)
def test_a_wrong_type_in_the_place_of_an_object_counts_as_absent(fields: dict[str, Any]) -> None:
    chunk = decode(of(**fields))
    assert chunk.usage is None
    assert chunk.prompt_progress is None
    assert chunk.choice is None or chunk.choice.delta is None


def test_damaged_text_is_kept_with_replacement_characters() -> None:
    for damaged in (b"a\xf0\x9fb", b"a\\ud83db", b"a\xffb"):
        choice = decode(b'{"choices":[{"delta":{"content":"' + damaged + b'"}}]}').choice
        assert choice is not None
        assert choice.delta is not None
        assert (choice.delta.content or "").replace("\ufffd", "") == "ab"


@pytest.mark.parametrize(
    "data", [b"", b" ", b"[DONE]", b"nonsense", b"[]", b'"x"', b"7", b"null", b'{"choices":', b"<html>", b"[" * 100_000]
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(Protocol, match="no JSON object"):
        decode(data)


def test_only_the_choice_of_index_0_counts() -> None:
    chunk = decode(of(choices=[{"index": 1, "finish_reason": "x"}, {"index": 0, "finish_reason": "stop"}]))
    assert chunk.choice is not None
    assert chunk.choice.finish_reason == "stop"
    assert decode(of(choices=[{"index": 2}])).choice is None


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"error": {"code": 503, "message": "loading", "type": "unavailable_error"}}, 503, "loading"),
        ({"error": {"code": "400", "message": "bad"}}, 400, "bad"),
        ({"error": {"code": "context_length_exceeded", "message": "long"}}, 500, "long"),
        ({"error": {"code": 200, "message": "odd"}}, 500, "odd"),
        ({"error": {"message": "bare"}, "choices": [{"delta": {"content": "x"}}]}, 500, "bare"),
        ({"error": "text"}, 500, "text"),
        ({"error": {"error": {"message": "inner"}}}, 500, "inner"),
        ({"error": {"error": "inner"}}, 500, "inner"),
        ({"error": {"x": 1}}, 500, '{"x": 1}'),
        ({"error": [1]}, 500, "[1]"),
        ({"error": True}, 500, "true"),
        ({"object": "error", "message": "flat", "type": "BadRequest", "code": 400}, 400, "flat"),
        ({"object": "error", "message": "flat", "code": 40001}, 500, "flat"),
        ({"code": 500, "message": "old llama.cpp", "type": "server_error"}, 500, "old llama.cpp"),
    ],
)
def test_an_error_in_any_form_is_found(fields: dict[str, Any], status: int, message: str) -> None:
    """Edge cases 75, 76."""
    assert decode(of(**fields)).failure == Failure(status, message)


@pytest.mark.parametrize(
    "fields", [{"error": None}, {"error": ""}, {"error": {}}, {"error": False}, {"message": "m"}, {"object": "x"}, {}]
)
def test_no_error_where_there_is_none(fields: dict[str, Any]) -> None:
    assert decode(of(**fields)).failure is None


@pytest.mark.parametrize(
    ("choices", "begins"),
    [
        ([], False),
        ([{"delta": {"role": "assistant", "content": ""}}], False),
        ([{"delta": {}, "finish_reason": "stop"}], True),
        ([{"delta": {"content": "x"}}], True),
        ([{"delta": {"reasoning": "x"}}], True),
        ([{"delta": {"tool_calls": [{}]}}], True),
        ([{"message": {"content": "x"}}], True),
    ],
)
def test_a_chunk_that_only_tells_progress_does_not_begin_an_answer(choices: list[Any], begins: bool) -> None:
    progress = {"total": 10, "cache": 0, "processed": 5}
    assert decode(of(choices=choices, prompt_progress=progress)).begins is begins


KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "reasoning",
    "tool_calls",
    "function",
    "index",
    "id",
    "error",
    "usage",
    "finish_reason",
    "arguments",
    "name",
    "prompt_tokens",
    "prompt_tokens_details",
    "cached_tokens",
    "text",
    "code",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=25,
)
TOP = ["choices", "error", "usage", "id", "prompt_progress", "object", "message"]


@given(st.dictionaries(st.sampled_from(TOP), JSON))
def test_no_json_object_is_beyond_reading(fields: dict[str, Any]) -> None:
    chunk = decode(of(**fields))
    assert chunk.failure is None or 400 <= chunk.failure.status <= 599
    assert chunk.begins in {True, False}


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_protocol(data: bytes) -> None:
    with contextlib.suppress(Protocol):
        decode(data)
