"""Who sits where on one upstream, and how many may: told by hand, and by a machine that tries everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slotline.core.errors import (
    SlotlineError,
    Stalled,
    StreamClosedEarly,
    ThinkingOverrun,
    Unreachable,
    UpstreamStatus,
)
from slotline.core.reading import Reading, Slot
from slotline.upstream.tenancy import Seat, Tenancy

DIED = StreamClosedEarly("in the middle")
DRAIN = 30.0


@dataclass(slots=True)
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class House:
    """A tenancy, its clock, and what it told: `told` to the gate, `given` the gate's slots that came back."""

    who: Tenancy
    clock: Clock
    told: list[int] = field(default_factory=list)
    woken: int = 0
    held: int = 0
    given: int = 0

    def hold(self) -> Callable[[], None]:
        self.held += 1

        def give() -> None:
            self.given += 1

        return give

    def seat(self, *chain: int) -> AbstractContextManager[Seat]:
        return self.who.seat(chain, self.hold)

    def leave(self, *chain: int, error: Exception | None = None) -> int | None:
        """A request that ends before its time; its slot."""
        slot = None
        with pytest.raises(KeyError), self.seat(*chain) as seat:
            slot = seat.slot
            raise error or KeyError("the client left")
        return slot

    def read(self, *busy: bool, version: int | None = None) -> None:
        """The server shows its slots; asked just now, unless `version` says otherwise."""
        shown = Reading(slots=tuple(Slot(number, works) for number, works in enumerate(busy)))
        self.who.read(shown, self.who.version if version is None else version)


def house(
    configured: int | None = 2, seen: int | None = 2, *, pins: bool = True, drain: float = DRAIN, shows: bool = True
) -> House:
    """A server with `seen` slots, of which `configured` may be used."""
    clock = Clock()
    made = House(Tenancy(configured, pins, drain, clock), clock)

    def woken() -> None:
        made.woken += 1

    made.who.on_drain(woken)
    if seen is not None or not shows:
        made.who.server_has(seen, shows=shows)
    made.who.attach(made.told.append)
    return made


# ---- how many may be used --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "seen", "slots"),
    [(2, 4, 2), (4, 2, 2), (None, 4, 4), (3, None, 3), (None, None, 1)],
    ids=["configured", "no more than it has", "auto", "it does not tell", "nobody tells"],
)
def test_as_many_as_are_configured_and_never_more_than_the_server_has(
    configured: int | None, seen: int | None, slots: int
) -> None:
    made = house(configured, seen)
    assert (made.who.slots, made.who.allowed, made.told) == (slots, slots, [slots])


def test_the_gate_is_told_at_once_and_of_every_change_and_of_nothing_else() -> None:
    made = house(None, None)
    made.who.server_has(4, shows=True)
    made.who.server_has(4, shows=True)
    made.who.server_has(2, shows=True)
    made.who.server_has(None, shows=False)
    assert made.told == [1, 4, 2, 1]


def test_the_breaker_leaves_none_then_one_then_all() -> None:
    made = house(4, 4)
    for _ in range(3):
        made.who.ended(DIED)
    assert made.who.out_of_order
    made.who.looked(well=True)
    assert made.told == [4, 0]
    made.clock.now += 1
    made.who.looked(well=False)
    assert made.told == [4, 0]
    made.who.looked(well=True)
    made.who.ended(None)
    assert made.told == [4, 0, 1, 4]
    assert not made.who.out_of_order


def test_an_answer_that_was_too_much_thinking_or_a_status_does_not_open_it() -> None:
    made = house()
    for _ in range(10):
        made.who.ended(ThinkingOverrun("too much"))
        made.who.ended(UpstreamStatus(500, "no"))
    assert made.told == [2]


# ---- where one sits --------------------------------------------------------------------------------------------------


def test_a_conversation_returns_to_its_slot() -> None:
    made = house()
    slots = []
    for chain in [(9, 1), (9, 2), (9, 1, 3), (9, 2, 4), (9, 1, 3, 5)]:
        with made.seat(*chain) as seat:
            slots.append(seat.slot)
            seat.finish()
    assert slots == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(("pins", "shows"), [(False, True), (True, False)])
def test_where_it_is_not_to_be_or_cannot_be_chosen_the_server_chooses(*, pins: bool, shows: bool) -> None:
    made = house(2, 2 if shows else None, pins=pins, shows=shows)
    with made.seat(1) as seat:
        assert seat.slot is None
        seat.finish()


