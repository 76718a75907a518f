"""One request at one upstream, from sitting down in a slot to the server's last word.

    sit     a slot, the one that still holds this conversation if it is free
    send    the chat request goes out; silence is bounded phase by phase, and the server is asked what it means
    hear    each event of the answer is translated and delivered as it comes, whole events only
    cap     reasoning that goes on too long is ended: by the server's own control, else by asking anew without it

The gateway's relay and the library's client both go through here. Leaving early, by whatever exception, closes the
connection, and the slot is kept out of use until the server has stopped working on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from slotline.core.dialect import Exchange
from slotline.core.errors import ThinkingOverrun
from slotline.core.kind import Terms, Traits
from slotline.core.limits import Limits
from slotline.core.liveness import State
from slotline.core.thinking import Cap, Step

Hold = Callable[[], Callable[[], None]]
Deliver = Callable[[bytes], Awaitable[None]]


class Seat(Protocol):
    """One slot of an upstream, as one request has it."""

    @property
    def slot(self) -> int | None:
        """The slot's own id, where the server lets one choose."""
        ...

    def finish(self) -> None:
        """The server has said its last word: it does not work on this request any more."""
        ...


class Answer(Protocol):
    """One upstream's answer as it comes: the `data` of its events, those of one read together."""

    def __aiter__(self) -> AsyncIterator[list[bytes]]: ...

    async def end_reasoning(self, completion: str | None, passed: str) -> bool:
        """Asks the server to end its reasoning and to answer; False where it can only be asked anew, without reasoning.

        `passed`: the bound, in words for the error. Raises ThinkingOverrun where neither is possible.
        """
        ...

    @property
    def quiet(self) -> float:
        """Seconds since the server sent a byte, whatever it was."""
        ...

    def heard(self, pieces: int) -> None:
        """How many pieces of the answer were in what has come so far; keep-alives and reports are none."""
        ...


class Upstream(Protocol):
    """One inference server; see `slotline.upstream.client`."""

    @property
    def traits(self) -> Traits: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def remembers(self) -> bool:
        """It matters to which slot a conversation goes."""
        ...

    def seat(
        self, chain: Sequence[int], hold: Callable[[], Callable[[], None]], only: int | None = None
    ) -> AbstractContextManager[Seat]:
        """A slot for a conversation, or the one that is chosen for it by its id, and no other.

        Left before `finish`, it is held back until the server has stopped working.
        """
        ...

    def answer(
        self,
        body: bytes,
        slot: int | None,
        saw: Callable[[State], None] | None,
        *,
        route: str,
        patient: bool,
        headers: Mapping[str, str],
    ) -> AbstractAsyncContextManager[Answer]:
        """Sends a request to `route`, to `slot` where one was chosen.

        `saw` is told what its silence means, now and then.
        `patient`: a server that cannot be connected to is restarting, and is waited for as for one that loads.
        `headers`: those that go with it besides the gateway's own.

        Raises the `UpstreamFailure` that fits, also while its answer is read; leaving the block before the end closes
        the connection.
        """
        ...


@dataclass(slots=True)
class Trace:
    """What may be seen of a conversation from outside while it goes on. Nothing is decided by it."""

    upstream: Upstream | None = None
    seat: Seat | None = None  # None before and after
    answer: Answer | None = None  # from its head on
    silence: State | None = None  # what it means that there is no head yet, as last asked


@dataclass(frozen=True, slots=True)
class Conversation:
    """`target`: the model's name at the upstream. `cap`: the bound on this answer's reasoning.

    `patient`: it has waited for this upstream, and waits on if that cannot be connected to. `headers`: what else the
    upstream is told of the request.
    """

    upstream: Upstream
    exchange: Exchange
    target: str
    cap: Cap
    patient: bool = False
    trace: Trace = field(default_factory=Trace)
    headers: Mapping[str, str] = field(default_factory=dict)

    async def hold(
        self,
        hold: Hold,
        deliver: Deliver,
        saw: Callable[[State], None] | None = None,
        sent: Callable[[], None] = lambda: None,
        only: int | None = None,
    ) -> bytes:
        """Runs it. What comes is given to `deliver`, but for the last bytes: they are returned, the slot being free.

        `hold`: keeps the gate's slot for as long as the server still works. `saw`: see `Upstream.answer`. `sent` is
        called as soon as the request is ready to go out. `only`: the slot of the server that it is to sit in.
        """
        chain = self.exchange.chain() if only is None and self.upstream.remembers else ()
        with self.upstream.seat(chain, hold, only) as seat, self._seen(seat):
            terms = Terms(seat.slot, self.cap.limit)
            last = await self._hear(terms, deliver, saw, sent)
            if last is None:
                self.exchange.again()
                last = await self._hear(replace(terms, think=False), deliver, saw)
            if last is None:
                raise ThinkingOverrun("thinking: the upstream went on reasoning after it was asked not to")
            seat.finish()
            return last

    @contextmanager
    def _seen(self, seat: Seat) -> Iterator[None]:
        self.trace.seat = seat
        try:
            yield
        finally:
            self.trace.seat = None

    async def _hear(
        self,
        terms: Terms,
        deliver: Deliver,
        saw: Callable[[State], None] | None,
        sent: Callable[[], None] = lambda: None,
    ) -> bytes | None:
        """One answer, to its last bytes; None: its reasoning went on too long, and the server must be asked anew."""
        exchange = self.exchange
        body = exchange.body(self.target, self.upstream.traits, terms)
        sent()
        async with self.upstream.answer(
            body, terms.slot, saw, route=exchange.route, patient=self.patient, headers=self.headers
        ) as answer:
            self.trace.answer = answer
            async for batch in answer:
                out, fault = _translated(exchange, batch)
                answer.heard(exchange.pieces)
                if exchange.done:
                    return out
                await deliver(out)
                if fault is not None:
                    raise fault
                if self.cap.count(exchange.thought, exchange.pieces) is Step.GO_ON:
                    continue
                if not await answer.end_reasoning(exchange.completion, self.cap.named):
                    return None
                exchange.forced()
            return exchange.end()  # in here: an answer that breaks off is the upstream's failure


def _translated(exchange: Exchange, batch: list[bytes]) -> tuple[bytes, Exception | None]:
    """What a client gets for `batch`, and what is wrong with the rest of it.

    What came before a fault is the client's, whether or not it was read in one piece with the fault.
    """
    out = bytearray()
    try:
        for data in batch:
            out += exchange.feed(data)
    except Exception as fault:  # noqa: BLE001 - raised again, once what came before it is written
        return bytes(out), fault
    return bytes(out), None
