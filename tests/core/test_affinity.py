"""Warm slots first: whose conversation a free slot holds goes before others, and how far that goes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slotline.core.affinity import DEPTH, PASSED, WAITED
from slotline.core.line import Lines, Phase
from slotline.core.party import NOBODY, Party
from slotline.core.room import Ticket

A, B = Party("a"), Party("b")
BATCH = Party("batch", batch=True)


def chat(name: str, turns: int = 1) -> tuple[int, ...]:
    """A conversation: the client's instructions, which all share, and its messages so far."""
    return (0, *(100 * ord(name) + message for message in range(2 * turns - 1)))


def house(slots: int = 1, *, affinity: str = "x") -> Lines:
    return Lines({"x": (slots, 999)}, affinity=affinity)


def joined(lines: Lines, names: str, party: Party = NOBODY, now: float = 0.0, cost: float = 1.0) -> list[Ticket]:
    """One new ticket for each letter, which names its conversation; a blank has none."""
    return [lines.join("x", now, party=party, cost=cost, chain=() if name == " " else chat(name))[0] for name in names]


def served(lines: Lines, tickets: dict[Ticket, str], now: float = 0.0) -> str:
    """The letters of all who wait, in the order in which they are served by the only slot."""
    order = ""
    while running := list(lines.room("x").running):
        order += "".join(tickets[grant.ticket] for grant in lines.release(running[0], now).grants)
    return order


def order(lines: Lines, names: str, now: float = 0.0) -> str:
    """As `served`, of those who join now."""
    return served(lines, dict(zip(joined(lines, names), names, strict=True)), now)


# ---- who goes first --------------------------------------------------------------------------------------------------


def test_requests_of_one_conversation_are_served_together_by_the_slot_that_holds_it() -> None:
    assert order(house(), "ABABACA") == "AAABBC"
    assert order(house(affinity=""), "ABABACA") == "BABACA"


def test_the_one_that_goes_on_where_an_earlier_answer_ended_finds_its_slot() -> None:
    lines = house()
    (running,) = joined(lines, "A")
    other = joined(lines, "B")[0]
    again, _ = lines.join("x", 0.0, chain=chat("A", turns=2))
    assert lines.place(again).position == 2, "a position does not foresee it"
    assert [grant.ticket for grant in lines.release(running, 1.0).grants] == [again]
    assert lines.place(other).position == 1
    assert [grant.ticket for grant in lines.release(again, 2.0).grants] == [other]


def test_the_instructions_that_all_conversations_of_a_client_share_are_no_reason_to_pass_anybody() -> None:
    assert order(house(), "ABCD") == "BCD"


def test_requests_without_a_conversation_are_served_in_their_order() -> None:
    assert order(house(), "    ") == "   "
    lines = house()
    joined(lines, " ")
    tickets = joined(lines, "A A")
    assert served(lines, dict(zip(tickets, "1 2", strict=True))) == "12 "


def test_of_several_the_first_in_the_order_goes_first() -> None:
    lines = house()
    (running,) = joined(lines, "A")
    _, first, _ = joined(lines, "BAA")
    assert lines.release(running, 0.0).grants[0].ticket is first


def test_a_slot_that_has_served_another_one_since_holds_that_one() -> None:
    lines = house()
    for name in "AB":
        (ticket,) = joined(lines, name)
        lines.release(ticket, 0.0)
    joined(lines, "C")
    assert served(lines, dict(zip(joined(lines, "AB"), "AB", strict=True))) == "AB"


def test_each_of_several_slots_holds_its_own_and_a_newcomer_takes_the_one_that_was_free_for_longest() -> None:
    """A and B have been served; C takes the slot of A, so only B finds its own."""
    lines = house(slots=2)
    first, second = joined(lines, "AB")
    lines.release(first, 0.0)
    lines.release(second, 1.0)
    (third,) = joined(lines, "C")
    joined(lines, "D")  # takes the other one
    a, b = joined(lines, "AB")
    c = joined(lines, "C")[0]
    assert [grant.ticket for grant in lines.release(third, 2.0).grants] == [c]
    assert [lines.phase(ticket) for ticket in (a, b)] == [Phase.WAITING] * 2


def test_what_the_slots_held_is_gone_with_a_server_that_was_out_of_order() -> None:
    lines = house()
    (running,) = joined(lines, "A")
    other, again = joined(lines, "BA")
    lines.resize("x", 0, 1.0)
    lines.release(running, 1.0)
    assert [grant.ticket for grant in lines.resize("x", 1, 2.0).grants] == [other]
    assert lines.phase(again) is Phase.WAITING


def test_affinity_that_is_switched_on_holds_from_then_on_and_off_as_well() -> None:
    lines = house(affinity="")
    (running,) = joined(lines, "A")
    tickets = joined(lines, "BABA")
    lines.change("x", 999, 0.0, affinity=True)
    first = lines.release(running, 0.0).grants[0].ticket
    assert first is tickets[0], "nobody has seen what A's slot held"
    second = lines.release(first, 0.0).grants[0].ticket
    assert second is tickets[2]
    lines.change("x", 999, 0.0)
    assert lines.release(second, 0.0).grants[0].ticket is tickets[1]


def test_of_two_servers_the_one_that_holds_the_conversation_serves_it() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)}, affinity="xy")
    first, second = (lines.join("xy", 0.0, chain=chat(name))[0] for name in "AB")
    lines.release(first, 1.0)
    lines.release(second, 1.0)
    again = [lines.join("xy", 2.0, chain=chat(name, turns=2))[1].grants[0].upstream for name in "BA"]
    assert again == ["y", "x"]


