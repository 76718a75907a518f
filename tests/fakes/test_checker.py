"""The checker takes every good stream, and refuses each kind of bad one with its reason."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from fakes.checker import check, drop_queue_frames

USAGE = {
    "input_tokens": 3,
    "output_tokens": 5,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def frame(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def start(**changes: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
    return frame("message_start", message={**message, **changes})


def block(index: int, **content: Any) -> bytes:
    return frame("content_block_start", index=index, content_block=content)


def delta(index: int, **change: Any) -> bytes:
    return frame("content_block_delta", index=index, delta=change)


def stop(index: int) -> bytes:
    return frame("content_block_stop", index=index)


def end(reason: str = "end_turn", sequence: str | None = None, **changes: Any) -> bytes:
    fields = {"delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": USAGE, **changes}
    return frame("message_delta", **fields) + MESSAGE_STOP


def queue(**changes: Any) -> bytes:
    return frame("queue", **{"position": 1, "queue_length": 2, "estimated_wait_ms": None, **changes})


MESSAGE_STOP = frame("message_stop")
TEXT_START = block(0, type="text", text="")
TEXT = TEXT_START + delta(0, type="text_delta", text="hi") + stop(0)
THINKING_START = block(0, type="thinking", thinking="", signature="")
THINKING = THINKING_START + delta(0, type="thinking_delta", thinking="hm")
SIGNATURE = delta(0, type="signature_delta", signature="s")
TOOL_START = block(0, type="tool_use", id="toolu_1", name="f", input={})
ERROR = frame("error", error={"type": "api_error", "message": "died"}, request_id="req_1")
GOOD = start() + TEXT + end()


def test_a_good_stream_is_folded_as_a_client_folds_it() -> None:
    tool = block(2, type="tool_use", id="toolu_1", name="f", input={})
    stream = check(
        b": hello\n\n"
        + queue(position=2, queue_length=2)
        + frame("ping", queue={"position": 1, "queue_length": 1, "estimated_wait_ms": 7})
        + b": queue position=1 length=1 wait_ms=unknown\n\n"
        + frame("progress", stage="prefill", processed=1, total=2)
        + start()
        + THINKING
        + delta(0, type="thinking_delta", thinking="")
        + SIGNATURE
        + stop(0)
        + frame("ping")
        + block(1, type="text", text="")
        + delta(1, type="text_delta", text="a\u2028")
        + delta(1, type="text_delta", text="b")
        + stop(1)
        + tool
        + delta(2, type="input_json_delta", partial_json='{"x"')
        + delta(2, type="input_json_delta", partial_json=":1}")
        + stop(2)
        + end("tool_use")
    )
    assert stream.complete
    assert stream.error is None
    assert (stream.thinking, stream.text) == ("hm", "a\u2028b")
    assert stream.tools == [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}}]
    assert stream.stop_reason == "tool_use"
    assert stream.usage["output_tokens"] == 5
    assert [(place["position"], place["estimated_wait_ms"]) for place in stream.places] == [
        (2, None),
        (1, 7),
        (1, None),
    ]
    assert stream.progress[0]["processed"] == 1
    assert stream.comments == ["hello", "queue position=1 length=1 wait_ms=unknown"]
    assert stream.names[:3] == ["queue", "ping", "progress"]


@pytest.mark.parametrize(
    "raw",
    [
        ERROR,
        queue() + ERROR,
        start() + ERROR,
        start() + TEXT_START + ERROR,
        start() + end(),
        start() + TEXT + end("stop_sequence", "END"),
        start() + TEXT + end("max_tokens"),
        start() + TOOL_START + stop(0) + end("tool_use"),
        start() + TOOL_START + delta(0, type="input_json_delta", partial_json='{"a') + stop(0) + end("max_tokens"),
        start() + TEXT + end(delta={"stop_reason": "refusal", "stop_sequence": None, "stop_details": {}}),
        start() + TEXT + end(usage={**USAGE, "output_tokens_details": {"thinking_tokens": 1}}),
    ],
)
def test_every_legal_end_is_taken(raw: bytes) -> None:
    assert check(raw).complete == (b"message_stop" in raw)


BAD = {
    "no end": start() + TEXT,
    "nothing at all": b"",
    "the last frame is not finished": GOOD[:-1],
    "a carriage return": GOOD.replace(b"\n", b"\r\n"),
    "one event line and one data line, not ['']": GOOD + b"\n\n",
    "one event line and one data line": b'data: {"type":"ping"}\n\n' + GOOD,
    "no event line first": b'data: {"type":"ping"}\nevent: ping\n\n' + GOOD,
    "no data line second": b'event: ping\ndata:{"type":"ping"}\n\n' + GOOD,
    "an event without a name": b'event: \ndata: {"type":""}\n\n' + GOOD,
    "is no JSON:": b"event: done\ndata: [DONE\n\n" + GOOD,
    "is no JSON object": b"event: done\ndata: []\n\n" + GOOD,
    "NaN is no JSON": b'event: ping\ndata: {"type":"ping","queue":NaN}\n\n' + GOOD,
    "data of type": b'event: queue\ndata: {"type":"message_start"}\n\n' + GOOD,
    "a key twice": b'event: ping\ndata: {"type":"ping","type":"ping"}\n\n' + GOOD,
    "no such event": frame("done") + GOOD,
    "something follows the end": GOOD + frame("ping"),
    "something follows": ERROR + b": bye\n\n",
    "a second message_start": start() + start() + TEXT + end(),
    "message lacks ['usage']": GOOD.replace(b'"usage"', b'"use"', 1),
    "id 'x'": start(id="x") + end(),
    "model ''": start(model="") + end(),
    "type or role": start(role="user") + end(),
    "content is not empty": start(content=[{}]) + end(),
    "it has stopped": start(stop_reason="end_turn") + end(),
    "no object: None": start(usage=None) + end(),
    "usage.input_tokens -1": start(usage={**USAGE, "input_tokens": -1}) + end(),
    "usage.output_tokens True": start() + end(usage={**USAGE, "output_tokens": True}),
    "lacks ['cache_creation_input_tokens'": start() + end(usage={"input_tokens": 1, "output_tokens": 1}),
    "usage.output_tokens_details": start() + end(usage={**USAGE, "output_tokens_details": {"thinking_tokens": -1}}),
    "lacks ['usage']": start() + frame("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}),
    "a block before message_start": TEXT + end(),
    "a block while another is open": start() + TEXT_START + block(1, type="text", text="") + end(),
    "a block after message_delta": start() + end()[: -len(MESSAGE_STOP)] + TEXT + end(),
    "index 1, not 0": start() + block(1, type="text", text="") + stop(1) + end(),
    "index 0, not 1": start() + TEXT + TEXT + end(),
    "block type 'image'": start() + block(0, type="image") + stop(0) + end(),
    "a text block starts as": start() + block(0, type="text", text="hi") + stop(0) + end(),
    "a thinking block starts as": start() + block(0, type="thinking", thinking="") + stop(0) + end(),
    "a tool_use block starts as": start() + block(0, type="tool_use", id="t", name="f") + stop(0) + end(),
    "tool id ''": start() + block(0, type="tool_use", id="", name="f", input={}) + stop(0) + end("tool_use"),
    "tool name None": start() + block(0, type="tool_use", id="t", name=None, input={}) + stop(0) + end("tool_use"),
    "tool id 'toolu_1' twice": start()
    + TOOL_START
    + stop(0)
    + block(1, type="tool_use", id="toolu_1", name="f", input={})
    + stop(1)
    + end("tool_use"),
    "no block is open": start() + delta(0, type="text_delta", text="hi") + end(),
    "index 1 is not the open": start() + TEXT_START + delta(1, type="text_delta", text="hi") + stop(0) + end(),
    "delta type 'x'": start() + TEXT_START + delta(0, type="x", text="hi") + stop(0) + end(),
    "a thinking_delta in a text block": start() + TEXT_START + delta(0, type="thinking_delta", thinking="hm") + end(),
    "a text_delta in a thinking block": start() + THINKING_START + delta(0, type="text_delta", text="hi") + end(),
    "a text_delta in a tool_use block": start() + TOOL_START + delta(0, type="text_delta", text="hi") + end(),
    "text None": start() + TEXT_START + delta(0, type="text_delta", text=None) + stop(0) + end(),
    "has ['x']": start() + TEXT_START + delta(0, type="text_delta", text="hi", x=1) + stop(0) + end(),
    "an empty text delta": start() + TEXT_START + delta(0, type="text_delta", text="") + stop(0) + end(),
    "without a signature": start() + THINKING + stop(0) + end(),
    "an empty signature": start() + THINKING + delta(0, type="signature_delta", signature="") + stop(0) + end(),
    "a delta after the signature": start() + THINKING + SIGNATURE + SIGNATURE + stop(0) + end(),
    "message_delta while a block is open": start() + TEXT_START + end(),
    "message_delta before message_start": end(),
    "message_stop without message_delta": start() + TEXT + MESSAGE_STOP,
    "stop_reason 'stop'": start() + TEXT + end("stop"),
    "stop_reason None": start()
    + TEXT
    + frame("message_delta", delta=dict.fromkeys(("stop_reason", "stop_sequence")), usage=USAGE),
    "stop_sequence None": start() + TEXT + end("stop_sequence"),
    "stop_sequence 'END' with stop_reason end_turn": start() + TEXT + end("end_turn", "END"),
    "a cut tool call with stop_reason tool_use": start()
    + TOOL_START
    + delta(0, type="input_json_delta", partial_json='{"a')
    + stop(0)
    + end("tool_use"),
    "the input of a tool call is no object": start()
    + TOOL_START
    + delta(0, type="input_json_delta", partial_json="[]")
    + stop(0)
    + end("tool_use"),
    "tool_use without a tool call": start() + TEXT + end("tool_use"),
    "end_turn after a tool call": start() + TOOL_START + stop(0) + end("end_turn"),
    "an error after message_delta": start() + end()[: -len(MESSAGE_STOP)] + ERROR,
    "error type 'server_error'": frame("error", error={"type": "server_error", "message": "died"}),
    "error message ''": frame("error", error={"type": "api_error", "message": ""}),
    "request_id None": frame("error", error={"type": "api_error", "message": "died"}, request_id=None),
    "a queue frame after message_start": start() + queue() + TEXT + end(),
    "after message_start": start() + frame("ping", queue={"position": 1}) + end(),
    "a queue frame after the slot was granted": frame("progress", stage="loading", processed=0, total=0)
    + queue()
    + GOOD,
    "position 0": queue(position=0) + GOOD,
    "position '1'": queue(position="1") + GOOD,
    "queue_length 1 at position 2": queue(position=2, queue_length=1) + GOOD,
    "estimated_wait_ms 1.5": queue(estimated_wait_ms=1.5) + GOOD,
    "lacks ['estimated_wait_ms'": frame("queue", position=1, queue_length=1) + GOOD,
    "a queue comment that cannot be read": b": queue position=1\n\n" + GOOD,
    "no numbers": b": queue position=x length=1 wait_ms=1\n\n" + GOOD,
    "no wait": b": queue position=1 length=1 wait_ms=None\n\n" + GOOD,
    "a ping with": frame("ping", queues={}) + GOOD,
    "`queue` of a ping is no object": frame("ping", queue=1) + GOOD,
    "a progress frame after message_start": start() + frame("progress", stage="loading", processed=0, total=0) + end(),
    "stage 'x'": frame("progress", stage="x", processed=0, total=0) + GOOD,
    "total -1": frame("progress", stage="loading", processed=0, total=-1) + GOOD,
}


@pytest.mark.parametrize("reason", BAD)
def test_a_violation_is_refused_with_its_reason(reason: str) -> None:
    expected = "the stream has no end" if reason in {"no end", "nothing at all"} else re.escape(reason)
    with pytest.raises(AssertionError, match=expected):
        check(BAD[reason])


def test_damaged_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        check(GOOD.replace(b"hi", b"\xf0\x9f"))


def test_a_stream_may_be_watched_before_its_end() -> None:
    assert not check(start() + TEXT_START, whole=False).complete


def test_without_queue_frames_the_same_stream_is_left() -> None:
    told = (
        b": keep-alive\n\n"
        + queue()
        + b": queue position=1 length=1 wait_ms=5\n\n"
        + frame("ping", queue={"position": 1, "queue_length": 1, "estimated_wait_ms": 7})
        + frame("progress", stage="prefill", processed=1, total=2)
        + GOOD
    )
    left = drop_queue_frames(told)
    assert left == b': keep-alive\n\nevent: ping\ndata: {"type":"ping"}\n\n' + GOOD
    assert check(left).places == []


def test_beats_in_a_text_that_has_begun_are_allowed_where_they_are_expected() -> None:
    empty = delta(0, type="text_delta", text="")
    beaten = start() + TEXT_START + delta(0, type="text_delta", text="hi") + empty + stop(0) + end()
    assert check(beaten, beats=True).text == "hi"
    with pytest.raises(AssertionError, match="an empty text delta"):
        check(beaten)
    with pytest.raises(AssertionError, match="an empty text delta"):
        check(start() + TEXT_START + empty + stop(0) + end(), beats=True)
