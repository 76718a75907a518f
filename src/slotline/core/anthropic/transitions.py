"""The state machine of a Messages stream, as a table: state × input → steps, next state.

A state is what the client has seen. Blocks follow one another and none is open beside another, so a handful of states
is enough. What is not in the table cannot happen; `stream.MessageStream` turns upstream events into inputs and takes
the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import Final


class State(IntEnum):
    """What the client has seen. Integers, because one is looked up for every token, and their hash is cheap."""

    NEW = auto()
    """Nothing."""
    OPEN = auto()
    """The message's start, and no block or only closed ones."""
    THINKING = auto()
    """A thinking block is open."""
    TEXT = auto()
    """A text block is open."""
    CALLS = auto()
    """No open block, while tool calls are gathered."""
    BEATING = auto()
    """The same, with a thinking block that is open for its beats alone: a long call is no life to the client."""
    ENDED = auto()
    """The message's stop."""


class Input(IntEnum):
    """What can be said to the machine."""

    FIRST = auto()
    """The first chunk of any kind."""
    REASONING = auto()
    TEXT = auto()
    """Where no text block is open: text that is not only whitespace."""
    CALL = auto()
    """A fragment of a tool call."""
    BEAT = auto()
    """The client needs a sign of life that it takes for one."""
    END = auto()
    """A legal end of the upstream's stream."""


class Step(Enum):
    """What is done on the way to the next state."""

    START = auto()
    OPEN_THINKING = auto()
    SIGN = auto()
    OPEN_TEXT = auto()
    CLOSE = auto()
    WHOLE_CALLS = auto()
    """The gathered calls, if all of them are whole; else they stay."""
    ALL_CALLS = auto()
    NEVER_EMPTY = auto()
    """An empty text block, if there was no block at all."""
    FINISH = auto()


TABLE: Final[Mapping[State, Mapping[Input, tuple[tuple[Step, ...], State]]]] = {
    State.NEW: {
        Input.FIRST: ((Step.START,), State.OPEN),
        Input.BEAT: ((Step.START, Step.OPEN_THINKING), State.THINKING),
    },
    State.OPEN: {
        Input.REASONING: ((Step.OPEN_THINKING,), State.THINKING),
        Input.TEXT: ((Step.OPEN_TEXT,), State.TEXT),
        Input.CALL: ((), State.CALLS),
        Input.BEAT: ((Step.OPEN_THINKING,), State.THINKING),
        Input.END: ((Step.NEVER_EMPTY, Step.FINISH), State.ENDED),
    },
    State.THINKING: {
        Input.REASONING: ((), State.THINKING),
        Input.TEXT: ((Step.SIGN, Step.CLOSE, Step.OPEN_TEXT), State.TEXT),
        Input.CALL: ((Step.SIGN, Step.CLOSE), State.CALLS),
        Input.BEAT: ((), State.THINKING),
        Input.END: ((Step.SIGN, Step.CLOSE, Step.ALL_CALLS, Step.FINISH), State.ENDED),
    },
    State.TEXT: {
        Input.REASONING: ((Step.CLOSE, Step.OPEN_THINKING), State.THINKING),
        Input.TEXT: ((), State.TEXT),
        Input.CALL: ((Step.CLOSE,), State.CALLS),
        Input.BEAT: ((), State.TEXT),
        Input.END: ((Step.CLOSE, Step.ALL_CALLS, Step.FINISH), State.ENDED),
    },
    State.CALLS: {
        Input.REASONING: ((Step.WHOLE_CALLS, Step.OPEN_THINKING), State.THINKING),
        Input.TEXT: ((Step.WHOLE_CALLS, Step.OPEN_TEXT), State.TEXT),
        Input.CALL: ((), State.CALLS),
        Input.BEAT: ((Step.OPEN_THINKING,), State.BEATING),
        Input.END: ((Step.ALL_CALLS, Step.NEVER_EMPTY, Step.FINISH), State.ENDED),
    },
    State.BEATING: {
        Input.REASONING: ((Step.SIGN, Step.CLOSE, Step.WHOLE_CALLS, Step.OPEN_THINKING), State.THINKING),
        Input.TEXT: ((Step.SIGN, Step.CLOSE, Step.WHOLE_CALLS, Step.OPEN_TEXT), State.TEXT),
        Input.CALL: ((), State.BEATING),
        Input.BEAT: ((), State.BEATING),
        Input.END: ((Step.SIGN, Step.CLOSE, Step.ALL_CALLS, Step.FINISH), State.ENDED),
    },
    State.ENDED: {},
}
