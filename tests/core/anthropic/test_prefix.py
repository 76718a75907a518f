"""The prompt of one turn is the beginning of the next turn's prompt, to the byte: servers keep it, and read the rest.

A client sends the whole conversation with every turn, and much in it changes that says nothing: the attribution line of
Claude Code, cache marks that move on, signatures, metadata, the spelling of a text as a string or as a block. None of
it may reach the prompt.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.chat import chain, chat_body
from slotline.core.anthropic.request import MessagesRequest, parse
from slotline.core.kind import Kind

Json = dict[str, Any]

_TEXT = st.text(min_size=1, max_size=8)
_REMINDER = _TEXT.map(lambda text: {"role": "system", "content": f"<system-reminder>\n{text}\n</system-reminder>"})
_TOOLS = [
    {"name": "Read", "description": "reads", "input_schema": {"type": "object", "properties": {"path": {}}}},
    {"name": "a.tool/with a name that must change", "input_schema": {"properties": {"z": {}, "a": {}}}},
    {"type": "bash_20250124", "name": "bash"},
    {"type": "web_search_20250305", "name": "web_search"},
]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


@st.composite
def _exchanges(draw: st.DrawFn) -> list[Json]:
    """A conversation in which the user speaks first and last, as a client keeps it: one message after another."""
    turns: list[Json] = [{"role": "user", "content": draw(st.lists(_TEXT.map(text), min_size=1, max_size=2))}]
    numbers = iter(range(100))
    for _ in range(draw(st.integers(1, 4))):
        turns += draw(st.lists(_REMINDER, max_size=1))
        content: list[Json] = []
        if draw(st.booleans()):
            content.append({"type": "thinking", "thinking": draw(_TEXT), "signature": "s"})
        content += draw(st.lists(_TEXT.map(text), min_size=1, max_size=1))
        calls = [f"toolu_{next(numbers)}" for _ in range(draw(st.integers(0, 2)))]
        content += [{"type": "tool_use", "id": call, "name": "Read", "input": {"path": draw(_TEXT)}} for call in calls]
        turns.append({"role": "assistant", "content": content})
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": call, "content": draw(_TEXT), "is_error": draw(st.booleans())}
            for call in draw(st.permutations(calls))
        ]
        words = [text(word) for word in draw(st.lists(_TEXT, min_size=0 if results else 1, max_size=2))]
        turns.append({"role": "user", "content": [*results, *words] if draw(st.booleans()) else [*words, *results]})
    return turns


@st.composite
def _sent(draw: st.DrawFn, turns: list[Json]) -> Json:
    """One request of the conversation, with everything on it that may differ from request to request."""
    messages = copy.deepcopy(turns)
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if draw(st.booleans()) and block["type"] != "thinking":
                block["cache_control"] = {"type": "ephemeral", "ttl": draw(st.sampled_from(["5m", "1h"]))}
            if block["type"] == "thinking":
                block["signature"] = draw(st.text(max_size=3))
        if len(message["content"]) == 1 and message["content"][0].get("type") == "text" and draw(st.booleans()):
            message["content"] = message["content"][0]["text"]
    billing = (
        f"x-anthropic-billing-header: cc_version=2.1.{draw(st.integers(0, 99))}; cch={draw(st.text(max_size=5))!r};"
    )
    system = [text(billing), text("You are a helper."), {**text("Be brief."), "cache_control": {"type": "ephemeral"}}]
    more = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.fixed_dictionaries({"user_id": st.text(max_size=3)}),
                "context_management": st.just({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
                "max_tokens": st.integers(1, 99),
                "stream": st.booleans(),
                "temperature": st.sampled_from([0, 0.5, 1]),
            },
        )
    )
    order = ["model", "max_tokens", "system", "tools", "messages"]
    fields = {"model": "m", "max_tokens": 10, "system": system, "tools": _TOOLS, "messages": messages}
    return {**{key: fields[key] for key in draw(st.permutations(order))}, **more}


@st.composite
def _two_turns(draw: st.DrawFn) -> tuple[MessagesRequest, MessagesRequest]:
    """A turn of a conversation and a later one."""
    turns = draw(_exchanges())
    ends = [at + 1 for at, message in enumerate(turns) if message["role"] == "user"]
    first = draw(st.sampled_from(ends[:-1]))
    reminded = first < len(turns) and turns[first]["role"] == "system" and draw(st.booleans())
    earlier = turns[: first + reminded]
    return parse(msgspec.json.encode(draw(_sent(earlier)))), parse(msgspec.json.encode(draw(_sent(turns))))


def body(request: MessagesRequest, kind: Kind) -> bytes:
    return chat_body(request, model="target", kind=kind)


def prompt(request: MessagesRequest, kind: Kind) -> tuple[bytes, bytes]:
    """What a template makes the prompt of, in its order: everything before the messages, and the messages."""
    head, _, rest = body(request, kind).partition(b'"messages":[')
    messages, end, _ = rest.partition(b'}],"max_tokens":')
    assert end, "the messages are not where they are looked for"
    return head, messages


@given(turns=_two_turns(), kind=st.sampled_from(Kind))
def test_a_turn_is_a_byte_prefix_of_every_later_one(turns: tuple[MessagesRequest, MessagesRequest], kind: Kind) -> None:
    """Case 15, B72: nothing that changes without a meaning stands in front of what is new."""
    (head, messages), (later_head, later) = prompt(turns[0], kind), prompt(turns[1], kind)
    assert later_head == head
    if later[: len(messages)] != messages:
        # The user went on in the same turn: the reminder that came after the question is a part of its message.
        *before, last = json.loads(b"[" + messages + b"}]")
        *_, same = json.loads(b"[" + later + b"}]")[: len(before) + 1]
        assert last["role"] == same["role"] == "user"
        assert same["content"].startswith(last["content"] + "\n<system-reminder>")


@given(turns=_two_turns())
def test_a_conversation_is_known_again_by_its_slot(turns: tuple[MessagesRequest, MessagesRequest]) -> None:
    earlier, later = chain(turns[0]), chain(turns[1])
    assert earlier[:-1] == later[: len(earlier) - 1]


@given(turns=_two_turns())
def test_the_same_request_gives_the_same_bytes(turns: tuple[MessagesRequest, MessagesRequest]) -> None:
    assert body(turns[1], Kind.LLAMA_CPP) == body(turns[1], Kind.LLAMA_CPP)
    schemas = json.loads(body(turns[1], Kind.LLAMA_CPP))["tools"]
    assert [list(tool["function"]["parameters"].get("properties", {})) for tool in schemas[:2]] == [
        ["path"],
        ["z", "a"],
    ]
    assert len(schemas) == 3
