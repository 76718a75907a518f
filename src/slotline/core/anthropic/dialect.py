"""One call to the Messages API, as the relay holds it: see `slotline.core.dialect.Dialect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from slotline.core import progress_frames
from slotline.core.anthropic import errors, events
from slotline.core.anthropic.answer import Answer
from slotline.core.anthropic.attachments import NOTHING, Attachment, Found, pending, settled
from slotline.core.anthropic.chat import DEFAULT_TERMS, chain, chat_body, tool_names
from slotline.core.anthropic.clients import BEAT_AFTER, Watchdog, counts_only_events
from slotline.core.anthropic.events import Event, MessageDelta, MessageStart, MessageStop
from slotline.core.anthropic.heard import Heard
from slotline.core.anthropic.media import Image, Pdf
from slotline.core.anthropic.request import MessagesRequest, parse
from slotline.core.anthropic.stream import MessageStream
from slotline.core.anthropic.tokens import estimate
from slotline.core.errors import SlotlineError
from slotline.core.kind import Terms, Traits
from slotline.core.progress_frames import Stage
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told, frame


class MessagesDialect(Heard):
    """Made from the received body; raises Invalid for one that cannot be served."""

    def __init__(  # noqa: PLR0913 - all that the surface knows and the body does not say
        self,
        raw: bytes,
        *,
        version: str,
        request_id: str,
        message_id: str,
        tool_id: Callable[[], str],
        form: QueueForm,
        progress: bool = False,
        user_agent: str = "",
        beat_after: float = BEAT_AFTER,
        found: Found = NOTHING,
    ) -> None:
        """`version`: the header `anthropic-version`. `form`: how a place in line is told to this client.

        `progress`: it wants to know how far the upstream is before the first token. `user_agent`: which client it is.
        `beat_after`: after how many seconds without an event one that counts nothing else gets beats.
        `found`: what was fetched and opened for the request; see `pending`.
        """
        request = settled(parse(raw, version=version), found)
        self.model = request.model
        self.stream = request.stream
        self.user = request.user_id
        self._raw = raw
        self._version = version
        self._found = found
        self._request: MessagesRequest | None = request
        self._budget = request.thinking.budget
        self._request_id = request_id
        self._form = form
        self._progress = progress and request.stream
        self._warming = request.max_tokens == 0
        self._most = request.max_tokens
        self._answer = None if request.stream else Answer()
        needy = counts_only_events(user_agent) and not self._warming  # an answer without blocks has no beats
        self._watchdog = Watchdog(beat_after) if needy else None
        self._sent = 0  # bytes of the answer
        super().__init__(
            MessageStream(
                message_id=message_id,
                model=request.model,
                tool_id=tool_id,
                input_tokens=estimate(request),
                stop_sequences=request.stop_sequences,
                parallel_tools=not request.disable_parallel,
                tool_names=tool_names(request),
            )
        )

    @property
    def thinking_budget(self) -> int | None:
        return self._budget

    @property
    def most(self) -> int | None:
        return self._most

    @property
    def pulse(self) -> float | None:
        """How often `keep_alive` must be asked whatever else is sent, in seconds; None: only in silence."""
        return None if self._watchdog is None else self._watchdog.pulse

    def shelve(self) -> None:
        self._request = None

    def pending(self, traits: Traits) -> Sequence[Attachment]:
        """What has to be fetched or opened for the request before a server of these `traits` can read it."""
        return pending(self._parsed(), vision=traits.vision is not False)

    def check(self, traits: Traits) -> None:
        """Raises Invalid for an image that a server of these `traits` cannot take, or what is not there: all that a
        valid body can hold."""
        parsed = self._parsed()
        if any(isinstance(block, (Image, Pdf)) for message in parsed.messages for block in message.blocks):
            self.body(self.model, traits)

    def chain(self) -> Sequence[int]:
        return chain(self._parsed())

    def body(self, target: str, traits: Traits, terms: Terms = DEFAULT_TERMS) -> bytes:
        """Raises Invalid for content that a server of these `traits` cannot take, such as images without eyes."""
        vision = traits.vision is not False
        return chat_body(
            self._parsed(), model=target, kind=traits.kind, vision=vision, context=traits.context, terms=terms
        )

    def feed(self, data: bytes) -> bytes:
        before = self._messages.progress
        out = self._out(self._messages.feed(data))
        if self._progress and self._messages.progress is not before and not self._messages.started:
            return self._prefill() + out
        return out

    def end(self) -> bytes:
        return self._out(self._messages.end())

    def whole(self) -> bytes:
        if self._answer is None:
            raise RuntimeError("a streamed call has no whole answer")
        return self._answer.encode()

    def place(self, told: Told) -> bytes:
        return b"" if self._messages.started else frame(self._form, told)

    def loading(self) -> bytes:
        return progress_frames.frame(Stage.LOADING) if self._progress and not self._messages.started else b""

    def keep_alive(self, waited: float) -> bytes:
        dog = self._watchdog
        if dog is None or not dog.hungry(self._sent, waited) or self._messages.over:
            return KEEP_ALIVE
        return b"".join(map(events.encode, self._messages.heartbeat()))

    def error_event(self, error: SlotlineError) -> bytes:
        return errors.event(error, self._request_id)

    def error_body(self, error: SlotlineError) -> bytes:
        return errors.body(error, self._request_id)

    def _prefill(self) -> bytes:
        told = self._messages.progress
        if told is None:
            return b""
        return progress_frames.frame(Stage.PREFILL, told.processed, told.total)

    def _parsed(self) -> MessagesRequest:
        return self._request or settled(parse(self._raw, version=self._version), self._found)

    def _out(self, made: Iterable[Event]) -> bytes:
        if self._warming:
            made = filter(None, map(_without_content, made))
        if self._answer is None:
            out = b"".join(map(events.encode, made))
            self._sent += len(out)
            return out
        for event in made:
            self._answer.add(event)
        return b""


def _without_content(event: Event) -> Event | None:
    """`max_tokens: 0` asks for a warm cache and no answer; servers make one token at least, which is left out here."""
    match event:
        case MessageDelta(usage=usage):
            return MessageDelta("max_tokens", None, msgspec.structs.replace(usage, output_tokens=0))
        case MessageStart() | MessageStop():
            return event
        case _:
            return None
