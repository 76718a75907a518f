"""The table itself: whatever path is taken through it, the blocks are legal."""

from __future__ import annotations

import pytest

from slotline.core.anthropic.transitions import TABLE, Input, State, Step

OPENED = {Step.OPEN_THINKING: "thinking", Step.OPEN_TEXT: "text"}
BLOCKS = {State.THINKING: "thinking", State.BEATING: "thinking", State.TEXT: "text"}
ROWS = [(state, given) for state, row in TABLE.items() for given in row]


def test_every_state_has_its_row() -> None:
    assert set(TABLE) == set(State)


@pytest.mark.parametrize(("state", "given"), ROWS, ids=lambda member: member.name)
def test_the_steps_of_a_transition_lead_from_its_state_to_the_next(state: State, given: Input) -> None:
    """A block is open exactly in the states that have one, and thinking is signed before it closes."""
    steps, after = TABLE[state][given]
    open_block = BLOCKS.get(state)
    signed = False
    for step in steps:
        if step in OPENED:
            assert open_block is None
            open_block = OPENED[step]
        elif step is Step.SIGN:
            assert open_block == "thinking"
            signed = True
        elif step is Step.CLOSE:
            assert open_block is not None
            assert signed is (open_block == "thinking")
            open_block, signed = None, False
        else:
            assert open_block is None, f"{step} while a block is open"
    assert open_block == BLOCKS.get(after)


@pytest.mark.parametrize("state", sorted(set(State) - {State.NEW, State.ENDED}), ids=lambda state: state.name)
def test_an_answer_that_has_begun_takes_all_that_an_answer_has(state: State) -> None:
    assert {Input.REASONING, Input.TEXT, Input.CALL, Input.END} <= set(TABLE[state])
    steps, after = TABLE[state][Input.END]
    assert (steps[-1], after) == (Step.FINISH, State.ENDED)


def test_a_message_starts_once_and_nothing_follows_its_end() -> None:
    starts = [(state, given) for state, given in ROWS if Step.START in TABLE[state][given][0]]
    assert {state for state, _ in starts} == {State.NEW}
    assert all(TABLE[State.NEW][given][0][0] is Step.START for given in TABLE[State.NEW])
    assert TABLE[State.ENDED] == {}


@pytest.mark.parametrize("state", sorted(set(State) - {State.ENDED}), ids=lambda state: state.name)
def test_a_beat_finds_or_opens_a_block_and_closes_none(state: State) -> None:
    steps, after = TABLE[state][Input.BEAT]
    assert Step.CLOSE not in steps
    assert after in BLOCKS
    assert TABLE[after][Input.BEAT] == ((), after)
