"""The strict checker of Responses streams: every such stream of every test goes through it.

Like `fakes.checker`, it knows the protocol from its specification alone, shares no code with what it checks, and reads
like the strictest client: closed sets of names and keys, numbers without a gap, items that open, grow and close one
after another, deltas that add up to what the end says, and nothing behind the end.

Shapes: https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from fakes.checker import Frame, split

_QUEUE = re.compile(r"queue position=(\d+) length=(\d+) wait_ms=(\d+|unknown)")

_CONSTANT = """
    background created_at id instructions max_output_tokens max_tool_calls metadata model object parallel_tool_calls
    previous_response_id prompt_cache_key reasoning safety_identifier service_tier store temperature text tool_choice
    tools top_logprobs top_p truncation user
"""
CHANGES: Final = frozenset({"status", "completed_at", "error", "incomplete_details", "output", "usage"})
"""Keys of a response that differ from one event to the next."""
RESPONSE: Final = CHANGES | frozenset(_CONSTANT.split())
"""Every key of a response."""

_ITEM = {"item_id", "output_index"}
KEYS: Final[dict[str, set[str]]] = {
    **{
        f"response.{name}": {"response"}
        for name in ("created", "queued", "in_progress", "completed", "incomplete", "failed")
    },
    "response.output_item.added": {"output_index", "item"},
    "response.output_item.done": {"output_index", "item"},
    "response.content_part.added": {*_ITEM, "content_index", "part"},
    "response.content_part.done": {*_ITEM, "content_index", "part"},
    "response.output_text.delta": {*_ITEM, "content_index", "delta", "logprobs"},
    "response.output_text.done": {*_ITEM, "content_index", "text", "logprobs"},
    "response.reasoning_text.delta": {*_ITEM, "content_index", "delta"},
    "response.reasoning_text.done": {*_ITEM, "content_index", "text"},
    "response.reasoning_summary_part.added": {*_ITEM, "summary_index", "part"},
    "response.reasoning_summary_part.done": {*_ITEM, "summary_index", "part"},
    "response.reasoning_summary_text.delta": {*_ITEM, "summary_index", "delta"},
    "response.reasoning_summary_text.done": {*_ITEM, "summary_index", "text"},
    "response.function_call_arguments.delta": {*_ITEM, "delta"},
    "response.function_call_arguments.done": {*_ITEM, "arguments"},
    "response.custom_tool_call_input.delta": {*_ITEM, "delta"},
    "response.custom_tool_call_input.done": {*_ITEM, "input"},
    "error": {"code", "message", "param", "error"},
}
"""Every event, and its keys besides `type` and `sequence_number`."""

_TEXT = ("response.content_part.added", "response.output_text", "response.content_part.done")
_THOUGHT = ("response.content_part.added", "response.reasoning_text", "response.content_part.done")
_SUMMARY = (
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text",
    "response.reasoning_summary_part.done",
)
_PART: Final = {_TEXT: "output_text", _THOUGHT: "reasoning_text", _SUMMARY: "summary_text"}


@dataclass(slots=True)
class CheckedResponse:
    """A stream that keeps the rules, and what a client makes of it."""

    frames: list[Frame] = field(default_factory=list)
    response: dict[str, Any] | None = None
    """As last told."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """The items that were completed."""
    error: dict[str, Any] | None = None
    """The error that ended the stream."""
    places: list[tuple[int, int]] = field(default_factory=list)
    """Queue comments: position, length."""

    @property
    def complete(self) -> bool:
        """The answer is whole."""
        return self.response is not None and self.response["status"] == "completed"

    @property
    def text(self) -> str:
        """All that the model said."""
        return "".join(part["text"] for item in self._of("message") for part in item["content"])

    @property
    def reasoning(self) -> str:
        """All that the model thought, in whichever form."""
        return "".join(
            part["text"] for item in self._of("reasoning") for part in (*item["summary"], *item.get("content", ()))
        )

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of tools."""
        return self._of("function_call") + self._of("custom_tool_call")

    @property
    def names(self) -> list[str]:
        """The names of all events."""
        return [frame.name for frame in self.frames if frame.name]

    @property
    def comments(self) -> list[str]:
        """The texts of all comments."""
        return [frame.comment for frame in self.frames if not frame.name]

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.items if item["type"] == kind]


