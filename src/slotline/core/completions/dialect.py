"""One call for a chat completion, or for a completion of a plain prompt: see `slotline.core.dialect.Dialect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from slotline.core.anthropic.attachments import NOTHING, Attachment, Found
from slotline.core.anthropic.events import Event, MessageDelta
from slotline.core.anthropic.heard import Heard
from slotline.core.anthropic.stream import MessageStream
from slotline.core.completions import request
from slotline.core.completions.chunks import Chunks, finish_reason
from slotline.core.completions.fold import Fold
from slotline.core.completions.front import Front
from slotline.core.completions.request import Asked
from slotline.core.completions.through import Through, chat_chunk, text_chunk
from slotline.core.kind import Terms, Traits
from slotline.core.openai.attachments import pending, settled
from slotline.core.queue_frames import QueueForm
from slotline.core.record import Tokens

_DONE = b"data: [DONE]\n\n"


class _Completion(Front, Heard):
    """What both have in common. The machine that judges the answer is the one of every route, `MessageStream`."""

    def __init__(
        self, asked: Asked, *, request_id: str, form: QueueForm, tool_id: Callable[[], str], whole: str, roles: bool
    ) -> None:
        Front.__init__(self, request_id, form, asked.user)
        Heard.__init__(self, MessageStream(message_id=request_id, model=asked.model, tool_id=tool_id))
        self._asked = asked
        self.model = asked.model
        self.stream = asked.stream
        self._usage = asked.usage or not asked.stream
        self._through = Through(usage=self._usage, progress=asked.progress and asked.stream, roles=roles)
        self._chunks: Chunks | None = None  # writes the answer, once the gateway has steered it
        self._fold = None if asked.stream else Fold(whole)

    @property
    def thinking_budget(self) -> int | None:
        return self._asked.budget

    @property
    def most(self) -> int | None:
        return self._asked.most

    def feed(self, data: bytes) -> bytes:
        """Raises as `MessageStream.feed` does. What is fed after the end is not heard."""
        if self.done:
            return b""
        seen, began = self._as_chat(data), self.pieces > 0
        made = self._messages.feed(seen)
        if self._chunks is None:
            return self._out(self._through.take(data, seen, began=began), made)
        return self._out([], made)

    def end(self) -> bytes:
        return b"" if self.done else self._out([], self._messages.end())

    def forced(self) -> None:
        self._steered()
        super().forced()

    def again(self) -> None:
        self._steered()
        super().again()

    def whole(self) -> bytes:
        if self._fold is None:
            raise RuntimeError("a streamed call has no whole answer")
        return self._fold.encode()

    def _steered(self) -> None:
        """From now on the answer is what the machine makes of it, and not what the upstream says."""
        self._through.drop()
        if self._chunks is None:
            through = self._through
            first: dict[str, Any] = {} if through.speaks else {"role": "assistant", "content": None}
            if through.key is None and self.thought:
                first["content"] = "</think>\n\n"  # the reasoning went out as text, and its tag is still open
            self._chunks = Chunks(
                through.common(),
                key=through.key or "reasoning_content",
                first=first,
                calls=through.calls,
                usage=self._usage,
            )

    def _out(self, payloads: list[bytes], made: Sequence[Event]) -> bytes:
        """`payloads` of the upstream's own, and what the machine's events add to them."""
        if self._chunks is not None:
            payloads = self._chunks.take(made)
        elif self.done:
            payloads = [*payloads, *self._through.rest(), *self._ending(made)]
        if self._fold is None:
            return b"".join(b"data: %b\n\n" % payload for payload in payloads) + (_DONE if self.done else b"")
        for payload in payloads:
            self._fold.add(payload)
        return b""

    def _ending(self, made: Iterable[Event]) -> list[bytes]:
        """The finish reason, where the upstream ended well without a word of it: some clients raise at its absence."""
        stops = () if self._through.finished else (event for event in made if isinstance(event, MessageDelta))
        return [self._last_chunk(finish_reason(stop)) for stop in stops]

    def _as_chat(self, data: bytes) -> bytes:
        """What the machine reads for `data`."""
        return data

    def _last_chunk(self, finish: str) -> bytes:
        return chat_chunk(self._through.common(), {}, finish)


class ChatDialect(_Completion):
    """`/v1/chat/completions`. Made from the received body; raises Invalid for one that cannot be served."""

    def __init__(
        self,
        raw: bytes,
        *,
        request_id: str,
        form: QueueForm,
        tool_id: Callable[[], str],
        found: Found = NOTHING,
    ) -> None:
        """`form`: how a place in line is told to this client. `tool_id`: makes an id for a call that has none.

        `found`: what was fetched and opened for the request; see `pending`.
        """
        asked = request.parse_chat(raw)
        asked = replace(asked, fields={**asked.fields, "messages": settled(asked.fields["messages"], found)})
        self._pictured = b'"image_url"' in raw
        super().__init__(asked, request_id=request_id, form=form, tool_id=tool_id, whole="chat.completion", roles=True)

    def pending(self, traits: Traits) -> Sequence[Attachment]:
        """What has to be fetched or opened for the request before a server can read it.

        Also for one of these `traits` that sees nothing: what `check` has not taken for an image must not go upstream
        as an address either.
        """
        return pending(self._asked.fields["messages"])

    def check(self, traits: Traits) -> None:
        """Raises Invalid for an image that a model of these `traits` cannot see."""
        if self._pictured and traits.vision is False:
            request.see_no_images(self._asked)

    def chain(self) -> Sequence[int]:
        return request.chat_chain(self._asked)

    def body(self, target: str, traits: Traits, terms: Terms) -> bytes:
        """Raises Invalid as `check` does: another server may serve the model than the one that was thought of."""
        self.check(traits)
        return request.chat_body(self._asked, target, traits, terms)


class TextDialect(_Completion):
    """`/v1/completions`. A plain prompt is no talk: what is said is text, also where it looks like reasoning."""

    def __init__(self, raw: bytes, *, request_id: str, form: QueueForm) -> None:
        """`form`: how a place in line is told to this client. Raises Invalid for a body that cannot be served."""
        asked = request.parse_text(raw)
        super().__init__(
            asked, request_id=request_id, form=form, tool_id=lambda: "", whole="text_completion", roles=False
        )

    @property
    def route(self) -> str:
        return "/v1/completions"

    @property
    def thought(self) -> int:
        """None of it, so that no cap on reasoning ends it."""
        return 0

    @property
    def tokens(self) -> Tokens:
        return msgspec.structs.replace(super().tokens, reasoning=0)

    @property
    def thinking_budget(self) -> int | None:
        return None

    def chain(self) -> Sequence[int]:
        return request.text_chain(self._asked)

    def body(self, target: str, traits: Traits, terms: Terms) -> bytes:
        return request.text_body(self._asked, target, traits, terms)

    def _as_chat(self, data: bytes) -> bytes:
        return _as_chat(data)

    def _last_chunk(self, finish: str) -> bytes:
        return text_chunk(self._through.common(), finish)


class _TextChoice(msgspec.Struct, frozen=True, gc=False):
    index: int | None = None
    text: str | None = None
    finish_reason: str | None = None


class _TextChunk(msgspec.Struct, frozen=True, gc=False):
    choices: list[_TextChoice]
    id: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: Any = None


_text_chunk = msgspec.json.Decoder(_TextChunk)


def _as_chat(data: bytes) -> bytes:
    """A chunk of a completion as the chunk of a chat that says the same; what is none stays as it is."""
    try:
        chunk = _text_chunk.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return data
    if chunk.error:
        return data
    choices = [
        {"index": choice.index, "delta": {"content": choice.text}, "finish_reason": choice.finish_reason}
        for choice in chunk.choices
    ]
    return msgspec.json.encode({"id": chunk.id, "choices": choices, "usage": chunk.usage})
