"""The stub's slots and its own queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotline.stub.slots import Slot, Slots, Task, Ticket


def test_a_request_without_a_free_slot_waits_and_gets_the_next_one_in_order_of_arrival() -> None:
    slots = Slots(1)
    first, second, third = Ticket("a"), Ticket("b"), Ticket("c")
    assert [slots.join(ticket) for ticket in (first, second, third)] == [True, False, False]
    assert slots.leave(first) is second
    assert slots.leave(second) is third
    assert slots.leave(third) is None
    assert slots.busy == 0


def test_a_waiting_request_that_leaves_is_passed_over_and_leaving_twice_is_harmless() -> None:
    slots = Slots(1)
    first, second, third = Ticket("a"), Ticket("b"), Ticket("c")
    for ticket in (first, second, third):
        slots.join(ticket)
    assert slots.leave(second) is None
    assert slots.leave(second) is None
    assert slots.leave(first) is third
    assert slots.leave(first) is None
    assert slots.busy == 1


def test_a_pinned_request_waits_for_its_slot_although_another_is_free() -> None:
    slots = Slots(2)
    first, pinned = Ticket("a", wanted=0), Ticket("b", wanted=2)  # 2 modulo 2 is slot 0
    assert slots.join(first)
    assert not slots.join(pinned)
    assert slots.leave(first) is pinned
    assert pinned.slot is slots.all[0]


def test_a_freed_slot_goes_first_to_who_asked_for_just_that_one() -> None:
    slots = Slots(2)
    a, b = Ticket("a"), Ticket("b")
    slots.join(a)
    slots.join(b)
    anyone, pinned = Ticket("c"), Ticket("d", wanted=1)
    slots.join(anyone)
    slots.join(pinned)
    assert slots.leave(b) is pinned
    assert slots.leave(a) is anyone


def test_a_request_whose_own_slot_is_busy_goes_to_the_back_when_its_turn_comes() -> None:
    slots = Slots(2)
    a, b = Ticket("a"), Ticket("b")
    slots.join(a)
    slots.join(b)
    pinned, anyone, later = Ticket("c", wanted=1), Ticket("d"), Ticket("e")
    for ticket in (pinned, anyone, later):
        slots.join(ticket)
    assert slots.leave(a) is anyone
    assert list(slots.waiting) == [later, pinned]


@given(st.text("ab", max_size=8), st.text("ab", max_size=8))
def test_a_slot_knows_the_common_beginning_of_its_last_prompt_and_the_next(last: str, new: str) -> None:
    same = 0
    while same < min(len(last), len(new)) and last[same] == new[same]:
        same += 1
    assert Slot(0, task=Task(1, last, 1)).known(new) == same
    assert Slot(0).known(new) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 3)), max_size=40), st.integers(1, 3))
def test_no_slot_is_free_while_somebody_waits_who_may_take_it(moves: list[tuple[int, int]], n: int) -> None:
    slots, tickets = Slots(n), dict[int, Ticket]()
    for who, wanted in moves:
        if who in tickets:
            slots.leave(tickets.pop(who))
        else:
            tickets[who] = Ticket(str(who), wanted)
            slots.join(tickets[who])
        free = {slot.id for slot in slots.all if not slot.is_processing}
        wants = [ticket.wanted for ticket in slots.waiting]
        assert not free or all(want >= 0 and want % n not in free for want in wants)
        assert slots.busy + len(slots.waiting) == len(tickets)
        assert all(slot.holder is None or slot.holder.slot is slot for slot in slots.all)
