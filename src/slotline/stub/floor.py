"""The stub's book: every request from its arrival to its end, the slots they take, and who waits for what.

All changes of a request's state happen here, in synchronous methods; `server` and `answer` only call them. Gauges are
read from the live requests, not kept beside them; only the highest values ever seen are.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from slotline.stub.received import CHARACTERS_PER_TOKEN, Ask, Received, Stage, count_tokens
from slotline.stub.slots import Slots, Task, Ticket
from slotline.stub.state import State

Condition = Callable[[State], bool]


@dataclass(slots=True, eq=False)
class _Seat:
    """A request's way to a slot."""

    received: Received
    ticket: Ticket
    ask: Ask
    granted: asyncio.Event = field(default_factory=asyncio.Event)
    task: Task | None = None


class Floor:
    """The requests of one stub."""

    def __init__(self, slots: int, keep: int) -> None:
        """`keep`: how many requests are remembered after their end."""
        self.slots = Slots(slots)
        self.requests: deque[Received] = deque(maxlen=keep)
        self._numbers = itertools.count()
        self._live: dict[str, Received] = {}
        self._seats: dict[str, _Seat] = {}
        self._draining: dict[str, asyncio.TimerHandle] = {}
        self._held: deque[asyncio.Future[None]] = deque()
        self._watchers: list[tuple[Condition, asyncio.Future[State]]] = []
        self._received = self._done = self._aborted = self._tokens = 0
        self._max_waiting = self._max_running = self._max_in_flight = 0

    # ---- the life of a request ---------------------------------------------------------------------------------------

    def receive(self, path: str, headers: tuple[tuple[str, str], ...], raw: bytes) -> Received:
        """A request has arrived."""
        completion_id = f"chatcmpl-{uuid.uuid4().hex}"
        received = Received(next(self._numbers), completion_id, path, headers, raw, time.monotonic())
        self._received += 1
        self._live[received.id] = received
        self.requests.append(received)
        return received

    def run(self, received: Received) -> None:
        """It is answered beside the slots."""
        received.state = Stage.RUNNING
        self._note()

    async def seat(self, received: Received, ask: Ask) -> Task:
        """Waits for a slot. Whoever calls it calls `finished` or `left` afterwards, however it ends."""
        seat = _Seat(received, Ticket(received.id, -1 if ask.id_slot is None else ask.id_slot), ask)
        self._seats[received.id] = seat
        if self.slots.join(seat.ticket):
            self._grant(seat)
        self._note()
        await seat.granted.wait()
        assert seat.task is not None  # noqa: S101 — for the type checker: a grant sets it
        return seat.task

    def finished(self, received: Received) -> None:
        """Nothing more is generated for it: it is done and its slot is free. Twice is harmless."""
        if self._live.pop(received.id, None) is None:
            return
        self._end(received, Stage.DONE)
        self._done += 1
        self._free(received.id)

    def left(self, received: Received, lag: float) -> None:
        """Its client has gone; harmless after `finished`. Its slot, if it has one, is busy for `lag` more seconds."""
        if self._live.pop(received.id, None) is None:
            return
        self._end(received, Stage.ABORTED)
        self._aborted += 1
        if lag > 0 and received.slot is not None:
            loop = asyncio.get_running_loop()
            self._draining[received.id] = loop.call_later(lag, self._free, received.id)
            self._note()
        else:
            self._free(received.id)

    def stop(self) -> None:
        """Nothing drains any longer."""
        for request_id, timer in tuple(self._draining.items()):
            timer.cancel()
            self._free(request_id)

    def _grant(self, seat: _Seat) -> None:
        slot, ask = seat.ticket.slot, seat.ask
        assert slot is not None  # noqa: S101 — for the type checker: only a seated ticket is granted
        prompt = ask.prompt
        known = 0 if ask.cache_prompt is False else slot.known(prompt) // CHARACTERS_PER_TOKEN
        tokens = count_tokens(prompt)
        limit = -1 if ask.limit is None else ask.limit
        seat.task = slot.task = Task(seat.received.number, prompt, tokens, min(known, tokens - 1), limit=limit)
        seat.received.slot = slot.id
        seat.received.state = Stage.RUNNING
        seat.granted.set()

    def _free(self, request_id: str) -> None:
        self._draining.pop(request_id, None)
        seat = self._seats.pop(request_id, None)
        if seat is not None:
            granted = self.slots.leave(seat.ticket)
            if granted is not None:
                self._grant(self._seats[granted.owner])
        self._note()

    def _end(self, received: Received, state: Stage) -> None:
        received.state = state
        received.ended = time.monotonic()
        self._tokens += received.tokens

    # ---- what is going on --------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The numbers of this moment."""
        waiting = self._count(Stage.WAITING)
        return State(
            received=self._received,
            waiting=waiting,
            running=self._count(Stage.RUNNING),
            held=len(self._held),
            draining=len(self._draining),
            max_waiting=self._max_waiting,
            max_running=self._max_running,
            max_in_flight=self._max_in_flight,
            done=self._done,
            aborted=self._aborted,
            tokens=self._tokens + sum(received.tokens for received in self._live.values()),
        )

    async def until(self, condition: Condition, timeout: float = 5.0) -> State:  # noqa: ASYNC109 — it names the state
        """Waits until the condition holds; returns the state in which it did.

        It is asked again at every change, without polling. One that looks for something which is not there yet
        (LookupError) does not hold. Raises TimeoutError, with the state, after `timeout` seconds.
        """
        if _holds(condition, self.state):
            return self.state
        changed: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        watcher = (condition, changed)
        self._watchers.append(watcher)
        try:
            async with asyncio.timeout(timeout):
                return await changed
        except TimeoutError:
            raise TimeoutError(f"not within {timeout:g} s; the stub's state is {self.state}") from None
        finally:
            self._watchers.remove(watcher)

    def changed(self) -> None:
        """Something happened that a condition may look at."""
        if not self._watchers:
            return
        state = self.state
        for condition, watcher in self._watchers:
            if not watcher.done() and _holds(condition, state):
                watcher.set_result(state)

    async def held(self) -> None:
        """Waits for `release`."""
        released = asyncio.get_running_loop().create_future()
        self._held.append(released)
        self.changed()
        try:
            await released
        finally:
            if released in self._held:
                self._held.remove(released)

    def release(self, n: int | None = None) -> int:
        """Lets the first `n` held answers go on (None: all that are held now); returns how many."""
        count = len(self._held) if n is None else min(n, len(self._held))
        for _ in range(count):
            released = self._held.popleft()
            if not released.done():
                released.set_result(None)
        return count

    def _count(self, state: Stage) -> int:
        return sum(received.state is state for received in self._live.values())

    def _note(self) -> None:
        waiting, running = self._count(Stage.WAITING), self._count(Stage.RUNNING)
        self._max_waiting = max(self._max_waiting, waiting)
        self._max_running = max(self._max_running, running)
        self._max_in_flight = max(self._max_in_flight, waiting + running + len(self._draining))
        self.changed()


def _holds(condition: Condition, state: State) -> bool:
    try:
        return condition(state)
    except LookupError:
        return False
