"""THE LIFE OF ONE REQUEST, from the moment it is known to be valid to its one outcome.

    turn    the gate: wait in line; each change of place goes to the client (nothing does when a slot is free at once)
    attend  the upstream that the turn named answers, and each event is written as it comes (`slotline.conversation`)
    settle  the slot is given back as soon as the upstream has said its last word, before the client has read it

A server that cannot be reached, loads for ever or swallows a request has not begun with it: the request goes back to
its old place and is tried once elsewhere. One that has waited in line for the only server there is waits on until that
is back, for as long as a load may take. A slot whose request was ended before its time is not given out again before
the server has stopped working on it.

Whatever happens travels the same way back through ordinary `async with` and `except`: a client that leaves is a
cancellation (the surface arms it), and leaving the blocks closes the upstream's connection and gives the slot or the
place in line back, once. `_ending` is the only place that turns an exception into an end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Protocol, Self

from slotline.conversation import Conversation, Trace, Upstream
from slotline.core.errors import (
    LoadTimeout,
    Outcome,
    QueueTimeout,
    ShuttingDown,
    SlotlineError,
    SlotLost,
    Stalled,
    Superseded,
    Unreachable,
    Withdrawn,
)
from slotline.core.habits import Run
from slotline.core.liveness import State
from slotline.core.party import Party
from slotline.core.queue_frames import Told, comment
from slotline.core.record import Moment
from slotline.core.thinking import Cap
from slotline.passage import Call, ClientGone, Passage, Reply

_log = logging.getLogger(__name__)

_TRY_ELSEWHERE = (Unreachable, LoadTimeout, Stalled, Withdrawn)
_PATROL = 0.5  # seconds between two looks at those who are with us
_LAST_WORDS = 0.5
"""Seconds in which a request that is ended by a shutdown can say so; only clients that do not read need longer."""


class Turn(Protocol):
    """A place in line, then a slot; see `slotline.gate.turn`."""

    upstream: str | None

    @property
    def number(self) -> int | None:
        """Its place in the order of all arrivals; None before it has joined the line."""
        ...

    @property
    def since(self) -> float | None:
        """When it was given its slot; None before that."""
        ...

    @property
    def seat(self) -> int | None:
        """The server's own number of that slot, where the gate has chosen it."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    def __aiter__(self) -> AsyncIterator[Told]: ...

    def hold(self) -> Callable[[], None]:
        """The slot outlives the turn, and is given back by the call that this returns."""
        ...

    def retry(self) -> bool:
        """Back to the old place in line, for the other upstreams; False where there are none."""
        ...


class Places(Protocol):
    """Those of clients that left, kept for `seconds`; see `slotline.core.rejoin.Kept`."""

    seconds: float

    def keep(self, request: bytes, number: int, now: float) -> None: ...
    def take(self, request: bytes, now: float) -> int | None: ...


class Gate(Protocol):
    """Who may go when; see `slotline.gate.local`."""

    def turn(
        self,
        upstreams: Collection[str],
        size: int,
        party: Party,
        *,
        model: str,
        run: Run,
        place: int | None,
        chain: Callable[[], Sequence[int]],
    ) -> Turn:
        """A turn of `party`. `run`: the request itself, as far as its length can be foretold from what it does.

        `place`: the number of a turn that has left, whose place this one takes. `chain`: its conversation, message by
        message, for a gate that wants to know it.
        """
        ...

    @property
    def kept(self) -> Places:
        """The places of those who left."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why nothing comes to pass at present; None when all is well."""
        ...

    def close(self) -> None: ...


class Server(Upstream, Protocol):
    """An upstream, as those see it who wait for it. Its clock is the relay's."""

    @property
    def closed_since(self) -> float | None:
        """Since when it is out of order and takes nobody; None while it takes somebody."""
        ...


