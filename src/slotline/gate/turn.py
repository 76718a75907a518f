"""One request's turn: its place in line and, later, its slot, as the coroutine sees it that waits for it.

A gate decides and calls `grant`, `tell` and `end`; the coroutine iterates. Both run in one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from slotline.core.errors import SlotlineError
from slotline.core.estimate import UNSEEN
from slotline.core.habits import Run
from slotline.core.party import NOBODY, Party
from slotline.core.queue_frames import Told
from slotline.core.room import Ticket

FIRST = 3
"""The places that hear of every change at once."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a turn asks for; see `LocalGate.turn`."""

    upstreams: Collection[str]
    size: int = 0
    party: Party = NOBODY
    model: str = ""
    run: Run = UNSEEN
    place: int | None = None
    chain: Callable[[], Sequence[int]] = tuple


class Turn:
    """One request's place in line and, later, its slot. Made by a gate, used with `async with`.

    Iterating gives what to tell the caller, one item for each change, and ends when the slot is granted; from then on
    `upstream` says where. Leaving the block gives up the place or the slot.
    """

    __slots__ = (
        "_error",
        "_held",
        "_join",
        "_leave",
        "_news",
        "_retry",
        "_timer",
        "_told",
        "_wake",
        "ask",
        "joined",
        "seat",
        "since",
        "ticket",
        "upstream",
    )

    def __init__(
        self,
        ask: Ask,
        join: Callable[[Turn], Awaitable[None]],
        leave: Callable[[Turn], None],
        retry: Callable[[Turn], bool],
    ) -> None:
        """`join`, `leave`, `retry`: the gate's; `join` may raise."""
        self._join = join
        self._leave = leave
        self._retry = retry
        self._held = False
        self._news: deque[Told] = deque()
        self._told = 0  # the position that the newest item in `_news`, or the last one taken from it, gives
        self._wake: asyncio.Future[None] | None = None
        self._error: SlotlineError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.ask = ask
        self.ticket: Ticket | None = None
        self.joined = 0.0
        self.upstream: str | None = None
        self.since: float | None = None
        self.seat: int | None = None  # the id of the slot, where the gate deals those out

    async def __aenter__(self) -> Self:
        """Joins the line.

        Raises Busy when it is full, LimitReached when the party has as many waiting as it may, Withdrawn when its
        upstreams are no more, and ShuttingDown when the gate is closed.
        """
        await self._join(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_timer()
        if not self._held:
            self._leave(self)

    @property
    def number(self) -> int | None:
        """By which its place may be had again after it has left; None before it has joined."""
        return None if self.ticket is None else self.ticket.number

    def hold(self) -> Callable[[], None]:
        """The slot outlives the turn: it is given back by the call that this returns (a second one does nothing)."""
        self._held = True
        return partial(self._leave, self)

    def retry(self) -> bool:
        """Gives the slot up for the old place in line, to be served by another upstream; False where there is none.

        Iterating goes on from there, and tells the places anew.
        """
        return self._retry(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        """The next change of place.

        Raises QueueTimeout after `queue_wait`, Withdrawn when the upstreams are no more, ShuttingDown when the gate
        closes.
        """
        while self.upstream is None:
            if self._error is not None:
                raise self._error
            if self._news:
                return self._news.popleft()
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        raise StopAsyncIteration

    # ---- for the gate ------------------------------------------------------------------------------------------------

    def tell(self, told: Told) -> None:
        """Adds news; news of a place further back than the first ones, if not yet taken, gives way to it."""
        if told.place.position == self._told:
            return
        self._told = told.place.position
        if self._news and self._news[-1].place.position > FIRST:
            self._news.pop()
        self._news.append(told)
        self._rouse()

    def grant(self, upstream: str, now: float | None = None) -> None:
        """The slot is there, on `upstream`, since `now`; what was not told yet need not be told any more."""
        self.upstream, self.since = upstream, now
        self._stop_timer()
        self._rouse()

    def requeue(self) -> None:
        """The slot was given up; what is told from here on is told anew."""
        self.upstream = self.since = self.seat = None
        self._told = 0
        self._news.clear()

    def end(self, error: SlotlineError) -> None:
        """Ends the wait with `error`; a turn that has its slot is not touched."""
        if self.upstream is None:
            self._error = error
            self._rouse()

    def revoke(self, error: SlotlineError) -> None:
        """Takes the slot away from a turn that may not even know yet that it had it."""
        self.upstream = None
        self.end(error)

    def limit(self, seconds: float, error: SlotlineError) -> None:
        """Ends the wait with `error` when no slot was granted within `seconds`."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end, error)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
