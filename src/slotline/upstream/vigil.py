"""Watches over the silent calls and the draining slots of one upstream: asks the server what it does, every `poll`.

It asks only while somebody waits for the head of an answer, or for a slot to stop working, and once for all of them. A
call that went out after the question did is not judged by its answer. A slot mostly stops soon after its client has
gone, so the first questions about one that drains come quicker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slotline.core.liveness import Silence, State
from slotline.core.reading import Reading, meaning
from slotline.upstream.deadline import Deadline
from slotline.upstream.tenancy import Tenancy

_QUICK = 0.05  # seconds until the first question about a slot that drains; doubled from one to the next …
_STEADY = 0.25  # … up to this


@dataclass(eq=False, slots=True)
class Call:
    """One request that is out. `slot`: the one it was sent to, if it was sent to one."""

    silence: Silence
    deadline: Deadline
    slot: int | None = None
    saw: Callable[[State], None] | None = None  # wants to know what the silence means
    sent: float = 0.0  # when it last went out

    def judge(self, reading: Reading, answering: int, now: float) -> None:
        """What the server showed says what the silence means."""
        self.means(meaning(reading, slot=self.slot, answering=answering), now)

    def means(self, state: State, now: float) -> None:
        """The silence means `state`."""
        self.silence.saw(state, now)
        self.deadline.move(self.silence.deadline)
        if self.saw is not None:
            self.saw(self.silence.state)


class Vigil:
    """The silent calls and the answering ones. `ask` never raises for what a server does."""

    def __init__(self, ask: Callable[[], Awaitable[Reading]], poll: float, tenancy: Tenancy) -> None:
        """`poll`: seconds from one question to the next; it may change. `tenancy` gets to see every answer."""
        self._ask = ask
        self.poll = poll
        self._tenancy = tenancy
        self._pause = poll
        tenancy.on_drain(self._hurry)
        self._silent: set[Call] = set()
        self._answering: set[Call] = set()
        self._needed = asyncio.Event()
        self._hurried = asyncio.Event()

    def sent(self, call: Call, now: float) -> None:
        """The request is out, and nothing has come back."""
        call.sent = now
        self._silent.add(call)
        self._needed.set()

    def answered(self, call: Call) -> None:
        """The head of the answer is there: its silence needs no more asking."""
        self._silent.discard(call)
        self._answering.add(call)

    def ended(self, call: Call) -> None:
        """Whatever became of it, it is over; twice is harmless."""
        self._silent.discard(call)
        self._answering.discard(call)
        if not self._busy:
            self._needed.clear()

    async def keep(self) -> None:
        """Keeps watch until cancelled."""
        while True:
            await self._needed.wait()
            await self._rest()
            longest = min(self.poll, _STEADY) if self._tenancy.draining else self.poll
            self._pause = min(self._pause * 2, longest)
            if self._busy:
                await self.look()
            if not self._busy:
                self._needed.clear()

    async def _rest(self) -> None:
        """Until the next question is due; a slot that begins to drain meanwhile can only bring it forward."""
        clock = asyncio.get_running_loop().time
        due = clock() + self._pause
        while (left := due - clock()) > 0:
            self._hurried.clear()
            try:
                async with asyncio.timeout(left):
                    await self._hurried.wait()
            except TimeoutError:
                return
            due = min(due, clock() + self._pause)

    async def look(self) -> None:
        """Asks once, and lets everybody know who may want to."""
        time = asyncio.get_running_loop().time
        asked, version = time(), self._tenancy.version
        try:
            async with asyncio.timeout(self._tenancy.patience):
                reading = await self._ask()
        except TimeoutError:  # a slot was to drain no longer than this
            self._tenancy.read(Reading(late=True), version)
            return
        for call in [call for call in self._silent if call.sent <= asked]:
            call.judge(reading, len(self._answering), time())
        self._tenancy.read(reading, version)

    @property
    def idle(self) -> bool:
        """No request of ours is with the server."""
        return not self._silent and not self._answering

    @property
    def _busy(self) -> bool:
        return bool(self._silent or self._tenancy.draining)

    def _hurry(self) -> None:
        self._pause = min(_QUICK, self.poll)
        self._hurried.set()
        self._needed.set()
