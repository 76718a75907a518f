"""The answer's events as chunks, for an answer that the gateway itself has steered.

Once the gateway made the upstream end its reasoning, or asked it anew, its chunks are not the answer any more: some of
the reasoning may come as text, and a second answer begins in the middle of the first. What they mean is known to
`core.anthropic.stream`, and is written down here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from slotline.core.anthropic.events import (
    BlockStop,
    Event,
    JsonDelta,
    MessageDelta,
    TextDelta,
    ThinkingDelta,
    ToolStart,
    Usage,
)
from slotline.core.completions.through import chat_chunk

_REASONS: Final = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}


def finish_reason(event: MessageDelta) -> str:
    """OpenAI's word for why an answer ended."""
    return _REASONS.get(event.stop_reason, "stop")


class Chunks:
    """Writes one answer's events, from the moment at which it was steered."""

    def __init__(
        self, common: Mapping[str, Any], *, key: str, first: Mapping[str, Any], calls: Collection[str], usage: bool
    ) -> None:
        """`common`: what all chunks of this answer say. `key`: the field in which this client gets reasoning.

        `first`: a delta that has to stand before all others; empty: none. `calls`: the ids of the calls that the client
        knows of already, "" for one without. `usage`: it wants to know what the answer cost.
        """
        self._common = common
        self._key = key
        self._first = first
        self._known = frozenset(calls) - {""}
        self._number = len(calls)
        self._usage = usage
        self._call: ToolStart | None = None  # the one whose arguments come
        self._arguments = ""

    def take(self, events: Iterable[Event]) -> list[bytes]:
        """The next events → the payloads for the client."""
        made = [payload for event in events for payload in self._one(event)]
        if made and self._first:
            made.insert(0, chat_chunk(self._common, self._first))
            self._first = {}
        return made

    def _one(self, event: Event) -> list[bytes]:
        match event:
            case ThinkingDelta(thinking=text) if text:
                return [chat_chunk(self._common, {self._key: text})]
            case TextDelta(text=text):
                return [chat_chunk(self._common, {"content": text})]
            case ToolStart():
                self._call, self._arguments = event, ""
            case JsonDelta(partial_json=text):
                self._arguments += text
            case BlockStop() if self._call is not None:
                return self._called(self._call)
            case MessageDelta():
                finish = chat_chunk(self._common, {}, finish_reason(event))
                return [finish, self._cost(event.usage)] if self._usage else [finish]
            case _:
                pass
        return []

    def _called(self, call: ToolStart) -> list[bytes]:
        self._call = None
        if call.id in self._known:
            return []
        function = {"name": call.name, "arguments": self._arguments or "{}"}
        said = {"index": self._number, "id": call.id, "type": "function", "function": function}
        self._number += 1
        return [chat_chunk(self._common, {"tool_calls": [said]})]

    def _cost(self, usage: Usage) -> bytes:
        """OpenAI's count of the prompt includes what came from the cache."""
        prompt = usage.input_tokens + usage.cache_read_input_tokens
        cost = {
            "prompt_tokens": prompt,
            "completion_tokens": usage.output_tokens,
            "total_tokens": prompt + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_input_tokens},
        }
        return msgspec.json.encode({**self._common, "choices": [], "usage": cost})
