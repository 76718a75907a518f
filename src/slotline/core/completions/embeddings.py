"""One call for embeddings, as the relay holds it: see `slotline.core.dialect.Dialect`.

Through the line and unchanged: the body but for the model's name, and the answer, which is one JSON object.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotline.core.completions.front import Front
from slotline.core.completions.request import parse_plain, plain_body
from slotline.core.errors import StreamClosedEarly
from slotline.core.kind import Terms, Traits
from slotline.core.openai.chunk import Progress, decode
from slotline.core.openai.errors import explain
from slotline.core.queue_frames import QueueForm
from slotline.core.record import Tokens


class EmbeddingsDialect(Front):
    """Made from the received body; raises Invalid for one that cannot be served."""

    route = "/v1/embeddings"
    stream = False
    thought = 0
    progress: Progress | None = None
    completion: str | None = None
    thinking_budget: int | None = None
    most: int | None = 1
    notes: Sequence[str] = ()
    tokens = Tokens()

    def __init__(self, raw: bytes, *, request_id: str, form: QueueForm) -> None:
        self._asked = parse_plain(raw)
        super().__init__(request_id, form, self._asked.user)
        self._answer: bytes | None = None
        self.model = self._asked.model

    @property
    def done(self) -> bool:
        return self._answer is not None

    @property
    def pieces(self) -> int:
        return 0 if self._answer is None else 1

    def chain(self) -> Sequence[int]:
        """No conversation: llama-server has no way to say where this is to sit, and it may take several slots."""
        return ()

    def body(self, target: str, traits: Traits, terms: Terms) -> bytes:
        return plain_body(self._asked, target)

    def feed(self, data: bytes) -> bytes:
        """The whole answer. Raises UpstreamStatus for an error in its place, Protocol for what is no JSON object."""
        if self._answer is None:
            told = decode(data)
            if (failure := told.failure) is not None:
                raise explain(failure.status, data, "application/json")
            if told.usage is not None:
                self.tokens = Tokens(input=told.usage.prompt_tokens, cached=told.usage.cached_tokens)
            self._answer = data
        return b""

    def forced(self) -> None:
        """There is no reasoning in it."""

    def again(self) -> None:
        """There is no reasoning in it."""

    def end(self) -> bytes:
        if self._answer is None:
            raise StreamClosedEarly("the upstream closed the connection before it had answered")
        return b""

    def whole(self) -> bytes:
        if self._answer is None:
            raise RuntimeError("the answer is not there yet")
        return self._answer
