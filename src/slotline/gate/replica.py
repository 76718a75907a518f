"""One gateway's part in a cluster: it has a lease, writes down what it does, and takes in what all have written.

Four tasks, each on its own: the heart renews the lease at a third of its length, the pen writes, the eye reads, and the
watch sees when the lease is over. Where the server does not answer they try again until it does; what is to be written
waits, in order, and is written once.

    the lease ends       by the server's word, or by the own clock while the server is silent: all that runs is
                         stopped, because others may have the slots by now. Nothing that is granted is acted on
                         without a lease. A server that answers nobody is as good as a beat, for half a lease: for so
                         long after its return nothing is given out that was held before
    the journal is gone  the server was started anew, or another one took its place (`journal.lua`): this replica
                         begins under another name, and says what it holds and who waits, each at its old place

What it does in both cases is the same (`_enter`, and `_restate` once it has read what there is), and the same as at the
start, where there is nothing to say yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from slotline.core import errors
from slotline.core.journal import Command, Mark, See
from slotline.core.party import FairBy
from slotline.core.shared import Applied, Shared
from slotline.gate.journal import Barred, Beat, Journal, LeaseLost, Line, Silence, Unavailable
from slotline.gate.outbox import Outbox

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_PAUSES = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between two tries; the last one from then on
_BREATH = 64  # entries that are taken in before others have their turn
_DRAWN_CALM = 1_000  # numbers after which a picture is made when nobody waits, so that nothing is left out of it
_DRAWN = 20_000  # … and whoever waits
_SOON = 0.02  # seconds: after this a lease that has ended is seen to have ended
_GOODBYE = 1.0  # seconds that it takes at most


class Diverged(Exception):
    """The journal does not go on where this replica has come to: it was read too slowly, or is another one."""


class Member(Protocol):
    """For whom a replica writes and reads; see `slotline.gate.cluster`."""

    def restate(self, old: str) -> Sequence[Command]:
        """All there is to say, for a journal that knows nothing of it, by one that was `old` before."""
        ...

    def sights(self) -> Sequence[See]:
        """How it sees its upstreams at present."""
        ...

    def take(self, applied: Applied) -> None:
        """The line has changed."""
        ...

    def lapse(self) -> None:
        """Whatever runs here must end: the slots are others' by now."""
        ...


