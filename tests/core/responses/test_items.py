"""The items of `input`, as the messages that go upstream."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.responding import items, read, upstream
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Traits
from slotline.core.responses.opaque import seal

USER = {"role": "user", "content": "hello"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": 1.50}'}
SAID = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}


def said(text: str) -> dict[str, Any]:
    return {**SAID, "content": [{"type": "output_text", "text": text, "annotations": []}]}


def gave(output: Any, call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def test_messages_keep_their_order_and_their_words() -> None:
    assert items(USER, said("hi"), {"type": "message", "role": "user", "content": "more"}) == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "more"},
    ]


def test_a_later_word_of_the_developer_keeps_its_place() -> None:
    assert items(USER, said("hi"), {"role": "developer", "content": "Be brief."}, USER) == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "Be brief.\nhello"},
    ]


def test_a_call_and_its_result_belong_together() -> None:
    """Numbers stay as they were written, and what the model said with the call is one message with it."""
    assert items(USER, said("let me see"), CALL, gave("42")) == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1.50}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
    ]


def test_several_calls_of_one_turn_are_one_message() -> None:
    second = {**CALL, "call_id": "call_2"}
    roles = [message["role"] for message in items(USER, CALL, second, gave("b", "call_2"), gave("a"))]
    results = items(USER, CALL, second, gave("b", "call_2"), gave("a"))[2:]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert [result["content"] for result in results] == ["a", "b"]


def test_a_call_whose_result_was_cut_out_has_a_stand_in() -> None:
    assert items(USER, CALL, USER)[2] == {"role": "tool", "tool_call_id": "call_1", "content": "[no result]"}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [("", "{}"), ("{}", "{}"), ('{"a"', '{"input":"{\\"a\\""}'), ("[1]", '{"input":"[1]"}')],
)
def test_arguments_that_are_no_object_become_one(arguments: str, sent: str) -> None:
    assert items(USER, {**CALL, "arguments": arguments})[1]["tool_calls"][0]["function"]["arguments"] == sent


def test_a_call_in_a_namespace_has_one_name() -> None:
    sent = items(USER, {**CALL, "namespace": "mcp__files__", "name": "read"}, gave("x"))
    assert sent[1]["tool_calls"][0]["function"]["name"] == "mcp__files__read"


def test_a_custom_call_is_a_call_with_one_string() -> None:
    call = {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": "*** Begin\n"}
    sent = items(USER, call, {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"})
    assert sent[1]["tool_calls"][0]["function"] == {"name": "apply_patch", "arguments": '{"input":"*** Begin\\n"}'}
    assert sent[2]["content"] == "done"


@pytest.mark.parametrize("field", ["id", "call_id"])
def test_a_shell_call_of_the_history_is_a_call(field: str) -> None:
    action: dict[str, Any] = {"type": "exec", "command": ["ls", "-l"], "env": {}, "user": None}
    call = {"type": "local_shell_call", "call_id": "call_1", "status": "completed", "action": action}
    sent = items(USER, call, {"type": "local_shell_call_output", field: "call_1", "output": "a.txt"})
    function = sent[1]["tool_calls"][0]["function"]
    assert function == {"name": "local_shell", "arguments": '{"command":["ls","-l"],"env":{}}'}
    assert sent[2] == {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"}


# ---- reasoning -------------------------------------------------------------------------------------------------------

TEXT = [{"type": "reasoning_text", "text": "thought"}]
SHORT = [{"type": "summary_text", "text": "short"}]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"content": TEXT, "summary": SHORT, "encrypted_content": seal("sealed")}, "thought"),
        ({"summary": SHORT, "encrypted_content": seal("sealed")}, "sealed"),
        ({"content": None, "summary": [], "encrypted_content": seal("sealed")}, "sealed"),
        ({"summary": SHORT, "encrypted_content": "gAAAAABof-somebody-elses"}, "short"),
        ({"summary": SHORT}, "short"),
        ({"summary": [], "encrypted_content": "gAAAAABof-somebody-elses"}, None),
        ({"summary": []}, None),
    ],
)
def test_reasoning_comes_back_in_any_form_that_can_be_read(fields: dict[str, Any], kept: str | None) -> None:
    sent = items(USER, {"type": "reasoning", "id": "rs_1", **fields}, CALL, gave("42"))
    assert sent[1].get("reasoning_content") == kept


def test_reasoning_goes_where_the_server_looks_for_it() -> None:
    sent = upstream(Traits(Kind.VLLM), input=[USER, {"type": "reasoning", "content": TEXT}, said("hi"), USER])
    assert sent["messages"][1] == {"role": "assistant", "content": "hi", "reasoning": "thought"}


# ---- what cannot be understood ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
def test_a_reference_is_refused_wherever_it_stands(item: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=r"input.0.type: no item is kept here"):
        items(item, said("hi"), USER)


@pytest.mark.parametrize("kind", ["web_search_call", "compaction", "mcp_list_tools", "image_generation_call"])
def test_what_openais_own_tools_left_is_dropped_wherever_it_stands(kind: str) -> None:
    trace = {"type": kind, "id": "x_1", "result": "…"}
    assert items(USER, trace) == [{"role": "user", "content": "hello"}]
    assert read(input=[USER, trace]).messages.ignored == (f"input.1 ({kind})",)


def test_an_unknown_item_is_dropped_from_history_and_refused_as_new_input() -> None:
    news = {"type": "hologram", "data": "…"}
    assert items(news, said("hi"), USER)[0]["role"] == "assistant"
    with pytest.raises(Invalid, match=r'input.1.type: expected one of .*message.*, got "hologram"'):
        items(USER, news)


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"role": "tool", "content": "x"}, 'input.0.role: expected "user", "assistant", "system" or "developer"'),
        ({"role": "user"}, "input.0.content: a required field"),
        ({"role": "user", "content": 5}, "input.0.content: expected a string or a list of content parts, got 5"),
        ("hello", 'input.0: expected an object, got "hello"'),
        ({**CALL, "call_id": ""}, "input.0.call_id: expected a non-empty string"),
        ({**CALL, "name": ""}, "input.0.name: expected a non-empty string"),
        ({**CALL, "arguments": {}}, "input.0.arguments: expected a string"),
        ({"type": "function_call", "call_id": "c"}, "input.0.name: a required field"),
        ({"type": "function_call_output", "output": "x"}, "input.0.call_id: a required field"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(item: Any, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        items(item, USER)
    assert says in caught.value.message


def test_more_tools_join_those_of_the_request() -> None:
    f, g = ({"type": "function", "name": name} for name in "fg")
    sent = upstream(input=[{"type": "additional_tools", "role": "developer", "tools": [g]}, USER], tools=[f])
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["f", "g"]
    with pytest.raises(Invalid, match=r"input.0.tools.0.name: the name 'f' is taken by another tool"):
        upstream(input=[{"type": "additional_tools", "tools": [f]}, USER], tools=[f])