def test_any_slot_of_the_server_will_do_also_where_fewer_may_be_used() -> None:
    """Two gateways that share a server of four slots must not both insist on its first two."""
    made = house(2, 4)
    made.read(True, True, False, False)
    with made.seat(1) as one, made.seat(2) as two:
        assert [one.slot, two.slot] == [2, 3]
        one.finish()
        two.finish()


def test_one_slot_and_no_other_may_be_asked_for() -> None:
    made = house()
    with made.who.seat((1,), made.hold, only=1) as seat:
        assert seat.slot == 1
        with made.who.seat((1,), made.hold, only=1) as taken:
            assert taken.slot is None
            taken.finish()
        seat.finish()


def test_what_cannot_be_told_where_to_sit_takes_nobodys_slot_and_leaves_what_they_hold() -> None:
    """Embeddings: llama-server puts them where it likes. They count, so that what is busy is not taken for others'."""
    made = house()
    with made.seat(1) as seat:
        seat.finish()
    with made.seat() as embedding:
        assert embedding.slot is None
        made.read(True, False)
        made.read(True, False)
        assert made.who.allowed == 2
        with made.seat(1) as chat:
            assert chat.slot == 1  # and not its own, which was seen to be busy
            chat.finish()
        embedding.finish()


# ---- slots that drain ------------------------------------------------------------------------------------------------


def test_whoever_finishes_gives_the_slot_back_at_once() -> None:
    made = house(1, 1)
    with made.seat(1) as seat:
        seat.finish()
    assert (made.held, made.woken, len(made.who.draining), made.who.seated) == (0, 0, 0, 0)
    with made.seat(2) as seat:
        assert seat.slot == 0
        seat.finish()


@pytest.mark.parametrize("error", [Unreachable("refused"), UpstreamStatus(400, "no")])
def test_so_does_one_that_never_began(error: SlotlineError) -> None:
    made = house(1, 1)
    with pytest.raises(type(error)), made.seat(1):
        raise error
    assert (made.held, len(made.who.draining), made.who.seated) == (0, 0, 0)


@pytest.mark.parametrize("error", [DIED, Stalled("silent"), ThinkingOverrun("too much"), KeyError("the client left")])
def test_whoever_leaves_before_the_last_word_leaves_a_slot_that_drains(error: Exception) -> None:
    made = house(1, 1)
    with pytest.raises(type(error)), made.seat(1):
        raise error
    assert (made.held, made.given, made.woken) == (1, 0, 1)
    assert [each.slot for each in made.who.draining] == [0]
    with made.seat(2) as seat:
        assert seat.slot is None  # it is nobody's
        seat.finish()


@pytest.mark.parametrize("pins", [True, False])
def test_a_slot_drains_until_the_server_shows_it_idle(*, pins: bool) -> None:
    made = house(1, 1, pins=pins)
    made.leave(1)
    made.read(True)
    assert (made.given, made.who.seated) == (0, 1)
    made.read(False)
    assert (made.given, made.who.seated, len(made.who.draining)) == (1, 0, 0)


def test_only_its_own_slot_counts_where_it_is_known() -> None:
    made = house()
    with made.seat(1) as other:
        assert made.leave(2) == 1
        made.read(True, True)
        assert made.given == 0
        made.read(True, False)
        assert made.given == 1
        other.finish()


def test_where_it_is_not_known_all_that_is_ours_and_does_not_drain_may_work() -> None:
    made = house(3, 3, pins=False)
    with made.seat(1) as other:
        made.leave(2)
        made.leave(3)
        made.read(True, True, True)
        made.read(True, True, False)
        assert made.given == 0
        made.read(True, False, False)
        assert made.given == 1  # which gives the gate a slot, so that this look says nothing about the other one
        made.read(True, False, False)
        assert made.given == 2
        other.finish()


@pytest.mark.parametrize("pins", [True, False])
def test_a_slot_that_works_for_ever_drains_no_longer_than_drain(*, pins: bool) -> None:
    made = house(1, 1, pins=pins)
    made.leave(1)
    made.clock.now += DRAIN - 0.1
    assert made.who.patience == pytest.approx(0.1)
    made.read(True)
    assert made.given == 0
    made.clock.now += 0.2
    assert made.who.patience == 0
    made.read(True)
    assert made.given == 1
    assert house().who.patience is None


def test_a_look_that_is_late_says_nothing_but_that_time_has_passed() -> None:
    made = house(1, 1)
    made.leave(1)
    made.who.read(Reading(late=True), made.who.version)
    assert made.given == 0
    made.clock.now += DRAIN
    made.who.read(Reading(late=True), made.who.version)
    assert made.given == 1


