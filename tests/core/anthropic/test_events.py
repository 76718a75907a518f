"""The frames of a Messages stream."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.checker import split
from slotline.core.anthropic import events

USAGE = events.Usage(input_tokens=3, output_tokens=5, output_tokens_details=events.OutputDetails(2))

FRAMES: dict[events.Event, dict[str, object]] = {
    events.MessageStart("msg_1", "m", events.Usage(7)): {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 7,
                "output_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        },
    },
    events.TextStart(0): {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    events.ThinkingStart(1): {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    events.ToolStart(12, "toolu_1", 'f"'): {
        "type": "content_block_start",
        "index": 12,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": 'f"', "input": {}},
    },
    events.TextDelta(0, "a\n\u2028é"): {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a\n\u2028é"},
    },
    events.ThinkingDelta(1, ""): {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "thinking_delta", "thinking": ""},
    },
    events.SignatureDelta(1): {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "signature_delta", "signature": events.SIGNATURE},
    },
    events.JsonDelta(2, '{"x"'): {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"x"'},
    },
    events.BlockStop(2): {"type": "content_block_stop", "index": 2},
    events.MessageDelta("refusal", None, USAGE, events.StopDetails("no")): {
        "type": "message_delta",
        "delta": {
            "stop_reason": "refusal",
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": "no"},
        },
        "usage": {
            "input_tokens": 3,
            "output_tokens": 5,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    },
    events.MessageStop(): {"type": "message_stop"},
    events.Ping(): {"type": "ping"},
}


@pytest.mark.parametrize("event", FRAMES, ids=lambda event: type(event).__name__)
def test_an_event_is_one_named_frame_of_one_line(event: events.Event) -> None:
    """B62. Edge case 95, the half of one frame; the order of frames is the checker's."""
    (frame,) = split(events.encode(event))
    assert frame.data == FRAMES[event]


def test_every_event_has_a_frame() -> None:
    assert {type(event) for event in FRAMES} == set(get_args(events.Event))


def test_a_signature_is_not_empty() -> None:
    """Some clients leave a thinking block without one out of the history they send."""
    assert events.SIGNATURE


def test_without_a_reason_to_give_no_details_are_given() -> None:
    (frame,) = split(events.encode(events.MessageDelta("end_turn", None, USAGE)))
    assert frame.data["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


@given(st.text())
def test_any_text_stays_in_one_line_and_comes_out_unchanged(text: str) -> None:
    """B52.

    Edge case 80: U+2028 and its like are ordinary characters, and no line end of the text is one of the frame."""
    for event in (events.TextDelta(0, text), events.ThinkingDelta(0, text), events.JsonDelta(0, text)):
        frame = events.encode(event)
        assert frame.count(b"\n") == 3
        assert b"\r" not in frame
        (read,) = split(frame)
        assert text in json.loads(json.dumps(read.data["delta"])).values()
