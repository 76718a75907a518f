"""The events of a Messages stream: values, and their frames.

Shapes: https://platform.claude.com/docs/en/build-with-claude/streaming. Every frame has an `event:` line and one line
of JSON whose `type` is the same name: the vendors' clients drop what has no name, and crash on payloads that are no
JSON. The parts of a frame that never change are constants here, because this is done for every token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from slotline.core.sse import encode as _frame

_json = msgspec.json.Encoder().encode

SIGNATURE: Final = "c2xvdGxpbmU"
"""What every thinking block is signed with. Opaque to clients, never checked when it comes back, and not empty: some
clients leave a block without a signature out of the history that they send next (Vercel's AI SDK does)."""


class OutputDetails(msgspec.Struct, frozen=True):
    """`output_tokens_details`: how many of the output tokens were thinking."""

    thinking_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens; all counts are cumulative. `input_tokens` leaves out what was read from the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens_details: OutputDetails | msgspec.UnsetType = msgspec.UNSET


class StopDetails(msgspec.Struct, frozen=True, tag="refusal"):
    """Why a refusal: no category is known to a local model, `explanation` is its own text."""

    explanation: str | None
    category: None = None


class MessageStart(msgspec.Struct, frozen=True):
    """The first event of an answer; `usage` is what is known so far, later overwritten by MessageDelta's."""

    id: str
    model: str
    usage: Usage


class TextStart(msgspec.Struct, frozen=True, gc=False):
    """A text block begins. Blocks follow one another, `index` counts them from 0 without a gap."""

    index: int


class ThinkingStart(msgspec.Struct, frozen=True, gc=False):
    """A thinking block begins."""

    index: int


class ToolStart(msgspec.Struct, frozen=True, gc=False):
    """A tool call begins; its input comes as the JSON text of JsonDeltas, no delta at all means `{}`."""

    index: int
    id: str
    name: str


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """More text for the open text block."""

    index: int
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """More thinking for the open thinking block; empty as a heartbeat."""

    index: int
    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, gc=False):
    """Signs the open thinking block, once, just before its stop."""

    index: int
    signature: str = SIGNATURE


class JsonDelta(msgspec.Struct, frozen=True, gc=False):
    """More of the JSON text that is the input of the open tool call."""

    index: int
    partial_json: str


class BlockStop(msgspec.Struct, frozen=True, gc=False):
    """The open block is complete."""

    index: int


class MessageDelta(msgspec.Struct, frozen=True):
    """Why the answer ended, and what it cost."""

    stop_reason: str
    stop_sequence: str | None
    usage: Usage
    stop_details: StopDetails | None = None


class MessageStop(msgspec.Struct, frozen=True):
    """The last event of an answer."""


class Ping(msgspec.Struct, frozen=True):
    """A sign of life, legal anywhere."""


BlockStart = TextStart | ThinkingStart | ToolStart
Delta = TextDelta | ThinkingDelta | SignatureDelta | JsonDelta
Event = MessageStart | BlockStart | Delta | BlockStop | MessageDelta | MessageStop | Ping


def encode(event: Event) -> bytes:
    """The whole frame of `event`, with its empty line."""
    return _ENCODERS[type(event)](event)


def _message_start(event: MessageStart) -> bytes:
    message = {
        "id": event.id,
        "type": "message",
        "role": "assistant",
        "model": event.model,
        "content": (),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": event.usage,
    }
    return _frame("message_start", _json({"type": "message_start", "message": message}))


def _message_delta(event: MessageDelta) -> bytes:
    delta: dict[str, object] = {"stop_reason": event.stop_reason, "stop_sequence": event.stop_sequence}
    if event.stop_details is not None:
        delta["stop_details"] = event.stop_details
    return _frame("message_delta", _json({"type": "message_delta", "delta": delta, "usage": event.usage}))


_START = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'
_TEXT_START = _START + b'{"type":"text","text":""}}\n\n'
_THINKING_START = _START + b'{"type":"thinking","thinking":"","signature":""}}\n\n'
_TOOL_START = _START + b'{"type":"tool_use","id":%b,"name":%b,"input":{}}}\n\n'
_TEXT_DELTA = _DELTA + b'{"type":"text_delta","text":%b}}\n\n'
_THINKING_DELTA = _DELTA + b'{"type":"thinking_delta","thinking":%b}}\n\n'
_SIGNATURE_DELTA = _DELTA + b'{"type":"signature_delta","signature":%b}}\n\n'
_JSON_DELTA = _DELTA + b'{"type":"input_json_delta","partial_json":%b}}\n\n'
_BLOCK_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_ENCODERS: Final[dict[type[Event], Callable[[Any], bytes]]] = {
    MessageStart: _message_start,
    TextStart: lambda event: _TEXT_START % event.index,
    ThinkingStart: lambda event: _THINKING_START % event.index,
    ToolStart: lambda event: _TOOL_START % (event.index, _json(event.id), _json(event.name)),
    TextDelta: lambda event: _TEXT_DELTA % (event.index, _json(event.text)),
    ThinkingDelta: lambda event: _THINKING_DELTA % (event.index, _json(event.thinking)),
    SignatureDelta: lambda event: _SIGNATURE_DELTA % (event.index, _json(event.signature)),
    JsonDelta: lambda event: _JSON_DELTA % (event.index, _json(event.partial_json)),
    BlockStop: lambda event: _BLOCK_STOP % event.index,
    MessageDelta: _message_delta,
    MessageStop: lambda _: _MESSAGE_STOP,
    Ping: lambda _: _PING,
}
