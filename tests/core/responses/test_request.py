"""What a request to the Responses API may hold, and what goes upstream for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakes.responding import ask, read, upstream
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Traits
from slotline.core.responses.request import parse

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
LLAMA = Traits(Kind.LLAMA_CPP, context=4096)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": ""}, 'model: expected a non-empty string, got ""'),
        ({"model": 5}, "model: expected a non-empty string, got 5"),
        ({"input": 5}, "input: expected a string or a list of items, got 5"),
        ({"input": []}, "input: expected something to answer, got a list of 0"),
        ({"input": ""}, "input: expected something to answer"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input: expected something to answer"),
        ({"stream": "yes"}, 'stream: expected true or false or null, got "yes"'),
        ({"max_output_tokens": 0}, "max_output_tokens: expected an integer of at least 1, got 0"),
        ({"max_output_tokens": "9"}, "max_output_tokens: expected an integer of at least 1"),
        ({"temperature": 3}, "temperature: expected a number from 0 to 2, got 3"),
        ({"top_p": -1}, "top_p: expected a number from 0 to 1, got -1"),
        ({"instructions": ["x"]}, "instructions: expected a string or null"),
        ({"reasoning": {"effort": "huge"}}, 'reasoning.effort: expected "none", "minimal", "low"'),
        ({"text": {"format": {"type": "xml"}}}, 'text.format.type: expected "text", "json_schema" or "json_object"'),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema: a required field"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"include": "all"}, "include: expected"),
        ({"tools": {}}, "tools: expected"),
    ],
)
def test_what_is_wrong_is_refused_with_field_and_value(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(**fields)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "body: not valid JSON"),
        (b"[]", "body: expected an object"),
        (b'{"model":"m"}', "input: a required field"),
        (b'{"input":"hi"}', "model: a required field"),
        (b'{"model":"\xff","input":"hi"}', "not valid UTF-8"),
    ],
)
def test_a_body_that_is_no_request_is_refused(raw: bytes, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parse(raw)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("store", True),
        ("background", True),
        ("previous_response_id", "resp_0"),
        ("conversation", "conv_1"),
        ("conversation", {"id": "conv_1"}),
        ("prompt", {"id": "pmpt_1"}),
    ],
)
def test_what_would_have_to_be_kept_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(Invalid, match=rf"^{field}: .*not supported here"):
        read(**{field: value})


@pytest.mark.parametrize(
    "fields",
    [
        {"store": False},
        {"store": None, "background": False, "previous_response_id": None, "conversation": None, "prompt": None},
        {"truncation": "auto", "service_tier": "flex", "top_logprobs": 3, "stream_options": {}, "anything": [1]},
    ],
)
def test_what_asks_for_nothing_or_is_not_known_is_left_out(fields: dict[str, Any]) -> None:
    assert read(**fields).messages.messages == read().messages.messages


def test_fields_that_are_left_out_are_noted_without_their_values() -> None:
    assert read(anything="secret", truncation="auto").messages.ignored == ("anything", "truncation")


def test_a_simple_request_is_a_simple_chat() -> None:
    assert upstream() == {
        "model": "target",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello"}],
    }


def test_without_a_limit_none_is_sent_and_with_one_it_is() -> None:
    assert "max_tokens" not in upstream(LLAMA)
    assert upstream(LLAMA, max_output_tokens=50)["max_tokens"] == 50
    assert upstream(LLAMA, max_output_tokens=100_000)["max_tokens"] < 4096


def test_instructions_come_first() -> None:
    sent = upstream(instructions="Be brief.", input=[{"role": "developer", "content": "And kind."}, *ask_user()])
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief.\n\nAnd kind."},
        {"role": "user", "content": "hello"},
    ]


def ask_user() -> list[dict[str, str]]:
    return [{"role": "user", "content": "hello"}]


def test_sampling_goes_upstream_as_it_is() -> None:
    sent = upstream(temperature=0.5, top_p=0.9)
    assert (sent["temperature"], sent["top_p"]) == (0.5, 0.9)


def test_a_schema_becomes_a_response_format() -> None:
    form = {"type": "json_schema", "name": "thing", "strict": True, "schema": SCHEMA}
    assert upstream(text={"format": form})["response_format"]["json_schema"]["schema"] == SCHEMA


def test_json_mode_stays_json_mode() -> None:
    assert upstream(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("text", [None, {}, {"format": None}, {"format": {"type": "text"}}, {"verbosity": "low"}])
def test_plain_text_asks_for_no_format(text: Any) -> None:
    assert "response_format" not in upstream(text=text)


# ---- reasoning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reasoning", [None, {}, {"effort": None, "summary": "auto"}])
@pytest.mark.parametrize("kind", list(Kind))
def test_a_request_that_says_nothing_lets_the_model_do_as_it_does(kind: Kind, reasoning: Any) -> None:
    sent = upstream(Traits(kind), reasoning=reasoning)
    assert "chat_template_kwargs" not in sent
    assert "reasoning_effort" not in sent


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG])
def test_an_effort_switches_thinking_on_and_none_switches_it_off(kind: Kind) -> None:
    on = upstream(Traits(kind), reasoning={"effort": "high"})
    off = upstream(Traits(kind), reasoning={"effort": "none"})
    assert (on["chat_template_kwargs"], on["reasoning_effort"]) == ({"enable_thinking": True}, "high")
    assert off["chat_template_kwargs"] == {"enable_thinking": False}
    assert "reasoning_effort" not in off


@pytest.mark.parametrize(
    ("effort", "sent"), [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("max", "high")]
)
def test_every_effort_is_one_that_the_server_knows(effort: str, sent: str) -> None:
    assert upstream(reasoning={"effort": effort})["reasoning_effort"] == sent


@pytest.mark.parametrize(
    ("reasoning", "asked"),
    [(None, False), ({"summary": None}, False), ({"summary": "none"}, False), ({"summary": "auto"}, True)],
)
def test_a_summary_is_made_only_for_those_who_asked(reasoning: Any, asked: bool) -> None:
    assert read(reasoning=reasoning).summarized is asked


def test_the_older_name_of_a_summary_is_understood() -> None:
    assert read(reasoning={"generate_summary": "concise"}).summarized


def test_reasoning_is_sealed_only_for_those_who_asked() -> None:
    assert read(include=["reasoning.encrypted_content"]).sealed
    assert not read(include=["message.output_text.logprobs"]).sealed
    assert not read().sealed


# ---- what a response repeats -----------------------------------------------------------------------------------------


def test_a_response_repeats_what_was_asked() -> None:
    tool = {"type": "function", "name": "f"}
    echo = read(
        instructions="Be brief.",
        max_output_tokens=5,
        metadata={"a": "b"},
        parallel_tool_calls=False,
        reasoning={"effort": "low", "summary": "auto"},
        temperature=0.5,
        text={"verbosity": "low"},
        tool_choice="required",
        tools=[tool, {"type": "web_search"}],
        user="someone",
    ).echo
    assert msgspec.to_builtins(msgspec.json.decode(msgspec.json.encode(echo))) == {
        "model": "stub",
        "instructions": "Be brief.",
        "max_output_tokens": 5,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "prompt_cache_key": None,
        "reasoning": {"effort": "low", "summary": "auto"},
        "safety_identifier": None,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": "required",
        "tools": [{**tool, "parameters": None, "strict": None}],
        "top_p": None,
        "user": "someone",
    }


@pytest.mark.parametrize(
    ("fields", "user"),
    [
        ({}, None),
        ({"prompt_cache_key": "k"}, "k"),
        ({"prompt_cache_key": "k", "safety_identifier": "s"}, "s"),
        ({"user": "u", "safety_identifier": "s"}, "u"),
    ],
)
def test_whom_the_request_is_for(fields: dict[str, str], user: str | None) -> None:
    assert read(**fields).messages.user_id == user


def test_the_same_conversation_gives_the_same_beginning() -> None:
    """Turn after turn, so that the server's cache is of use."""
    first = ask_user()
    then = [*first, {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}, *ask_user()]
    before = msgspec.json.encode(upstream(input=first)["messages"])
    assert msgspec.json.encode(upstream(input=then)["messages"]).startswith(before[:-1])


def test_a_body_is_parsed_whole_from_json() -> None:
    assert parse(msgspec.json.encode(ask())).messages.stream is True