@pytest.mark.parametrize("reading", [Reading(loading=True), Reading()], ids=["restarts", "shows no slots"])
def test_a_server_that_restarts_or_shows_nothing_is_not_waited_for(reading: Reading) -> None:
    made = house(1, 1)
    made.leave(1)
    made.who.read(reading, made.who.version)
    assert made.given == 1


def test_on_a_server_that_never_showed_its_slots_none_drains() -> None:
    made = house(1, None, shows=False)
    made.leave(1)
    assert (made.held, made.woken, made.who.seated) == (0, 0, 0)


def test_with_drain_0_none_drains() -> None:
    made = house(1, 1, drain=0.0)
    made.leave(1)
    assert (made.held, made.woken, made.who.seated) == (0, 0, 0)


@pytest.mark.parametrize("pins", [True, False])
def test_what_was_asked_before_a_slot_began_to_drain_says_nothing_about_it(*, pins: bool) -> None:
    made = house(1, 1, pins=pins)
    with pytest.raises(KeyError), made.seat(1):
        asked = made.who.version
        raise KeyError("the client left")
    made.read(False, version=asked)
    assert made.given == 0
    made.read(False)
    assert made.given == 1


def test_a_slot_is_given_back_once() -> None:
    made = house(1, 1)
    made.leave(1)
    made.clock.now += 2 * DRAIN
    for _ in range(3):
        made.read(False)
    assert (made.held, made.given, made.who.seated) == (1, 1, 0)


# ---- somebody else ---------------------------------------------------------------------------------------------------


def test_somebody_elses_use_is_believed_when_two_looks_agree_and_then_the_cap_is_lower() -> None:
    made = house()
    made.read(True, False)
    assert made.told == [2]
    made.read(True, False)
    assert made.told == [2, 1]
    made.read(True, True)
    made.read(True, True)
    assert made.told == [2, 1, 0]


def test_one_look_is_enough_to_see_that_they_have_gone() -> None:
    made = house()
    for _ in range(2):
        made.read(True, True)
    made.read(False, False)
    assert made.told == [2, 0, 2]


@pytest.mark.parametrize("pins", [True, False])
def test_what_works_for_us_is_nobody_elses(*, pins: bool) -> None:
    made = house(pins=pins)
    with made.seat(1) as seat:
        for _ in range(3):
            made.read(True, False)
        assert made.told == [2]
        for _ in range(2):
            made.read(True, True)
        assert made.told == [2, 1]
        seat.finish()


def test_what_drains_is_ours_still() -> None:
    made = house()
    made.leave(1)
    for _ in range(3):
        made.read(True, False)
    assert made.told == [2]


def test_a_slot_that_the_server_found_for_one_of_ours_is_not_taken_for_somebody_elses() -> None:
    """Sent before it was known that the server takes orders, or as all slots seemed to be in use."""
    made = house(1, 1)
    made.read(True)
    with made.seat(1) as seat:
        assert seat.slot is None
        for _ in range(3):
            made.read(True)
        assert made.told == [1]
        seat.finish()


def test_a_new_conversation_sits_where_nobody_else_is() -> None:
    made = house()
    made.read(True, False)
    with made.seat(1) as seat:
        assert seat.slot == 1
        seat.finish()


@pytest.mark.parametrize("pins", [True, False])
def test_others_on_slots_that_we_do_not_need_are_no_reason_to_use_fewer(*, pins: bool) -> None:
    made = house(2, 4, pins=pins)
    for _ in range(2):
        made.read(True, True, False, False)
    assert set(made.told) == {2}
    for _ in range(2):
        made.read(True, True, True, False)
    assert made.told[-2:] == [2, 1]


def test_a_look_from_before_our_last_change_is_dropped() -> None:
    made = house()
    asked = made.who.version
    with made.seat(1) as seat:
        made.read(True, True, version=asked)
        made.read(True, True, version=asked)
        assert made.told == [2]
        seat.finish()


def test_a_server_that_shows_its_slots_no_more_has_nobody_else_in_them() -> None:
    for reading in (Reading(), Reading(loading=True)):
        made = house(1, 1)
        for _ in range(2):
            made.read(True)
        assert made.told == [1, 0]
        made.who.read(Reading(late=True), made.who.version)
        assert made.told == [1, 0]
        made.who.read(reading, made.who.version)
        assert made.told == [1, 0, 1]


