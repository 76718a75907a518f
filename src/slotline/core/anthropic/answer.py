"""The whole message, for a client that does not stream: the same events, folded.

Shape: https://platform.claude.com/docs/en/api/messages. All eight keys are always there, `stop_sequence` also as null.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from slotline.core.anthropic.events import (
    BlockStop,
    Event,
    JsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    SignatureDelta,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolStart,
)

_encode = msgspec.json.encode

_EMPTY: Final = msgspec.Raw(b"{}")


class Answer:
    """Takes the events of one MessageStream, in order."""

    def __init__(self) -> None:
        self._start: MessageStart | None = None
        self._end: MessageDelta | None = None
        self._complete = False
        self._blocks: list[dict[str, Any]] = []
        self._parts: list[str] = []  # of the open block
        self._signature = ""

    @property
    def complete(self) -> bool:
        """The last event is in."""
        return self._complete

    def add(self, event: Event) -> None:
        """The next event; a ping adds nothing. Nothing is checked here: the machine that makes events has its tests."""
        match event:
            case TextDelta(text=part) | ThinkingDelta(thinking=part) | JsonDelta(partial_json=part):
                self._parts.append(part)
            case TextStart():
                self._blocks.append({"type": "text"})
            case ThinkingStart():
                self._blocks.append({"type": "thinking"})
            case ToolStart(id=identity, name=name):
                self._blocks.append({"type": "tool_use", "id": identity, "name": name})
            case SignatureDelta(signature=signature):
                self._signature = signature
            case BlockStop():
                self._close(self._blocks[-1])
            case MessageStart():
                self._start = event
            case MessageDelta():
                self._end = event
            case MessageStop():
                self._complete = True

    def encode(self) -> bytes:
        """The message as JSON. Raises ValueError while events are missing: half an answer is never sold as one."""
        if self._start is None or self._end is None or not self._complete:
            raise ValueError("the answer is not complete")
        message: dict[str, Any] = {
            "id": self._start.id,
            "type": "message",
            "role": "assistant",
            "model": self._start.model,
            "content": self._blocks,
            "stop_reason": self._end.stop_reason,
            "stop_sequence": self._end.stop_sequence,
            "usage": self._end.usage,
        }
        if self._end.stop_details is not None:
            message["stop_details"] = self._end.stop_details
        return _encode(message)

    def _close(self, block: dict[str, Any]) -> None:
        whole = "".join(self._parts)
        self._parts.clear()
        match block["type"]:
            case "text":
                block["text"] = whole
            case "thinking":
                block["thinking"] = whole
                block["signature"] = self._signature
            case _:
                block["input"] = _object(whole)


def _object(partial_json: str) -> msgspec.Raw:
    """The input of a call. One that max_tokens cut is no JSON, and the message must be: it becomes `{}`."""
    raw = partial_json.encode()
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _EMPTY
    return msgspec.Raw(raw)
