"""The slots and lines, rule by rule, and against a model too naive to be wrong in the same way.

The model keeps two plain lists and answers each question by walking them, straight from the rules in `core.line`.
It does not decide who is granted; it checks each grant against the rules, one by one, as they were returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from slotline.core.errors import Busy
from slotline.core.line import Changes, Grant, Lines, Phase, Place, Shift, Ticket

NOW = 0.0


def joined(lines: Lines, *upstreams: str, count: int = 1) -> list[Ticket]:
    """`count` new tickets for `upstreams`."""
    return [lines.join(upstreams, NOW)[0] for _ in range(count)]


def places(lines: Lines, tickets: Iterable[Ticket]) -> list[int]:
    return [lines.place(ticket).position for ticket in tickets]


# ---- rule 1: the cap -------------------------------------------------------------------------------------------------


def test_a_grant_never_takes_an_upstream_above_its_slots() -> None:
    lines = Lines({"x": (2, 9)})
    first, second, third = joined(lines, "x", count=3)
    assert [lines.phase(ticket) for ticket in (first, second, third)] == [Phase.RUNNING, Phase.RUNNING, Phase.WAITING]
    assert lines.room("x").free == 0


def test_a_lowered_cap_ends_nobody_and_is_reached_by_attrition() -> None:
    lines = Lines({"x": (3, 9)})
    running = joined(lines, "x", count=3)
    (waiting,) = joined(lines, "x")
    assert lines.resize("x", 1, NOW) == Changes()
    assert lines.room("x").free == -2
    assert [lines.release(ticket, NOW) for ticket in running[:2]] == [Changes(), Changes()]
    assert lines.release(running[2], NOW).grants == (Grant(waiting, "x"),)


def test_slots_may_be_zero_and_never_negative() -> None:
    lines = Lines({"x": (0, 9)})
    (waiting,) = joined(lines, "x")
    assert lines.phase(waiting) is Phase.WAITING
    with pytest.raises(ValueError, match="-1"):
        lines.resize("x", -1, NOW)
    assert lines.resize("x", 1, NOW).grants == (Grant(waiting, "x"),)


# ---- rule 2: no idling -----------------------------------------------------------------------------------------------


def test_a_free_slot_is_granted_in_the_command_that_brings_the_ticket() -> None:
    lines = Lines({"x": (1, 0)})
    ticket, changes = lines.join(["x"], NOW)
    assert changes == Changes(grants=(Grant(ticket, "x"),))


def test_every_slot_that_a_raised_cap_frees_is_granted_at_once() -> None:
    lines = Lines({"x": (1, 9)})
    joined(lines, "x")
    waiting = joined(lines, "x", count=3)
    assert lines.resize("x", 3, NOW).grants == (Grant(waiting[0], "x"), Grant(waiting[1], "x"))


def test_one_who_may_not_have_the_slot_does_not_hold_up_those_who_may() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    joined(lines, "x")
    (either,) = joined(lines, "x", "y")
    assert lines.resize("y", 1, NOW).grants == (Grant(either, "y"),)


# ---- rule 3: order ---------------------------------------------------------------------------------------------------


def test_slots_are_granted_in_the_order_of_arrival() -> None:
    lines = Lines({"x": (1, 9)})
    tickets = joined(lines, "x", count=4)
    granted = [grant.ticket for ticket in tickets for grant in lines.release(ticket, NOW).grants]
    assert granted == tickets[1:]


def test_a_free_slot_goes_to_the_earliest_over_all_lines_that_meet_there() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)})
    holder, other = joined(lines, "x") + joined(lines, "y")
    either, only_x = joined(lines, "x", "y") + joined(lines, "x")
    assert lines.release(holder, NOW).grants == (Grant(either, "x"),)
    assert lines.release(other, NOW) == Changes(), "the one who waits for x alone may not have y"
    assert lines.release(either, NOW).grants == (Grant(only_x, "x"),)


def test_a_ticket_gets_the_freest_upstream_and_among_equals_the_one_named_first() -> None:
    lines = Lines({"b": (1, 0), "a": (2, 0)})
    upstreams = [grant.upstream for _ in range(3) for grant in lines.join(["a", "b"], NOW)[1].grants]
    assert upstreams == ["a", "b", "a"]


# ---- rule 4: positions -----------------------------------------------------------------------------------------------


def test_a_position_counts_from_one_and_the_length_counts_everyone() -> None:
    lines = Lines({"x": (1, 9)})
    waiting = joined(lines, "x", count=4)[1:]
    assert [lines.place(ticket) for ticket in waiting] == [Place(1, 3), Place(2, 3), Place(3, 3)]


def test_a_position_counts_the_earlier_tickets_of_every_line_that_meets_its_own() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    only_x, only_y, either, late_x = (joined(lines, *names)[0] for names in ("x", "y", "xy", "x"))
    assert lines.place(only_x) == Place(1, 3)
    assert lines.place(only_y) == Place(1, 2), "who waits for x alone is never before who waits for y alone"
    assert lines.place(either) == Place(3, 4)
    assert lines.place(late_x) == Place(3, 3)


@pytest.mark.parametrize("what", ["running", "gone", "never seen"])
def test_only_a_waiting_ticket_has_a_place(what: str) -> None:
    lines = Lines({"x": (1, 9)})
    (ticket,) = joined(lines, "x")
    if what == "gone":
        lines.leave(ticket, NOW)
    asked = Ticket(99, frozenset("x")) if what == "never seen" else ticket
    with pytest.raises(KeyError):
        lines.place(asked)


# ---- rule 5: bounds --------------------------------------------------------------------------------------------------


def test_one_more_than_may_wait_is_refused_and_the_message_says_how_many() -> None:
    lines = Lines({"x": (1, 2)})
    joined(lines, "x", count=3)
    with pytest.raises(Busy, match="2 wait, and at most 2"):
        lines.join(["x"], NOW)


def test_a_refusal_changes_nothing() -> None:
    lines = Lines({"x": (1, 1)})
    running, waiting = joined(lines, "x", count=2)
    with pytest.raises(Busy):
        lines.join(["x"], NOW)
    assert repr(lines) == "<Lines x 1/1; 1 waiting>"
    assert lines.release(running, NOW).grants == (Grant(waiting, "x"),)
    assert joined(lines, "x")[0].number == waiting.number + 1, "a refused ticket takes no number"


def test_where_nobody_may_wait_a_free_slot_is_still_granted() -> None:
    lines = Lines({"x": (1, 0)})
    (running,) = joined(lines, "x")
    with pytest.raises(Busy):
        lines.join(["x"], NOW)
    lines.release(running, NOW)
    assert lines.phase(joined(lines, "x")[0]) is Phase.RUNNING


def test_a_set_of_upstreams_may_have_as_many_waiting_as_its_members_together() -> None:
    lines = Lines({"x": (0, 1), "y": (0, 2)})
    joined(lines, "x", "y", count=3)
    with pytest.raises(Busy, match="3 wait, and at most 3"):
        lines.join("xy", NOW)
    with pytest.raises(Busy, match="3 wait, and at most 1"):
        lines.join("x", NOW)


def test_a_line_that_meets_none_of_the_full_ones_is_not_full() -> None:
    lines = Lines({"x": (0, 1), "y": (0, 1)})
    joined(lines, "x")
    assert lines.place(joined(lines, "y")[0]) == Place(1, 1)


def test_bodies_that_would_take_too_much_memory_are_refused_whatever_line_they_would_wait_in() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)}, max_waiting=100)
    lines.join("x", NOW, size=60)
    with pytest.raises(Busy, match="hold 60 of max_waiting = 100 bytes, which leaves no room for 41 more"):
        lines.join("y", NOW, size=41)
    lines.join("y", NOW, size=40)
    with pytest.raises(Busy, match="no room for 1 more"):
        lines.join("x", NOW, size=1)


@pytest.mark.parametrize("how", ["left", "granted"])
def test_a_body_takes_none_of_that_memory_once_its_wait_is_over(how: str) -> None:
    lines = Lines({"x": (0, 9)}, max_waiting=100)
    first, _ = lines.join("x", NOW, size=100)
    if how == "left":
        lines.leave(first, NOW)
        lines.leave(first, NOW)
    else:
        lines.resize("x", 1, NOW)
    lines.join("x", NOW, size=100)
    with pytest.raises(Busy):
        lines.join("x", NOW, size=1)


def test_a_body_that_need_not_wait_may_be_of_any_size() -> None:
    lines = Lines({"x": (1, 9)}, max_waiting=100)
    ticket, _ = lines.join("x", NOW, size=101)
    assert lines.phase(ticket) is Phase.RUNNING


# ---- rule 6: going back to the old place -----------------------------------------------------------------------------


def failed(lines: Lines, ticket: Ticket) -> tuple[Ticket, Changes]:
    """`ticket` goes back because its upstream failed it."""
    result = lines.retry(ticket, NOW)
    assert result is not None
    return result


def test_one_whose_upstream_failed_waits_at_its_old_place_for_the_others() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)})
    (either, other, behind) = (joined(lines, *names)[0] for names in ("xy", "y", "y"))
    again, changes = failed(lines, either)
    assert again == Ticket(either.number, frozenset("y"), 0)
    assert changes == Changes(shifts=(Shift((frozenset("y"),), either.number, by=+1),))
    assert places(lines, [again, behind]) == [1, 2]
    assert lines.release(other, NOW).grants == (Grant(again, "y"),)


def test_one_that_goes_back_is_granted_at_once_where_another_upstream_has_a_free_slot() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)})
    (either,) = joined(lines, "x", "y")
    again, changes = failed(lines, either)
    assert changes == Changes(grants=(Grant(again, "y"),))


def test_the_slot_of_one_that_goes_back_is_granted_on_in_the_same_command() -> None:
    lines = Lines({"x": (1, 9), "y": (0, 9)})
    either, behind = joined(lines, "x", "y") + joined(lines, "x")
    _, changes = failed(lines, either)
    assert changes.grants == (Grant(behind, "x"),)


@pytest.mark.parametrize("what", ["no other upstream", "waiting", "gone"])
def test_going_back_changes_nothing_for_one_that_has_no_slot_to_give_up_or_nowhere_to_go(what: str) -> None:
    lines = Lines({"x": (1, 9), "y": (0, 9)})
    (ticket,) = joined(lines, "x")
    if what == "waiting":
        (ticket,) = joined(lines, "x", "y")
    if what == "gone":
        lines.leave(ticket, NOW)
    before = repr(lines)
    assert lines.retry(ticket, NOW) is None
    assert repr(lines) == before


def test_bounds_do_not_hold_for_one_that_goes_back() -> None:
    lines = Lines({"x": (1, 0), "y": (0, 0)}, max_waiting=0)
    either, _ = lines.join("xy", NOW, size=5)
    again, _ = failed(lines, either)
    assert lines.place(again) == Place(1, 1)


@pytest.mark.parametrize("where_now", ["waiting", "running", "gone"])
def test_the_ticket_that_went_back_is_gone_under_its_old_name(where_now: str) -> None:
    lines = Lines({"x": (1, 9), "y": (1 if where_now == "running" else 0, 9)})
    (either,) = joined(lines, "x", "y")
    again, _ = failed(lines, either)
    (behind,) = joined(lines, "y")
    if where_now == "gone":
        lines.leave(again, NOW)
    before = repr(lines), lines.place(behind)
    assert lines.phase(either) is Phase.GONE
    assert (lines.leave(either, NOW), lines.release(either, NOW)) == (Changes(), Changes())
    assert lines.retry(either, NOW) is None
    with pytest.raises(KeyError):
        lines.place(either)
    assert (repr(lines), lines.place(behind)) == before


# ---- rule 7: leaving -------------------------------------------------------------------------------------------------


def test_leaving_while_waiting_moves_those_behind_and_grants_nothing() -> None:
    lines = Lines({"x": (1, 9)})
    _, first, second, third = joined(lines, "x", count=4)
    assert lines.leave(second, NOW) == Changes(shifts=(Shift((frozenset("x"),), second.number),))
    assert lines.phase(second) is Phase.GONE
    assert places(lines, [first, third]) == [1, 2]


def test_leaving_when_just_granted_gives_the_slot_on_in_the_same_command() -> None:
    lines = Lines({"x": (1, 9)})
    running, first, second = joined(lines, "x", count=3)
    assert lines.release(running, NOW).grants == (Grant(first, "x"),)
    assert lines.leave(first, NOW).grants == (Grant(second, "x"),)


def test_leaving_while_running_frees_the_slot() -> None:
    lines = Lines({"x": (1, 9)})
    (running,) = joined(lines, "x")
    assert lines.leave(running, NOW) == Changes()
    assert (lines.phase(running), lines.room("x").free) == (Phase.GONE, 1)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_leaving_a_second_time_does_nothing(position: int) -> None:
    lines = Lines({"x": (1, 9)})
    tickets = joined(lines, "x", count=4)
    lines.leave(tickets[position], NOW)
    before = repr(lines)
    assert lines.leave(tickets[position], NOW) == Changes()
    assert lines.release(tickets[position], NOW) == Changes()
    assert repr(lines) == before == "<Lines x 1/1; 2 waiting>"


def test_a_ticket_that_waits_has_nothing_to_release_and_keeps_its_place() -> None:
    lines = Lines({"x": (1, 9)})
    waiting = joined(lines, "x", count=2)[1]
    assert lines.release(waiting, NOW) == Changes()
    assert lines.place(waiting) == Place(1, 1)


# ---- what moves is told ----------------------------------------------------------------------------------------------


def test_one_shift_tells_all_lines_in_which_somebody_stands_behind_and_no_other() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    early_x, _, either = (joined(lines, *names)[0] for names in ("x", "y", "xy"))
    joined(lines, "y")
    assert lines.leave(either, NOW).shifts == (Shift((frozenset("y"),), either.number),)
    late = joined(lines, "x", "y")[0]
    shift = lines.leave(early_x, NOW).shifts
    assert shift == (Shift((frozenset("xy"),), early_x.number),)
    assert lines.place(late).position == 3


def test_where_nobody_stands_behind_nothing_is_told() -> None:
    lines = Lines({"x": (1, 9)})
    running, last = joined(lines, "x", count=2)
    assert lines.release(running, NOW) == Changes(grants=(Grant(last, "x"),))


# ---- questions -------------------------------------------------------------------------------------------------------


def test_the_waiting_of_a_line_are_given_first_to_last() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    first, _, last = (joined(lines, *names)[0] for names in ("x", "xy", "x"))
    assert list(lines.waiting(frozenset("x"))) == [first, last]
    assert list(lines.waiting(frozenset("y"))) == []
    assert lines.lines() == {frozenset("x"): 2, frozenset("xy"): 1}


def test_the_moment_of_each_grant_is_kept_while_the_slot_is_held() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)})
    first, _ = lines.join("x", 1.0)
    lines.join("y", 2.0)
    lines.join("x", 3.0)
    assert lines.held_since("xy") == [1.0, 2.0]
    lines.release(first, 4.0)
    assert (lines.held_since("x"), lines.held_since("y")) == ([4.0], [2.0])


@pytest.mark.parametrize("upstreams", [[], ["z"], ["x", "z"]])
def test_a_ticket_for_no_upstream_or_an_unknown_one_is_a_key_error(upstreams: list[str]) -> None:
    lines = Lines({"x": (1, 9)})
    with pytest.raises(KeyError, match="no such upstreams"):
        lines.join(upstreams, NOW)
    assert lines.lines() == {}


# ---- the model -------------------------------------------------------------------------------------------------------

UPSTREAMS = ("x", "y", "z")
SETS = st.sets(st.sampled_from(UPSTREAMS), min_size=1).map(frozenset)


@dataclass
class Naive:
    """The rules, read aloud over two lists. Nothing is indexed and nothing is remembered between two questions."""

    slots: dict[str, int]
    queue: dict[str, int]
    max_waiting: int | None
    waiting: list[Ticket] = field(default_factory=list)  # by arrival
    running: list[tuple[Ticket, str]] = field(default_factory=list)

    def free(self, upstream: str) -> int:
        return self.slots[upstream] - sum(1 for _, name in self.running if name == upstream)

    def admissible(self, upstreams: frozenset[str]) -> set[str]:
        return {name for name in upstreams if self.free(name) > 0}

    def meeting(self, upstreams: frozenset[str]) -> list[Ticket]:
        return [ticket for ticket in self.waiting if ticket.upstreams & upstreams]

    def refuses(self, upstreams: frozenset[str], size: int) -> bool:
        if self.admissible(upstreams):
            return False
        if len(self.meeting(upstreams)) >= sum(self.queue[name] for name in upstreams):
            return True
        return self.max_waiting is not None and sum(other.size for other in self.waiting) + size > self.max_waiting

    def due(self) -> Ticket | None:
        """Whoever must be granted next; None when nobody may be."""
        return next((ticket for ticket in self.waiting if self.admissible(ticket.upstreams)), None)

    def place(self, ticket: Ticket) -> Place:
        meeting = self.meeting(ticket.upstreams)
        return Place(1 + sum(1 for other in meeting if other.number < ticket.number), len(meeting))

    def positions(self) -> dict[Ticket, int]:
        return {ticket: self.place(ticket).position for ticket in self.waiting}

    def phase(self, ticket: Ticket) -> Phase:
        if ticket in self.waiting:
            return Phase.WAITING
        return Phase.RUNNING if self.holds(ticket) is not None else Phase.GONE

    def holds(self, ticket: Ticket) -> str | None:
        """The upstream on which `ticket` runs."""
        return next((upstream for other, upstream in self.running if other == ticket), None)

    def remove(self, ticket: Ticket) -> None:
        self.waiting = [other for other in self.waiting if other != ticket]
        self.running = [pair for pair in self.running if pair[0] != ticket]


class AgainstTheModel(RuleBasedStateMachine):
    """Any sequence of commands: every grant, place, refusal and shift is what the rules say."""

    tickets = Bundle("tickets")

    @initialize(
        slots=st.fixed_dictionaries({name: st.integers(0, 3) for name in UPSTREAMS}),
        queue=st.fixed_dictionaries({name: st.integers(0, 5) for name in UPSTREAMS}),
        max_waiting=st.none() | st.integers(0, 12),
    )
    def begin(self, slots: dict[str, int], queue: dict[str, int], max_waiting: int | None) -> None:
        self.lines = Lines({name: (slots[name], queue[name]) for name in UPSTREAMS}, max_waiting)
        self.naive = Naive(dict(slots), queue, max_waiting)
        self.all: list[Ticket] = []
        self.now = 0.0

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    @rule(target=tickets, upstreams=SETS, size=st.integers(0, 3), count=st.integers(1, 4))
    def join(self, upstreams: frozenset[str], size: int, count: int) -> object:
        return multiple(*(ticket for _ in range(count) if (ticket := self.join_one(upstreams, size)) is not None))

    def join_one(self, upstreams: frozenset[str], size: int) -> Ticket | None:
        known = self.naive.positions()
        if self.naive.refuses(upstreams, size):
            with pytest.raises(Busy):
                self.lines.join(upstreams, self.tick(), size)
            return None
        ticket, changes = self.lines.join(upstreams, self.tick(), size)
        assert (ticket.upstreams, ticket.size) == (upstreams, size)
        assert all(ticket.number > other.number for other in self.all), "numbers ascend"
        self.all.append(ticket)
        self.naive.waiting.append(ticket)
        known[ticket] = self.naive.place(ticket).position
        self.check(changes, known)
        return ticket

    @rule(ticket=tickets)
    def leave(self, ticket: Ticket) -> None:
        known = self.naive.positions()
        self.naive.remove(ticket)
        self.check(self.lines.leave(ticket, self.tick()), known)

    @rule(ticket=tickets)
    def leave_twice(self, ticket: Ticket) -> None:
        self.leave(ticket)
        assert self.lines.leave(ticket, self.tick()) == Changes()

    @rule(ticket=tickets)
    def release(self, ticket: Ticket) -> None:
        known = self.naive.positions()
        if self.naive.phase(ticket) is Phase.RUNNING:
            self.naive.remove(ticket)
        self.check(self.lines.release(ticket, self.tick()), known)

    @rule(target=tickets, ticket=tickets)
    def retry(self, ticket: Ticket) -> object:
        known = self.naive.positions()
        upstream = self.naive.holds(ticket)
        others = ticket.upstreams - {upstream}
        result = self.lines.retry(ticket, self.tick())
        if upstream is None or not others:
            assert result is None
            return multiple()
        again, changes = result or (None, Changes())
        assert again == Ticket(ticket.number, frozenset(others), ticket.size)
        self.naive.remove(ticket)
        self.naive.waiting = sorted([*self.naive.waiting, again], key=lambda waiting: waiting.number)
        known[again] = self.naive.place(again).position
        self.all.append(again)
        self.check(changes, known)
        return again

    @rule(ticket=tickets)
    def leave_of_one_who_was_granted_this_very_moment(self, ticket: Ticket) -> None:
        known = self.naive.positions()
        self.naive.remove(ticket)
        changes = self.lines.leave(ticket, self.tick())
        self.check(changes, known)
        for grant in changes.grants:
            self.leave(grant.ticket)

    @rule(upstream=st.sampled_from(UPSTREAMS), slots=st.integers(0, 4))
    def resize(self, upstream: str, slots: int) -> None:
        known = self.naive.positions()
        self.naive.slots[upstream] = slots
        self.check(self.lines.resize(upstream, slots, self.tick()), known)

    def check(self, changes: Changes, known: dict[Ticket, int]) -> None:
        """Each grant in its turn (rules 1 and 3), none left out (2), and the shifts lead from `known` to the truth."""
        for grant in changes.grants:
            due = self.naive.due()
            assert due is not None, f"{grant}, and nobody was due"
            assert grant.ticket == due
            admissible = self.naive.admissible(due.upstreams)
            assert grant.upstream in admissible
            assert self.naive.free(grant.upstream) == max(map(self.naive.free, admissible))
            self.naive.remove(due)
            self.naive.running.append((due, grant.upstream))
        assert self.naive.due() is None, "a slot is idle while somebody who may have it waits"
        self.check_shifts(changes.shifts, known)

    def check_shifts(self, shifts: tuple[Shift, ...], known: dict[Ticket, int]) -> None:
        for shift in shifts:
            assert len(set(shift.lines)) == len(shift.lines)
            moved = [t for t in known if t.upstreams in shift.lines and t.number > shift.behind]
            assert {ticket.upstreams for ticket in moved} == set(shift.lines), "a line in which nobody moves"
            for ticket in moved:
                known[ticket] += shift.by
        assert {ticket: known[ticket] for ticket in self.naive.waiting} == self.naive.positions()

    @invariant()
    def every_place_and_every_phase_is_what_the_model_says(self) -> None:
        for ticket in self.all:
            assert self.lines.phase(ticket) is self.naive.phase(ticket)
        for ticket in self.naive.waiting:
            assert self.lines.place(ticket) == self.naive.place(ticket)

    @invariant()
    def every_line_holds_who_the_model_says_in_order(self) -> None:
        for upstreams, length in self.lines.lines().items():
            expected = [ticket for ticket in self.naive.waiting if ticket.upstreams == upstreams]
            assert list(self.lines.waiting(upstreams)) == expected
            assert length == len(expected)

    @invariant()
    def every_slot_is_held_by_whom_the_model_says(self) -> None:
        for name in UPSTREAMS:
            expected = [ticket for ticket, upstream in self.naive.running if upstream == name]
            assert list(self.lines.room(name).running) == expected
            assert self.lines.room(name).free == self.naive.free(name)
            assert len(self.lines.held_since([name])) == len(expected)


AgainstTheModel.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,  # a run that fails must fail again
    suppress_health_check=[HealthCheck.too_slow],
)
TestAgainstTheModel = AgainstTheModel.TestCase
