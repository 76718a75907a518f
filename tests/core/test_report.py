"""The slots of an upstream as they are told: each once, and the counts add up."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.report import Slot, Slots, SlotState, laid_out, ms

BUSY = Slot(1, SlotState.ANSWERING, "req_1")
DRAINS = Slot(0, SlotState.DRAINING)


def states(slots: Slots) -> list[tuple[int | None, SlotState]]:
    return [(slot.index, slot.state) for slot in slots.each]


def test_a_slot_that_nobody_has_is_free_and_has_the_number_that_is_left() -> None:
    slots = laid_out(3, 3, [BUSY], numbers=range(3))
    assert states(slots) == [(0, SlotState.FREE), (1, SlotState.ANSWERING), (2, SlotState.FREE)]
    assert (slots.total, slots.free, slots.busy, slots.draining, slots.down) == (3, 2, 1, 0, 0)


def test_without_the_servers_numbers_there_are_none() -> None:
    assert [index for index, _ in states(laid_out(2, 2, []))] == [None, None]


def test_a_slot_that_drains_is_neither_free_nor_busy() -> None:
    slots = laid_out(2, 2, [BUSY, DRAINS], numbers=range(2))
    assert (slots.free, slots.busy, slots.draining, slots.down) == (0, 1, 1, 0)


def test_of_an_upstream_that_is_out_of_order_every_slot_is_down_but_for_those_that_are_held() -> None:
    slots = laid_out(3, 0, [BUSY])
    assert (slots.free, slots.busy, slots.down) == (0, 1, 2)
    assert [state for _, state in states(slots)].count(SlotState.DOWN) == 2


def test_what_others_use_is_told_as_theirs() -> None:
    slots = laid_out(2, 1, [BUSY], numbers=range(2), outside=[0])
    assert states(slots) == [(0, SlotState.OUTSIDE), (1, SlotState.ANSWERING)]
    assert (slots.free, slots.down) == (0, 1)


def test_what_others_use_of_more_slots_than_the_gateway_may_is_no_loss() -> None:
    assert states(laid_out(1, 1, [], outside=[None])) == [(None, SlotState.FREE)]


def test_the_slots_of_a_server_that_loads_are_loading() -> None:
    assert states(laid_out(1, 0, [], loading=True)) == [(None, SlotState.LOADING)]


@given(
    total=st.integers(0, 6),
    allowed=st.integers(0, 6),
    held=st.lists(st.booleans(), max_size=8),
    outside=st.lists(st.none(), max_size=6),
    numbered=st.booleans(),
)
def test_the_counts_are_those_of_the_slots(
    total: int, allowed: int, held: list[bool], outside: list[None], numbered: bool
) -> None:
    """Also while more run than may, because the number was lowered."""
    allowed = min(allowed, total)
    taken = [Slot(i, SlotState.DRAINING if drains else SlotState.PREFILL) for i, drains in enumerate(held)]
    slots = laid_out(total, allowed, taken, numbers=range(total) if numbered else (), outside=outside)
    assert slots.free + slots.busy + slots.draining + slots.down == len(slots.each) == max(total, len(taken))
    assert sum(slot.state is SlotState.FREE for slot in slots.each) == slots.free == max(0, allowed - len(taken))
    known = [slot.index for slot in slots.each if slot.index is not None]
    assert len(known) == len(set(known))
    assert known == sorted(known)


def test_slots_are_the_json_that_they_look_like() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BUSY))["state"] == "answering"


@pytest.mark.parametrize(("seconds", "told"), [(0.0, 0), (1.2345, 1234), (-0.001, 0)])
def test_milliseconds_are_whole_and_never_negative(seconds: float, told: int) -> None:
    assert ms(seconds) == told
