"""Which slot a conversation sits in: the one that holds it, and never one that is taken."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slotline.core.seats import Chain, Seats, shared

HEAD = 1000  # the first link of every conversation of a client: its tools and its system prompt


def chat(name: int, turns: int = 1, head: int = HEAD) -> Chain:
    """A conversation so far: it grows by two messages with every turn."""
    return (head, *(name * 100 + number for number in range(2 * turns - 1)))


def visit(seats: Seats, chain: Chain) -> int | None:
    """A request that comes and goes."""
    slot = seats.take(chain)
    if slot is not None:
        seats.give(slot)
    return slot


def test_conversations_share_as_much_as_they_are_the_same_from_the_beginning() -> None:
    assert shared((1, 2, 3), (1, 2, 4)) == 2
    assert shared((1, 2), (1, 2, 3)) == 2
    assert shared((2, 2, 3), (1, 2, 3)) == 0
    assert shared((), (1,)) == 0


def test_a_conversation_returns_to_the_slot_that_holds_it() -> None:
    seats = Seats(3)
    slots = [visit(seats, chat(name)) for name in (1, 2, 3)]
    assert sorted(slots, key=str) == [0, 1, 2]
    assert [visit(seats, chat(name, turns)) for turns in (2, 3, 4) for name in (3, 1, 2)] == [
        slots[2],
        slots[0],
        slots[1],
    ] * 3


def test_two_conversations_of_one_client_that_take_turns_each_keep_a_slot() -> None:
    """They begin with the same tools and system prompt, which is no reason to throw the other one out."""
    seats = Seats(2)
    slots = [[visit(seats, chat(name, turns)) for turns in range(1, 6)] for name in (1, 2)]
    assert slots == [[0] * 5, [1] * 5]
    seats = Seats(2)
    assert [visit(seats, chat(name, turns)) for turns in range(1, 6) for name in (1, 2)] == [0, 1] * 5


def test_a_slot_that_holds_more_of_it_is_better_than_one_that_holds_less() -> None:
    seats = Seats(2)
    first = seats.take(chat(1, turns=4))
    second = seats.take(chat(1, turns=2))
    assert {first, second} == {0, 1}
    seats.give(0)
    seats.give(1)
    assert seats.take(chat(1, turns=5)) == first
    assert seats.take(chat(1, turns=5)) == second


def test_a_new_conversation_goes_where_nothing_is_lost() -> None:
    seats = Seats(3)
    assert visit(seats, chat(1)) == 0
    assert visit(seats, chat(2)) == 1
    assert visit(seats, chat(3, head=7)) == 2


def test_where_every_slot_was_used_it_goes_where_its_system_prompt_is() -> None:
    """So short questions with a system prompt of their own do not throw out one long conversation after the other."""
    seats = Seats(2)
    long = visit(seats, chat(1))
    short = visit(seats, chat(2, head=7))
    assert [visit(seats, chat(name, head=7)) for name in (3, 4, 5)] == [short] * 3
    assert visit(seats, chat(1, turns=2)) == long


def test_where_nothing_of_it_is_held_it_goes_where_nobody_was_for_longest() -> None:
    seats = Seats(3)
    assert [visit(seats, chat(name, head=name)) for name in range(6)] == [0, 1, 2, 0, 1, 2]
    assert visit(seats, chat(4, turns=2, head=4)) == 1
    assert [visit(seats, chat(name, head=name)) for name in (7, 8, 9)] == [0, 2, 1]


def test_a_taken_slot_is_given_to_nobody_else_even_where_it_holds_the_conversation() -> None:
    seats = Seats(2)
    assert seats.take(chat(1)) == 0
    assert seats.take(chat(1, turns=2)) == 1
    assert seats.take(chat(1, turns=2)) is None
    assert seats.taken() == {0, 1}


def test_a_slot_that_somebody_else_uses_is_avoided() -> None:
    seats = Seats(2)
    visit(seats, chat(1))
    assert seats.take(chat(1, turns=2), avoid={0}) == 1
    assert seats.take(chat(1, turns=2), avoid={0}) is None
    assert seats.taken() == {1}


def test_giving_back_twice_is_harmless() -> None:
    seats = Seats(2)
    assert seats.take(chat(1)) == 0
    seats.give(0)
    seats.give(0)
    seats.give(1)
    assert [seats.take(chat(2)), seats.take(chat(3)), seats.take(chat(4))] == [1, 0, None]


def test_a_server_that_comes_back_with_fewer_slots_is_sent_to_those_only() -> None:
    seats = Seats(3)
    slots = [seats.take(chat(name)) for name in (1, 2, 3)]
    assert sorted(slots, key=str) == [0, 1, 2]
    seats.count = 1
    seats.give(2)
    assert seats.take(chat(3, turns=2)) is None
    seats.give(0)
    assert seats.take(chat(3, turns=2)) == 0


_STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(1, 4)), max_size=40)


@given(st.integers(1, 4), _STEPS)
def test_a_slot_has_one_holder_at_most_and_a_free_one_is_always_found(
    count: int, steps: list[tuple[bool, int, int]]
) -> None:
    seats, held = Seats(count), set[int]()
    for arrives, which, turns in steps:
        if arrives:
            slot = seats.take(chat(which, turns))
            assert (slot is None) is (len(held) == count)
            if slot is not None:
                assert slot not in held
                assert 0 <= slot < count
                held.add(slot)
        else:
            seats.give(which)
            held.discard(which)
        assert seats.taken() == held


@given(st.integers(2, 4), st.permutations(range(4)), st.integers(2, 5))
def test_as_many_conversations_as_slots_never_disturb_one_another(count: int, order: list[int], turns: int) -> None:
    seats = Seats(count)
    names = [name for name in order if name < count]
    seen = {name: [visit(seats, chat(name, turn)) for turn in range(1, turns)] for name in names}
    assert all(before == after for slots in seen.values() for before, after in pairwise(slots))
    assert len({slots[0] for slots in seen.values()}) == count


def test_a_free_slot_holds_a_conversation_of_which_it_has_read_a_message() -> None:
    seats = Seats(2)
    assert not seats.holds(chat(1))
    slot = seats.take(chat(1))
    assert not seats.holds(chat(1)), "it is taken"
    seats.give(slot or 0)
    assert seats.holds(chat(1, turns=2))
    assert not seats.holds(chat(2)), "it begins with the same tools and system prompt, and that is all"
    assert not seats.holds(())
    seats.count = 0
    assert not seats.holds(chat(1)), "there is no such slot any more"
