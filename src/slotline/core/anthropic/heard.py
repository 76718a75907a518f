"""The half of an exchange that listens: what every reader of a `MessageStream` tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from slotline.core.anthropic.stream import MessageStream
from slotline.core.openai.chunk import Progress
from slotline.core.record import Tokens


class Heard:
    """See `slotline.core.dialect.Exchange`; made to be inherited from."""

    def __init__(self, messages: MessageStream) -> None:
        self._messages = messages

    @property
    def route(self) -> str:
        return "/v1/chat/completions"

    @property
    def done(self) -> bool:
        return self._messages.done

    @property
    def pieces(self) -> int:
        return self._messages.pieces

    @property
    def thought(self) -> int:
        return self._messages.thought

    @property
    def progress(self) -> Progress | None:
        return self._messages.progress

    @property
    def tokens(self) -> Tokens:
        return self._messages.tokens

    @property
    def completion(self) -> str | None:
        return self._messages.completion

    @property
    def notes(self) -> Sequence[str]:
        return self._messages.notes

    def forced(self) -> None:
        self._messages.forced()

    def again(self) -> None:
        self._messages.again()
