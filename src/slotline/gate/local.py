"""The gate of one process: `core.line`, with futures to wake those who wait.

Everything that decides is synchronous: a turn joins the line as its `async with` begins, and leaves as it ends, however
that comes about. There is no await between a decision and what it causes, so a cancellation can come only while a
caller waits, where leaving sees the whole truth: the ticket waits, was granted in this very moment, or runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from slotline.core.errors import Busy, LimitReached, Withdrawn
from slotline.core.estimate import Unseen
from slotline.core.habits import Run
from slotline.core.line import Lines
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.rejoin import Kept
from slotline.core.report import Standing
from slotline.core.room import Ticket
from slotline.gate.turn import Ask, Turn
from slotline.gate.usher import Berth, Usher


class LocalGate:
    """All turns of one process. Not thread-safe; belongs to one event loop."""

    def __init__(
        self,
        berths: Mapping[str, Berth],
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        max_waiting: int = 1 << 30,
        fair_by: FairBy = FairBy.KEY,
    ) -> None:
        """`clock`: seconds, monotonic. `jitter`: a number in [0, 1), to spread those who are asked to come again.

        `max_waiting`: bytes that all bodies of those who wait may take together.
        """
        rooms = {name: (berth.slots, berth.queue) for name, berth in berths.items()}
        exclusive = {name for name, berth in berths.items() if berth.exclusive}
        affinity = {name for name, berth in berths.items() if berth.affinity}
        self._lines = Lines(rooms, max_waiting, fair_by, exclusive, affinity)
        self._usher = Usher(lambda: self._lines, clock, clock, jitter)
        self._usher.berths.update(berths)
        self._clock = clock
        self.kept = Kept(0.0)

    def turn(
        self,
        upstreams: Collection[str],
        size: int = 0,
        party: Party = NOBODY,
        *,
        model: str = "",
        run: Run | None = None,
        place: int | None = None,
        chain: Callable[[], Sequence[int]] = tuple,
    ) -> Turn:
        """A turn at a slot of any of `upstreams`; it joins the line when its `async with` begins.

        `size`: the bytes that the request keeps in memory while it waits. `run`: the request itself, for how long it
        will hold its slot. `place`: the number of a turn that has left the line; this one stands where that one stood.
        `chain`: its conversation, as `core.seats` compares them; asked for on joining, and only where it matters.
        """
        ask = Ask(upstreams, size, party, model, run or Unseen(size), place, chain)
        return Turn(ask, self._join, self._leave, self._retry)

    def resize(self, upstream: str, slots: int, seats: int = 0, outside: Sequence[int] = ()) -> None:
        """`upstream` has `slots` slots from now on. For one that was retired this means nothing.

        `seats` and `outside` are for gates that deal out the slots of a server with others: how many there are by id,
        and which of them others use.
        """
        if upstream not in self._usher.withdrawn:
            self._usher.tell(self._lines.resize(upstream, slots, self._clock()))

    def bound(self, max_waiting: int) -> None:
        """All bodies of those who wait may take so many bytes together from now on. Who waits is not touched."""
        self._lines.bound(max_waiting)

    def open(self, upstream: str, berth: Berth) -> None:
        """A new upstream, or one that was retired. Raises ValueError for one that is there."""
        changes = self._lines.add(
            upstream,
            berth.slots,
            berth.queue,
            self._clock(),
            exclusive=berth.exclusive,
            affinity=berth.affinity,
        )
        self._usher.open(upstream, berth)
        self._usher.tell(changes)

    def amend(self, upstream: str, berth: Berth) -> None:
        """`berth` holds for `upstream` from now on, but for its slots: see `resize`. Who waits keeps its own limit."""
        self._usher.berths[upstream] = berth
        changes = self._lines.change(
            upstream, berth.queue, self._clock(), exclusive=berth.exclusive, affinity=berth.affinity
        )
        self._usher.tell(changes)

    def retire(self, upstream: str) -> None:
        """`upstream` takes nobody any more. Whoever runs there runs on; whoever waits for it alone is told so."""
        changes, stranded = self._lines.retire(upstream, self._clock())
        self._usher.retire(upstream)
        for ticket in stranded:
            error = Withdrawn("waiting in line: the upstream was taken out of the configuration")
            self._usher.turns[ticket].end(error)
        self._usher.tell(changes)

    def close(self) -> None:
        """Nobody joins any more, and those who wait are told so. Those who run are not touched."""
        self._usher.close()

    @property
    def trouble(self) -> str | None:
        """Why nothing comes to pass at present: there is nothing that could keep it."""
        return None

    # ---- questions ---------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> Lines:
        """The lines themselves: to be read, never to be changed."""
        return self._lines

    def stand(self, numbers: Iterable[int]) -> dict[int, Standing]:
        """Where those of the turns `numbers` that wait stand at this moment."""
        return self._usher.stand(numbers)

    def running(self, upstream: str) -> Mapping[Ticket, float]:
        """Who holds a slot of `upstream`, and since when. Raises KeyError for an upstream that is not there."""
        return self._lines.room(upstream).running

    def elsewhere(self, upstream: str) -> tuple[frozenset[int], int]:
        """The slots that other gateways have at `upstream`: there are no others."""
        return frozenset(), 0

    # ---- joining and leaving -----------------------------------------------------------------------------------------

    async def _join(self, turn: Turn) -> None:
        upstreams, ask = self._usher.admit(turn), turn.ask
        wants_chain = any(self._usher.berths[name].affinity for name in upstreams)
        try:
            turn.ticket, changes = self._lines.join(
                upstreams,
                turn.joined,
                ask.size,
                ask.party,
                self._usher.cost(ask, upstreams),
                ask.model,
                ask.place,
                self._usher.chain(ask) if wants_chain else (),
            )
        except (Busy, LimitReached) as refusal:
            raise type(refusal)(str(refusal), retry_after=self._usher.retry_after(upstreams)) from None
        self._usher.turns[turn.ticket] = turn
        self._usher.tell(changes)
        self._usher.begin_wait(turn, turn.ticket)

    def _retry(self, turn: Turn) -> bool:
        if turn.ticket is None or (again := self._lines.retry(turn.ticket, self._clock())) is None:
            return False
        del self._usher.turns[turn.ticket]
        turn.requeue()
        turn.ticket, changes = again
        self._usher.turns[turn.ticket] = turn
        self._usher.tell(changes)
        self._usher.begin_wait(turn, turn.ticket)
        return True

    def _leave(self, turn: Turn) -> None:
        ticket = turn.ticket
        if ticket is None or self._usher.turns.pop(ticket, None) is None:
            return
        if turn.upstream is not None:
            self._usher.learn(turn, turn.upstream, ticket, self._lines.room(turn.upstream).running[ticket])
        self._usher.tell(self._lines.leave(ticket, self._clock()))
