"""A conversation in the strict order that chat templates demand, whatever order it came in.

What comes out holds: one system prompt; then user and assistant turns that alternate. Inside a turn the order of the
blocks is the client's. A message of role system among the others keeps its place, as words of the user: merging it into
the system prompt would change the first tokens of the prompt with every turn, and no server could use its cache; most
templates refuse it where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from slotline.core.anthropic.blocks import Block, ToolResult, ToolUse
from slotline.core.anthropic.media import Text
from slotline.core.anthropic.request import Message, MessagesRequest

NO_RESULT = "[no result]"
"""Stands for the result of a call whose result the client cut out of the history."""

Role: TypeAlias = Literal["user", "assistant"]


class Turn(msgspec.Struct, frozen=True):
    """All that one side said before the other spoke. Only an assistant's turn may be empty."""

    role: Role
    blocks: tuple[Block, ...]


class Conversation(msgspec.Struct, frozen=True):
    """`system` is "" for none. `prefill`: the last turn is the beginning of the answer, to be continued."""

    system: str
    turns: tuple[Turn, ...]
    prefill: bool


def conversation(request: MessagesRequest) -> Conversation:
    """The request's messages, put in order."""
    leading = _leading_system(request.messages)
    texts = [b.text for message in request.messages[:leading] for b in message.blocks if isinstance(b, Text)]
    turns = _merge(request.messages[leading:])
    if turns and turns[-1].role == "assistant" and not any(map(_speaks, turns[-1].blocks)):
        turns.pop()  # an empty beginning of an answer is none
    prefill = (
        bool(turns) and turns[-1].role == "assistant" and not any(isinstance(b, ToolUse) for b in turns[-1].blocks)
    )
    return Conversation("\n\n".join([*request.system, *texts]), tuple(turns), prefill)


def _leading_system(messages: Sequence[Message]) -> int:
    """How many system messages stand first. If there is nothing else, they are what is to be answered."""
    if all(message.role == "system" or not message.blocks for message in messages):
        return 0
    return next(index for index, message in enumerate(messages) if message.role != "system")


def _merge(messages: Iterable[Message]) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        role: Role = "assistant" if message.role == "assistant" else "user"
        if role == "user" and not message.blocks:
            continue
        if turns and turns[-1].role == role:
            turns[-1] = Turn(role, turns[-1].blocks + message.blocks)
        else:
            turns.append(Turn(role, message.blocks))
    return turns


def _speaks(block: Block) -> bool:
    return isinstance(block, (Text, ToolUse))


def answers(calls: Sequence[ToolUse], results: Sequence[ToolResult]) -> list[ToolResult]:
    """The results of `calls`, one after another in the order of the calls: templates expect them so.

    A call without a result gets `NO_RESULT`; two results for one call both stay. A result of no call is not here.
    """
    waiting = {call.id: [result for result in results if result.tool_use_id == call.id] for call in calls}
    ordered: list[ToolResult] = []
    for index, call in enumerate(calls):
        last = all(later.id != call.id for later in calls[index + 1 :])
        mine = waiting[call.id]
        taken = mine if last else mine[:1]
        waiting[call.id] = mine[len(taken) :]
        ordered += taken or [ToolResult(call.id, (Text(NO_RESULT),))]
    return ordered
