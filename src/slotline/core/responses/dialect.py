"""One call to the Responses API, as the relay holds it: see `slotline.core.dialect.Dialect`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from slotline.core.anthropic.attachments import NOTHING, Attachment, Found, pending, settled
from slotline.core.anthropic.chat import DEFAULT_TERMS, chain, chat_body, tool_names
from slotline.core.anthropic.clients import BEAT_AFTER, Watchdog
from slotline.core.anthropic.events import Event as MessageEvent
from slotline.core.anthropic.heard import Heard
from slotline.core.anthropic.media import Image, Pdf
from slotline.core.anthropic.request import MessagesRequest
from slotline.core.anthropic.stream import MessageStream
from slotline.core.anthropic.tokens import estimate
from slotline.core.errors import SlotlineError
from slotline.core.kind import Terms, Traits
from slotline.core.openai import refusal
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told, frame
from slotline.core.responses import events
from slotline.core.responses.request import parse
from slotline.core.responses.stream import ResponseStream


class ResponsesDialect(Heard):
    """Made from the received body; raises Invalid for one that cannot be served."""

    def __init__(
        self,
        raw: bytes,
        *,
        request_id: str,
        response_id: str,
        item_id: Callable[[str], str],
        clock: Callable[[], float],
        form: QueueForm,
        beat_after: float = BEAT_AFTER,
        found: Found = NOTHING,
    ) -> None:
        """`item_id`: makes an identity with a prefix such as `msg_`. `clock`: Unix time in seconds.

        `form`: how a place in line is told to this client. `beat_after`: after how many seconds without an event it
        gets one as a sign of life. Codex gives a stream up after 300, and counts no comments.
        `found`: what was fetched and opened for the request; see `pending`.
        """
        parsed = parse(raw)
        request = settled(parsed.messages, found)
        self.model = request.model
        self.stream = request.stream
        self.user = request.user_id
        self._found = found
        self._raw = raw
        self._most = request.max_tokens
        self._request: MessagesRequest | None = request
        self._request_id = request_id
        self._form = form
        self._watchdog = Watchdog(beat_after)
        self._sent = 0  # events
        self._responses = ResponseStream(parsed, response_id=response_id, item_id=item_id, clock=clock)
        super().__init__(
            MessageStream(
                message_id=response_id,
                model=request.model,
                tool_id=lambda: item_id("call_"),
                input_tokens=estimate(request),
                parallel_tools=not request.disable_parallel,
                tool_names=tool_names(request),
            )
        )

    @property
    def pulse(self) -> float:
        """How often `keep_alive` must be asked whatever else is sent, in seconds: comments are sent too."""
        return self._watchdog.pulse

    @property
    def most(self) -> int | None:
        return self._most

    @property
    def thinking_budget(self) -> int | None:
        return None

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
        return self._out(self._messages.feed(data))

    def end(self) -> bytes:
        return self._out(self._messages.end())

    def whole(self) -> bytes:
        if not self._responses.ended:
            raise ValueError("the response is not complete")
        return msgspec.json.encode(self._responses.response)

    def place(self, told: Told) -> bytes:
        return frame(self._form, told)

    def loading(self) -> bytes:
        return b""

    def keep_alive(self, waited: float) -> bytes:
        if self._responses.ended:
            return b""
        return self._written(self._responses.sign()) if self._watchdog.hungry(self._sent, waited) else KEEP_ALIVE

    def error_event(self, error: SlotlineError) -> bytes:
        return self._written(self._responses.fail(error))

    def error_body(self, error: SlotlineError) -> bytes:
        return refusal.body(error, self._request_id)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _parsed(self) -> MessagesRequest:
        return self._request or settled(parse(self._raw).messages, self._found)

    def _out(self, made: Sequence[MessageEvent]) -> bytes:
        out = self._responses.translate(made)
        return self._written(out) if self.stream else b""

    def _written(self, made: Sequence[events.Event]) -> bytes:
        self._sent += len(made)
        return b"".join(map(events.encode, made))
