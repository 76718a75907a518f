"""The slots and lines, rule by rule, for those of whom nothing is known: what one party makes of another is in
`test_fairness.py`, and `test_line_model.py` holds all of it against a model.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from slotline.core.errors import Busy, LimitReached, Withdrawn
from slotline.core.line import Changes, Grant, Lines, Phase, Place
from slotline.core.party import Party
from slotline.core.room import Ticket

NOW = 0.0
X, Y, XY = frozenset("x"), frozenset("y"), frozenset("xy")


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
    with pytest.raises(Busy, match="2 wait, and at most queue = 2"):
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
    with pytest.raises(Busy, match="3 wait, and at most queue = 3"):
        lines.join("xy", NOW)
    with pytest.raises(Busy, match="3 wait, and at most queue = 1"):
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


def test_a_key_with_as_many_waiting_as_it_may_is_refused_and_others_are_not() -> None:
    lines = Lines({"x": (1, 9)})
    limited = Party("alice", waiting=2)
    for _ in range(3):
        lines.join("x", NOW, party=limited)
    with pytest.raises(LimitReached, match="2 requests of this key wait already, and at most waiting = 2 may"):
        lines.join("x", NOW, party=limited)
    assert lines.place(lines.join("x", NOW, party=Party("bob"))[0]).length == 3


def test_a_key_with_all_running_that_it_may_is_passed_over_until_one_of_its_own_ends() -> None:
    lines = Lines({"x": (2, 9)})
    limited, other = Party("alice", running=1), Party("bob")
    running, waits = (lines.join("x", NOW, party=limited)[0] for _ in range(2))
    assert lines.room("x").free == 1, "a slot is free, and the key may not have it"
    (passer,) = (lines.join("x", NOW, party=other)[0] for _ in range(1))
    assert (lines.phase(passer), lines.phase(waits)) == (Phase.RUNNING, Phase.WAITING)
    assert lines.release(running, NOW).grants == (Grant(waits, "x"),)


def test_a_key_that_may_have_more_waiting_than_running_waits_even_where_a_slot_is_free_and_that_is_bounded() -> None:
    lines = Lines({"x": (3, 1)})
    limited = Party("alice", running=1)
    for _ in range(2):
        lines.join("x", NOW, party=limited)
    with pytest.raises(Busy, match="1 wait, and at most queue = 1"):
        lines.join("x", NOW, party=limited)


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
    assert (again.number, again.upstreams) == (either.number, Y)
    assert changes == Changes(moved=(Y,))
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


def test_one_that_left_stands_where_it_stood_when_it_comes_again_by_its_number() -> None:
    lines = Lines({"x": (1, 9)})
    _, first, second, third = joined(lines, "x", count=4)
    lines.leave(second, NOW)
    assert places(lines, [first, third]) == [1, 2]
    again, changes = lines.join("x", NOW, number=second.number)
    assert changes.moved == (X,)
    assert places(lines, [first, again, third]) == [1, 2, 3]
    assert (lines.phase(second), lines.phase(again)) == (Phase.GONE, Phase.WAITING)


def test_one_that_comes_again_may_wait_for_other_upstreams() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    first, second = joined(lines, "x", "y", count=2)
    lines.leave(first, NOW)
    joined(lines, "x", "y")
    again, _ = lines.join("x", NOW, number=first.number)
    assert places(lines, [again, second]) == [1, 2]


def test_bounds_hold_for_one_that_comes_again() -> None:
    """Else whoever leaves a thousand times could come back a thousandfold."""
    lines = Lines({"x": (0, 1)}, max_waiting=50)
    alice = Party("alice", waiting=1)
    first, _ = lines.join("x", NOW, party=alice)
    lines.leave(first, NOW)
    second, _ = lines.join("x", NOW, party=alice)
    with pytest.raises(LimitReached):
        lines.join("x", NOW, party=alice, number=first.number)
    with pytest.raises(Busy, match="the line is full"):
        lines.join("x", NOW, number=first.number)
    lines.leave(second, NOW)
    with pytest.raises(Busy, match="max_waiting"):
        lines.join("x", NOW, size=51, number=first.number)
    assert places(lines, [lines.join("x", NOW, size=50, number=first.number)[0]]) == [1]


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_only_the_number_of_one_that_does_not_wait_and_has_been_there_may_be_had_again(number: int) -> None:
    lines = Lines({"x": (1, 9)})
    joined(lines, "x", count=2)
    if number == 1:  # it runs: whoever comes for it waits beside it
        assert lines.place(lines.join("x", NOW, number=1)[0]).position == 1
        return
    with pytest.raises(ValueError, match=str(number)):
        lines.join("x", NOW, number=number)


# ---- rule 7: leaving -------------------------------------------------------------------------------------------------


def test_leaving_while_waiting_moves_those_behind_and_grants_nothing() -> None:
    lines = Lines({"x": (1, 9)})
    _, first, second, third = joined(lines, "x", count=4)
    assert lines.leave(second, NOW) == Changes(moved=(X,))
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


# ---- upstreams come and go -------------------------------------------------------------------------------------------


def test_a_new_upstream_serves_those_who_come_for_it() -> None:
    lines = Lines({"x": (0, 9)})
    (waits,) = joined(lines, "x")
    assert lines.add("y", 1, 9, NOW) == Changes(moved=(X,))
    assert lines.phase(joined(lines, "x", "y")[0]) is Phase.RUNNING
    assert lines.place(waits) == Place(1, 1)
    with pytest.raises(ValueError, match="'y'"):
        lines.add("y", 1, 9, NOW)


def test_of_a_retired_upstream_those_run_on_who_run_and_those_are_out_who_waited_for_it_alone() -> None:
    lines = Lines({"x": (1, 9), "y": (0, 9)})
    running, alone, either = joined(lines, "x", "y") + joined(lines, "x") + joined(lines, "x", "y")
    changes, stranded = lines.retire("x", NOW)
    assert stranded == (alone,)
    assert changes.grants == ()
    assert [lines.phase(ticket) for ticket in (running, alone, either)] == [Phase.RUNNING, Phase.GONE, Phase.WAITING]
    assert lines.place(either) == Place(1, 1)
    with pytest.raises(Withdrawn, match="no upstream x any more"):
        lines.join("x", NOW)
    assert lines.release(running, NOW) == Changes()
    assert lines.resize("y", 1, NOW).grants == (Grant(either, "y"),)


def test_of_a_retired_upstream_nothing_is_left_when_nobody_runs_there_or_waits_for_it_any_more() -> None:
    lines = Lines({"x": (1, 9), "y": (0, 9)})
    running, either = joined(lines, "x", "y", count=2)
    lines.retire("x", NOW)
    lines.resize("x", 5, NOW)
    assert lines.phase(either) is Phase.WAITING, "a retired upstream has no slots, whatever its watch says"
    lines.release(running, NOW)
    lines.leave(either, NOW)
    assert repr(lines) == "<Lines y 0/0; 0 waiting>"
    with pytest.raises(KeyError, match="x"):
        lines.join("x", NOW)


def test_a_retired_upstream_that_comes_back_serves_those_who_still_wait_for_it() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    (either,) = joined(lines, "x", "y")
    lines.retire("x", NOW)
    assert lines.add("x", 1, 9, NOW).grants == (Grant(either, "x"),)


def test_one_whose_upstream_failed_does_not_go_back_for_one_that_is_retired() -> None:
    lines = Lines({"x": (1, 9), "y": (0, 9)})
    (either,) = joined(lines, "x", "y")
    lines.retire("y", NOW)
    assert lines.retry(either, NOW) is None


def test_more_or_fewer_may_wait_from_now_on_and_nobody_is_put_out() -> None:
    lines = Lines({"x": (0, 2)})
    joined(lines, "x", count=2)
    lines.change("x", 1, NOW)
    with pytest.raises(Busy, match="2 wait, and at most queue = 1"):
        lines.join("x", NOW)
    lines.change("x", 3, NOW)
    assert lines.place(joined(lines, "x")[0]) == Place(3, 3)


def test_upstreams_become_one_pool_when_the_lines_that_told_them_apart_are_gone() -> None:
    """After a reload everybody comes for both, and positions are exact again as soon as the last of before has gone."""
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    (before,) = joined(lines, "x")
    for upstream in "xy":
        lines.change(upstream, 9, NOW)
    lines.add("z", 0, 9, NOW)
    joined(lines, "x", "y")
    assert len({id(pool) for pool in lines._crowd.pools}) == 3
    lines.leave(before, NOW)
    assert len({id(pool) for pool in lines._crowd.pools}) == 2
    assert lines.lines() == {XY: 1}


# ---- what moves is told ----------------------------------------------------------------------------------------------


def test_all_lines_are_told_in_which_somebody_stands_behind_and_no_other() -> None:
    lines = Lines({"x": (0, 9), "y": (0, 9)})
    early_x, _, either = (joined(lines, *names)[0] for names in ("x", "y", "xy"))
    joined(lines, "y")
    assert lines.leave(either, NOW) == Changes(moved=(Y,))
    late = joined(lines, "x", "y")[0]
    assert lines.leave(early_x, NOW) == Changes(moved=(XY,))
    assert lines.place(late).position == 3


def test_where_nobody_stands_behind_nothing_is_told() -> None:
    lines = Lines({"x": (1, 9)})
    running, last = joined(lines, "x", count=2)
    assert lines.release(running, NOW) == Changes(grants=(Grant(last, "x"),))


def test_one_who_comes_last_moves_nobody() -> None:
    lines = Lines({"x": (0, 9)})
    joined(lines, "x", count=2)
    assert lines.join("x", NOW)[1] == Changes()


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
    assert [list(lines.room(name).running.values()) for name in "xy"] == [[1.0], [2.0]]
    lines.release(first, 4.0)
    assert [list(lines.room(name).running.values()) for name in "xy"] == [[4.0], [2.0]]


@pytest.mark.parametrize("upstreams", [[], ["z"], ["x", "z"]])
def test_a_ticket_for_no_upstream_or_an_unknown_one_is_a_key_error(upstreams: list[str]) -> None:
    lines = Lines({"x": (1, 9)})
    with pytest.raises(KeyError, match="no such upstreams"):
        lines.join(upstreams, NOW)
    assert lines.lines() == {}


def test_the_bound_on_memory_may_change_and_whoever_waits_stays() -> None:
    lines = Lines({"x": (0, 9)}, max_waiting=100)
    first, _ = lines.join("x", NOW, size=100)
    lines.bound(50)
    assert lines.phase(first) is Phase.WAITING
    with pytest.raises(Busy, match="100 of max_waiting = 50 bytes"):
        lines.join("x", NOW, size=1)
    lines.bound(101)
    lines.join("x", NOW, size=1)
