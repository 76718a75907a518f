"""The journal of a cluster without a server: `journal.lua` again, in Python, in whatever time the event loop has.

What the server does wrong is the test's to say: `fault` is asked before each answer, and may raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from slotline.core.journal import Command, Entry, Picture, drawn, seen
from slotline.gate.journal import Beat, Entered, Journal, LeaseLost, Line, Silence, Unavailable

FIRST = 1_000


class Ledger:
    """What the server has. Several `Desk`s may stand before it."""

    def __init__(self, lease: float) -> None:
        self.lease = lease
        self.lines: list[Line] = []
        self.leases: dict[str, float] = {}
        self.written: dict[str, int] = {}
        self.picture: tuple[bytes, bytes] | None = None
        self.settled = 0.0
        self.next = self.born = 0
        self.grown = asyncio.Event()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def entries(self) -> list[Entry]:
        return [line.entry for line in self.lines]

    def add(self, replica: str, commands: Sequence[Command]) -> None:
        """One more entry, whoever's."""
        entry = Entry(self.next, self.now, replica, list(commands))
        self.next = entry.next
        self.lines.append(Line(b"%d-0" % entry.number, entry))
        self.grown.set()
        self.grown.clear()

    def forget(self) -> None:
        """It was started anew."""
        lease = self.lease
        self.__init__(lease)  # type: ignore[misc]

    def purge(self) -> None:
        for replica in [each for each, end in self.leases.items() if end <= self.now]:
            self.strike(replica)

    def strike(self, replica: str) -> None:
        """Its lease has ended."""
        del self.leases[replica]
        self.written.pop(replica, None)
        self.add(replica, ())


class Desk(Journal):
    """One replica's way to a ledger. `asked`: by which verb, and when."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.lease = ledger.lease
        self.asked: list[tuple[str, float]] = []
        self.looked_again = 0
        self.deaf = False  # what reads is connected to another server
        self.fault: Callable[[str], None] = lambda _: None

    async def close(self) -> None: ...

    def look_again(self) -> None:
        self.looked_again += 1

    async def enter(self, replica: str, floor: int, old: str) -> Entered:
        await self._ask("enter")
        it = self.ledger
        if old in it.leases:
            it.leases[old] = it.now + it.lease
        it.purge()
        if not it.next:
            it.next = it.born = max(floor, FIRST)
            it.settled = it.now + it.lease / 2 if floor else 0.0
        it.leases[replica] = it.now + it.lease
        return Entered(it.now, max(0.0, it.settled - it.now), it.born)

    async def beat(self, replica: str) -> Beat:
        await self._ask("beat")
        it = self.ledger
        self._check(replica)
        it.leases[replica] = it.now + it.lease
        it.purge()
        return Beat(it.now, it.next, min(it.leases.values()) - it.now)

    async def write(self, replica: str, batch: int, commands: Sequence[Command]) -> None:
        await self._ask("write")
        self._check(replica)
        if batch > self.ledger.written.get(replica, 0):
            self.ledger.written[replica] = batch
            self.ledger.add(replica, commands)
        await self._ask("written")

    async def leave(self, replica: str) -> None:
        await self._ask("leave")
        if replica in self.ledger.leases:
            self.ledger.strike(replica)

    async def draw(self, replica: str, line: Line, picture: Picture) -> None:
        await self._ask("draw")
        self.ledger.picture = drawn(picture), line.place

    async def picture(self) -> tuple[Picture | None, bytes]:
        await self._ask("picture")
        if self.ledger.picture is None:
            return None, b"0-0"
        return seen(self.ledger.picture[0]), self.ledger.picture[1]

    async def read(self, after: bytes, *, wait: bool = True) -> list[Line]:
        await self._ask("read")
        if not (found := self._after(after)) and wait:
            try:
                async with asyncio.timeout(0.5):
                    await self.ledger.grown.wait()
            except TimeoutError:
                return []
            await self._ask("read")
            found = self._after(after)
        return found

    def _after(self, place: bytes) -> list[Line]:
        if self.deaf:
            return []
        number = int(place.split(b"-")[0])
        return [line for line in self.ledger.lines if line.entry.number > number]

    def _check(self, replica: str) -> None:
        if replica not in self.ledger.leases:
            raise LeaseLost(self.ledger.born)

    async def _ask(self, verb: str) -> None:
        self.asked.append((verb, self.ledger.now))
        await asyncio.sleep(0)
        self.fault(verb)


def silent(*verbs: str, why: Silence = Silence.SILENT) -> Callable[[str], None]:
    """A fault: these are not answered; none: nothing is."""

    def fault(verb: str) -> None:
        if not verbs or verb in verbs:
            raise Unavailable(f"no answer to {verb}", why)

    return fault
