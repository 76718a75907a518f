"""One model at a time: who is served next where loading another model costs everybody time."""

from __future__ import annotations

from slotline.core.line import Lines, Phase
from slotline.core.party import NOBODY, Party
from slotline.core.room import Ticket
from slotline.core.swap import SWAP_PASSED

BATCH = Party("batch", batch=True)


def house(slots: int) -> Lines:
    return Lines({"x": (slots, 99)}, exclusive="x")


def joined(lines: Lines, models: str, party: Party = NOBODY) -> list[Ticket]:
    """One new ticket for each letter, which names its model."""
    return [lines.join("x", 0.0, party=party, model=model)[0] for model in models]


def served(lines: Lines) -> str:
    """The models of all who wait, in the order in which they are served by the only slot."""
    order = ""
    while running := list(lines.room("x").running):
        order += "".join(grant.ticket.model for grant in lines.release(running[0], 1.0).grants)
    return order


def loads(order: str) -> int:
    """How often another model had to be loaded."""
    return sum(1 for before, now in zip(" " + order, order, strict=False) if before != now)


def test_another_model_waits_until_nothing_runs_any_more() -> None:
    """One client is answered by A when another one asks for B: A is not thrown out."""
    lines = house(slots=2)
    a, b = joined(lines, "AB")
    assert (lines.phase(a), lines.phase(b)) == (Phase.RUNNING, Phase.WAITING)
    assert lines.room("x").free == 1
    assert [grant.ticket for grant in lines.release(a, 1.0).grants] == [b]


def test_of_the_same_model_as_many_run_at_once_as_there_are_slots() -> None:
    lines = house(slots=3)
    assert [lines.phase(ticket) for ticket in joined(lines, "AAA")] == [Phase.RUNNING] * 3


def test_two_that_ask_for_cold_models_in_the_same_moment_are_served_one_after_the_other() -> None:
    lines = house(slots=2)
    first, second = joined(lines, "AB")
    assert lines.release(first, 1.0).grants[0].ticket is second
    assert lines.release(second, 2.0).grants == ()


def test_requests_for_the_model_that_is_loaded_go_before_others_which_saves_loads() -> None:
    lines = house(slots=1)
    (running,) = joined(lines, "A")
    joined(lines, "BAAC")
    order = running.model + served(lines)
    assert order == "AAABC"
    assert (loads("ABAAC"), loads(order)) == (4, 3)


def test_nobody_is_passed_in_this_way_more_than_four_times() -> None:
    lines = house(slots=1)
    joined(lines, "AB" + "A" * 10 + "C" + "A" * 6)
    assert SWAP_PASSED == 4
    assert served(lines) == "AAAAB" + "AAAAAA" + "AAAAC" + "AA"


def test_one_that_was_passed_by_one_model_is_not_passed_as_often_again_by_the_next() -> None:
    lines = house(slots=1)
    joined(lines, "ABC" + "A" * 4 + "B" * 4)
    assert served(lines) == "AAAABCBBBB"


def test_a_room_that_empties_for_somebody_takes_nobody_of_the_model_that_is_there() -> None:
    lines = house(slots=2)
    first, second = joined(lines, "AA")
    (other,) = joined(lines, "B")
    *_, last = joined(lines, "A" * 5)
    for _ in range(4):  # each passes the other one, in the slot of the one before
        runs = [ticket for ticket in lines.room("x").running if ticket is not first]
        lines.release(runs[0], 1.0)
    assert lines.phase(second) is Phase.GONE
    runs = [ticket for ticket in lines.room("x").running if ticket is not first]
    assert lines.release(runs[0], 1.0).grants == (), "it waits for the first to end"
    assert lines.room("x").free == 1
    assert [grant.ticket for grant in lines.release(first, 1.0).grants] == [other]
    assert lines.phase(last) is Phase.WAITING


def test_batch_does_not_go_before_somebody_in_front_of_a_screen_because_its_model_is_loaded() -> None:
    lines = house(slots=1)
    joined(lines, "A", BATCH)
    joined(lines, "AA", BATCH)
    joined(lines, "B")
    assert served(lines) == "BAA"


def test_where_models_can_be_loaded_together_nobody_waits_for_another_model() -> None:
    lines = Lines({"x": (2, 9)})
    assert [lines.phase(ticket) for ticket in joined(lines, "AB")] == [Phase.RUNNING] * 2


def test_of_two_rooms_the_one_that_has_the_model_serves_it() -> None:
    lines = Lines({"x": (1, 9), "y": (1, 9)}, exclusive="xy")
    first, second = (lines.join("xy", 0.0, model=model)[0] for model in "AB")
    lines.release(first, 1.0)
    lines.release(second, 1.0)
    again = [lines.join("xy", 2.0, model=model)[1].grants[0].upstream for model in "BA"]
    assert again == ["y", "x"]


def test_places_are_those_of_the_plain_order() -> None:
    lines = house(slots=1)
    _, b, a = joined(lines, "ABA")
    assert [lines.place(ticket).position for ticket in (b, a)] == [1, 2]
