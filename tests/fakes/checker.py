"""The strict checker of Messages streams: every stream of every test goes through it.

`check` knows the protocol from its specification alone and shares no code with what it checks. It reads like the
strictest client: frames of exactly one `event:` line and one `data:` line, closed sets of names, every mandatory key,
contiguous blocks, one signature just before the end of thinking, nothing behind the end. A violation is an
AssertionError that says what is wrong and in which frame.

Shapes: https://platform.claude.com/docs/en/build-with-claude/streaming; queue and progress frames: this project's
interface, "Place in line".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

STOP_REASONS: Final = frozenset(
    {
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
    }
)
ERROR_TYPES: Final = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "timeout_error",
        "overloaded_error",
    }
)
START: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "tool_use": {"type": "tool_use", "input": {}},
}
DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_QUEUE_COMMENT = re.compile(r"queue position=(\S+) length=(\S+) wait_ms=(\S+)")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: an event (`name`, `data`), or a comment (`name` is "", `comment` its text)."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    comment: str = ""


@dataclass(slots=True)
class CheckedStream:
    """A stream that keeps the rules, and what a client makes of it."""

    frames: list[Frame] = field(default_factory=list)
    message: dict[str, Any] | None = None
    """Folded as an SDK does it; None when no message began. The input of a cut tool call is `{}`."""
    error: dict[str, Any] | None = None
    """`{"type", "message"}` of the error that ended the stream."""
    complete: bool = False
    """`message_stop` came."""
    places: list[dict[str, Any]] = field(default_factory=list)
    """Queue frames in any form, in order: position, queue_length, estimated_wait_ms."""
    progress: list[dict[str, Any]] = field(default_factory=list)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of the message."""
        content: list[dict[str, Any]] = (self.message or {}).get("content", [])
        return content

    @property
    def text(self) -> str:
        """The text of all text blocks."""
        return "".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def thinking(self) -> str:
        """The text of all thinking blocks."""
        return "".join(block["thinking"] for block in self.blocks if block["type"] == "thinking")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tool calls."""
        return [block for block in self.blocks if block["type"] == "tool_use"]

    @property
    def stop_reason(self) -> str | None:
        """Why the message ended."""
        reason: str | None = (self.message or {}).get("stop_reason")
        return reason

    @property
    def usage(self) -> dict[str, Any]:
        """As last told."""
        usage: dict[str, Any] = (self.message or {}).get("usage", {})
        return usage

    @property
    def names(self) -> list[str]:
        """The names of all events; comments are not among them."""
        return [frame.name for frame in self.frames if frame.name]

    @property
    def comments(self) -> list[str]:
        """The texts of all comments."""
        return [frame.comment for frame in self.frames if not frame.name]


def check(raw: bytes, *, whole: bool = True, beats: bool = False) -> CheckedStream:
    """The body of a streamed answer, checked. `whole=False` allows it to stop anywhere between two frames.

    `beats`: an old client may be kept by empty deltas in a text block that has text.
    """
    checked = _Checker(beats=beats)
    for number, frame in enumerate(split(raw)):
        try:
            checked.take(frame)
        except AssertionError as error:
            raise AssertionError(f"frame {number} ({frame.name or 'comment'}): {error}") from None
    if whole:
        assert checked.ended, "the stream has no end: neither message_stop nor error"
    return checked.stream


def split(raw: bytes) -> list[Frame]:
    """Bytes → frames, by the strictest reading: `\\n` only, one `event:` and one `data:` line, or comment lines."""
    assert b"\r" not in raw, "a carriage return in the framing"
    text = raw.decode("utf-8")  # UnicodeDecodeError is a failure with a place in it already
    assert not text or text.endswith("\n\n"), f"the last frame is not finished: {text[-60:]!r}"
    return [_frame(block) for block in text.split("\n\n")[:-1]]


def drop_queue_frames(raw: bytes) -> bytes:
    """`raw` without everything that tells a place or a progress: what is left must be a stream in its own right."""
    kept = []
    for block in raw.split(b"\n\n")[:-1]:
        frame = _frame(block.decode())
        if frame.name in {"queue", "progress"} or _QUEUE_COMMENT.match(frame.comment):
            continue
        plain = b'event: ping\ndata: {"type":"ping"}'
        kept.append(plain if frame.name == "ping" and "queue" in frame.data else block)
    return b"".join(block + b"\n\n" for block in kept)


def _frame(block: str) -> Frame:
    lines = block.split("\n")
    if all(line.startswith(":") for line in lines):
        return Frame("", comment="\n".join(line[1:].removeprefix(" ") for line in lines))
    assert len(lines) == 2, f"a frame is one event line and one data line, not {lines!r}"
    assert lines[0].startswith("event: "), f"no event line first: {lines[0]!r}"
    assert lines[1].startswith("data: "), f"no data line second: {lines[1][:80]!r}"
    name = lines[0].removeprefix("event: ")
    assert name, "an event without a name"
    try:
        data = json.loads(lines[1].removeprefix("data: "), object_pairs_hook=_no_twice, parse_constant=_no_constant)
    except ValueError as error:
        raise AssertionError(f"the data of {name} is no JSON: {error}") from None
    assert isinstance(data, dict), f"the data of {name} is no JSON object"
    assert data.get("type") == name, f"event {name} has data of type {data.get('type')!r}"
    return Frame(name, data)


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"a key twice in one object: {[key for key, _ in pairs]}"
    return found


def _no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


class _Checker:
    def __init__(self, *, beats: bool = False) -> None:
        self.stream = CheckedStream()
        self._beats = beats
        self.ended = False
        self._open: dict[str, Any] | None = None
        self._json = ""
        self._signed = False
        self._cut_calls = 0
        self._closing = False  # message_delta came

    def take(self, frame: Frame) -> None:
        assert not self.ended, "something follows the end"
        self.stream.frames.append(frame)
        if not frame.name:
            self._comment(frame.comment)
            return
        take = getattr(self, f"_{frame.name}", None)
        assert take is not None, "no such event"
        take(frame.data)

    # ---- before the message ------------------------------------------------------------------------------------------

    def _comment(self, text: str) -> None:
        found = _QUEUE_COMMENT.fullmatch(text)
        assert found or not text.startswith("queue"), f"a queue comment that cannot be read: {text!r}"
        if found:
            position, length, wait = found.groups()
            assert position.isdigit() and length.isdigit(), f"no numbers: {text!r}"  # noqa: PT018 - one thought
            assert wait.isdigit() or wait == "unknown", f"no wait: {text!r}"
            estimate = int(wait) if wait.isdigit() else None
            self._place({"position": int(position), "queue_length": int(length), "estimated_wait_ms": estimate})

    def _queue(self, data: dict[str, Any]) -> None:
        self._place({key: value for key, value in data.items() if key != "type"})

    def _ping(self, data: dict[str, Any]) -> None:
        assert set(data) <= {"type", "queue"}, f"a ping with {sorted(data)}"
        if "queue" in data:
            assert isinstance(data["queue"], dict), "`queue` of a ping is no object"
            self._place(data["queue"])

    def _place(self, place: dict[str, Any]) -> None:
        assert self.stream.message is None, "a queue frame after message_start"
        assert not self.stream.progress, "a queue frame after the slot was granted"
        _keys(place, {"position", "queue_length", "estimated_wait_ms"})
        position, length, wait = place["position"], place["queue_length"], place["estimated_wait_ms"]
        assert _count(position) and position >= 1, f"position {position!r} is no number from 1"  # noqa: PT018
        assert _count(length) and length >= position, f"queue_length {length!r} at position {position}"  # noqa: PT018
        assert wait is None or _count(wait), f"estimated_wait_ms {wait!r}"
        self.stream.places.append(place)

    def _progress(self, data: dict[str, Any]) -> None:
        assert self.stream.message is None, "a progress frame after message_start"
        _keys(data, {"type", "stage", "processed", "total"})
        assert data["stage"] in {"loading", "prefill"}, f"stage {data['stage']!r}"
        for key in ("processed", "total"):
            assert data[key] is None or _count(data[key]), f"{key} {data[key]!r}"
        self.stream.progress.append(data)

    # ---- the message -------------------------------------------------------------------------------------------------

    def _message_start(self, data: dict[str, Any]) -> None:
        assert self.stream.message is None, "a second message_start"
        _keys(data, {"type", "message"})
        message = data["message"]
        mandatory = {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
        assert mandatory <= set(message), f"message lacks {sorted(mandatory - set(message))}"
        assert _name(message["id"]), f"id {message['id']!r}"
        assert message["id"].startswith("msg_"), f"id {message['id']!r}"
        assert _name(message["model"]), f"model {message['model']!r}"
        assert (message["type"], message["role"]) == ("message", "assistant"), "type or role"
        assert message["content"] == [], "content is not empty"
        assert message["stop_reason"] is None and message["stop_sequence"] is None, "it has stopped"  # noqa: PT018
        _usage(message["usage"])
        self.stream.message = {**message, "content": []}

    def _content_block_start(self, data: dict[str, Any]) -> None:
        _keys(data, {"type", "index", "content_block"})
        assert self.stream.message is not None, "a block before message_start"
        assert self._open is None, "a block while another is open"
        assert not self._closing, "a block after message_delta"
        assert data["index"] == len(self.stream.blocks), f"index {data['index']}, not {len(self.stream.blocks)}"
        block = data["content_block"]
        assert block.get("type") in START, f"block type {block.get('type')!r}"
        expected = START[block["type"]]
        if block["type"] == "tool_use":
            expected = {**expected, "id": block.get("id"), "name": block.get("name")}
            assert _name(block.get("id")), f"tool id {block.get('id')!r}"
            assert _name(block.get("name")), f"tool name {block.get('name')!r}"
            assert block["id"] not in {tool["id"] for tool in self.stream.tools}, f"tool id {block['id']!r} twice"
        assert block == expected, f"a {block['type']} block starts as {expected}, not as {block}"
        self._open, self._json, self._signed = dict(block), "", False
        self.stream.blocks.append(self._open)

    def _content_block_delta(self, data: dict[str, Any]) -> None:
        _keys(data, {"type", "index", "delta"})
        block = self._current(data["index"])
        delta = data["delta"]
        assert delta.get("type") in DELTAS, f"delta type {delta.get('type')!r}"
        fits, key = DELTAS[delta["type"]]
        assert block["type"] == fits, f"a {delta['type']} in a {block['type']} block"
        _keys(delta, {"type", key})
        assert isinstance(delta[key], str), f"{key} {delta[key]!r}"
        assert not self._signed, "a delta after the signature"
        if key == "signature":
            assert delta[key], "an empty signature"
            self._signed = True
            block["signature"] = delta[key]
        elif key == "partial_json":
            self._json += delta[key]
        else:
            beat = key == "thinking" or (self._beats and block[key])  # empty thinking is a heartbeat
            assert delta[key] or beat, "an empty text delta"
            block[key] += delta[key]

    def _content_block_stop(self, data: dict[str, Any]) -> None:
        _keys(data, {"type", "index"})
        block = self._current(data["index"])
        if block["type"] == "thinking":
            assert self._signed, "a thinking block without a signature"
        if block["type"] == "tool_use" and self._json:
            block["input"] = self._input()
        self._open = None

    def _input(self) -> dict[str, Any]:
        try:
            found = json.loads(self._json, parse_constant=_no_constant)
        except ValueError:
            self._cut_calls += 1  # legal only if the tokens ran out: message_delta tells
            return {}
        assert isinstance(found, dict), f"the input of a tool call is no object: {self._json[:80]}"
        return found

    def _current(self, index: Any) -> dict[str, Any]:
        assert self._open is not None, "no block is open"
        assert index == len(self.stream.blocks) - 1, f"index {index} is not the open block's"
        return self._open

    def _message_delta(self, data: dict[str, Any]) -> None:
        _keys(data, {"type", "delta", "usage"})
        assert self.stream.message is not None, "message_delta before message_start"
        assert self._open is None, "message_delta while a block is open"
        delta = data["delta"]
        _keys(delta, {"stop_reason", "stop_sequence"}, {"stop_details"})
        reason, sequence = delta["stop_reason"], delta["stop_sequence"]
        assert reason in STOP_REASONS, f"stop_reason {reason!r}"
        if reason == "stop_sequence":
            assert _name(sequence), f"stop_sequence {sequence!r}"
        else:
            assert sequence is None, f"stop_sequence {sequence!r} with stop_reason {reason}"
        assert not self._cut_calls or reason == "max_tokens", f"a cut tool call with stop_reason {reason}"
        assert reason != "tool_use" or self.stream.tools, "stop_reason tool_use without a tool call"
        assert reason not in {"end_turn", "stop_sequence"} or not self.stream.tools, f"{reason} after a tool call"
        _usage(data["usage"])
        self._closing = True
        self.stream.message |= {**delta, "usage": {**self.stream.usage, **data["usage"]}}

    def _message_stop(self, data: dict[str, Any]) -> None:
        _keys(data, {"type"})
        assert self._closing, "message_stop without message_delta"
        self.ended = self.stream.complete = True

    def _error(self, data: dict[str, Any]) -> None:
        _keys(data, {"type", "error"}, {"request_id"})
        assert not self._closing, "an error after message_delta"
        error = data["error"]
        _keys(error, {"type", "message"})
        assert error["type"] in ERROR_TYPES, f"error type {error['type']!r}"
        assert _name(error["message"]), f"error message {error['message']!r}"
        assert "request_id" not in data or _name(data["request_id"]), f"request_id {data['request_id']!r}"
        self.ended = True
        self.stream.error = error


def _keys(found: Any, mandatory: set[str], optional: frozenset[str] | set[str] = frozenset()) -> None:
    assert isinstance(found, dict), f"no object: {found!r}"
    assert mandatory <= set(found), f"lacks {sorted(mandatory - set(found))}"
    assert set(found) <= mandatory | optional, f"has {sorted(set(found) - mandatory - optional)}"


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _usage(usage: Any) -> None:
    counts = {"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}
    _keys(usage, counts, {"output_tokens_details", "service_tier"})
    for key in counts:
        assert _count(usage[key]), f"usage.{key} {usage[key]!r}"
    if "output_tokens_details" in usage:
        _keys(usage["output_tokens_details"], {"thinking_tokens"})
        assert _count(usage["output_tokens_details"]["thinking_tokens"]), "usage.output_tokens_details"