class Relay:
    """Carries requests from the surface through the gate to the upstreams and back."""

    def __init__(
        self,
        gate: Gate,
        upstreams: Mapping[str, Server],
        clock: Callable[[], float],
        ended: Callable[[Passage, Outcome, SlotlineError | None], None],
        rejoin: float = 0.0,
        noted: Callable[[Passage, Moment], None] = lambda *_: None,
    ) -> None:
        """`upstreams` may change at any time; a turn may name one that is no more.

        `ended` is told of every request's one outcome, and of the error that made it, if one did. `noted` is told of
        what happens to it before that; a request that is tried elsewhere is granted and sent a second time.

        `rejoin`: for how many seconds the place of a client that left is kept for it.
        """
        self._gate = gate
        self._upstreams = upstreams
        self._clock = clock
        self._ended = ended
        self._noted = noted
        self.kept = gate.kept
        self.kept.seconds = rejoin
        self._passages: dict[str, Passage] = {}
        self.closing = False  # nobody is let in any more
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def passages(self) -> Collection[Passage]:
        """Every request that has not ended."""
        return self._passages.values()

    def passage(self, id: str) -> Passage | None:  # noqa: A002 - it is the id
        """The request of this id; None if there is none, or it has ended."""
        return self._passages.get(id)

    async def carry(self, call: Call, reply: Reply) -> None:
        """One request, to its end. Raises nothing but the cancellation that it was ended by."""
        passage = Passage(call, reply, self._clock())
        self._passages[call.id] = passage
        self._empty.clear()
        try:
            self._noted(passage, Moment.ARRIVED)
            async with asyncio.TaskGroup() as tasks:
                passage.beside = tasks
                heart = tasks.create_task(reply.beat()) if call.dialect.stream else None
                try:
                    await self._ending(passage, reply)
                finally:
                    if heart is not None:
                        heart.cancel()
        finally:
            passage.over.set()
            del self._passages[call.id]
            if not self._passages:
                self._empty.set()

    async def patrol(self) -> None:
        """Looks after those who are with us, until cancelled.

        Who waits for upstreams that have all been out of order for `load_wait` is told so. Who waits in line for longer
        than its client does is out of it. A client that sends more than is taken in while it is served is cut off:
        nobody would see it leave.
        """
        while True:
            await asyncio.sleep(_PATROL)
            trouble = self._gate.trouble
            for passage in list(self._passages.values()):
                passage.reply.check()
                if passage.granted is None:
                    self._tell_trouble(passage, trouble)
                    self._check_upstreams(passage)
                    self._check_patience(passage)

    def _tell_trouble(self, passage: Passage, trouble: str | None) -> None:
        """One that waits hears why its place stands still, and when it does not any more."""
        if passage.ending or passage.beside is None:
            return
        if passage.trouble != trouble and passage.call.dialect.stream:
            news = comment(f"the line stands still: {trouble}" if trouble else "the line moves on")
            passage.beside.create_task(_tell(passage.reply, lambda: news))
        passage.trouble = trouble

    def _check_upstreams(self, passage: Passage) -> None:
        servers = [self._upstreams[name] for name in passage.call.upstreams if name in self._upstreams]
        if not servers:  # taken out of the configuration; the gate tells it so
            return
        closed = [server.closed_since for server in servers]
        limit = max(server.limits.load_wait for server in servers)
        since = [moment for moment in closed if moment is not None]
        if len(since) == len(closed) and self._clock() - max(*since, passage.arrived) >= limit:
            passage.stop(LoadTimeout(f"waiting in line: the upstream was out of order for load_wait = {limit:g} s"))

    def _check_patience(self, passage: Passage) -> None:
        """A client that has given up closes its connection, but a proxy before it need not."""
        limit = passage.call.patience
        if limit is not None and self._clock() - passage.arrived >= limit:
            passage.gave_up = True
            passage.stop(QueueTimeout(f"waiting in line: the client itself waits for {limit:g} s at most"))

    def lapse(self) -> None:
        """The slots of all who run are others' by now: they end."""
        for passage in list(self._passages.values()):
            if passage.granted is not None and not passage.complete:
                passage.stop(SlotLost("the gateway lost its lease, and the slot went to others"))

    async def drain(self, grace: float) -> None:
        """Shuts down: waiters are refused now, running answers may end within `grace` seconds, then they are ended.

        Whoever is still there when it returns does not read what is sent to it.
        """
        self.closing = True
        self._gate.close()
        if await self._emptied(grace):
            return
        for passage in list(self._passages.values()):
            passage.stop(ShuttingDown(f"the gateway is shutting down, and drain = {grace:g} s has passed"))
        await self._emptied(_LAST_WORDS)

    async def _emptied(self, seconds: float) -> bool:
        """Whether every request has ended, within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._empty.wait()
        except TimeoutError:
            return False

    async def _ending(self, passage: Passage, reply: Reply) -> None:
        """Runs the request and gives it its one outcome."""
        error: SlotlineError | None = None
        left = False
        try:
            await self._run(passage, reply)
        except SlotlineError as known:
            error = known
        except ClientGone:
            left = True
        except asyncio.CancelledError:
            error = passage.verdict()
            if error is None:
                self._note(passage, None, left=True)
                raise
        except Exception:  # noqa: BLE001 - the one boundary: nothing unforeseen may end without an end
            _log.exception("request %s: a fault of the gateway itself", passage.call.id)
            error = SlotlineError("the gateway made a mistake; its log has the details")
        self._note(passage, error, left=left or isinstance(error, Superseded))
        if error is not None:
            await self._fail(reply, error)

    async def _run(self, passage: Passage, reply: Reply) -> None:
        call, dialect = passage.call, passage.call.dialect
        await self._replace(passage)
        if call.sameness is not None:
            passage.place = self.kept.take(call.sameness, self._clock())
        asked = self._gate.turn(
            call.upstreams,
            call.size,
            call.party,
            model=call.target,
            run=passage,
            place=passage.place,
            chain=partial(self._chain, call),
        )
        async with asked as turn:
            passage.number, passage.place = turn.number, None
            await self._wait(passage, turn, reply)
            try:
                last = await self._attend(passage, turn, reply)
            except _TRY_ELSEWHERE:  # without a piece of an answer: not one byte has come back
                if dialect.pieces or not turn.retry():
                    raise
                passage.retried, passage.granted, passage.upstream = True, None, None
                await self._wait(passage, turn, reply)
                last = await self._attend(passage, turn, reply)
        await reply.finish(last if dialect.stream else dialect.whole())

    def _chain(self, call: Call) -> Sequence[int]:
        """The conversation, where it matters in which slot it goes on."""
        remembers = any(self._upstreams[name].remembers for name in call.upstreams if name in self._upstreams)
        return call.dialect.chain() if remembers else ()

    async def _wait(self, passage: Passage, turn: Turn, reply: Reply) -> None:
        """Stands in line until the slot is granted, and tells the client of each change of place."""
        dialect = passage.call.dialect
        async for told in turn:
            passage.told = told
            dialect.shelve()
            if dialect.stream:
                await reply.send(dialect.place(told))
        passage.granted, passage.upstream = self._clock(), turn.upstream
        if passage.told is not None:
            reply.waited(passage.granted - passage.arrived)
        self._noted(passage, Moment.GRANTED)

    async def _attend(self, passage: Passage, turn: Turn, reply: Reply) -> bytes:
        """Lets the upstream answer; returns the last bytes of it unwritten, so that no reader holds the slot."""
        call, dialect = passage.call, passage.call.dialect
        upstream = self._upstreams.get(str(turn.upstream))
        if upstream is None:  # between the grant and now, which is long for a client that reads slowly
            raise Withdrawn("the upstream was taken out of the configuration before the request was sent")
        cap = Cap(upstream.limits, dialect.thinking_budget)
        patient = passage.told is not None and (passage.retried or len(call.upstreams) == 1)
        passage.trace = Trace(upstream)
        headers = {} if call.span is None else call.span.headers
        conversation = Conversation(upstream, dialect, call.target, cap, patient, passage.trace, headers)
        try:
            deliver, saw = partial(self._deliver, passage, reply), partial(self._saw, passage, reply)
            last = await conversation.hold(turn.hold, deliver, saw, partial(self._sent, passage, turn), turn.seat)
            self._heard(passage)
            return last
        finally:
            passage.capped = cap.limit if cap.passed else None

    async def _deliver(self, passage: Passage, reply: Reply, data: bytes) -> None:
        """Writes what has come, or keeps it until it is whole, for a call that does not stream."""
        self._heard(passage)
        if passage.call.dialect.stream:
            await reply.send(data)

    def _sent(self, passage: Passage, turn: Turn) -> None:
        """It goes out. One that stood in line was given its slot as soon as that was free: so long nobody used it."""
        if passage.told is not None and turn.since is not None:
            passage.idle = self._clock() - turn.since
        self._noted(passage, Moment.SENT)

    def _heard(self, passage: Passage) -> None:
        """Remembers when the answer began, and when it came to the point."""
        if passage.spoke is not None or not passage.pieces:
            return
        now = self._clock()
        if passage.pieces > passage.call.dialect.thought:
            passage.spoke = now
        if passage.began is None:
            passage.began = now
            self._noted(passage, Moment.BEGAN)

    def _saw(self, passage: Passage, reply: Reply, state: State) -> None:
        """The upstream's silence has a meaning, which some clients want to know."""
        dialect, passage.trace.silence = passage.call.dialect, state
        if state is State.LOADING and passage.beside is not None and dialect.loading():
            passage.beside.create_task(_tell(reply, dialect.loading))

    def _earlier_copies(self, passage: Passage) -> list[Passage]:
        """The requests that `passage` repeats by its own word, as far as they are still with us."""
        call = passage.call
        before = takewhile(lambda other: other is not passage, self._passages.values())
        return [other for other in before if other.call.sameness == call.sameness]

    async def _replace(self, passage: Passage) -> None:
        """Ends the earlier copies of the request, and waits until they hold nothing any more.

        Only for a request that says that it is a copy: otherwise two equal ones on open connections are two requests.
        """
        if passage.call.sameness is None or not passage.call.retried:
            return
        while copies := self._earlier_copies(passage):
            for copy in copies:
                copy.stop(Superseded("the client has sent this request again, and the later copy goes on"))
            await copies[-1].over.wait()

    def _keep_place(self, passage: Passage) -> None:
        """Its client left, and may come back; or came back, and there was no room for it yet."""
        request, number = passage.call.sameness, passage.number or passage.place
        if request is not None and number is not None:
            self.kept.keep(request, number, self._clock())

    async def _fail(self, reply: Reply, error: SlotlineError) -> None:
        try:
            await reply.fail(error)
        except ClientGone:
            _log.debug("a client left before it could read its error: %s", error)

    def _note(self, passage: Passage, error: SlotlineError | None, *, left: bool) -> None:
        if left:
            outcome = Outcome.CLIENT_LEFT_WAITING if passage.granted is None else Outcome.CLIENT_LEFT_RUNNING
        else:
            outcome = Outcome.COMPLETED if error is None else error.outcome
        if left or passage.gave_up or passage.place is not None:
            self._keep_place(passage)
        passage.close()
        self._ended(passage, outcome, error)


async def _tell(reply: Reply, news: Callable[[], bytes]) -> None:
    """Sends what may as well be lost, as it is by then: a client that has gone is noticed where its request is."""
    with suppress(ClientGone):
        await reply.send(news())