def check(raw: bytes, *, whole: bool = True) -> CheckedResponse:
    """The body of a streamed answer, checked. `whole=False` allows it to stop anywhere between two frames."""
    checker = _Checker()
    for number, frame in enumerate(split(raw)):
        try:
            checker.take(frame)
        except AssertionError as error:
            raise AssertionError(f"frame {number} ({frame.name or 'comment'}): {error}") from None
    if whole:
        assert checker.ended, "the stream has no end"
    return checker.seen


def check_whole(response: dict[str, Any]) -> dict[str, Any]:
    """An answer that was not streamed, checked like the last event of a stream."""
    _response(response)
    assert response["status"] in {"completed", "incomplete"}, f"status {response['status']!r}"
    for item in response["output"]:
        _item(item, done=True)
    _ending(response)
    return response


class _Checker:
    def __init__(self) -> None:
        self.seen = CheckedResponse()
        self.ended = False
        self._number = 0
        self._runs = False  # in_progress came
        self._failed = False  # only an error may follow
        self._item: dict[str, Any] | None = None  # the open one, as it was added
        self._steps: list[str] = []  # what is still to come of it; [0] is next
        self._parts: list[str] = []
        self._ids: set[str] = set()

    def take(self, frame: Frame) -> None:
        assert not self.ended, "something follows the end"
        self.seen.frames.append(frame)
        if not frame.name:
            self._comment(frame.comment)
            return
        assert frame.name in KEYS, "no such event"
        data = frame.data
        _keys(data, KEYS[frame.name] | {"type", "sequence_number"})
        assert data["sequence_number"] == self._number, f"number {data['sequence_number']}, not {self._number}"
        self._number += 1
        assert not self._failed or frame.name == "error", "only an error may follow response.failed"
        assert self.seen.response is not None or frame.name == "response.created", "not created yet"
        if "response" in data:
            self._life(frame.name.removeprefix("response."), data["response"])
        elif frame.name == "error":
            self._error(data)
        elif frame.name == "response.output_item.added":
            self._added(data)
        elif frame.name == "response.output_item.done":
            self._done(data)
        else:
            self._inside(frame.name, data)

    def _comment(self, text: str) -> None:
        if text.startswith("queue"):
            found = _QUEUE.fullmatch(text)
            assert found, f"a queue comment that cannot be read: {text!r}"
            assert not self._runs, "a place in line after the answer began"
            position, length = int(found[1]), int(found[2])
            assert 1 <= position <= length, f"position {position} of {length}"
            self.seen.places.append((position, length))

    # ---- the response ------------------------------------------------------------------------------------------------

    def _life(self, name: str, response: dict[str, Any]) -> None:
        _response(response)
        before, self.seen.response = self.seen.response, response
        if before is None:
            assert name == "created", "not created yet"
        else:
            assert name != "created", "created twice"
            same = RESPONSE - CHANGES
            assert {key: before[key] for key in same} == {key: response[key] for key in same}, "another response"
        match name:
            case "created":
                assert response["status"] in {"queued", "in_progress"}, f"status {response['status']!r}"
                assert response["output"] == [], "output at the beginning"
            case "queued" | "in_progress":
                assert response["status"] == name, f"status {response['status']!r}"
                assert name == "in_progress" or not self._runs, "queued after it ran"
                assert response["output"] == [], "clients have the output already"
                self._runs = self._runs or name == "in_progress"
            case "failed":
                self._fail(response)
            case _:
                assert self._runs, "an end before a beginning"
                assert self._item is None, "an item is open"
                assert response["status"] == name, f"status {response['status']!r}"
                assert response["output"] == self.seen.items, "the output is not what was streamed"
                _ending(response)
                self.ended = True

    def _fail(self, response: dict[str, Any]) -> None:
        assert response["status"] == "failed", f"status {response['status']!r}"
        _keys(response["error"], {"code", "message"})
        assert _word(response["error"]["code"]), "no code"
        assert isinstance(response["error"]["message"], str), "no message"
        done = len(self.seen.items)
        assert response["output"][:done] == self.seen.items, "the output is not what was streamed"
        for item in response["output"][done:]:
            assert self._item is not None, "an item that was not streamed"
            assert item["id"] == self._item["id"], "an item that was not streamed"
        self._failed = True

    def _error(self, data: dict[str, Any]) -> None:
        assert self._failed, "response.failed comes first"
        _keys(data["error"], {"message", "type", "param", "code"})
        assert _word(data["code"]), f"code {data['code']!r}"
        assert data["message"] == data["error"]["message"], "two messages"
        assert self.seen.response is not None, "not created yet"
        assert self.seen.response["error"] == {"code": data["code"], "message": data["message"]}, "two errors"
        self.seen.error = data["error"]
        self.ended = True

    # ---- items -------------------------------------------------------------------------------------------------------

    def _added(self, data: dict[str, Any]) -> None:
        item = data["item"]
        assert self._runs, "an item before the response is in progress"
        assert self._item is None, "an item while another is open"
        assert data["output_index"] == len(self.seen.items), f"index {data['output_index']}"
        _item(item, done=False)
        assert item["id"] not in self._ids, f"id {item['id']!r} twice"
        calls = {call["call_id"] for call in self.seen.calls}
        assert item.get("call_id") not in calls, "call_id twice"
        self._ids.add(item["id"])
        self._item, self._parts, self._steps = item, [], []

    def _done(self, data: dict[str, Any]) -> None:
        assert self._item is not None, "no item is open"
        item, added = data["item"], self._item
        assert data["output_index"] == len(self.seen.items), f"index {data['output_index']}"
        _item(item, done=True)
        for key in ("id", "type", "call_id", "name", "role", "namespace"):
            assert item.get(key) == added.get(key), f"{key} changed"
        assert self._steps == ["item"], f"still to come: {self._steps}"
        assert _said(item) == "".join(self._parts), "the item is not what was streamed"
        self.seen.items.append(item)
        self._item = None

    def _inside(self, name: str, data: dict[str, Any]) -> None:
        assert self._item is not None, "no item is open"
        assert data["item_id"] == self._item["id"], "another item"
        assert data["output_index"] == len(self.seen.items), f"index {data['output_index']}"
        assert data.get("content_index", 0) == data.get("summary_index", 0) == 0, "another part"
        assert data.get("logprobs", []) == [], "logprobs that nobody asked for"
        if not self._steps:
            self._steps = _order(self._item["type"], name)
        if name.endswith(".delta"):
            assert self._steps[0] == name.removesuffix(".delta"), f"expected {self._steps[0]}"
            assert isinstance(data["delta"], str), "a delta that is no text"
            assert data["delta"] or "call" in name, "an empty delta"
            self._parts.append(data["delta"])
            return
        if name == f"{self._steps[0]}.done":
            text = data.get("text", data.get("arguments", data.get("input")))
            assert text == "".join(self._parts), "the deltas say something else"
        else:
            assert name == self._steps[0], f"expected {self._steps[0]}"
            expected = "" if name.endswith("added") else "".join(self._parts)
            extra: dict[str, Any] = {"annotations": [], "logprobs": []} if data["part"]["type"] == "output_text" else {}
            assert data["part"] == {"type": self._steps[-2], "text": expected, **extra}, f"part {data['part']}"
        self._steps.pop(0)
        if self._steps[0] in _PART.values():
            self._steps.pop(0)


