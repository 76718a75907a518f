"""The answer's events as chunks, byte for byte what a server would say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from slotline.core.anthropic.events import (
    BlockStop,
    Event,
    JsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolStart,
    Usage,
)
from slotline.core.completions.chunks import Chunks, finish_reason

COMMON = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}
USAGE = Usage(input_tokens=3, output_tokens=5, cache_read_input_tokens=4)


def chunks(**chosen: Any) -> Chunks:
    return Chunks(COMMON, **{"key": "reasoning_content", "first": {}, "calls": [], "usage": False, **chosen})


def deltas(made: list[bytes]) -> list[Any]:
    """The deltas, in order; of a chunk with a finish reason that reason."""
    found = []
    for payload in made:
        chunk = msgspec.json.decode(payload)
        (choice,) = chunk.pop("choices")
        assert chunk == COMMON
        assert choice.pop("index") == 0
        found.append(choice["finish_reason"] or choice["delta"])
    return found


def test_thinking_text_and_the_end() -> None:
    events: list[Event] = [
        MessageStart("msg_1", "alias", Usage()),
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ThinkingDelta(0, ""),
        SignatureDelta(0),
        BlockStop(0),
        TextStart(1),
        TextDelta(1, "so"),
        BlockStop(1),
        Ping(),
        MessageDelta("end_turn", None, USAGE),
        MessageStop(),
    ]
    assert deltas(chunks().take(events)) == [{"reasoning_content": "hm"}, {"content": "so"}, "stop"]


def test_reasoning_comes_in_the_field_that_the_client_has_seen_it_in() -> None:
    assert deltas(chunks(key="reasoning").take([ThinkingDelta(0, "hm")])) == [{"reasoning": "hm"}]


def test_a_call_is_one_chunk_and_calls_are_counted() -> None:
    events: list[Event] = [
        ToolStart(0, "call_a", "f"),
        JsonDelta(0, '{"a":'),
        JsonDelta(0, "1}"),
        BlockStop(0),
        ToolStart(1, "call_b", "g"),
        BlockStop(1),
    ]
    made = deltas(chunks().take(events))
    assert [delta["tool_calls"] for delta in made] == [
        [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        [{"index": 1, "id": "call_b", "type": "function", "function": {"name": "g", "arguments": "{}"}}],
    ]


def test_a_call_that_the_client_knows_is_not_told_again_and_others_are_counted_behind_it() -> None:
    events: list[Event] = [
        ToolStart(0, "call_a", "f"),
        JsonDelta(0, "{}"),
        BlockStop(0),
        ToolStart(1, "call_b", "g"),
        BlockStop(1),
    ]
    (delta,) = deltas(chunks(calls=["call_a", ""]).take(events))
    assert [(call["index"], call["id"]) for call in delta["tool_calls"]] == [(2, "call_b")]


def test_what_has_to_stand_first_comes_with_the_first_word_and_once() -> None:
    made = chunks(first={"content": "</think>\n\n"})
    assert made.take([Ping()]) == []
    assert deltas(made.take([TextDelta(0, "a")])) == [{"content": "</think>\n\n"}, {"content": "a"}]
    assert deltas(made.take([TextDelta(0, "b")])) == [{"content": "b"}]


def test_what_it_cost_is_told_to_those_who_asked() -> None:
    finish, cost = chunks(usage=True).take([MessageDelta("max_tokens", None, USAGE)])
    assert deltas([finish]) == ["length"]
    assert msgspec.json.decode(cost) == {
        **COMMON,
        "choices": [],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 5,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
    ],
)
def test_every_stop_reason_has_openais_word(theirs: str, ours: str) -> None:
    assert finish_reason(MessageDelta(theirs, None, USAGE)) == ours
