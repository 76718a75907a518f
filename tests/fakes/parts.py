"""The four parts that the relay joins, made by hand, and one journal of what happens to them, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Self

from slotline.core.errors import Protocol, SlotlineError, StreamClosedEarly
from slotline.core.habits import Run
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.limits import Limits
from slotline.core.liveness import State
from slotline.core.openai.chunk import Progress
from slotline.core.party import Party
from slotline.core.queue_frames import Told
from slotline.core.record import NO_TOKENS, Tokens
from slotline.core.rejoin import Kept
from slotline.passage import ClientGone

Journal = list[str]
PLAIN = Traits(Kind.OPENAI)
LIMITS = Limits()


@dataclass(eq=False)
class Turn:
    """A place in line: what the test puts into `news` is told; a name is an upstream whose slot is granted."""

    journal: Journal
    news: asyncio.Queue[Told | str | SlotlineError]
    refusal: SlotlineError | None
    upstream: str | None = None
    number: int | None = None
    since: float | None = None
    seat: int | None = None

    async def __aenter__(self) -> Self:
        if self.refusal is not None:
            raise self.refusal
        self.journal.append("join")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.journal.append("leave")

    def hold(self) -> Callable[[], None]:
        self.journal.append("hold")
        return lambda: self.journal.append("leave")

    def retry(self) -> bool:
        return False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        match await self.news.get():
            case Told() as told:
                return told
            case str() as upstream:
                self.upstream = upstream
                raise StopAsyncIteration
            case error:
                raise error


@dataclass(eq=False)
class Gate:
    """One turn at a time is enough for the relay. `refusal`: nobody joins. `since`: when turns are given slots."""

    journal: Journal
    news: asyncio.Queue[Told | str | SlotlineError] = field(default_factory=asyncio.Queue)
    refusal: SlotlineError | None = None
    asked: list[tuple[set[str], int]] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)  # that were asked for
    parties: list[Party] = field(default_factory=list)
    since: float | None = None
    trouble: str | None = None
    kept: Kept = field(default_factory=lambda: Kept(0.0))

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
        self.asked.append((set(upstreams), size))
        self.places.append(place)
        self.parties.append(party)
        return Turn(self.journal, self.news, self.refusal, number=place or len(self.asked), since=self.since)

    def close(self) -> None:
        self.journal.append("gate closed")


@dataclass(eq=False)
class Seat:
    """A slot; `finished` when the server has said its last word."""

    slot: int | None = None
    finished: bool = False

    def finish(self) -> None:
        self.finished = True


@dataclass(eq=False)
class Upstream:
    """`says`: lists of events are read together, an error is raised, None is the end of the body.

    `refusal`: raised in place of an answer's head.
    """

    journal: Journal
    says: asyncio.Queue[list[bytes] | SlotlineError | None] = field(default_factory=asyncio.Queue)
    refusal: SlotlineError | None = None
    traits: Traits = PLAIN
    limits: Limits = LIMITS
    bodies: list[bytes] = field(default_factory=list)
    routes: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    seats: list[Seat] = field(default_factory=list)
    seated: int = 0  # who sit now

    closed_since: float | None = None

    remembers = True
    quiet = 0.0

    @contextmanager
    def seat(
        self, chain: Sequence[int], hold: Callable[[], Callable[[], None]], only: int | None = None
    ) -> Iterator[Seat]:
        seat = Seat()
        self.seats.append(seat)
        self.seated += 1
        try:
            yield seat
        finally:
            self.seated -= 1

    @asynccontextmanager
    async def answer(
        self,
        body: bytes,
        slot: int | None = None,
        saw: Callable[[State], None] | None = None,
        *,
        route: str = "/v1/chat/completions",
        patient: bool = False,
        headers: Mapping[str, str],
    ) -> AsyncIterator[Upstream]:
        self.bodies.append(body)
        self.headers.append(headers)
        self.routes.append(route)
        self.journal.append("sent")
        try:
            await asyncio.sleep(0)
            if self.refusal is not None:
                raise self.refusal
            yield self
        finally:
            self.journal.append("closed")

    async def end_reasoning(self, completion: str | None, passed: str) -> bool:
        return True

    def heard(self, pieces: int) -> None:
        self.pieces.append(pieces)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[bytes]:
        match await self.says.get():
            case None:
                raise StopAsyncIteration
            case list() as batch:
                return batch
            case error:
                raise error


@dataclass(eq=False)
class Dialect:
    """Puts every event into angle brackets; `end` completes the answer, `nonsense` and `bug` break it."""

    route: str = "/v1/chat/completions"
    stream: bool = True
    user: str | None = None
    done: bool = False
    pieces: int = 0
    thought: int = 0
    progress: Progress | None = None
    completion: str | None = None
    thinking_budget: int | None = None
    most: int | None = None
    notes: Sequence[str] = ()
    tokens: Tokens = NO_TOKENS
    shelved: int = 0
    forced_at: int | None = None

    def loading(self) -> bytes:
        return b""

    def forced(self) -> None:
        self.forced_at = self.pieces

    def again(self) -> None:
        self.thought = 0

    def chain(self) -> Sequence[int]:
        return ()

    def shelve(self) -> None:
        self.shelved += 1

    def body(self, target: str, traits: Traits, terms: Terms | None = None) -> bytes:
        return f"{target} for {traits.kind}".encode()

    def feed(self, data: bytes) -> bytes:
        match data:
            case b"end":
                self.done = True
            case b"nonsense":
                raise Protocol("nonsense from the upstream")
            case b"bug":
                raise KeyError("a secret of the gateway")
        self.pieces += 1
        return b"<%b>" % data if self.stream else b""

    def end(self) -> bytes:
        if self.pieces == 0:
            raise StreamClosedEarly("nothing came")
        self.done = True
        return b"<the end>"

    def whole(self) -> bytes:
        assert self.done
        return b"the whole answer"

    def place(self, told: Told) -> bytes:
        return b"place %d" % told.place.position

    def keep_alive(self, waited: float) -> bytes:
        return b": \n\n"

    def error_event(self, error: SlotlineError) -> bytes:
        return str(error).encode()

    def error_body(self, error: SlotlineError) -> bytes:
        return str(error).encode()


@dataclass(eq=False)
class Reply:
    """The client's end. `reads`: cleared, the client reads nothing; `gone`: it cannot be written to."""

    journal: Journal
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False
    started: bool = False
    error: SlotlineError | None = None
    seconds: float | None = None
    beats: int = 0  # hearts that beat now

    def __post_init__(self) -> None:
        self.reads.set()

    checks: int = 0
    written: int = 0
    quiet: float | None = None

    def check(self) -> None:
        self.checks += 1

    def waited(self, seconds: float) -> None:
        self.seconds = seconds

    async def beat(self) -> None:
        self.beats += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.beats -= 1

    async def send(self, data: bytes) -> None:
        if data:
            await self._write(f"send {data.decode()}")

    async def finish(self, data: bytes) -> None:
        await self._write(f"finish {data.decode()}")

    async def fail(self, error: SlotlineError) -> None:
        self.error = error
        await self._write(f"fail {type(error).__name__}")

    async def _write(self, what: str) -> None:
        await self.reads.wait()
        await asyncio.sleep(0)
        if self.gone:
            raise ClientGone("the client closed the connection")
        self.started = True
        self.journal.append(what)
