"""One request, as the relay carries it and as others may see it.

A *call* is what is asked, and by whom; it never changes. Its *passage* is what becomes of it, from its arrival to its
outcome. The *reply* is the client's end of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from slotline.conversation import Trace
from slotline.core.dialect import Dialect
from slotline.core.errors import SlotlineError
from slotline.core.keys import Caller, Priority
from slotline.core.party import Party
from slotline.core.queue_frames import Told
from slotline.core.record import UNKNOWN, Span


class ClientGone(Exception):
    """The client cannot be written to any more: it closed the connection, or did not read for `client_write`."""


class Reply(Protocol):
    """The client's end of the request; see `slotline.surface.reply`. All raise ClientGone when it cannot be written."""

    @property
    def started(self) -> bool:
        """A byte of the answer is out: the point of no return, after which an error can only go into the stream."""
        ...

    @property
    def written(self) -> int:
        """The bytes that have been written."""
        ...

    @property
    def quiet(self) -> float | None:
        """Seconds since something was written; None before the first time."""
        ...

    def check(self) -> None:
        """Breaks the connection off if the client could leave it unnoticed."""
        ...

    def waited(self, seconds: float) -> None:
        """The request stood in line for `seconds` before its slot was free; told only to those who did."""
        ...

    async def beat(self) -> None:
        """Keeps a stream from being silent, until cancelled."""
        ...

    async def send(self, data: bytes) -> None:
        """Writes whole events into the stream, which is opened by the first of them."""
        ...

    async def finish(self, data: bytes) -> None:
        """Writes the last events, or the whole answer, and ends the answer."""
        ...

    async def fail(self, error: SlotlineError) -> None:
        """Ends the answer with `error`: as a status while nothing is out, else in the stream."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """A valid request: what to ask, and who may serve it."""

    id: str
    model: str  # as the client named it
    dialect: Dialect
    upstreams: frozenset[str]
    target: str  # the model's name at the upstream
    size: int  # bytes of the body, kept as received while the request waits
    patience: float | None = None  # seconds after which nobody listens to a whole answer any more; None: not known
    caller: Caller = field(default_factory=Caller)
    sameness: bytes | None = None  # as `core.rejoin` makes it; None: no place is kept for it
    retried: bool = False  # the client says that it has sent this before
    surface: str = ""  # the route that it came by, below `/v1/`
    name: str = UNKNOWN  # of the model, as the catalogue has it
    span: Span | None = None  # its part in a trace, where there are traces

    @property
    def party(self) -> Party:
        """The caller, as the line tells callers apart."""
        key, flow = self.caller.key, self.caller.flow
        if key is None:
            return Party(flow=flow)
        batch = key.priority is Priority.BATCH
        return Party(key.name, flow, key.weight, batch, key.running, key.waiting)


@dataclass(slots=True)
class Passage:
    """One request on its way through the relay, as the operator may see and end it."""

    call: Call
    reply: Reply
    arrived: float
    granted: float | None = None
    upstream: str | None = None
    told: Told | None = None  # the last place that the client heard of; None for one that never stood in line
    number: int | None = None  # its place in the order of all arrivals, once it has one
    began: float | None = None  # when the first piece of its answer came
    spoke: float | None = None  # when the first of them came that was no reasoning
    idle: float | None = None  # seconds from the moment its slot was free until it went out, if it had stood in line
    place: int | None = None  # the one that was kept for it, until it stands there
    trouble: str | None = None  # of the line, as it was last told
    gave_up: bool = False  # it was in line for longer than its client waits
    retried: bool = False  # its first upstream could not be reached, and it was tried elsewhere
    beside: asyncio.TaskGroup | None = None  # what goes on beside the request itself
    capped: int | None = None  # the cap on thinking that it passed
    trace: Trace = field(default_factory=Trace)  # of its newest conversation
    over: asyncio.Event = field(default_factory=asyncio.Event)  # it holds nothing any more
    _task: asyncio.Task[object] | None = field(default_factory=asyncio.current_task)
    _verdict: SlotlineError | None = None

    @property
    def size(self) -> int:
        """See `slotline.core.habits.Run`, as are the next two."""
        return self.call.size

    @property
    def most(self) -> int | None:
        return self.call.dialect.most

    @property
    def pieces(self) -> int:
        return self.call.dialect.pieces

    @property
    def complete(self) -> bool:
        """Its answer came to its own end."""
        return self.call.dialect.done

    @property
    def ending(self) -> bool:
        """There is no more to come of it: its answer is whole, or it has been stopped."""
        return self.complete or self._verdict is not None or self._task is None

    def stop(self, verdict: SlotlineError) -> None:
        """Ends the request with `verdict`, wherever it is."""
        if self._verdict is None and self._task is not None:
            self._verdict = verdict
            self._task.cancel()

    def verdict(self) -> SlotlineError | None:
        """Why this request was cancelled from inside, taken once; None when its client left, or left as well."""
        verdict, self._verdict = self._verdict, None
        if verdict is not None and self._task is not None and self._task.uncancel() > 0:
            return None
        return verdict

    def close(self) -> None:
        """The request has its outcome: from now on it can no longer be stopped."""
        self._task = None
