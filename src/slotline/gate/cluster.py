"""The gate of a gateway that shares its lines with others: `core.shared`, driven by a journal that all can read.

To those who wait it is what the gate of one process is. But to join, to leave and to have fewer slots are things that
it writes down, and they come to pass when they have been read, in the order of all: a moment later. Meanwhile a turn
that is about to join waits for its answer. While the journal cannot be reached nothing comes to pass: who runs runs on,
who waits keeps its place, who comes waits to be let in, and `trouble` says why.

A *claim* is a turn under a number of the gateway's own, by which it finds its turns again in a journal that has begun
anew, whatever became of the tickets.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from slotline.core.errors import Busy, LimitReached, QueueTimeout, ShuttingDown, SlotlineError, SlotLost
from slotline.core.estimate import Unseen
from slotline.core.habits import Run
from slotline.core.journal import Bury, Command, Held, Join, Keep, Leave, Offer, Retry, See, Withdraw
from slotline.core.line import Lines
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.report import Standing
from slotline.core.room import Ticket
from slotline.core.shared import Answer, Applied
from slotline.gate.journal import Journal
from slotline.gate.replica import Replica
from slotline.gate.turn import Ask, Turn
from slotline.gate.usher import Berth, Usher

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Claim:
    """One turn, and what has become of it in the line that is shared."""

    turn: Turn
    join: Join  # what was written for it, or would be
    answered: asyncio.Future[SlotlineError | None]  # it is in the line, or why it is not
    number: int | None = None  # its place in the order of all arrivals
    waits: bool = False  # it was told that it does
    held: Held | None = None  # its slot
    void: bool = False  # its slot is others' by now
    claims: bool = False  # it has said anew that it has its slot, and has not been heard yet


@dataclass(eq=False, slots=True)
class _Claims:
    """Those of this gateway, each under a number that no other one has had; and how many have no slot."""

    by_number: dict[int, Claim] = field(default_factory=dict)
    by_turn: dict[Turn, Claim] = field(default_factory=dict)
    waiting: int = 0
    bytes: int = 0  # that those keep in memory
    last: int = 0

    def new_number(self) -> int:
        self.last += 1
        return self.last

    def add(self, claim: Claim) -> None:
        """A new one, which has no slot."""
        self.by_number[claim.join.ticket] = claim
        self.by_turn[claim.turn] = claim
        self._count(claim, +1)

    def hold(self, claim: Claim, held: Held | None) -> None:
        """It has this slot from now on."""
        if claim.held is None and held is not None:
            self._count(claim, -1)
        claim.held = held

    def drop(self, claim: Claim) -> None:
        """It is gone."""
        del self.by_number[claim.join.ticket], self.by_turn[claim.turn]
        if claim.held is None:
            self._count(claim, -1)

    def _count(self, claim: Claim, more: int) -> None:
        self.waiting += more
        self.bytes += more * claim.join.size


class SharedPlaces:
    """What `core.rejoin.Kept` is to one gateway, for all of them. `seconds`: for how long this one gives places out."""

    def __init__(self, replica: Replica) -> None:
        self.seconds = 0.0
        self._replica = replica

    def keep(self, request: bytes, number: int, now: float) -> None:
        """See `core.rejoin.Kept.keep`."""
        self._replica.say(Keep(request, number))

    def take(self, request: bytes, now: float) -> int | None:
        """See `core.rejoin.Kept.take`; whoever joins the line at that place has taken it."""
        return self._replica.shared.kept.find(request, self._replica.moment(), self.seconds)


class ClusterGate:
    """All turns of one gateway among several. Not thread-safe; belongs to one event loop. `run` is its life."""

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], float],
        name: Callable[[], str],
        lapsed: Callable[[], None],
        jitter: Callable[[], float] = random.random,
        max_waiting: int = 1 << 30,
        fair_by: FairBy = FairBy.KEY,
    ) -> None:
        """`clock`, `jitter`, `max_waiting` (of this gateway alone): see `slotline.gate.local.LocalGate`.

        `name`: gives a name that no gateway has had. `lapsed` is called when whatever runs here must end.
        """
        self._replica = Replica(journal, fair_by, self, clock, name)
        self._usher = Usher(lambda: self._replica.shared.lines, self._replica.moment, clock, jitter)
        self._clock = clock
        self._lapsed = lapsed
        self._max_waiting = max_waiting
        self._claims = _Claims()
        self._sights: dict[str, See] = {}
        self._places = SharedPlaces(self._replica)

    @property
    def kept(self) -> SharedPlaces:
        """The places of those who left, whichever gateway they come back to."""
        return self._places

    async def begin(self, patience: float) -> None:
        """See `slotline.gate.replica.Replica.begin`."""
        await self._replica.begin(patience)

    async def run(self) -> None:
        """Takes part until cancelled."""
        await self._replica.run()

    async def leave(self) -> None:
        """Takes part no more, and tells the others, if they can be told."""
        await self._replica.leave()

    @property
    def trouble(self) -> str | None:
        """Why nothing comes to pass at present; None when all is well."""
        return self._replica.trouble

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
        """See `slotline.gate.local.LocalGate.turn`."""
        ask = Ask(upstreams, size, party, model, run or Unseen(size), place, chain)
        return Turn(ask, self._join, self._leave, self._retry)

    # ---- upstreams ---------------------------------------------------------------------------------------------------

    def resize(self, upstream: str, slots: int, seats: int = 0, outside: Sequence[int] = ()) -> None:
        """See `slotline.gate.local.LocalGate.resize`."""
        if upstream not in self._usher.withdrawn:
            self._sights[upstream] = See(upstream, slots, seats, outside)
            self._replica.say(self._sights[upstream])

    def bound(self, max_waiting: int) -> None:
        """All bodies of those who wait at this gateway may take so many bytes together from now on."""
        self._max_waiting = max_waiting

    def open(self, upstream: str, berth: Berth) -> None:
        """A new upstream, or one that was retired."""
        self._usher.open(upstream, berth)
        self._replica.say(_offer(upstream, berth))
        self.resize(upstream, berth.slots)

    def amend(self, upstream: str, berth: Berth) -> None:
        """See `slotline.gate.local.LocalGate.amend`."""
        self._usher.berths[upstream] = berth
        self._replica.say(_offer(upstream, berth))

    def retire(self, upstream: str) -> None:
        """`upstream` takes nobody of this gateway any more. Whoever waits for it alone is told so."""
        self._usher.retire(upstream)
        self._sights.pop(upstream, None)
        self._replica.say(Withdraw(upstream))

    def close(self) -> None:
        """Nobody joins any more, and those who wait are told so. Those who run are not touched."""
        self._usher.close()
        for claim in list(self._claims.by_turn.values()):
            if not claim.answered.done():
                self._refuse(claim, ShuttingDown("the gateway is shutting down"))
                self._replica.say(Leave(claim.join.ticket))
            else:  # some wait without a ticket: they are about to be told of one, whenever that may be
                claim.turn.end(ShuttingDown("the gateway is shutting down"))

    # ---- questions ---------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> Lines:
        """The lines of all gateways: to be read, never to be changed. Their clock is the server's."""
        return self._replica.shared.lines

    def stand(self, numbers: Iterable[int]) -> dict[int, Standing]:
        """Where those of the turns `numbers` that wait stand at this moment."""
        return self._usher.stand(numbers)

    def running(self, upstream: str) -> Mapping[Ticket, float]:
        """Who holds a slot of `upstream`, by any gateway, and since when, on the process's own clock.

        Raises KeyError for an upstream that is not there.
        """
        shift = self._clock() - self._replica.moment()
        return {ticket: since + shift for ticket, since in self.lines.room(upstream).running.items()}

    def elsewhere(self, upstream: str) -> tuple[frozenset[int], int]:
        """The slots that other gateways have at `upstream`: their ids, as far as they are known, and how many."""
        try:
            return self._replica.shared.elsewhere(upstream, self._replica.name)
        except KeyError:
            return frozenset(), 0

    # ---- joining and leaving -----------------------------------------------------------------------------------------

    async def _join(self, turn: Turn) -> None:
        upstreams, ask = self._usher.admit(turn), turn.ask
        self._check_bounds(upstreams, ask.size)
        join = Join(
            self._claims.new_number(),
            sorted(upstreams),
            ask.size,
            ask.party,
            self._usher.cost(ask, upstreams),
            ask.model,
            self._usher.chain(ask),
            ask.place,
        )
        claim = Claim(turn, join, asyncio.get_running_loop().create_future())
        self._claims.add(claim)
        self._replica.say(join)
        limit = self._usher.limit(upstreams)
        try:
            async with asyncio.timeout(limit):
                error = await claim.answered
        except TimeoutError:
            self._leave(turn)
            raise QueueTimeout(f"waiting to be let into the line: queue_wait = {limit:g} s has passed") from None
        except asyncio.CancelledError:
            self._leave(turn)
            raise
        if isinstance(error, (Busy, LimitReached)):
            raise type(error)(str(error), retry_after=self._usher.retry_after(upstreams))
        if error is not None:
            raise error

    def _check_bounds(self, upstreams: frozenset[str], size: int) -> None:
        """What this gateway has in memory; and as long as nobody can be let in, not more than could wait."""
        waiting, held = self._claims.waiting, self._claims.bytes
        if held + size > self._max_waiting:
            room = f"{held} of max_waiting = {self._max_waiting} bytes"
            raise Busy(f"the line is full: those who wait hold {room}, which leaves no room for {size} more")
        bound = sum(self._usher.berths[name].queue for name in upstreams)
        if self.trouble is not None and waiting >= bound:
            raise Busy(f"the line is full: {waiting} wait here, at most queue = {bound} may, and {self.trouble}")

    def _leave(self, turn: Turn) -> None:
        claim = self._claims.by_turn.get(turn)
        if claim is None:
            return
        self._claims.drop(claim)
        ticket = turn.ticket
        if ticket is not None:
            self._usher.turns.pop(ticket, None)
            if turn.upstream is not None and claim.held is not None:
                self._usher.learn(turn, turn.upstream, ticket, claim.held.since)
        self._replica.say(Leave(claim.join.ticket))

    def _retry(self, turn: Turn) -> bool:
        claim = self._claims.by_turn.get(turn)
        ticket = turn.ticket
        if claim is None or ticket is None or claim.void:
            return False
        others = ticket.upstreams - {turn.upstream} - self._usher.withdrawn
        if not others:
            return False
        self._claims.drop(claim)
        again = self._claims.new_number()
        self._replica.say(Retry(claim.join.ticket, again))
        claim.join = Join(
            again, sorted(others), ticket.size, ticket.party, ticket.cost, ticket.model, ticket.chain, ticket.number
        )
        claim.held, claim.waits = None, False
        self._claims.add(claim)
        self._usher.turns.pop(ticket, None)
        turn.requeue()
        return True

    # ---- what the replica tells --------------------------------------------------------------------------------------

    def take(self, applied: Applied) -> None:
        """See `slotline.gate.replica.Member`, as are the next ones."""
        came = [claim for answer in applied.answers if (claim := self._answer(answer)) is not None]
        for grant in applied.changes.grants:
            if (turn := self._usher.turns.get(grant.ticket)) is not None:
                self._hold(self._claims.by_turn[turn], grant.ticket)
        self._usher.tell(applied.changes)
        for claim in came:
            self._settle(claim)
        if late := [claim for claim in came if self._comes_too_late(claim)]:
            _log.warning("cluster: %d held slots are others' by now, and what runs here is stopped", len(late))
            self.lapse()

    def _hold(self, claim: Claim, ticket: Ticket) -> None:
        held = self._replica.shared.held(ticket)
        self._claims.hold(claim, held)
        claim.turn.seat = None if held is None else held.seat

    def _answer(self, answer: Answer) -> Claim | None:
        """The claim that is in the line from now on, if one of ours is."""
        if answer.owner.replica != self._replica.name:
            return None
        claim = self._claims.by_number.get(answer.owner.ticket)
        if claim is None:  # it has left meanwhile, and has said so
            return None
        turn = claim.turn
        if turn.ticket is not None:
            self._usher.turns.pop(turn.ticket, None)
        if isinstance(answer.ticket, SlotlineError):
            self._refuse(claim, answer.ticket)
            return None
        turn.ticket, claim.number = answer.ticket, answer.ticket.number
        self._usher.turns[answer.ticket] = turn
        return claim

    def _refuse(self, claim: Claim, error: SlotlineError) -> None:
        self._claims.drop(claim)
        if claim.answered.done():
            claim.turn.end(error)
        else:
            claim.answered.set_result(error)

    def _settle(self, claim: Claim) -> None:
        """A claim is in the line: it waits from now on, unless it has its slot, or has been refused after all."""
        turn, ticket = claim.turn, claim.turn.ticket
        if turn not in self._claims.by_turn:
            return
        if ticket is not None and turn.upstream is None and not claim.waits:
            claim.waits = True
            self._usher.begin_wait(turn, ticket)
        elif ticket is not None and turn.upstream is not None:
            self._hold(claim, ticket)
        if not claim.answered.done():
            claim.answered.set_result(None)

    def _comes_too_late(self, claim: Claim) -> bool:
        """What it said that it has was free for all others, and somebody has it."""
        held, claimed, claim.claims = claim.held, claim.claims, False
        if held is None or not claimed:
            return False
        room = self.lines.room(held.upstream)
        return room.slots > 0 and room.free < 0

    def restate(self, old: str) -> Sequence[Command]:
        claims = sorted(self._claims.by_number.values(), key=lambda claim: claim.number or claim.join.ticket)
        self._usher.turns.clear()
        held = [self._restated(claim) for claim in claims if claim.held is not None and not claim.void]
        waiting = [self._restated(claim) for claim in claims if claim.held is None and claim.number is not None]
        fresh = [self._restated(claim) for claim in claims if claim.held is None and claim.number is None]
        offers = [_offer(name, berth) for name, berth in self._usher.berths.items()]
        return [*offers, *held, *([Bury(old)] if old else ()), *waiting, *fresh]

    def _restated(self, claim: Claim) -> Join:
        """As it stands now: without the upstreams that were withdrawn meanwhile, but for one where it runs."""
        here = () if claim.held is None else (claim.held.upstream,)
        upstreams = sorted((set(claim.join.upstreams) - self._usher.withdrawn).union(here))
        claim.join = join = msgspec.structs.replace(claim.join, upstreams=upstreams)
        if claim.number is None:
            return join
        claim.claims = claim.held is not None
        return msgspec.structs.replace(join, number=claim.number, admitted=True, holds=claim.held)

    def sights(self) -> Sequence[See]:
        return list(self._sights.values())

    def lapse(self) -> None:
        """From now on what runs here runs without a slot of its own, and must end."""
        for claim in self._claims.by_turn.values():
            if claim.held is not None and not claim.void:
                claim.void = True
                claim.turn.revoke(SlotLost("the gateway lost its lease, and the slot went to others"))
        self._lapsed()


def _offer(upstream: str, berth: Berth) -> Offer:
    return Offer(upstream, berth.queue, berth.exclusive, berth.affinity)