def _order(kind: str, first: str) -> list[str]:
    """What has to come in an item of `kind` that goes on with `first`; the last but one is the type of its part."""
    match kind, first:
        case "message", _:
            form = _TEXT
        case "reasoning", "response.content_part.added":
            form = _THOUGHT
        case "reasoning", _:
            form = _SUMMARY
        case "function_call", _:
            return ["response.function_call_arguments", "item"]
        case _:
            return ["response.custom_tool_call_input", "item"]
    return [*form, _PART[form], "item"]


def _item(item: dict[str, Any], *, done: bool) -> None:
    assert _word(item.get("id")), f"id {item.get('id')!r}"
    assert item["status"] in ({"completed", "incomplete"} if done else {"in_progress"}), f"status {item['status']!r}"
    match item["type"]:
        case "message":
            _keys(item, {"type", "id", "status", "role", "content"})
            assert item["id"].startswith("msg_"), f"id {item['id']!r}"
            assert item["role"] == "assistant", f"role {item['role']!r}"
            assert len(item["content"]) == done, f"{len(item['content'])} parts"
        case "reasoning":
            _keys(item, {"type", "id", "status", "summary"}, {"content", "encrypted_content"})
            assert item["id"].startswith("rs_"), f"id {item['id']!r}"
            assert len(item["summary"]) + len(item.get("content", ())) == done, "parts"
        case "function_call":
            _keys(item, {"type", "id", "status", "call_id", "name", "arguments"}, {"namespace"})
            assert item["id"].startswith("fc_"), f"id {item['id']!r}"
            if done and item["status"] == "completed":
                assert isinstance(json.loads(item["arguments"]), dict), f"arguments {item['arguments']!r}"
        case "custom_tool_call":
            _keys(item, {"type", "id", "status", "call_id", "name", "input"}, {"namespace"})
            assert item["id"].startswith("ctc_"), f"id {item['id']!r}"
        case other:
            raise AssertionError(f"item type {other!r}")
    assert "call_id" not in item or (_word(item["call_id"]) and _word(item["name"])), "a call without id or name"
    assert done or not _said(item), "an item that begins with something in it"