def test_one_that_failed_goes_back_to_its_place_with_its_conversation() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)}, affinity="xy")
    first, _ = lines.join("xy", 0.0, chain=chat("A"))
    lines.join("y", 0.0, chain=chat("B"))
    again, _ = lines.retry(first, 1.0) or (None, None)
    assert again is not None
    assert again.chain == chat("A")


def test_where_one_model_runs_at_a_time_the_model_alone_decides() -> None:
    lines = Lines({"x": (1, 9)}, exclusive="x", affinity="x")
    tickets = {lines.join("x", 0.0, model="m", chain=chat(name))[0]: name for name in "ABA"}
    assert served(lines, tickets) == "BA"


# ---- and how far that goes -------------------------------------------------------------------------------------------


def test_nobody_is_passed_more_than_four_times() -> None:
    assert PASSED == 4
    assert order(house(), "AB" + "A" * 7) == "AAAAB" + "AAA"


def test_one_that_was_passed_by_one_conversation_is_not_passed_as_often_again_by_the_next() -> None:
    assert order(house(), "ABC" + "A" * 4 + "B" * 3) == "AAAABCBBB"


def test_nobody_is_passed_after_a_minute_in_line() -> None:
    for now, first in ((WAITED - 0.1, 1), (WAITED, 0)):
        lines = house()
        (running,) = joined(lines, "A")
        tickets = joined(lines, "BA", now=5.0)
        assert lines.release(running, 5.0 + now).grants[0].ticket is tickets[first]


def test_batch_does_not_go_before_somebody_in_front_of_a_screen() -> None:
    lines = house()
    (running,) = joined(lines, "A", BATCH)
    joined(lines, "A", BATCH)
    (screen,) = joined(lines, "B")
    assert lines.release(running, 0.0).grants[0].ticket is screen


def test_batch_has_its_turn_after_eight_interactive_grants_however_warm_their_slot_is() -> None:
    lines = house()
    joined(lines, "A")
    tickets = dict.fromkeys(joined(lines, "B", BATCH), "b") | dict.fromkeys(joined(lines, "A" * 12), "i")
    assert served(lines, tickets) == "i" * 8 + "b" + "i" * 4


def test_a_key_that_has_all_running_that_it_may_passes_nobody() -> None:
    one = Party("one", running=1)
    lines = house(slots=2)
    joined(lines, "A", one)
    (running,) = joined(lines, "C")
    other = joined(lines, "B")[0]
    joined(lines, "C", one)
    assert lines.release(running, 0.0).grants[0].ticket is other


def test_those_who_are_passed_over_because_their_key_is_at_its_limit_do_not_count_as_passed() -> None:
    one = Party("one", running=1)
    lines = house(slots=2)
    (long,) = joined(lines, "Z", one)
    (running,) = joined(lines, "A")
    (waits,) = joined(lines, "B", one)
    joined(lines, "A" * 6)
    for _ in range(5):
        running = lines.release(running, 0.0).grants[0].ticket
    assert lines.release(long, 0.0).grants[0].ticket is waits, "as soon as it may"


def test_a_key_pays_for_going_first_by_standing_further_back() -> None:
    """A finds its conversation four times, then B has its four turns before A has another."""
    lines = house()
    joined(lines, "A", A)
    tickets = dict.fromkeys(joined(lines, "C" * 8, B), "b") | dict.fromkeys(joined(lines, "A" * 8, A), "a")
    assert served(lines, tickets, now=1.0)[:9] == "aaaabbbbb"


def test_only_the_first_dozens_in_the_order_are_looked_at() -> None:
    for others, first in ((DEPTH - 1, -1), (DEPTH, 0)):
        lines = house()
        (running,) = joined(lines, "A")
        tickets = [lines.join("x", 0.0, chain=(0, 10 + number))[0] for number in range(others)]
        tickets += joined(lines, "A")
        assert lines.release(running, 0.0).grants[0].ticket is tickets[first]


@given(
    st.lists(st.tuples(st.sampled_from("ABCDE"), st.sampled_from([A, A, BATCH])), min_size=5, max_size=60),
    st.integers(1, 3),
    st.sampled_from([1.0, 9.0]),
)
@settings(deadline=None)
def test_nobody_is_passed_more_often_nor_later_than_the_bounds_say_and_no_slot_is_idle(
    asks: list[tuple[str, Party]], slots: int, step: float
) -> None:
    """Whoever is passed is of the same class, and stood before the one who got the slot in the plain order.

    That is the order of arrival here; where keys take turns, `test_line_model.py` watches over it.
    """
    lines, passed, came = house(slots), dict[int, int](), dict[int, float]()
    now = 0.0
    for name, party in asks:
        ticket, _ = lines.join("x", now, party=party, chain=chat(name))
        came[ticket.number] = now
        if lines.lines()[frozenset("x")] < 8:
            continue
        now += step
        plain = list(lines._crowd.pool(lines.room("x")).turns())
        (grant,) = lines.release(next(iter(lines.room("x").running)), now).grants
        assert grant.ticket.number in plain, "it is of the class whose turn it is"
        for number in plain[: plain.index(grant.ticket.number)]:
            passed[number] = passed.get(number, 0) + 1
            assert passed[number] <= PASSED
            assert now - came[number] < WAITED
        assert lines.room("x").free == 0
