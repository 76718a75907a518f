"""What a look at a server's slots says about a request that it has not answered yet."""

from __future__ import annotations

import pytest

from slotline.core.liveness import State
from slotline.core.reading import Reading, Slot, meaning

IDLE, WORKS = False, True


def shows(*busy: bool) -> Reading:
    """A server that shows these slots, numbered from 0."""
    return Reading(slots=tuple(Slot(number, works) for number, works in enumerate(busy)))


@pytest.mark.parametrize("answering", [0, 1, 5])
@pytest.mark.parametrize("slot", [None, 0])
@pytest.mark.parametrize("shown", [None, (), (Slot(0, busy=True),), (Slot(0, busy=False),)])
def test_a_server_that_loads_loads_whatever_else_it_shows(
    shown: tuple[Slot, ...] | None, slot: int | None, answering: int
) -> None:
    assert meaning(Reading(loading=True, slots=shown), slot=slot, answering=answering) is State.LOADING


@pytest.mark.parametrize(("slot", "answering"), [(None, 0), (None, 7), (1, 0)])
def test_a_server_that_shows_nothing_counts_as_busy(slot: int | None, answering: int) -> None:
    assert meaning(Reading(), slot=slot, answering=answering) is State.BUSY


@pytest.mark.parametrize(
    ("reading", "answering", "expected"),
    [
        (shows(IDLE, IDLE), 0, State.IDLE),
        (shows(WORKS, IDLE), 0, State.BUSY),
        (shows(WORKS, IDLE), 1, State.IDLE),  # the one that works is the one that answers
        (shows(WORKS, WORKS), 1, State.BUSY),
        (shows(WORKS, WORKS), 2, State.IDLE),
        (shows(WORKS), 3, State.IDLE),  # answers that have just ended are still counted
        (Reading(running=0), 0, State.IDLE),
        (Reading(running=2), 1, State.BUSY),
        (Reading(running=2), 2, State.IDLE),
    ],
)
def test_without_a_slot_of_its_own_a_request_is_swallowed_if_only_those_that_answer_are_worked_on(
    reading: Reading, answering: int, expected: State
) -> None:
    assert meaning(reading, slot=None, answering=answering) is expected


@pytest.mark.parametrize(
    ("reading", "slot", "expected"),
    [
        (shows(IDLE, WORKS), 1, State.BUSY),
        (shows(IDLE, WORKS), 0, State.IDLE),
        (shows(WORKS, IDLE), 1, State.IDLE),
        (shows(WORKS, WORKS), 7, State.BUSY),  # not listed: nobody can say
        (shows(IDLE, IDLE), 7, State.BUSY),
        (Reading(running=0), 1, State.IDLE),  # it counts and does not show: the count is all there is
        (Reading(running=1), 1, State.BUSY),
    ],
)
def test_a_request_with_a_slot_of_its_own_is_judged_by_that_slot(reading: Reading, slot: int, expected: State) -> None:
    assert meaning(reading, slot=slot, answering=0) is expected


@pytest.mark.parametrize(
    ("reading", "busy"),
    [(Reading(), None), (shows(), 0), (shows(WORKS, IDLE, WORKS), 2), (Reading(running=3), 3)],
)
def test_it_tells_how_many_requests_the_server_works_on(reading: Reading, busy: int | None) -> None:
    assert reading.busy == busy