# ---- everything, in any order ----------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Guest:
    """A request of ours: at the server in slot `at`, or in the server's own queue."""

    seat: Seat
    leave: Iterator[None]
    topic: int
    at: int | None = None
    working: bool = True  # the server works on it, or has it in its queue


class Everything(RuleBasedStateMachine):
    """A server with slots, a gate that grants no more than it was told, others who come and go, looks that are late."""

    @initialize(
        pins=st.booleans(),
        has=st.integers(1, 3),
        configured=st.one_of(st.none(), st.integers(1, 4)),
        shows=st.booleans(),
    )
    def begin(self, *, pins: bool, has: int, configured: int | None, shows: bool) -> None:
        self.clock = Clock()
        self.who = Tenancy(configured, pins, DRAIN, self.clock)
        self.told = 0
        self.who.attach(self.tell)
        self.has = has
        self.server: list[Guest | str | None] = [None] * has  # what each slot works on
        self.queue: list[Guest] = []
        self.guests: list[Guest] = []
        self.looks: list[tuple[int, Reading]] = []
        self.granted = 0  # the gate's slots that are out
        self.excused = False  # a slot may be given back although the server works
        self.drained: list[tuple[Guest, float]] = []
        if shows:
            self.who.server_has(has, shows=True)

    def tell(self, slots: int) -> None:
        self.told = slots

    @contextmanager
    def visit(self, guest: Guest) -> Iterator[None]:
        """The seat as a request has it, held open across the machine's steps."""
        with self.who.seat((7, guest.topic), lambda: self.hold(guest)) as seat:
            guest.seat = seat
            yield

    def hold(self, guest: Guest) -> Callable[[], None]:
        until = self.clock.now + DRAIN
        self.drained.append((guest, until))

        def give() -> None:
            self.drained.remove((guest, until))  # fails if it is given back twice
            assert self.excused or not guest.working or self.clock.now >= until, "it still works"
            self.granted -= 1

        return give

    # ---- ours --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.granted < self.told)
    @rule(topic=st.integers(0, 2))
    def arrive(self, topic: int) -> None:
        guest = Guest(Seat(None), iter(()), topic)
        manager = self.visit(guest)
        manager.__enter__()
        guest.leave = manager  # type: ignore[assignment]
        self.granted += 1
        self.guests.append(guest)
        self.queue.append(guest)
        self.serve()

    @precondition(lambda self: any(guest.at is not None for guest in self.guests))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        guest = data.draw(st.sampled_from([guest for guest in self.guests if guest.at is not None]))
        guest.seat.finish()
        self.stop(guest)
        self.end(guest, None)
        self.who.ended(None)
        self.granted -= 1

    @precondition(lambda self: self.guests)
    @rule(data=st.data(), error=st.sampled_from([None, DIED, Stalled("silent")]))
    def abort(self, data: st.DataObject, error: SlotlineError | None) -> None:
        guest = data.draw(st.sampled_from(self.guests))
        shows, held = self.who._shows, len(self.drained)
        self.end(guest, error or KeyError("the client left"))
        if error is not None:
            self.who.ended(error)
        if not shows:
            assert len(self.drained) == held
            self.granted -= 1
            self.stop(guest)
        if guest.at is None:
            self.stop(guest)  # the server drops what it had not begun

    def end(self, guest: Guest, error: Exception | None) -> None:
        self.guests.remove(guest)
        manager: AbstractContextManager[None] = guest.leave  # type: ignore[assignment]
        manager.__exit__(None if error is None else type(error), error, None)

    # ---- the server --------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Who may sit, sits: by order where there is one, else anywhere."""
        for guest in list(self.queue):
            wanted = range(len(self.server)) if guest.seat.slot is None else [guest.seat.slot]
            free = [slot for slot in wanted if slot < len(self.server) and self.server[slot] is None]
            if free:
                self.queue.remove(guest)
                self.server[free[0]], guest.at = guest, free[0]

    def stop(self, guest: Guest) -> None:
        guest.working = False
        if guest in self.queue:
            self.queue.remove(guest)
        self.server = [None if each is guest else each for each in self.server]
        self.serve()

    @precondition(lambda self: self.drained)
    @rule(data=st.data())
    def stop_working(self, data: st.DataObject) -> None:
        guest, _ = data.draw(st.sampled_from(self.drained))
        self.stop(guest)

    @precondition(lambda self: None in self.server)
    @rule()
    def other_comes(self) -> None:
        self.server[self.server.index(None)] = "other"

    @precondition(lambda self: "other" in self.server)
    @rule()
    def other_goes(self) -> None:
        self.server[self.server.index("other")] = None
        self.serve()

    @rule()
    def probe(self) -> None:
        self.who.server_has(self.has, shows=True)
        self.who.looked(well=True)

    # ---- looks -------------------------------------------------------------------------------------------------------

    @rule()
    def ask(self) -> None:
        slots = tuple(Slot(number, each is not None) for number, each in enumerate(self.server))
        self.looks.append((self.who.version, Reading(slots=slots)))

    @precondition(lambda self: self.looks)
    @rule()
    def answer(self) -> None:
        version, reading = self.looks.pop(0)
        self.who.read(reading, version)

    @rule(reading=st.sampled_from([Reading(), Reading(loading=True), Reading(late=True)]))
    def see_nothing(self, reading: Reading) -> None:
        self.excused = not reading.late
        self.who.read(reading, self.who.version)
        self.excused = False

    @rule(seconds=st.sampled_from([0.5, 2.0, DRAIN]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    # ---- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def a_slot_has_one_holder(self) -> None:
        if hasattr(self, "who"):
            ids = [guest.seat.slot for guest in self.guests] + [guest.seat.slot for guest, _ in self.drained]
            chosen = [slot for slot in ids if slot is not None]
            assert len(chosen) == len(set(chosen))
            assert self.who._seats.taken() == set(chosen)

    @invariant()
    def the_gate_knows_how_many_may_be_used(self) -> None:
        if hasattr(self, "who"):
            assert self.told == self.who.allowed
            assert 0 <= self.who.allowed <= self.who.slots
            if self.who._seen is not None:
                assert self.who.slots <= self.has

    @invariant()
    def every_slot_that_is_out_has_a_holder(self) -> None:
        if hasattr(self, "who"):
            assert self.granted == len(self.guests) + len(self.drained) == self.who.seated
            assert len(self.who.draining) == len(self.drained)
            assert 0 <= self.who.outsiders <= self.has

    def teardown(self) -> None:
        """All leave, and nothing is left."""
        if not hasattr(self, "who"):
            return
        for guest in list(self.guests):
            guest.seat.finish()
            self.stop(guest)
            self.end(guest, None)
            self.granted -= 1
        for guest, _ in list(self.drained):
            self.stop(guest)
        self.server = [None] * len(self.server)
        self.clock.now += 31
        self.probe()
        self.who.ended(None)
        for _ in range(len(self.drained) + 2):
            self.ask()
            version, reading = self.looks.pop()
            self.who.read(reading, version)
        assert (self.granted, self.who.seated, self.who.outsiders) == (0, 0, 0)
        assert not self.who.draining
        assert self.told == self.who.slots >= 1


TestEverything = Everything.TestCase


# ---- a reload --------------------------------------------------------------------------------------------------------


def test_what_the_operator_allows_may_change_under_those_who_sit_here() -> None:
    made = house(2, 4)
    with made.seat(9, 1) as seat:
        made.who.amend(3, 0.0, pins=False)
        assert made.told == [2, 3]
        with made.seat(9, 2) as other:
            assert (seat.slot, other.slot) == (0, None)
        made.who.amend(None, DRAIN, pins=True)
        assert made.told == [2, 3, 4]
    assert len(made.who.draining) == 1


def test_where_nobody_new_comes_nobody_is_told_of_slots_but_of_each_who_leaves() -> None:
    made = house(2, 2)
    left: list[int] = []
    with made.seat(9, 1) as one, made.seat(9, 2):
        made.who.detach(lambda: left.append(made.who.seated))
        made.who.server_has(1, shows=True)
        assert (made.told, left) == ([2], [])
        one.finish()
    assert left == [1], "the other one's slot drains, and somebody still has it"
    made.who.read(Reading(slots=(Slot(0, busy=False), Slot(1, busy=False))), made.who.version)
    assert left == [1, 0]


def test_slots_of_gateways_with_the_same_line_are_nobody_elses() -> None:
    """Neither are they outsiders', nor does a slot of ours drain for longer because of them."""
    made = house(4, 4)
    made.who.elsewhere = lambda: (frozenset({1}), 2)
    for _ in range(2):
        made.read(False, True, True, False)
    assert made.who.outsiders == 0
    for _ in range(2):
        made.read(False, True, True, True)
    assert made.who.outsiders == 1


def test_the_gate_hears_which_slots_others_use_where_it_deals_them_out() -> None:
    made = house(2, 4)
    for _ in range(2):
        made.read(True, False, False, False)
    assert made.told == [2, 2]
    assert made.who.outside == [0]
