"""Watches over the silent calls of one upstream: once every `poll` it asks the server what their silence means.

It asks only while somebody waits for the head of an answer, and once for all of them. A call that went out after the
question did is not judged by its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slotline.core.liveness import Silence
from slotline.core.reading import Reading, meaning
from slotline.upstream.deadline import Deadline


@dataclass(eq=False, slots=True)
class Call:
    """One request that is out. `slot`: the one it was sent to, if it was sent to one."""

    silence: Silence
    deadline: Deadline
    slot: int | None = None
    sent: float = 0.0  # when it last went out

    def judge(self, reading: Reading, answering: int, now: float) -> None:
        self.silence.saw(meaning(reading, slot=self.slot, answering=answering), now)
        self.deadline.move(self.silence.deadline)


class Vigil:
    """The silent calls and the answering ones. `ask` never raises for what a server does."""

    def __init__(self, ask: Callable[[], Awaitable[Reading]], poll: float) -> None:
        """`poll`: seconds from one question to the next."""
        self._ask = ask
        self._poll = poll
        self._silent: set[Call] = set()
        self._answering: set[Call] = set()
        self._needed = asyncio.Event()

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
        if not self._silent:
            self._needed.clear()

    async def keep(self) -> None:
        """Keeps watch until cancelled."""
        time = asyncio.get_running_loop().time
        while True:
            await self._needed.wait()
            await asyncio.sleep(self._poll)
            if not self._silent:
                self._needed.clear()
                continue
            asked = time()
            reading = await self._ask()
            for call in [call for call in self._silent if call.sent <= asked]:
                call.judge(reading, len(self._answering), time())
