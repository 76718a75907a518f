"""Chunks of chat streams as servers send them, and what the translation makes of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fakes.checker import CheckedStream, check
from slotline.core.anthropic import errors, events
from slotline.core.anthropic.answer import Answer
from slotline.core.anthropic.stream import MessageStream
from slotline.core.errors import SlotlineError

Json = dict[str, Any]
DONE = "[DONE]"


def machine(**options: Any) -> MessageStream:
    """A translation whose ids count from 1."""
    numbers = itertools.count(1)
    fixed = {"message_id": "msg_1", "model": "m", "tool_id": lambda: f"toolu_{next(numbers)}"}
    return MessageStream(**{**fixed, **options})


def say(content: str | None = None, *, finish: str | None = None, usage: Any = None, **delta: Any) -> Json:
    """One ordinary chunk."""
    fields = {"content": content, **delta} if content is not None else delta
    chunk: Json = {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}
    return chunk if usage is None else {**chunk, "usage": usage}


def call(index: int | None = 0, name: str | None = None, arguments: Any = None, identity: str | None = None) -> Json:
    """One fragment of a tool call, with the keys that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": identity, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


@dataclass
class Heard:
    """What the client has got so far. `error`: what ended the translation, if anything did."""

    stream: MessageStream
    made: list[events.Event] = field(default_factory=list)
    error: SlotlineError | None = None
    beaten: bool = False  # an old client: it is kept by deltas that say nothing

    def feed(self, chunk: Any) -> None:
        """A chunk as JSON, text as it is, bytes as they are."""
        text = chunk if isinstance(chunk, (str, bytes)) else json.dumps(chunk)
        self._take(self.stream.feed, text.encode() if isinstance(text, str) else text)

    def end(self) -> None:
        """The body ends."""
        self._take(self.stream.end)

    def beat(self) -> None:
        """The client needs a sign of life."""
        self.beaten = True
        self._take(self.stream.heartbeat)

    def _take(self, step: Any, *given: Any) -> None:
        if self.error is not None:
            return
        try:
            self.made += step(*given)
        except SlotlineError as error:
            self.error = error

    def checked(self) -> CheckedStream:
        """What came, read by the strict checker; the whole answer must be the same message, or must not be there."""
        raw, answer = b"".join(map(events.encode, self.made)), Answer()
        for event in self.made:
            answer.add(event)
        if self.error is not None:
            raw += errors.event(self.error, "req_1")
        checked = check(raw, whole=self.error is not None or self.stream.done, beats=self.beaten)
        assert self.stream.done == checked.complete == answer.complete
        if checked.complete:
            assert json.loads(answer.encode()) == checked.message
        return checked


def heard(chunks: Iterable[Any], **options: Any) -> Heard:
    """A whole body, chunk by chunk."""
    listener = Heard(machine(**options))
    for chunk in chunks:
        listener.feed(chunk)
    listener.end()
    return listener


def cut(text: str, edges: Sequence[int]) -> list[str]:
    """`text` in pieces, none of them empty."""
    places = sorted({0, len(text), *(edge % (len(text) + 1) for edge in edges)})
    return [text[start:stop] for start, stop in itertools.pairwise(places)]