def _said(item: dict[str, Any]) -> str:
    parts = [part["text"] for key in ("summary", "content") for part in item.get(key, ())]
    return "".join([*parts, item.get("arguments", ""), item.get("input", "")])


def _response(response: dict[str, Any]) -> None:
    _keys(response, set(RESPONSE))
    assert response["object"] == "response", f"object {response['object']!r}"
    assert response["id"].startswith("resp_"), f"id {response['id']!r}"
    assert isinstance(response["created_at"], int), f"created_at {response['created_at']!r}"
    assert (response["store"], response["background"], response["previous_response_id"]) == (False, False, None)
    assert (response["completed_at"] is not None) == (response["status"] == "completed"), "completed_at"
    assert (response["error"] is not None) == (response["status"] == "failed"), "error"
    assert (response["incomplete_details"] is not None) == (response["status"] == "incomplete"), "incomplete_details"
    assert (response["usage"] is not None) == (response["status"] in {"completed", "incomplete"}), "usage"


def _ending(response: dict[str, Any]) -> None:
    usage = response["usage"]
    _keys(usage, {"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"})
    _keys(usage["input_tokens_details"], {"cached_tokens", "cache_write_tokens"})
    _keys(usage["output_tokens_details"], {"reasoning_tokens"})
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"], "the total is no sum"
    assert 0 <= usage["input_tokens_details"]["cached_tokens"] <= usage["input_tokens"], "cached_tokens"
    assert usage["output_tokens_details"]["reasoning_tokens"] >= 0, "reasoning_tokens"
    if response["status"] == "incomplete":
        _keys(response["incomplete_details"], {"reason"})
        assert response["incomplete_details"]["reason"] in {"max_output_tokens", "content_filter"}, "reason"
    else:
        assert all(item["status"] == "completed" for item in response["output"]), "an incomplete item"


def _keys(found: dict[str, Any], mandatory: set[str], optional: set[str] | None = None) -> None:
    keys = set(found)
    assert mandatory <= keys, f"lacks {sorted(mandatory - keys)}"
    assert keys <= mandatory | (optional or set()), f"has {sorted(keys - mandatory - (optional or set()))}"


def _word(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
