"""What a conversation asks of an exchange, and the relay of a dialect: one object for one call, first byte to last.

The relay does not know which dialect it holds. A dialect is pure: it turns a request into what the upstream reads, and
what the upstream sends into what the client reads. What goes wrong it raises, as a class of `core.errors`; how that
looks in the client's shape it is asked for separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotline.core.errors import SlotlineError
from slotline.core.kind import Terms, Traits
from slotline.core.openai.chunk import Progress
from slotline.core.queue_frames import Told
from slotline.core.record import Tokens


class Exchange(Protocol):
    """One request to an upstream and what is read from its answer."""

    @property
    def route(self) -> str:
        """Where at the upstream the request goes, such as `/v1/chat/completions`."""
        ...

    @property
    def done(self) -> bool:
        """The upstream's answer is complete; what it sends from now on is not read."""
        ...

    @property
    def pieces(self) -> int:
        """How many pieces of the answer have come so far: text, reasoning, parts of tool calls, and nothing else."""
        ...

    @property
    def thought(self) -> int:
        """How many of the pieces were reasoning."""
        ...

    @property
    def progress(self) -> Progress | None:
        """How far the upstream is in reading the prompt, as it last said; None where it does not tell."""
        ...

    @property
    def completion(self) -> str | None:
        """The upstream's own name of the answer that comes now; None until it has named it."""
        ...

    @property
    def thinking_budget(self) -> int | None:
        """The tokens of reasoning that the client allows at most; None: it says nothing about it."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What was odd about the answer, for the log; no text of it."""
        ...

    def chain(self) -> Sequence[int]:
        """The conversation, message by message, as `core.seats` compares it; empty: it cannot be told where to sit."""
        ...

    def body(self, target: str, traits: Traits, terms: Terms) -> bytes:
        """The request, JSON, for the model `target` on a server of these traits; a stream where the route has one."""
        ...

    def feed(self, data: bytes) -> bytes:
        """The `data` of one event of the upstream's stream → what a streaming client gets for it (often nothing)."""
        ...

    def forced(self) -> None:
        """The upstream was made to end its reasoning, and the answer goes on; some of the reasoning may still come."""
        ...

    def again(self) -> None:
        """The request is sent once more, and the new answer goes on where the old one was left."""
        ...

    def end(self) -> bytes:
        """The upstream's body ended. Raises StreamClosedEarly when the answer in it did not."""
        ...


class Dialect(Exchange, Protocol):
    """One call in the shape of one surface."""

    @property
    def stream(self) -> bool:
        """The client asked for a stream of events, not for one whole answer."""
        ...

    @property
    def user(self) -> str | None:
        """Whom the request says that it is for, in the client's words; that may name a person, and is never logged."""
        ...

    @property
    def most(self) -> int | None:
        """The tokens that the answer may have at most, by the client's word; None: it says nothing about it."""
        ...

    @property
    def tokens(self) -> Tokens:
        """What the call has cost so far, as far as that is known."""
        ...

    def shelve(self) -> None:
        """The call will wait: whatever can be made again from the received body may be let go of."""
        ...

    def whole(self) -> bytes:
        """The whole answer, for a client that did not ask for a stream; only when `done`."""
        ...

    def place(self, told: Told) -> bytes:
        """The frame that tells a waiting client its place."""
        ...

    def loading(self) -> bytes:
        """What a client that wants to know is told while the upstream loads; often nothing."""
        ...

    def keep_alive(self, waited: float) -> bytes:
        """What is sent into a stream that would else be silent for too long; `waited`: seconds since the request came.

        It may open the answer, for a client that takes only parts of an answer for a sign of life.
        """
        ...

    def error_event(self, error: SlotlineError) -> bytes:
        """`error` in a stream that is open: the last thing in it."""
        ...

    def error_body(self, error: SlotlineError) -> bytes:
        """`error` as the JSON body of an answer with a status."""
        ...