class Replica:
    """Made once; `run` is its life. `name` changes whenever it begins anew."""

    def __init__(
        self,
        journal: Journal,
        fair_by: FairBy,
        member: Member,
        clock: Callable[[], float],
        name: Callable[[], str],
    ) -> None:
        """`clock`: seconds, monotonic. `name`: gives one that no replica has had."""
        self.name = ""
        self.shared = Shared(fair_by)
        self._journal = journal
        self._fair_by = fair_by
        self._member = member
        self._clock = clock
        self._new_name = name
        self._failing = {"the start"}  # who is not answered
        self._trouble = "the line that it shares with others has not been reached yet"
        self._complained = False
        self._old = ""  # what it was before
        self._born = 0  # which journal it is
        self._place = b"0-0"  # how far it has read
        self._next = 0  # the number of the next command; 0: none is known
        self._drawn = 0  # that at which the last picture was made
        self._outbox = Outbox()
        self._said = asyncio.Event()
        self._batch = 0
        self._is_in = False
        self._restated = asyncio.Event()
        self._settles = 0.0  # when slots may be given out, by our clock …
        self._settled = False  # … and whether they may be
        self._hurry = asyncio.Event()
        self._offset = 0.0  # the server's clock, less ours
        self._leased = 0.0  # until when, by our clock
        self._alive = asyncio.Event()  # there is a lease, as far as we know

    @property
    def trouble(self) -> str | None:
        """Why nothing comes to pass at present; None when all is well."""
        return self._trouble if self._failing else None

    def say(self, *commands: Command) -> None:
        """Writes `commands` down, in this order, as soon as may be."""
        for command in commands:
            if self._settled or not isinstance(command, See):  # until then nobody is to hear of slots
                self._outbox.add(command)
        self._said.set()

    def moment(self) -> float:
        """What the server's clock shows now, more or less."""
        return self._clock() + self._offset

    async def begin(self, patience: float) -> None:
        """Begins before it runs, if the server answers within `patience` seconds; else it does so when it runs.

        Raises Barred where the server answers that this gateway may not take part; later that is one more trouble.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._enter(strict=True)

    async def run(self) -> None:
        """Lives until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            while True:
                await self._belong()

    async def leave(self) -> None:
        """Ends by itself, so that nobody waits for the end of its lease."""
        try:
            async with asyncio.timeout(_GOODBYE):
                await self._journal.leave(self.name)
        except (Unavailable, Barred, TimeoutError) as error:
            _log.warning("cluster: could not say goodbye: %s", str(error) or "no answer")

    # ---- one membership ----------------------------------------------------------------------------------------------

    async def _belong(self) -> None:
        """From its beginning to its end."""
        if not self._is_in:
            await self._enter()
        over: asyncio.Future[LeaseLost | Diverged] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as tasks:
            lives = [tasks.create_task(_until_over(life(), over)) for life in (self._read, self._write, self._beat)]
            end = await over
            for life in lives:
                life.cancel()
        self._is_in = False
        self._lose(end)

    async def _enter(self, *, strict: bool = False) -> None:
        """A lease under a new name. What it did as another one is in the journal, or is not, and is said anew."""
        self._old, self.name = self.name, self._new_name()
        self._restated.clear()
        self._settled = False

        async def enter() -> None:
            sent = self._clock()
            entered = await self._journal.enter(self.name, self._next, self._old)
            self._born, self._offset = entered.born, entered.moment - self._clock()
            self._settles = self._clock() + entered.settle
            self._renew(sent)

        await self._insist("the start", enter, strict=strict)
        self._failing.clear()
        self._calm()
        self._is_in = True

    def _lose(self, end: LeaseLost | Diverged) -> None:
        """No lease any more: either it has ended, or the journal in which it was is gone, or cannot be followed."""
        if isinstance(end, Diverged):
            _log.warning("cluster: %s; everything is said anew", end)
        elif end.born == self._born:
            _log.warning("cluster: the lease has ended; whatever runs here is stopped, and all others wait on")
            self._lapse()
        else:
            _log.warning("cluster: the server has forgotten everything; it is told anew")

    def _restate(self) -> None:
        self._outbox.begin(self._member.restate(self._old))
        self._batch = 0
        self._restated.set()
        self._said.set()
        asyncio.get_running_loop().call_later(max(0.0, self._settles - self._clock()), self._settle, self.name)

    def _settle(self, name: str) -> None:
        """Those who may have been about to come have come: slots may be given out."""
        if name == self.name and self._restated.is_set():
            self._settled = True
            self.say(*self._member.sights())

    # ---- the eye -----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        await self._insist("the eye", self._catch_up)
        self._restate()
        while True:
            lines = await self._insist("the eye", self._read_on)
            for index, line in enumerate(lines):
                if index % _BREATH == _BREATH - 1:
                    await asyncio.sleep(0)
                await self._have_a_lease()
                applied = self._take_in(line)
                self._member.take(applied)
                if applied.picture is not None:
                    self._drawn = applied.picture.next
                    if line.entry.replica == self.name:
                        await self._insist("the eye", partial(self._journal.draw, self.name, line, applied.picture))
            self._mark_when_due()

    async def _read_on(self) -> Sequence[Line]:
        return await self._journal.read(self._place)

    async def _catch_up(self) -> None:
        """From the last picture, or from the beginning, to where the others are. Nothing is acted on."""
        picture, self._place = await self._journal.picture()
        self.shared = Shared(self._fair_by) if picture is None else Shared.of(picture, self._fair_by)
        self._next = self._drawn = self._born if picture is None else picture.next
        try:
            while lines := await self._journal.read(self._place, wait=False):
                for index, line in enumerate(lines):
                    if index % _BREATH == _BREATH - 1:
                        await asyncio.sleep(0)
                    self._take_in(line)
        except Diverged as error:  # a picture was made in this very moment
            raise Unavailable(str(error)) from None

    def _take_in(self, line: Line) -> Applied:
        entry = line.entry
        if entry.number != self._next:
            raise Diverged(f"the journal goes on with number {entry.number}, and not with {self._next}")
        self._place, self._next = line.place, entry.next
        return self.shared.apply(entry)

    def _mark_when_due(self) -> None:
        """One of the replicas makes a picture now and then, so that the journal need not be kept for ever."""
        if self.shared.first_replica() == self.name:
            since = self._next - self._drawn
            if since >= _DRAWN or (since >= _DRAWN_CALM and not any(self.shared.lines.lines().values())):
                self._drawn = self._next
                self.say(Mark())

    # ---- the pen -----------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        await self._restated.wait()
        while True:
            await self._said.wait()
            self._said.clear()
            while self._outbox:
                commands = self._outbox.take()
                self._batch += 1
                await self._insist("the pen", partial(self._journal.write, self.name, self._batch, commands))

    # ---- the heart ---------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        third = self._journal.lease / 3
        known, since = 0, self._clock()
        while True:
            self._hurry.clear()
            beat = await self._insist("the heart", self._ask_to_go_on)
            if self._clock() - since >= third:
                if self._restated.is_set() and self._next < known:  # all others have read that long ago
                    self._journal.look_again()
                known, since = beat.next, self._clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_SOON, min(third, beat.first + _SOON))):
                    await self._hurry.wait()

    async def _ask_to_go_on(self) -> Beat:
        sent = self._clock()
        beat = await self._journal.beat(self.name)
        self._offset = beat.moment - (sent + self._clock()) / 2
        self._renew(sent)
        return beat

    # ---- the lease ---------------------------------------------------------------------------------------------------

    def _renew(self, sent: float, share: float = 1.0) -> None:
        """The lease ends so much later, counted from before the server was asked: it counts from after that."""
        self._leased = max(self._leased, sent + share * self._journal.lease)
        if share == 1.0 and self._clock() < self._leased:
            self._alive.set()

    async def _watch(self) -> None:
        while True:
            await self._alive.wait()
            while (left := self._leased - self._clock()) > 0:  # noqa: ASYNC110 - it is time that is waited for
                await asyncio.sleep(left)
            self._lapse()

    async def _have_a_lease(self) -> None:
        """Returns once there is one: this process may have stood still since it last looked."""
        if self._clock() >= self._leased:
            self._lapse()
        await self._alive.wait()

    def _lapse(self) -> None:
        if self._alive.is_set():
            self._alive.clear()
            self._member.lapse()

    # ---- asking ------------------------------------------------------------------------------------------------------

    async def _insist(self, who: str, ask: Callable[[], Awaitable[_T]], *, strict: bool = False) -> _T:
        """The answer, as soon as there is one. `strict`: it raises Barred, which else is one more trouble."""
        tries = 0
        while True:
            sent = self._clock()
            try:
                answer = await ask()
            except (Unavailable, Barred, errors.Protocol) as error:
                if strict and isinstance(error, Barred):
                    raise
                silence = error.silence if isinstance(error, Unavailable) else None
                if silence is Silence.CLOSED:
                    self._renew(sent, 0.5)
                if tries or silence is not Silence.TORN:  # one that was idle may have broken long ago
                    self._fail(who, error)
            else:
                self._succeed(who)
                return answer
            await asyncio.sleep(min(_PAUSES[min(tries, len(_PAUSES) - 1)], self._journal.lease / 6))
            tries += 1

    def _fail(self, who: str, error: Exception) -> None:
        """Whoever it was that failed: all is well only when the lease has been renewed once more."""
        self._failing |= {who, "the heart"}
        self._hurry.set()
        if not self._complained:
            self._complained = True
            self._trouble = "the line that it shares with others cannot be reached"  # callers are told no address
            _log.warning("cluster: %s: %s", self._trouble, error)

    def _succeed(self, who: str) -> None:
        if who in self._failing:
            self._failing.remove(who)
            self._calm()

    def _calm(self) -> None:
        if self._complained and not self._failing:
            self._complained = False
            _log.info("cluster: the line that is shared is reached")


async def _until_over(life: Coroutine[None, None, None], over: asyncio.Future[LeaseLost | Diverged]) -> None:
    """Tells how a membership ends. A task group that is told by an error may forget that it is cancelled meanwhile."""
    try:
        await life
    except (LeaseLost, Diverged) as end:
        if not over.done():
            over.set_result(end)
