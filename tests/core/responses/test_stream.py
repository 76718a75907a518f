"""Chat stream → Responses stream, by way of the Messages stream between them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fakes.chunks import DONE, call, say
from fakes.responding import USAGE, answer, heard, read, upstream
from slotline.core.anthropic import events as given
from slotline.core.errors import Stalled
from slotline.core.responses import events as to
from slotline.core.responses.opaque import unseal
from slotline.core.responses.output import Status
from slotline.core.responses.stream import ResponseStream

LIFE = ["response.created", "response.in_progress"]
F = {"type": "function", "name": "f"}
PATCH = {"type": "custom", "name": "apply_patch"}
SPACE = {"type": "namespace", "name": "mcp__files__", "tools": [F, PATCH]}


def stream(**fields: Any) -> ResponseStream:
    numbers = itertools.count(1)
    return ResponseStream(
        read(**fields), response_id="resp_1", item_id=lambda prefix: f"{prefix}{next(numbers)}", clock=lambda: 1000.5
    )


START = given.MessageStart("msg_0", "stub", given.Usage())


# ---- what is streamed ------------------------------------------------------------------------------------------------


def test_text_is_one_message() -> None:
    seen = heard(answer(say("one"), say(" two")))
    assert seen.names == [
        *LIFE,
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert (seen.text, seen.complete) == ("one two", True)


def test_reasoning_is_an_item_before_the_message() -> None:
    seen = heard(answer(say(reasoning_content="hm"), say(reasoning_content="m"), say("ok")))
    assert [item["type"] for item in seen.items] == ["reasoning", "message"]
    assert seen.items[0]["content"] == [{"type": "reasoning_text", "text": "hmm"}]
    assert seen.items[0]["summary"] == []
    assert seen.names.count("response.reasoning_text.delta") == 2
    assert "encrypted_content" not in seen.items[0]


def test_a_client_that_asked_for_a_summary_is_shown_the_reasoning_as_one() -> None:
    seen = heard(answer(say(reasoning_content="hm"), say("ok")), reasoning={"summary": "auto"})
    assert seen.names[3:7] == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    assert seen.items[0]["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert "content" not in seen.items[0]


@pytest.mark.parametrize("reasoning", [{}, {"summary": "auto"}])
def test_reasoning_that_is_to_come_back_is_sealed_once_it_is_whole(reasoning: Any) -> None:
    include = ["reasoning.encrypted_content"]
    seen = heard(answer(say(reasoning_content="hm"), say("ok")), include=include, reasoning=reasoning)
    added = next(frame.data["item"] for frame in seen.frames if frame.name == "response.output_item.added")
    assert "encrypted_content" not in added
    assert unseal(seen.items[0]["encrypted_content"]) == "hm"


def test_a_call_comes_whole() -> None:
    chunks = [say(tool_calls=[call(0, "f", '{"a"', "call_7")]), say(tool_calls=[call(0, None, ":1}")])]
    seen = heard(answer(*chunks, finish="tool_calls"), tools=[F])
    assert seen.names[2:] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert seen.calls == [
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_7",
            "name": "f",
            "arguments": '{"a":1}',
            "status": "completed",
        }
    ]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert heard(answer(say(tool_calls=[call(0, "f", "", "c")])), tools=[F]).calls[0]["arguments"] == "{}"


def test_a_call_without_an_id_gets_one() -> None:
    assert heard(answer(say(tool_calls=[call(0, "f", "{}")])), tools=[F]).calls[0]["call_id"].startswith("call_")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input":"*** Begin\\n"}', "*** Begin\n"),
        ('{"input":""}', ""),
        ('{"patch":"x"}', '{"patch":"x"}'),
        ('{"input":["x"]}', '{"input":["x"]}'),
    ],
)
def test_a_call_of_a_custom_tool_is_its_text(arguments: str, text: str) -> None:
    seen = heard(answer(say(tool_calls=[call(0, "apply_patch", arguments, "c")])), tools=[PATCH])
    assert seen.names[3:5] == ["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"]
    (made,) = seen.calls
    assert (made["type"], made["name"], made["input"]) == ("custom_tool_call", "apply_patch", text)


@pytest.mark.parametrize(("name", "kind"), [("f", "function_call"), ("apply_patch", "custom_tool_call")])
def test_a_call_of_a_tool_in_a_namespace_says_so(name: str, kind: str) -> None:
    seen = heard(answer(say(tool_calls=[call(0, f"mcp__files__{name}", "{}", "c")])), tools=[SPACE])
    (made,) = seen.calls
    assert (made["type"], made["name"], made["namespace"]) == (kind, name, "mcp__files__")


def test_a_name_that_no_server_takes_comes_back_as_the_client_wrote_it() -> None:
    named = {"type": "function", "name": "a tool with spaces"}
    changed = upstream(tools=[named])["tools"][0]["function"]["name"]
    seen = heard(answer(say(tool_calls=[call(0, changed, "{}", "c")])), tools=[named])
    assert (changed[:18], seen.calls[0]["name"]) == ("a_tool_with_spaces", "a tool with spaces")


def test_a_call_of_a_tool_that_was_not_offered_is_a_function_call() -> None:
    assert heard(answer(say(tool_calls=[call(0, "x", "{}", "c")])), tools=[F]).calls[0]["name"] == "x"


def test_one_call_is_all_that_a_client_gets_that_allows_one() -> None:
    chunks = [say(tool_calls=[call(0, "f", "{}", "a"), call(1, "f", "{}", "b")])]
    assert len(heard(answer(*chunks), tools=[F]).calls) == 2
    assert len(heard(answer(*chunks), tools=[F], parallel_tool_calls=False).calls) == 1


def test_an_empty_answer_is_an_empty_message() -> None:
    assert heard(answer()).items[0]["content"][0]["text"] == ""


# ---- how it ends -----------------------------------------------------------------------------------------------------


def test_tokens_are_counted_as_openai_counts_them() -> None:
    seen = heard(answer(say(reasoning_content="hm"), say("ok")))
    assert seen.response is not None
    assert seen.response["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 13,
    }


def test_a_server_that_counts_the_reasoning_is_believed() -> None:
    usage = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 3}}
    chunks = [say(reasoning_content="hm"), say("ok"), say(finish="stop", usage=usage), DONE]
    seen = heard(chunks)
    assert seen.response is not None
    assert seen.response["usage"]["output_tokens_details"] == {"reasoning_tokens": 3}


@pytest.mark.parametrize(
    ("chunks", "tools"),
    [
        ([say("one")], []),
        ([say(reasoning_content="hm")], []),
        ([say(tool_calls=[call(0, "f", '{"a"', "c")])], [F]),
        ([say(tool_calls=[call(0, "apply_patch", '{"input":"*** Be', "c")])], [PATCH]),
    ],
    ids=["text", "reasoning", "call", "custom"],
)
def test_what_the_limit_cut_is_incomplete_and_so_is_its_last_item(chunks: list[Any], tools: list[Any]) -> None:
    seen = heard(answer(say("before"), *chunks, finish="length"), tools=tools)
    assert seen.names[-1] == "response.incomplete"
    assert seen.response is not None
    assert seen.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert seen.items[-1]["status"] == "incomplete"
    assert all(item["status"] == "completed" for item in seen.items[:-1])


def test_whole_calls_stay_whole_when_a_further_one_is_cut() -> None:
    calls = [call(0, "f", "{}", "a"), call(1, "f", '{"a"', "b")]
    seen = heard(answer(say(tool_calls=calls), finish="length"), tools=[F])
    assert [made["status"] for made in seen.calls] == ["completed", "incomplete"]


def test_a_filtered_answer_is_incomplete() -> None:
    seen = heard(answer(say("well"), finish="content_filter"))
    assert seen.response is not None
    assert seen.response["incomplete_details"] == {"reason": "content_filter"}


def test_a_refusal_in_the_models_own_words_is_an_answer() -> None:
    seen = heard(answer(say(refusal="I will not")))
    assert (seen.text, seen.complete) == ("I will not", True)


def test_a_response_tells_when_it_was_completed() -> None:
    seen = heard(answer(say("one")))
    assert seen.response is not None
    assert (seen.response["created_at"], seen.response["completed_at"]) == (1000, 1001)


def test_the_response_repeats_its_request_from_the_first_event_on() -> None:
    seen = heard(answer(say("one")), tools=[F], metadata={"a": "b"}, instructions="Be brief.")
    for frame in seen.frames:
        if "response" in frame.data:
            assert frame.data["response"]["metadata"] == {"a": "b"}
            assert frame.data["response"]["instructions"] == "Be brief."


# ---- failures and signs of life --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [say("one")],
        [say(reasoning_content="hm"), say("one")],
        [say(tool_calls=[call(0, "f", '{"a":', "c")])],
    ],
)
def test_a_failure_is_told_in_both_forms_and_nothing_follows(chunks: list[Any]) -> None:
    seen = heard([*chunks, {"error": {"code": 500, "message": "Compute error."}}], tools=[F])
    assert seen.names[0] == "response.created"
    assert seen.names[-2:] == ["response.failed", "error"]
    assert seen.error == {"message": "Compute error.", "type": "server_error", "param": None, "code": None}
    assert seen.response is not None
    assert seen.response["error"] == {"code": "server_error", "message": "Compute error."}


def test_what_had_come_is_in_the_response_that_failed() -> None:
    made = stream()
    made.translate([START, given.TextStart(0), given.TextDelta(0, "half")])
    failed, _ = made.fail(Stalled("liveness = 60 s"))
    assert isinstance(failed, to.Failed)
    (item,) = failed.response.output
    assert item.status is Status.INCOMPLETE


def test_a_sign_of_life_opens_the_response_and_says_that_it_waits() -> None:
    made = stream()
    names = [type(event) for event in [*made.sign(), *made.sign(), *made.translate([START])]]
    assert names == [to.Created, to.Queued, to.Queued, to.InProgress]


def test_a_sign_of_life_within_an_answer_says_that_it_goes_on() -> None:
    made = stream()
    made.translate([START, given.TextStart(0), given.TextDelta(0, "half")])
    (sign,) = made.sign()
    assert isinstance(sign, to.InProgress)
    assert sign.sequence_number == 5
    assert sign.response.output == ()


def test_a_failure_before_anything_else_has_a_response_too() -> None:
    names = [type(event) for event in stream().fail(Stalled("idle_grace = 60 s"))]
    assert names == [to.Created, to.Failed, to.Error]
