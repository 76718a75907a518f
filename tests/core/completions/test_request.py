"""What of a request to OpenAI's routes is acted upon, and that everything else goes upstream as it came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from slotline.core.completions.request import (
    Asked,
    chat_body,
    chat_chain,
    parse_chat,
    parse_plain,
    parse_text,
    plain_body,
    see_no_images,
    text_body,
    text_chain,
)
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.seats import shared

Parse = Callable[[bytes], Asked]

HELLO = {"role": "user", "content": "hello"}
SYSTEM = {"role": "system", "content": "be brief"}
EVERY_KIND = pytest.mark.parametrize("kind", list(Kind))


def raw(**fields: Any) -> bytes:
    return msgspec.json.encode({"model": "alias", "messages": [HELLO], **fields})


def sent(body: bytes, kind: Kind = Kind.OPENAI, terms: Terms | None = None) -> dict[str, Any]:
    """What a server gets for a chat request."""
    made: dict[str, Any] = msgspec.json.decode(chat_body(parse_chat(body), "target", Traits(kind), terms or Terms()))
    return made


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "fields", "says"),
    [
        (parse_chat, {"model": None}, "model: expected a string, got null"),
        (parse_chat, {"model": ""}, 'model: expected the name of a model, got ""'),
        (parse_chat, {"model": 5}, "model: expected a string, got 5"),
        (parse_chat, {"messages": []}, "messages: expected at least one message, got a list of 0"),
        (parse_chat, {"messages": "hi"}, 'messages: expected a list, got "hi"'),
        (parse_chat, {"messages": None}, "messages: expected a list, got null"),
        (parse_chat, {"stream": "yes"}, 'stream: expected true or false, got "yes"'),
        (parse_chat, {"stream_options": [1]}, "stream_options: expected an object, got a list of 1"),
        (parse_chat, {"stream_options": {"include_usage": 1}}, "stream_options.include_usage: expected true or false"),
        (parse_chat, {"n": 2}, "n: expected 1, because each answer would take a slot of its own, got 2"),
        (parse_chat, {"n": "1"}, 'n: expected an integer, got "1"'),
        (parse_chat, {"n_cmpl": 3}, "n_cmpl: expected 1"),
        (parse_chat, {"return_progress": "x"}, "return_progress: expected true or false"),
        (parse_chat, {"thinking_budget_tokens": "x"}, "thinking_budget_tokens: expected an integer"),
        (parse_chat, {"reasoning_budget_tokens": 1.5}, "reasoning_budget_tokens: expected an integer"),
        (parse_chat, {"chat_template_kwargs": [1]}, "chat_template_kwargs: expected an object"),
        (parse_text, {"best_of": 4}, "best_of: expected 1"),
        (parse_text, {"prompt": ["a", "b"]}, "prompt: expected one prompt, because each would take a slot of its own"),
        (parse_text, {"prompt": [[1, 2], [3]]}, "prompt: expected one prompt"),
        (parse_plain, {"model": []}, "model: expected a string"),
    ],
)
def test_what_cannot_be_acted_upon_is_refused_by_field_and_value(
    parse: Parse, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(Invalid) as refused:
        parse(raw(**fields))
    assert says in str(refused.value)


@pytest.mark.parametrize("parse", [parse_chat, parse_text, parse_plain])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "body: not valid JSON"),
        (b"{", "body: not valid JSON"),
        (b"[]", "body: expected an object, got a list of 0"),
        (b'{"model":"m","messages":[],"x":"\xff"}', "body: not valid UTF-8: invalid start byte at byte 32"),
        (b'{"messages":[]}', "model: a required field, and it is missing"),
        (b"[" * 100_000, "body: nested too deeply"),
    ],
)
def test_what_is_no_request_is_refused(parse: Parse, body: bytes, says: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(body)
    assert says in str(refused.value)


def test_a_chat_without_messages_is_refused() -> None:
    with pytest.raises(Invalid, match="messages: a required field, and it is missing"):
        parse_chat(b'{"model":"m"}')


@pytest.mark.parametrize("prompt", ["text", ["one"], [1, 2, 3], [[1, 2]], [1, "and", 2], "", None])
def test_one_prompt_may_be_text_or_tokens(prompt: Any) -> None:
    assert parse_text(raw(prompt=prompt)).model == "alias"


@pytest.mark.parametrize("n", [1, None])
def test_one_answer_may_be_asked_for_by_name(n: int | None) -> None:
    assert sent(raw(n=n))["n"] == n


def test_null_is_as_good_as_nothing() -> None:
    asked = parse_chat(raw(stream=None, stream_options=None, thinking_budget_tokens=None, chat_template_kwargs=None))
    assert (asked.stream, asked.usage, asked.progress, asked.budget) == (False, False, False, None)
    assert parse_chat(raw(stream_options={"include_usage": None})).usage is False


# ---- passed on -------------------------------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("parse", [parse_chat, parse_text])
def test_unknown_fields_travel_in_the_very_bytes_that_came(kind: Kind, parse: Parse) -> None:
    odd = b'{ "a" : [1.50, 1e3, "\\u00e9\\/", {}],\n "b":null }'
    body = (
        b'{"model":"m", "new_thing": %b ,"messages":[ {"role" :"user","content":"h\\u0069"} ],"temperature":0.70}' % odd
    )
    build = chat_body if parse is parse_chat else text_body
    made = build(parse(body), "target", Traits(kind), Terms())
    assert b'"new_thing":' + odd in made
    assert b'"messages":[ {"role" :"user","content":"h\\u0069"} ]' in made
    assert b'"temperature":0.70' in made


@EVERY_KIND
def test_the_upstream_is_asked_for_a_stream_with_its_usage_and_by_its_own_name_of_the_model(kind: Kind) -> None:
    for stream in (True, False):
        body = sent(raw(stream=stream, stream_options={"include_usage": False, "continuous_usage_stats": True}), kind)
        assert body["model"] == "target"
        assert body["stream"] is True
        assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


@EVERY_KIND
@pytest.mark.parametrize(("parse", "build"), [(parse_chat, chat_body), (parse_text, text_body)])
def test_a_slot_of_the_clients_own_choice_never_goes_upstream(kind: Kind, parse: Parse, build: Any) -> None:
    made = msgspec.json.decode(build(parse(raw(id_slot=7)), "target", Traits(kind), Terms(slot=2)))
    assert made.get("id_slot") == (2 if kind is Kind.LLAMA_CPP else None)
    assert "id_slot" not in msgspec.json.decode(build(parse(raw(id_slot=7)), "target", Traits(kind), Terms()))


def test_llama_cpp_is_asked_for_what_the_cap_needs() -> None:
    body = sent(raw(), Kind.LLAMA_CPP, Terms(slot=1, thinking_cap=99))
    assert body["return_progress"] is body["reasoning_control"] is body["cache_prompt"] is True
    assert (body["id_slot"], body["thinking_budget_tokens"]) == (1, 99)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.LLAMA_CPP])
def test_no_other_server_gets_a_field_that_the_client_did_not_send(kind: Kind) -> None:
    assert set(sent(raw(), kind, Terms(thinking_cap=99))) == {"model", "messages", "stream", "stream_options"}


def test_the_client_may_keep_its_prompt_out_of_the_cache() -> None:
    assert sent(raw(cache_prompt=False), Kind.LLAMA_CPP)["cache_prompt"] is False


def test_a_plain_prompt_gets_its_slot_and_nothing_that_belongs_to_a_chat() -> None:
    made = msgspec.json.decode(text_body(parse_text(raw(prompt="x")), "target", Traits(Kind.LLAMA_CPP), Terms(3, 99)))
    assert set(made) == {"model", "messages", "prompt", "stream", "stream_options", "cache_prompt", "id_slot"}


def test_a_request_for_embeddings_goes_on_unchanged_but_for_its_model() -> None:
    body = b'{"input": [ [1,2],[3] ],"model":"alias","stream": 5,"id_slot":1}'
    assert plain_body(parse_plain(body), "target") == b'{"input":[ [1,2],[3] ],"model":"target","stream":5,"id_slot":1}'


def test_turn_after_turn_the_conversation_is_the_same_bytes() -> None:
    first = raw(temperature=1)
    later = msgspec.json.encode({"model": "alias", "messages": [HELLO, HELLO, HELLO], "temperature": 1})
    one, other = (chat_body(parse_chat(body), "target", Traits(Kind.LLAMA_CPP), Terms(0)) for body in (first, later))
    beginning = one[: one.index(b'"}]') + 2]
    assert other.startswith(beginning)


# ---- reasoning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, None),
        ({"thinking_budget_tokens": 5}, 5),
        ({"reasoning_budget_tokens": 5}, 5),
        ({"reasoning_budget_tokens": 5, "thinking_budget_tokens": 3}, 3),
        ({"thinking_budget_tokens": 0}, 0),
        ({"thinking_budget_tokens": -1}, None),
    ],
)
def test_the_clients_own_budget_is_known(fields: dict[str, int], budget: int | None) -> None:
    assert parse_chat(raw(**fields)).budget == budget


@pytest.mark.parametrize("name", ["thinking_budget_tokens", "reasoning_budget_tokens"])
def test_the_bound_that_holds_replaces_the_clients_budget_under_either_name(name: str) -> None:
    body = sent(raw(**{name: 500}), Kind.LLAMA_CPP, Terms(thinking_cap=50))
    assert body["thinking_budget_tokens"] == 50
    assert "reasoning_budget_tokens" not in body
    assert sent(raw(**{name: -1}), Kind.LLAMA_CPP)[name] == -1


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG])
def test_asked_again_a_template_is_told_not_to_think_and_keeps_its_other_wishes(kind: Kind) -> None:
    body = sent(raw(chat_template_kwargs={"enable_thinking": True, "x": 1}), kind, Terms(think=False))
    assert body["chat_template_kwargs"] == {"enable_thinking": False, "x": 1}
    assert sent(raw(), kind, Terms(think=False))["chat_template_kwargs"] == {"enable_thinking": False}


def test_asked_again_ollama_is_told_by_its_effort_and_others_are_told_nothing() -> None:
    assert sent(raw(reasoning_effort="high"), Kind.OLLAMA, Terms(think=False))["reasoning_effort"] == "none"
    assert sent(raw(reasoning_effort="high"), Kind.OPENAI, Terms(think=False))["reasoning_effort"] == "high"


# ---- images ----------------------------------------------------------------------------------------------------------


def test_an_image_is_found_where_it_is() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = parse_chat(raw(messages=[HELLO, {"role": "user", "content": [{"type": "text", "text": "?"}, image]}]))
    with pytest.raises(Invalid, match=r"^messages\.1\.content\.1: the model 'alias' cannot see images$"):
        see_no_images(asked)


def test_words_about_images_are_no_images() -> None:
    talk = [{"role": "user", "content": 'what is "image_url"?'}, {"role": "user", "content": None}, {"role": "tool"}]
    see_no_images(parse_chat(raw(messages=[*talk, {"role": "user", "content": [{"type": "text", "text": "x"}, 5]}])))


# ---- whose turn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "user"),
    [
        ({}, None),
        ({"user": "ada"}, "ada"),
        ({"safety_identifier": "x1"}, "x1"),
        ({"user": "ada", "safety_identifier": "x1"}, "ada"),
        ({"user": 5}, None),
        ({"user": ""}, None),
    ],
)
def test_whom_a_request_is_for_is_known_if_it_says_so(fields: dict[str, Any], user: str | None) -> None:
    for parse in (parse_chat, parse_text, parse_plain):
        assert parse(raw(**fields)).user == user


# ---- the conversation ------------------------------------------------------------------------------------------------


def chain(*messages: Any, **fields: Any) -> tuple[int, ...]:
    return tuple(chat_chain(parse_chat(raw(messages=list(messages), **fields))))


def test_two_conversations_have_in_common_how_far_their_messages_are_the_same() -> None:
    other = {"role": "assistant", "content": "hi"}
    assert shared(chain(SYSTEM, HELLO), chain(SYSTEM, HELLO, other)) == 2
    assert shared(chain(SYSTEM, HELLO, other), chain(SYSTEM, HELLO, HELLO)) == 2
    assert shared(chain(HELLO, HELLO), chain(other, HELLO)) == 1


def test_instructions_alone_are_no_conversation_in_common() -> None:
    developer = {"role": "developer", "content": "x"}
    one, two = chain(SYSTEM, developer, HELLO), chain(SYSTEM, developer, {"role": "user", "content": "bye"})
    assert shared(one, two) == 1
    assert len(one) == 2


@pytest.mark.parametrize("fields", [{"model": "another"}, {"tools": [{"type": "function"}]}])
def test_another_model_or_other_tools_are_another_beginning(fields: dict[str, Any]) -> None:
    assert shared(chain(SYSTEM, HELLO), chain(SYSTEM, HELLO, **fields)) == 0


def test_messages_that_are_none_still_have_a_chain_so_that_the_server_says_what_it_thinks_of_them() -> None:
    assert len(chain(5, "x", None)) == 4


def test_plain_prompts_have_in_common_how_far_their_text_is_the_same() -> None:
    def text(prompt: str) -> tuple[int, ...]:
        return tuple(text_chain(parse_text(raw(prompt=prompt))))

    story = "once upon a time " * 300
    assert shared(text(story), text(story + "there was")) == 5
    assert shared(text(story), text("x" + story)) == 1
    assert len(text("")) == 2
    assert text_chain(parse_text(b'{"model":"m"}'))
