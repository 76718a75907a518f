"""A chat for the library: what its user asks, and the events that come of it.

The same request that the gateway sends, and the same machine that reads the answer; only the outside differs. See
`slotline.client`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from slotline.core.anthropic import events as read
from slotline.core.anthropic.heard import Heard
from slotline.core.anthropic.stream import MessageStream
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Terms, Traits


@dataclass(frozen=True, slots=True)
class Queued:
    """The chat waits in line, with `ahead` before it."""

    ahead: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The chat was sent and nothing has come yet. `slot_busy`: the slot works on it; False: it loads, or got lost."""

    slot_busy: bool


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call of a tool. `arguments`: a JSON object as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ThinkingCapped:
    """The cap on thinking was passed after `tokens`, and the model was made to answer."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """The whole answer. `finish`: stop, length, tool_calls or content_filter, as in OpenAI's API. Counts are tokens."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Completed:
    """The last event of a chat."""

    completion: Completion


Event: TypeAlias = Queued | Waiting | Reasoning | Text | ToolCall | ThinkingCapped | Completed

_FINISH = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}


@dataclass(slots=True)
class _Parts:
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)


class Chat(Heard):
    """See `slotline.core.dialect.Exchange`; what it has read is taken out as events, with `take`."""

    def __init__(
        self, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], stream: MessageStream
    ) -> None:
        """`messages` as in OpenAI's API; `parameters`: further fields of the request, sent as they are.

        Raises Invalid for what is not JSON.
        """
        self._fields = {**parameters, "messages": list(messages)}
        try:
            msgspec.json.encode(self._fields)
        except (TypeError, msgspec.MsgspecError) as error:
            raise Invalid(f"messages or parameters: {error}") from None
        super().__init__(stream)
        self._parts = _Parts()
        self._call: tuple[str, str] | None = None
        self._arguments = ""
        self._made: list[Event] = []
        self._stopped: read.MessageDelta | None = None

    def take(self) -> list[Event]:
        """What has come since the last time."""
        made, self._made = self._made, []
        return made

    @property
    def thinking_budget(self) -> int | None:
        budget = self._fields.get("thinking_budget_tokens")
        return budget if isinstance(budget, int) and budget >= 0 else None

    def chain(self) -> Sequence[int]:
        return tuple(zlib.crc32(msgspec.json.encode(message)) for message in self._fields["messages"])

    def body(self, target: str, traits: Traits, terms: Terms) -> bytes:
        fields = {**self._fields, "model": target, "stream": True, "stream_options": {"include_usage": True}}
        if traits.kind is Kind.LLAMA_CPP:
            fields |= {"return_progress": True, "reasoning_control": True}
            fields |= {} if terms.slot is None else {"id_slot": terms.slot}
            fields |= {} if terms.thinking_cap is None else {"thinking_budget_tokens": terms.thinking_cap}
        if not terms.think:
            fields["chat_template_kwargs"] = {**fields.get("chat_template_kwargs", {}), "enable_thinking": False}
        return msgspec.json.encode(fields)

    def feed(self, data: bytes) -> bytes:
        return self._take_in(self._messages.feed(data))

    def end(self) -> bytes:
        return self._take_in(self._messages.end())

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _take_in(self, events: Sequence[read.Event]) -> bytes:
        for event in events:
            self._one(event)
        return b""

    def _one(self, event: read.Event) -> None:
        match event:
            case read.TextDelta(text=text):
                self._parts.text.append(text)
                self._made.append(Text(text))
            case read.ThinkingDelta(thinking=text):
                self._parts.reasoning.append(text)
                self._made.append(Reasoning(text))
            case read.ToolStart(id=identity, name=name):
                self._call, self._arguments = (identity, name), ""
            case read.JsonDelta(partial_json=text):
                self._arguments += text
            case read.BlockStop() if self._call is not None:
                call = ToolCall(*self._call, self._arguments or "{}")
                self._parts.calls.append(call)
                self._made.append(call)
                self._call = None
            case read.MessageDelta():
                self._stopped = event
            case read.MessageStop():
                self._made.append(Completed(self._whole()))
            case _:
                pass

    def _whole(self) -> Completion:
        usage = self._messages.usage
        reason = self._stopped.stop_reason if self._stopped is not None else "end_turn"
        return Completion(
            "".join(self._parts.text),
            "".join(self._parts.reasoning),
            tuple(self._parts.calls),
            _FINISH.get(reason, "stop"),
            usage.input_tokens + usage.cache_read_input_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens,
        )
