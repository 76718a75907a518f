"""Who sits where on one upstream, and how many may: the truth about its slots, as far as it can be had.

    configured   what the operator allows, or what the server reports; never more than it has
    breaker      none while the upstream is out of order, one while it is tried again
    outsiders    a slot that works for somebody else is not ours to give, if there is no other one for us

A slot whose request was ended before its time is *draining*: nobody gets it before the server shows it idle, or `drain`
has passed. A reading of the slots that was asked for before the last change here says nothing about the state after it,
and is dropped. Whatever changes the number that may be used is told to the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from slotline.core.breaker import Breaker, State
from slotline.core.errors import SlotlineError, Unreachable, UpstreamStatus
from slotline.core.liveness import State as Silent
from slotline.core.reading import Reading
from slotline.core.seats import Seats


@dataclass(slots=True)
class Seat:
    """One slot, as one request has it. `slot`: its id, where the server lets one choose."""

    slot: int | None
    finished: bool = False

    def finish(self) -> None:
        """The server does not work on the request any more."""
        self.finished = True


@dataclass(eq=False, slots=True)
class Draining:
    """A slot that is kept out of use, from `since` until `until` at the latest; `release` gives it back."""

    slot: int | None
    since: float
    until: float
    version: int  # a reading says something about it if it was asked for since
    release: Callable[[], None]


@dataclass(eq=False, slots=True)
class Tenancy:
    """One upstream's. `clock`: seconds, monotonic. `resized` is told how many slots may be used; see `attach`."""

    configured: int | None  # None: as many as the server reports
    pins: bool  # requests are sent to a slot by its id, where the server lets one choose
    drain: float  # seconds; 0: a slot is never kept out of use
    clock: Callable[[], float]
    resized: Callable[[int], None] = lambda _: None
    elsewhere: Callable[[], tuple[frozenset[int], int]] = lambda: (frozenset(), 0)
    """The slots that gateways with the same line have here: their ids, as far as they are known, and how many."""
    breaker: Breaker = field(default_factory=Breaker)
    draining: list[Draining] = field(default_factory=list)  # the oldest first
    closed_since: float | None = None  # when the breaker took all slots away; None while there are some
    seated: int = 0
    outsiders: int = 0
    _seen: int | None = None  # slots that the server reports
    _shows: bool = False  # it shows what each slot does
    _seats: Seats = field(default_factory=lambda: Seats(0))
    _outside: frozenset[int] = frozenset()  # ids of slots that others use
    _suspected: int = 0  # outsiders in the reading before
    _version: int = 0  # grows with every change of who sits where
    _told: tuple[object, ...] | None = None
    _woken: Callable[[], None] = lambda: None
    _risen: Callable[[], None] = lambda: None

    @property
    def slots(self) -> int:
        """How many slots there are to use, when all is well."""
        known = [count for count in (self.configured, self._seen) if count is not None]
        return min(known, default=1)

    @property
    def remembers(self) -> bool:
        """Requests are sent to a slot by its id, so that a conversation may come back to it."""
        return self.pins and self._shows

    @property
    def allowed(self) -> int:
        """How many may be used at present."""
        has = self.slots if self._seen is None else self._seen
        return max(0, min(self.breaker.slots(self.slots), has - self.outsiders))

    @property
    def patience(self) -> float | None:
        """Seconds until the first of the slots that drain has done so for long enough; None: none drains."""
        due = min((draining.until for draining in self.draining), default=None)
        return None if due is None else max(0.0, due - self.clock())

    @property
    def version(self) -> int:
        """To be given with a reading: which state of things it was asked in."""
        return self._version

    def attach(self, resized: Callable[[int], None]) -> None:
        """From now on `resized` is told how many slots may be used; at once, and with every change of them."""
        self.resized, self._told, self._risen = resized, None, lambda: None
        self._tell()

    def detach(self, risen: Callable[[], None]) -> None:
        """From now on nobody is told of the slots: nobody new comes. `risen` is called whenever somebody has left."""
        self.resized, self._risen = lambda _: None, risen

    def amend(self, configured: int | None, drain: float, *, pins: bool) -> None:
        """What the operator allows is something else from now on. Nobody who sits here is disturbed."""
        self.configured, self.drain, self.pins = configured, drain, pins
        self._seats.count = self.slots if self._seen is None else self._seen
        self._tell()

    def on_drain(self, woken: Callable[[], None]) -> None:
        """`woken` is called when a slot begins to drain, so that somebody asks the server about it."""
        self._woken = woken

    def server_has(self, slots: int | None, *, shows: bool) -> None:
        """What the server reports of itself; `shows`: also what each slot does, and it takes orders where to sit."""
        self._seen, self._shows = slots, shows
        self._seats.count = self.slots if slots is None else slots
        self._tell()

    @contextmanager
    def seat(
        self, chain: Sequence[int], hold: Callable[[], Callable[[], None]], only: int | None = None
    ) -> Iterator[Seat]:
        """A slot for a conversation; `hold` keeps the gate's slot beyond the turn, until what it returns is called.

        `only`: this slot and no other. No chain at all: wherever the server likes, because it cannot be told.
        """
        placed = self.pins and self._shows and (bool(chain) or only is not None)
        avoid = self._outside if only is None else frozenset(range(self._seats.count)) - {only}
        seat = Seat(self._seats.take(chain, avoid) if placed else None)
        self._change(+1)
        try:
            yield seat
        except (Unreachable, UpstreamStatus):  # it never began, or refused
            seat.finish()
            raise
        finally:
            if seat.finished or not self._shows or not self.drain:
                self._rise(seat.slot)
            else:
                self._keep_out(seat.slot, hold())

    def ended(self, error: SlotlineError | None, state: Silent = Silent.BUSY) -> None:
        """A request to the server ended: well, or with what the upstream did to it. `state`: what its silence meant."""
        if error is None:
            self.breaker.worked()
        else:
            self.breaker.failed(error, self.clock(), state)
        self._tell()

    def began(self) -> None:
        """A piece of an answer came."""
        self.breaker.began()
        self._tell()

    def looked(self, *, well: bool) -> None:
        """The server answered a probe, or did not."""
        if well:
            self.breaker.look(self.clock())
            self._tell()

    @property
    def numbers(self) -> range:
        """The server's own numbers of all its slots, where requests are sent to one; else none."""
        return range(self._seats.count if self.remembers else 0)

    @property
    def outside(self) -> Sequence[int | None]:
        """The slots that work for others than us, by the server's own numbers as far as they are known."""
        known: list[int | None] = [*sorted(self._outside)] if self.remembers else []
        return [*known, *[None] * self.outsiders][: self.outsiders]

    @property
    def out_of_order(self) -> bool:
        """The breaker is not closed."""
        return self.breaker.state is not State.CLOSED

    # ---- readings ----------------------------------------------------------------------------------------------------

    def read(self, reading: Reading, version: int) -> None:
        """The server showed its slots, asked when things stood as `version` says."""
        now = self.clock()
        for draining in list(self.draining):
            if now >= draining.until or self._is_idle(draining, reading, version):
                self.draining.remove(draining)
                draining.release()
        if reading.late:
            return
        if reading.slots is None:  # it restarts, or does not show them any more
            self._see_outside(frozenset())
        elif version == self._version:
            self._see_outside(frozenset(slot.id for slot in reading.slots if slot.busy))

    def _is_idle(self, draining: Draining, reading: Reading, version: int) -> bool:
        """A server that restarts works on nothing; one that shows no slots cannot be waited for."""
        if reading.late or version < draining.version:
            return False
        if reading.slots is None:
            return True
        if draining.slot is None:
            ours = self.seated - len(self.draining) + self.elsewhere()[1]
            return version == self._version and (reading.busy or 0) <= ours
        return not any(slot.busy for slot in reading.slots if slot.id == draining.slot)

    def _see_outside(self, busy: frozenset[int]) -> None:
        """What works and is not ours. Two readings must agree: a slot is busy for a moment longer than its answer."""
        others, sharing = self.elsewhere()
        taken = self._seats.taken() | others
        self._outside = busy - taken  # some of ours may be among them, those that the server found a slot for
        count = max(0, len(self._outside) - (self.seated + sharing - len(taken)))
        self.outsiders, self._suspected = min(count, self._suspected), count
        self._tell()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _keep_out(self, slot: int | None, give_back: Callable[[], None]) -> None:
        def release() -> None:
            self._rise(slot)
            give_back()

        self._version += 1
        now = self.clock()
        self.draining.append(Draining(slot, now, now + self.drain, self._version, release))
        self._woken()

    def _rise(self, slot: int | None) -> None:
        if slot is not None:
            self._seats.give(slot)
        self._change(-1)
        self._risen()

    def _change(self, seated: int) -> None:
        self.seated += seated
        self._version += 1

    def _tell(self) -> None:
        if self.breaker.state is not State.OPEN:
            self.closed_since = None
        elif self.closed_since is None:
            self.closed_since = self.clock()
        told = (self.allowed, len(self.numbers), tuple(self.outside) if self.remembers else ())
        if told != self._told:
            self._told = told
            self.resized(self.allowed)
