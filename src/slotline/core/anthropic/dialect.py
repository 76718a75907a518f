"""One call to the Messages API, as the relay holds it: see `slotline.core.dialect.Dialect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from slotline.core.anthropic import errors, events
from slotline.core.anthropic.answer import Answer
from slotline.core.anthropic.chat import chat_body, tool_names
from slotline.core.anthropic.events import Event, MessageDelta, MessageStart, MessageStop
from slotline.core.anthropic.request import MessagesRequest, parse
from slotline.core.anthropic.stream import MessageStream
from slotline.core.anthropic.tokens import estimate
from slotline.core.errors import SlotlineError
from slotline.core.kind import Traits
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told, frame


class MessagesDialect:
    """Made from the received body; raises Invalid for one that cannot be served."""

    def __init__(
        self,
        raw: bytes,
        *,
        version: str,
        request_id: str,
        message_id: str,
        tool_id: Callable[[], str],
        form: QueueForm,
    ) -> None:
        """`version`: the header `anthropic-version`. `form`: how a place in line is told to this client."""
        request = parse(raw, version=version)
        self.model = request.model
        self.stream = request.stream
        self._raw = raw
        self._version = version
        self._request: MessagesRequest | None = request
        self._prepared: tuple[str, Traits, bytes] | None = None
        self._request_id = request_id
        self._form = form
        self._warming = request.max_tokens == 0
        self._answer = None if request.stream else Answer()
        self._messages = MessageStream(
            message_id=message_id,
            model=request.model,
            tool_id=tool_id,
            input_tokens=estimate(request),
            stop_sequences=request.stop_sequences,
            parallel_tools=not request.disable_parallel,
            tool_names=tool_names(request),
        )

    @property
    def done(self) -> bool:
        return self._messages.done

    @property
    def pieces(self) -> int:
        return self._messages.pieces

    def shelve(self) -> None:
        self._request = self._prepared = None

    def body(self, target: str, traits: Traits) -> bytes:
        """Raises Invalid for content that a server of these `traits` cannot take, such as images without eyes."""
        if self._prepared is not None and self._prepared[:2] == (target, traits):
            return self._prepared[2]
        request = self._request or parse(self._raw, version=self._version)
        vision = traits.vision is not False
        body = chat_body(request, model=target, kind=traits.kind, vision=vision, context=traits.context)
        self._prepared = (target, traits, body)
        return body

    def feed(self, data: bytes) -> bytes:
        return self._out(self._messages.feed(data))

    def end(self) -> bytes:
        return self._out(self._messages.end())

    def whole(self) -> bytes:
        if self._answer is None:
            raise RuntimeError("a streamed call has no whole answer")
        return self._answer.encode()

    def place(self, told: Told) -> bytes:
        return frame(self._form, told)

    def keep_alive(self) -> bytes:
        return KEEP_ALIVE

    def error_event(self, error: SlotlineError) -> bytes:
        return errors.event(error, self._request_id)

    def error_body(self, error: SlotlineError) -> bytes:
        return errors.body(error, self._request_id)

    def _out(self, made: Iterable[Event]) -> bytes:
        if self._warming:
            made = filter(None, map(_without_content, made))
        if self._answer is None:
            return b"".join(map(events.encode, made))
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
