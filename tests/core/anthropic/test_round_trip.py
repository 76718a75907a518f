"""What goes out comes back: the next turn of a conversation holds our own answer, as a client has put it together.

The client is the vendor's: the events go through the accumulator of the official Python SDK, and its message is what
the next request holds. It must be accepted, and nothing of its meaning may be lost on the way to the upstream.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from anthropic.lib.streaming._messages import accumulate_event
from hypothesis import given
from hypothesis import strategies as st

from fakes.chunks import DONE, Heard, Json, say
from fakes.fuzz import STEPS, told, told_calls
from slotline.core.anthropic import events
from slotline.core.anthropic.answer import Answer
from slotline.core.anthropic.chat import chat_body, tool_names
from slotline.core.anthropic.request import parse
from slotline.core.anthropic.switches import REASONING_KEY
from slotline.core.anthropic.tools import upstream_name
from slotline.core.kind import Kind

QUESTION = {"role": "user", "content": "go on"}


def accumulated(made: list[events.Event]) -> list[Json]:
    """The content of the message that the official Python SDK makes of a stream, as it sends it back."""
    message: Any = None
    buffers: dict[int, bytes] = {}
    for event in made:
        data = json.loads(events.encode(event).partition(b"\ndata: ")[2])
        if data["type"] != "ping":  # the SDK passes over it
            message = accumulate_event(event=data, current_snapshot=message, json_bufs=buffers)
    content: list[Json] = [block.to_dict(mode="json") for block in message.content]
    return content


def folded(made: list[events.Event]) -> list[Json]:
    """The same for a client that does not stream."""
    answer = Answer()
    for event in made:
        answer.add(event)
    content: list[Json] = json.loads(answer.encode())["content"]
    return content


def next_turn(content: list[Json], kind: Kind) -> list[Json]:
    """The upstream's messages when a client sends `content` back, and answers every call in it."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": f"result of {block['id']}"}
        for block in content
        if block["type"] == "tool_use"
    ]
    turns = [QUESTION, {"role": "assistant", "content": content}, {"role": "user", "content": results or "and then?"}]
    sent = {"model": "m", "max_tokens": 10, "messages": turns}
    request = parse(msgspec.json.encode(sent))
    assert request.ignored == ()
    messages: list[Json] = json.loads(chat_body(request, model="m", kind=kind))["messages"]
    return messages


def joined(content: list[Json], kind: str, between: str = "") -> str:
    return between.join(block[kind] for block in content if block["type"] == kind and block[kind])


def assert_kept(content: list[Json], kind: Kind) -> None:
    """Text, reasoning and calls stand in the upstream's message, and every call has its result behind it."""
    question, answer, *after = next_turn(content, kind)
    calls = [block for block in content if block["type"] == "tool_use"]
    assert question == QUESTION
    assert answer["content"] == joined(content, "text")
    assert answer.get(REASONING_KEY[kind], "") == joined(content, "thinking", "\n")
    assert [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in answer.get("tool_calls", ())
    ] == [(call["id"], upstream_name(call["name"]), call["input"]) for call in calls]
    assert [(each["role"], each.get("tool_call_id")) for each in after] == (
        [("tool", call["id"]) for call in calls] or [("user", None)]
    )
    assert set(answer) <= {"role", "content", REASONING_KEY[kind], "tool_calls"}


def assert_comes_back(listener: Heard, kind: Kind) -> None:
    streamed = accumulated(listener.made)
    assert_kept(streamed, kind)
    whole = folded(listener.made)
    assert_kept(whole, kind)
    assert [_uncut(block) for block in whole] == [_uncut(block) for block in streamed]


def _uncut(block: Json) -> Json:
    """A block without what the two clients read differently: the input of a call that max_tokens cut."""
    return {key: value for key, value in block.items() if key != "input"}


@given(steps=STEPS, kind=st.sampled_from(Kind))
def test_whatever_answer_went_out_is_accepted_as_history_and_means_the_same(steps: list[Any], kind: Kind) -> None:
    listener = told([*steps, say(finish="stop"), DONE])
    if listener.stream.done:
        assert_comes_back(listener, kind)


@given(given_calls=told_calls(), kind=st.sampled_from(Kind), thought=st.booleans())
def test_calls_go_back_with_the_ids_and_arguments_they_were_made_with(
    given_calls: tuple[list[tuple[str, str, Json]], list[Json]], kind: Kind, thought: bool
) -> None:
    calls, fragments = given_calls
    before = [say(reasoning="hm"), say("Let me see.")] if thought else []
    listener = told([*before, say(tool_calls=fragments), say(finish="tool_calls"), DONE])
    content = accumulated(listener.made)
    made = {block["id"]: (block["name"], block["input"]) for block in content if block["type"] == "tool_use"}
    assert made == {identity: (name, arguments) for identity, name, arguments in calls}
    assert_comes_back(listener, kind)


@given(name=st.text(min_size=1, max_size=130))
def test_a_tool_of_any_name_is_called_by_it_and_found_again_under_it(name: str) -> None:
    """Case 36, B93: the upstream knows one name all along, the client knows its own."""
    sent = {
        "model": "m",
        "max_tokens": 10,
        "messages": [QUESTION],
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
    }
    request = parse(msgspec.json.encode(sent))
    offered = json.loads(chat_body(request, model="m", kind=Kind.VLLM))["tools"][0]["function"]["name"]
    fragment = {"index": 0, "id": "c", "function": {"name": offered, "arguments": "{}"}}
    listener = told([say(tool_calls=[fragment]), say(finish="tool_calls"), DONE], tool_names=tool_names(request))
    content = accumulated(listener.made)
    assert [block["name"] for block in content] == [name]
    assert next_turn(content, Kind.VLLM)[1]["tool_calls"][0]["function"]["name"] == offered
