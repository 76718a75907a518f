"""One line for several gateways: what follows from the journal that they share.

`Shared` is `core.line` driven by entries, and nothing else: no clock, no chance, no order that differs from process to
process. So every replica that has read the same entries has the same line, grants the same slots to the same tickets,
and knows every position, without asking anybody. What a replica adds is to act on the grants of its own tickets.

Where replicas see one upstream differently, the most careful of those who can use it at all is believed. Slots of
servers that let one choose are given out here, too, so that no two replicas choose the same one.

A picture (`core.journal.Picture`) is enough to go on from: whoever comes later starts there. What it leaves out is what
parties have used so far, and how often anybody was passed; so when one is made, *all* go on from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from slotline.core.errors import SlotlineError, Withdrawn
from slotline.core.journal import (
    Bury,
    Command,
    Entry,
    Held,
    Join,
    Keep,
    Leave,
    Mark,
    Offer,
    Picture,
    Retry,
    See,
    Standing,
    View,
    Withdraw,
)
from slotline.core.line import Changes, Grant, Lines, Phase
from slotline.core.party import FairBy
from slotline.core.rejoin import Kept
from slotline.core.room import Ticket
from slotline.core.seats import Seats

_KEPT = 3600.0
"""Seconds for which places are remembered here at most; for how long each replica gives them out is its own affair."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose ticket it is, and that replica's own number of it."""

    replica: str
    ticket: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a ticket by its own command: it has this place in the line, or has none for this reason."""

    owner: Owner
    ticket: Ticket | SlotlineError


@dataclass(frozen=True, slots=True)
class Applied:
    """What one entry caused. Answers come before the changes that they are part of.

    `picture`: that of which all go on from here, if they do.
    """

    answers: Sequence[Answer]
    changes: Changes
    picture: Picture | None = None


@dataclass(slots=True)
class _Upstream:
    """One upstream, as the replicas see it. Those that wrote last of it come last."""

    offers: dict[str, Offer] = field(default_factory=dict)
    sights: dict[str, See] = field(default_factory=dict)
    seats: Seats = field(default_factory=lambda: Seats(0))

    @property
    def slots(self) -> int:
        """How many may be used: as the most careful says of those who can use any."""
        return min((sight.slots for sight in self.sights.values() if sight.slots), default=0)

    @property
    def outside(self) -> Sequence[int]:
        """The seats of others, as the last one says who has looked."""
        return next((sight.outside for sight in reversed(self.sights.values()) if sight.seats), ())


class Shared:
    """The state of all. `lines` and `kept` are to be read, never to be changed."""

    def __init__(self, fair_by: FairBy = FairBy.KEY) -> None:
        self._fair_by = fair_by
        self._begin()

        self.kept = Kept(_KEPT)

    def _begin(self) -> None:
        self.lines = Lines({}, None, self._fair_by)
        self._upstreams: dict[str, _Upstream] = {}
        self._tickets: dict[Owner, Ticket] = {}
        self._owners: dict[Ticket, Owner] = {}
        self._seats: dict[Ticket, tuple[str, int]] = {}
        self._fences: dict[Ticket, int] = {}
        self._fence = 0

    # ---- questions ---------------------------------------------------------------------------------------------------

    def owner(self, ticket: Ticket) -> Owner:
        """Whose a ticket is that waits or runs."""
        return self._owners[ticket]

    def seat(self, ticket: Ticket) -> int | None:
        """The id of the slot in which a ticket that runs is to sit; None where the server chooses."""
        seat = self._seats.get(ticket)
        return None if seat is None else seat[1]

    def held(self, ticket: Ticket) -> Held | None:
        """What a ticket has that runs; None for one that waits."""
        run = self.lines.holding(ticket)
        return None if run is None else Held(*run, self._fences[ticket], self.seat(ticket))

    def first_replica(self) -> str | None:
        """One of those that are there, the same one for all; None if nobody offers anything."""
        return next((name for upstream in self._upstreams.values() for name in upstream.offers), None)

    def elsewhere(self, upstream: str, replica: str) -> tuple[frozenset[int], int]:
        """The seats of other replicas at `upstream`, as far as they are known, and how many sit there in all."""
        others = [ticket for ticket in self.lines.room(upstream).running if self._owners[ticket].replica != replica]
        return frozenset(seat for ticket in others if (seat := self.seat(ticket)) is not None), len(others)

    # ---- the journal -------------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> Applied:
        """Takes in the next entry."""
        story = _Story()
        self._fence = max(self._fence, entry.number - 1)
        if not entry.commands:
            self._end_replica(entry.replica, entry.moment, story)
        for index, command in enumerate(entry.commands):
            self._take(entry.replica, command, entry.number + index, entry.moment, story)
        return story.told()

    def _take(self, replica: str, command: Command, number: int, now: float, story: _Story) -> None:
        match command:
            case Offer():
                self._offer(replica, command, now, story)
            case Withdraw(upstream=name):
                self._withdraw(replica, name, now, story)
            case See():
                self._see(replica, command, now, story)
            case Join():
                self._join(Owner(replica, command.ticket), command, number, now, story)
            case Retry():
                self._retry(replica, command, now, story)
            case Leave(ticket=ticket):
                self._leave(Owner(replica, ticket), now, story)
            case Keep(request=request, number=place):
                self.kept.keep(request, place, now)
            case Bury(replica=name):
                self._end_replica(name, now, story)
            case Mark():
                story.picture = self.picture(number + 1, now)
                self._go_on_from(story.picture, story)
            case _:
                assert_never(command)

    # ---- tickets -----------------------------------------------------------------------------------------------------

    def _join(self, owner: Owner, command: Join, number: int, now: float, story: _Story) -> None:
        if owner in self._tickets:  # nobody writes that
            return
        if not self._may_join(owner.replica, command):
            story.answer(owner, Withdrawn("the upstream was taken out of the configuration"))
            return
        place = command.number
        if place is not None:
            self.kept.give_up(place)
        if place is not None and (place >= number or self.lines.ticket(place) is not None):
            place = None  # it stands in line again already, or never was in this journal's time
        try:
            if command.admitted or command.holds is not None:
                self._admit(owner, command, command.holds, number if place is None else place, now, story)
                return
            self.lines.count_to(number - 1)
            ticket, changes = self.lines.join(
                command.upstreams,
                now,
                command.size,
                command.party,
                command.cost,
                command.model,
                place,
                command.chain,
            )
        except SlotlineError as refusal:
            story.answer(owner, refusal)
        else:
            self._own(owner, ticket, story)
            self._note(changes, story)

    def _may_join(self, replica: str, command: Join) -> bool:
        """It is sent only where its replica sends requests to; where it runs already, that may have ended meanwhile."""
        if command.holds is not None:
            return command.holds.upstream in self._upstreams
        return bool(command.upstreams) and all(self._offers(replica, name) for name in command.upstreams)

    def _admit(
        self, owner: Owner, asks: Join | Standing, holds: Held | None, number: int, now: float, story: _Story
    ) -> None:
        """It was let in before, and may even have its slot still."""
        upstreams = frozenset(name for name in asks.upstreams if name in self._upstreams)
        ticket = Ticket(number, upstreams, asks.size, asks.party, asks.cost, asks.model, asks.chain)
        if holds is not None:
            self.lines.resume(ticket, holds.upstream, holds.since)
            self._own(owner, ticket, story)
            self._sit(ticket, holds)
            return
        changes = self.lines.readmit(ticket, now)
        self._own(owner, ticket, story)
        self._note(changes, story)

    def _retry(self, replica: str, command: Retry, now: float, story: _Story) -> None:
        owner, again = Owner(replica, command.ticket), Owner(replica, command.again)
        ticket = self._tickets.get(owner)
        retried = None if ticket is None else self.lines.retry(ticket, now)
        if ticket is None or retried is None:  # its replica knows it by its new number only: it ends
            self._leave(owner, now, story)
            story.answer(again, Withdrawn("there is no other upstream"))
            return
        self._disown(owner, ticket)
        self._own(again, retried[0], story)
        self._note(retried[1], story)

    def _leave(self, owner: Owner, now: float, story: _Story) -> None:
        ticket = self._tickets.get(owner)
        if ticket is not None:
            self._disown(owner, ticket)
            self._note(self.lines.leave(ticket, now), story)

    def _own(self, owner: Owner, ticket: Ticket, story: _Story) -> None:
        self._tickets[owner] = ticket
        self._owners[ticket] = owner
        story.answer(owner, ticket)

    def _disown(self, owner: Owner, ticket: Ticket) -> None:
        del self._tickets[owner], self._owners[ticket]
        self._fences.pop(ticket, None)
        upstream, seat = self._seats.pop(ticket, ("", 0))
        if upstream:
            self._upstreams[upstream].seats.give(seat)

    def _note(self, changes: Changes, story: _Story) -> None:
        """Those who got a slot sit down."""
        for grant in changes.grants:
            upstream = self._upstreams[grant.upstream]
            seat = upstream.seats.take(grant.ticket.chain, upstream.outside) if upstream.seats.count else None
            if seat is not None:
                self._seats[grant.ticket] = grant.upstream, seat
            self._fence += 1
            self._fences[grant.ticket] = self._fence
        story.changes(changes)

    def _sit(self, ticket: Ticket, holds: Held) -> None:
        """It sits where it has sat all the time."""
        self._fences[ticket] = holds.fence
        seat = holds.seat
        if seat is not None and self._upstreams[holds.upstream].seats.claim(seat, ticket.chain):
            self._seats[ticket] = holds.upstream, seat

    # ---- upstreams ---------------------------------------------------------------------------------------------------

    def _offer(self, replica: str, offer: Offer, now: float, story: _Story) -> None:
        name = offer.upstream
        upstream = self._upstreams.setdefault(name, _Upstream())
        known = bool(upstream.offers)
        upstream.offers.pop(replica, None)
        upstream.offers[replica] = offer
        if known:
            changes = self.lines.change(name, offer.queue, now, exclusive=offer.exclusive, affinity=offer.affinity)
        else:
            changes = self._open(offer, now)
        self._note(changes, story)

    def _open(self, offer: Offer, now: float) -> Changes:
        slots = self._upstreams[offer.upstream].slots
        return self.lines.add(
            offer.upstream, slots, offer.queue, now, exclusive=offer.exclusive, affinity=offer.affinity
        )

    def _offers(self, replica: str, name: str) -> bool:
        upstream = self._upstreams.get(name)
        return upstream is not None and replica in upstream.offers

    def _see(self, replica: str, sight: See, now: float, story: _Story) -> None:
        if not self._offers(replica, sight.upstream):
            return
        upstream = self._upstreams[sight.upstream]
        upstream.sights.pop(replica, None)
        upstream.sights[replica] = sight
        self._look(sight.upstream, now, story)

    def _look(self, name: str, now: float, story: _Story) -> None:
        upstream = self._upstreams[name]
        upstream.seats.count = max((sight.seats for sight in upstream.sights.values()), default=0)
        self._note(self.lines.resize(name, upstream.slots, now), story)

    def _withdraw(self, replica: str, name: str, now: float, story: _Story) -> None:
        """Tickets of this replica that wait for it wait for their others; those who have none are told so."""
        if not self._offers(replica, name):
            return
        upstream = self._upstreams[name]
        del upstream.offers[replica]
        upstream.sights.pop(replica, None)
        for owner, ticket in self._waiting_of(replica):
            if name in ticket.upstreams:
                self._refile(owner, ticket, name, now, story)
        if upstream.offers:
            self._look(name, now, story)
            return
        changes, _ = self.lines.retire(name, now)  # nobody is stranded: nobody waits for what none offers
        self._note(changes, story)
        self._forget_unused()

    def _refile(self, owner: Owner, ticket: Ticket, gone: str, now: float, story: _Story) -> None:
        others = ticket.upstreams - {gone}
        self._leave(owner, now, story)
        if not others:
            story.answer(owner, Withdrawn("waiting in line: the upstream was taken out of the configuration"))
            return
        again = msgspec.structs.replace(ticket, upstreams=others)
        changes = self.lines.readmit(again, now)
        self._own(owner, again, story)
        self._note(changes, story)

    def _waiting_of(self, replica: str) -> list[tuple[Owner, Ticket]]:
        return [
            (owner, ticket)
            for owner, ticket in self._tickets.items()
            if owner.replica == replica and self._waits(ticket)
        ]

    def _forget_unused(self) -> None:
        """Upstreams that nobody offers, and where nobody runs any more."""
        held = {upstream for upstream, _ in self._seats.values()}
        for name in [name for name, upstream in self._upstreams.items() if not upstream.offers and name not in held]:
            del self._upstreams[name]

    def _end_replica(self, replica: str, now: float, story: _Story) -> None:
        """Whoever waits leaves first, so that no slot is granted to one that is about to go."""
        waiting = [owner for owner, _ in self._waiting_of(replica)]
        for owner in [*waiting, *(owner for owner in self._tickets if owner.replica == replica)]:
            self._leave(owner, now, story)
        for name in list(self._upstreams):
            self._withdraw(replica, name, now, story)

    # ---- pictures ----------------------------------------------------------------------------------------------------

    def picture(self, number: int, moment: float) -> Picture:
        """All there is at this moment, to go on from at the entry of this number."""
        views = [
            View(replica, offer, upstream.sights.get(replica) or See(name, 0))
            for name, upstream in self._upstreams.items()
            for replica, offer in upstream.offers.items()
        ]
        standings = [self._standing(owner, ticket) for owner, ticket in self._in_order()]
        return Picture(number, moment, views, standings, self.kept.all())

    def _in_order(self) -> Iterable[tuple[Owner, Ticket]]:
        """By number; one that runs comes before one that has come back to the place from which it went there."""
        return sorted(self._tickets.items(), key=lambda entry: (entry[1].number, self._waits(entry[1])))

    def _waits(self, ticket: Ticket) -> bool:
        return self.lines.phase(ticket) is Phase.WAITING

    def _standing(self, owner: Owner, ticket: Ticket) -> Standing:
        return Standing(
            owner.replica,
            owner.ticket,
            ticket.number,
            sorted(ticket.upstreams),
            ticket.size,
            ticket.party,
            ticket.cost,
            ticket.model,
            ticket.chain,
            self.held(ticket),
        )

    @classmethod
    def of(cls, picture: Picture, fair_by: FairBy = FairBy.KEY) -> Shared:
        """The state that `picture` shows. All who go on from it have the same."""
        shared = cls(fair_by)
        shared._go_on_from(picture, _Story())
        return shared

    def _go_on_from(self, picture: Picture, story: _Story) -> None:
        """Slots are open only when everybody stands where they stood: so nobody gets one out of turn."""
        self._begin()
        self._fence = picture.next - 1
        for request, place, since in picture.kept:
            self.kept.keep(request, place, since)
        for view in picture.views:
            self._offer(view.replica, view.offer, 0.0, story)
        held = dict.fromkeys(each.holds.upstream for each in picture.standings if each.holds is not None)
        left = [name for name in held if name not in self._upstreams]
        for name in left:  # nobody offers them any more, but some still run there
            self._upstreams[name] = _Upstream()
            self._open(Offer(name, 0), 0.0)
        for standing in picture.standings:
            self._stand(standing, story)
        for name in left:
            self.lines.retire(name, 0.0)
        for view in picture.views:
            self._upstreams[view.offer.upstream].sights[view.replica] = view.sight
        for name in dict.fromkeys(view.offer.upstream for view in picture.views):
            self._look(name, picture.moment, story)
        self.lines.count_to(picture.next - 1)

    def _stand(self, standing: Standing, story: _Story) -> None:
        self._admit(Owner(standing.replica, standing.ticket), standing, standing.holds, standing.number, 0.0, story)


class _Story:
    """What one entry causes, as it comes to pass."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._grants: list[Grant] = []
        self._moved: dict[frozenset[str], None] = {}
        self.picture: Picture | None = None

    def answer(self, owner: Owner, ticket: Ticket | SlotlineError) -> None:
        self._answers.append(Answer(owner, ticket))

    def changes(self, changes: Changes) -> None:
        self._grants += changes.grants
        self._moved.update(dict.fromkeys(changes.moved))

    def told(self) -> Applied:
        return Applied(self._answers, Changes(tuple(self._grants), tuple(self._moved)), self.picture)
