"""The whole message, folded from the same events. (`test_stream` compares the two for every stream of its own.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotline.core.anthropic import events
from slotline.core.anthropic.answer import Answer

START = events.MessageStart("msg_1", "m", events.Usage(7))
END: list[events.Event] = [events.MessageDelta("end_turn", None, events.Usage(3, 5)), events.MessageStop()]


def fold(*given: events.Event) -> Any:
    answer = Answer()
    for event in (START, *given):
        answer.add(event)
    return json.loads(answer.encode())


def test_all_eight_keys_are_there() -> None:
    text: list[events.Event] = [
        events.TextStart(0),
        events.TextDelta(0, "h"),
        events.Ping(),
        events.TextDelta(0, "i"),
        events.BlockStop(0),
    ]
    assert fold(*text, *END) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "output_tokens": 5,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def test_every_kind_of_block() -> None:
    """Edge cases 46, 50: an empty text block is one, and thinking has its signature."""
    message = fold(
        events.ThinkingStart(0),
        events.ThinkingDelta(0, "h"),
        events.ThinkingDelta(0, "m"),
        events.SignatureDelta(0),
        events.BlockStop(0),
        events.TextStart(1),
        events.BlockStop(1),
        events.ToolStart(2, "toolu_1", "f"),
        events.JsonDelta(2, '{"x":'),
        events.JsonDelta(2, "1}"),
        events.BlockStop(2),
        events.ToolStart(3, "toolu_2", "g"),
        events.BlockStop(3),
        events.MessageDelta("tool_use", None, events.Usage()),
        events.MessageStop(),
    )
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": events.SIGNATURE},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
    ]


def test_an_input_that_was_cut_becomes_an_empty_object() -> None:
    """Edge case 71: the message itself must be JSON, and `max_tokens` says why the input is missing."""
    tool: list[events.Event] = [
        events.ToolStart(0, "toolu_1", "f"),
        events.JsonDelta(0, '{"path": "/a'),
        events.BlockStop(0),
    ]
    message = fold(*tool, events.MessageDelta("max_tokens", None, events.Usage()), events.MessageStop())
    assert message["content"][0]["input"] == {}


def test_stop_sequence_and_stop_details_are_passed_on() -> None:
    message = fold(events.MessageDelta("stop_sequence", "END", events.Usage()), events.MessageStop())
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")
    assert "stop_details" not in message
    refused = fold(events.MessageDelta("refusal", None, events.Usage(), events.StopDetails("no")), events.MessageStop())
    assert refused["stop_details"] == {"type": "refusal", "category": None, "explanation": "no"}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_half_an_answer_is_never_sold_as_one(count: int) -> None:
    answer = Answer()
    given: list[events.Event] = [START, *END]
    for event in given[:count]:
        answer.add(event)
    assert not answer.complete
    with pytest.raises(ValueError, match="not complete"):
        answer.encode()
