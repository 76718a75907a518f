"""What an upstream reads for what a client asked. Numbers are those of the contract's list of edge cases."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.chat import chain, chat_body, tool_names
from slotline.core.anthropic.request import parse
from slotline.core.anthropic.turns import conversation
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Terms
from slotline.core.seats import shared

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
KINDS = list(Kind)


def body(kind: Kind = Kind.OPENAI, options: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    sent = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]} | fields
    raw = chat_body(parse(json.dumps(sent).encode()), model="target", kind=kind, **(options or {}))
    mapped: dict[str, Any] = json.loads(raw)
    return mapped


def messages(*sent: tuple[str, Any], kind: Kind = Kind.OPENAI, **fields: Any) -> list[dict[str, Any]]:
    turns = [{"role": role, "content": content} for role, content in sent]
    mapped: list[dict[str, Any]] = body(kind, messages=turns, **fields)["messages"]
    return mapped


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def use(call: str, name: str = "n", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def result(call: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def called(call: str, name: str = "n", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}


# ---- the whole body --------------------------------------------------------------------------------------------------


def test_the_upstream_is_always_asked_for_a_stream_with_usage() -> None:
    for stream in (True, False):
        mapped = body(stream=stream)
        assert mapped["model"] == "target"
        assert mapped["stream"] is True
        assert mapped["stream_options"] == {"include_usage": True}


def test_a_server_of_kind_openai_is_sent_nothing_that_openai_does_not_document() -> None:
    mapped = body(
        temperature=1, top_p=1, top_k=5, stop_sequences=["X"], thinking={"type": "enabled"}, metadata={"user_id": "u"}
    )
    assert set(mapped) == {
        "model", "stream", "stream_options", "messages", "max_tokens", "temperature", "top_p", "stop",
    }  # fmt: skip


def test_llama_cpp_is_asked_for_its_progress_and_to_keep_the_prompt() -> None:
    mapped = body(Kind.LLAMA_CPP)
    assert mapped["return_progress"] is True
    assert mapped["cache_prompt"] is True


def test_11_max_tokens_is_cut_to_what_the_context_has_room_for() -> None:
    """B92. Case 11."""
    assert body(max_tokens=128_000)["max_tokens"] == 128_000
    assert 8000 < body(max_tokens=128_000, options={"context": 8192})["max_tokens"] < 8192
    assert body(max_tokens=100, options={"context": 8192})["max_tokens"] == 100
    long = [{"role": "user", "content": "word " * 20_000}]
    assert body(max_tokens=128_000, messages=long, options={"context": 8192})["max_tokens"] == 1024


def test_11_max_tokens_0_is_1_upstream() -> None:
    """Case 11 and contract 3.6."""
    assert body(max_tokens=0)["max_tokens"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_12_unknown_and_foreign_fields_do_not_reach_the_upstream(kind: Kind) -> None:
    """Case 12."""
    marked = [{**text("hi"), "cache_control": {"type": "ephemeral"}, "citations": []}]
    extra: dict[str, Any] = {
        "context_management": {"edits": []},
        "speed": "fast",
        "service_tier": "auto",
        "brand_new": 1,
    }
    tools = [
        {"name": "a", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}, "defer_loading": True}
    ]
    assert body(kind, messages=[{"role": "user", "content": marked}], tools=tools, **extra) == body(
        kind, tools=[{"name": "a", "input_schema": {"type": "object"}}]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_changed_changes_the_bytes_of_the_next_turn(kind: Kind) -> None:
    """The attribution line differs in every request, and the prompt before the last message must not."""

    def turn(number: int, *more: dict[str, Any]) -> bytes:
        sent = {
            "model": "m",
            "max_tokens": 10 * number,
            "system": [text(f"x-anthropic-billing-header: cch={number};"), text("Be kind.")],
            "tools": [{"name": "b", "input_schema": {"properties": {"z": {}, "a": {}}}}, {"name": "a"}],
            "thinking": {"type": "adaptive"},
            "messages": [
                {"role": "user", "content": [text("q"), IMAGE]},
                {"role": "system", "content": "<system-reminder>r</system-reminder>"},
                *more,
            ],
        }
        return chat_body(parse(json.dumps(sent).encode()), model="target", kind=kind)

    first = turn(1)
    again = turn(
        2, {"role": "assistant", "content": [text("a"), use("t", "b")]}, {"role": "user", "content": [result("t")]}
    )
    assert first == turn(1)
    prefix, mark, _ = first.partition(b'],"max_tokens"')
    assert mark
    assert again.startswith(prefix + b",")


# ---- system ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("be kind", ["be kind"]),
        ([text("a"), text("b")], ["a\n\nb"]),
        ("", []),
        ([], []),
    ],
)
def test_14_the_system_prompt_is_one_leading_message_or_none(system: Any, expected: list[str]) -> None:
    """Case 14."""
    mapped = messages(("user", "hi"), system=system)
    assert [message["content"] for message in mapped if message["role"] == "system"] == expected
    assert mapped[-1] == {"role": "user", "content": "hi"}


def test_15_the_attribution_line_does_not_reach_the_upstream() -> None:
    """Case 15."""
    mapped = messages(("user", "hi"), system=[text("x-anthropic-billing-header: cch=1;"), text("a"), text("b")])
    assert mapped[0] == {"role": "system", "content": "a\n\nb"}


def test_16_a_system_message_at_the_end_follows_the_question_as_the_users_words() -> None:
    """B71. Case 16."""
    mapped = messages(("user", "question"), ("system", [text("<system-reminder>r</system-reminder>")]), system="s")
    assert mapped == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "question\n<system-reminder>r</system-reminder>"},
    ]


def test_16_a_system_message_between_call_and_result_does_not_part_them() -> None:
    """Case 16."""
    mapped = messages(("user", "q"), ("assistant", [use("t")]), ("system", "note"), ("user", [result("t", "r")]))
    assert [message["role"] for message in mapped] == ["user", "assistant", "tool", "user"]
    assert mapped[-1]["content"] == "note"


def test_17_a_system_message_at_the_front_joins_the_system_prompt() -> None:
    """Case 17."""
    assert messages(("system", "b"), ("system", "c"), ("user", "q"), system="a") == [
        {"role": "system", "content": "a\n\nb\n\nc"},
        {"role": "user", "content": "q"},
    ]


def test_17_a_system_message_alone_is_what_is_to_be_answered() -> None:
    """Case 17."""
    assert messages(("system", "do it")) == [{"role": "user", "content": "do it"}]
    assert messages(("system", "do it"), ("user", "")) == [{"role": "user", "content": "do it"}]


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_19_an_empty_user_turn_is_dropped_and_its_neighbours_are_merged() -> None:
    """Case 19."""
    assert messages(("user", "a"), ("assistant", "b"), ("user", []), ("assistant", "c"), ("user", "d")) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "bc"},
        {"role": "user", "content": "d"},
    ]


@pytest.mark.parametrize("empty", ["", [], [text("")], [{"type": "redacted_thinking", "data": "x"}]])
def test_19_an_empty_assistant_turn_keeps_its_place(empty: Any) -> None:
    """Case 19."""
    mapped = messages(("user", "a"), ("assistant", empty), ("user", "b"))
    assert mapped[1] == {"role": "assistant", "content": ""}
    assert len(mapped) == 3


def test_20_neighbours_of_one_role_are_merged() -> None:
    """B95. Case 20."""
    assert messages(("user", "a"), ("user", [text("b"), text("c")]))[0]["content"] == "a\nb\nc"
    mapped = messages(("user", "a"), ("assistant", [use("s")]), ("assistant", [use("t")]), ("user", [result("t", "r")]))
    assert mapped[1]["tool_calls"] == [called("s"), called("t")]


@pytest.mark.parametrize("kind", KINDS)
def test_21_a_last_assistant_message_is_the_beginning_of_the_answer(kind: Kind) -> None:
    """Case 21."""
    sent = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "It is"}]
    mapped = body(kind, messages=sent, thinking={"type": "adaptive"})
    assert mapped["messages"][-1] == {"role": "assistant", "content": "It is"}
    continued = {"continue_final_message": True, "add_generation_prompt": False}
    assert (mapped.items() >= continued.items()) is (kind is Kind.VLLM)
    if kind is Kind.LLAMA_CPP:
        assert mapped["chat_template_kwargs"] == {"enable_thinking": False}, "it refuses to continue while thinking"


@pytest.mark.parametrize("empty", ["", [{"type": "thinking", "thinking": "hm"}]])
def test_21_an_empty_beginning_of_an_answer_is_none(empty: Any) -> None:
    """Case 21."""
    assert messages(("user", "q"), ("assistant", empty)) == [{"role": "user", "content": "q"}]
    assert "continue_final_message" not in body(Kind.VLLM)


# ---- images and documents --------------------------------------------------------------------------------------------


def test_22_an_image_keeps_its_place_among_the_words() -> None:
    """Case 22."""
    (message,) = messages(("user", [text("a"), IMAGE, text("b")]))
    assert message["content"] == [text("a"), PART, text("b")]


def test_22_an_upstream_is_never_told_an_address() -> None:
    """Case 22: what may be fetched was fetched before (`attachments`)."""

    def sent(url: str) -> list[Any]:
        return [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}]

    for url in (
        "http://127.0.0.1:1/x.png",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "https://pictures.example/a",
    ):
        with pytest.raises(Invalid, match=r"^messages\.0\.content\.0\.source\.url: images by URL are not fetched here"):
            body(messages=sent(url))
    data = f"data:image/png;base64,{PNG}"
    assert body(messages=sent(data))["messages"][0]["content"] == [PART], "a data URL is fetched from nowhere"


def test_22_an_image_for_a_model_that_cannot_see_is_refused_with_the_models_name() -> None:
    """Case 22."""
    with pytest.raises(Invalid, match="the model 'm' cannot see images"):
        body(messages=[{"role": "user", "content": [IMAGE]}], options={"vision": False})


PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}


def test_23_a_pdf_that_nobody_opened_is_refused() -> None:
    """Case 23: nothing is left out of a question in silence."""
    with pytest.raises(Invalid, match=r"^messages\.0\.content\.0\.source: PDF documents are not opened here"):
        messages(("user", [PDF]))


def test_24_a_pdf_of_a_result_that_nobody_opened_is_named_to_the_model() -> None:
    """Case 24."""
    mapped = messages(("user", "q"), ("assistant", [use("t")]), ("user", [result("t", [PDF])]))
    assert "[PDF left out: PDF documents are not opened here; send the text]" in mapped[2]["content"]


def test_23_a_document_is_words_in_its_place() -> None:
    """Case 23."""
    document = {
        "type": "document",
        "title": "T",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
    }
    (message,) = messages(("user", [text("read"), document]))
    assert message["content"] == "read\n[document: T]\nwords"


# ---- tool results ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("done", "done"),
        ([text("a"), text("b")], "a\nb"),
        (None, ""),
        ([{"type": "tool_reference", "tool_name": "grep"}], "tool grep is now available"),
        ("bell \x07 and \u2028", "bell \x07 and \u2028"),
    ],
)
def test_24_a_tool_result_is_the_text_of_a_tool_message(content: Any, expected: str) -> None:
    """Case 24."""
    mapped = messages(("user", "q"), ("assistant", [use("t")]), ("user", [result("t", content)]))
    assert mapped[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [called("t")]},
        {"role": "tool", "tool_call_id": "t", "content": expected},
    ]


def test_24_images_of_a_result_follow_in_a_message_of_the_user() -> None:
    """B85. Case 24."""
    mapped = messages(
        ("user", "q"), ("assistant", [use("t")]), ("user", [result("t", [text("shot"), IMAGE]), text("so?")])
    )
    assert mapped[2:] == [
        {"role": "tool", "tool_call_id": "t", "content": "shot"},
        {"role": "user", "content": [PART, text("so?")]},
    ]
    alone = messages(("user", "q"), ("assistant", [use("t")]), ("user", [result("t", [IMAGE])]))
    assert alone[2]["content"] == "[an image; it follows]"


def test_24_an_image_of_a_result_that_may_not_go_on_is_named_to_the_model() -> None:
    """Case 24: the tool has run, and a refusal would come again with every further turn."""
    sent = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [use("t")]},
        {"role": "user", "content": [result("t", [IMAGE])]},
    ]
    mapped = body(messages=sent, options={"vision": False})
    assert mapped["messages"][2]["content"] == "[image left out: the model 'm' cannot see images]"
    assert len(mapped["messages"]) == 3
    assert PNG not in json.dumps(mapped)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("no such file", "Error: no such file"),
        ("Error: no such file", "Error: no such file"),
        ("<tool_use_error>no</tool_use_error>", "<tool_use_error>no</tool_use_error>"),
        (None, "Error: the tool failed and said nothing"),
    ],
)
def test_25_a_result_that_is_an_error_says_so(content: Any, expected: str) -> None:
    """Case 25."""
    mapped = messages(("user", "q"), ("assistant", [use("t")]), ("user", [result("t", content, is_error=True)]))
    assert mapped[-1]["content"] == expected


def test_26_results_come_before_the_users_words() -> None:
    """B84. Case 26."""
    mapped = messages(("user", "q"), ("assistant", [use("t")]), ("user", [text("note"), result("t", "r"), text("go")]))
    assert [(message["role"], message["content"]) for message in mapped[2:]] == [("tool", "r"), ("user", "note\ngo")]


def test_27_results_come_in_the_order_of_their_calls() -> None:
    """Case 27."""
    mapped = messages(
        ("user", "q"), ("assistant", [use("s"), use("t")]), ("user", [result("t", "2"), result("s", "1")])
    )
    assert [(message["tool_call_id"], message["content"]) for message in mapped[2:]] == [("s", "1"), ("t", "2")]


def test_27_two_results_of_one_call_both_stay_in_order() -> None:
    """Case 27 and contract 2.3, step 5."""
    mapped = messages(("user", "q"), ("assistant", [use("t")]), ("user", [result("t", "1"), result("t", "2")]))
    assert [message["content"] for message in mapped[2:]] == ["1", "2"]
    twins = messages(("user", "q"), ("assistant", [use("t"), use("t")]), ("user", [result("t", "1"), result("t", "2")]))
    assert [message["content"] for message in twins[2:]] == ["1", "2"]


@pytest.mark.parametrize("after", [[], [("user", "go on")], [("user", [])], [("user", [result("other", "x")])]])
def test_28_a_call_without_a_result_gets_one_that_says_so(after: list[Any]) -> None:
    """Case 28."""
    mapped = messages(("user", "q"), ("assistant", [text("a"), use("t")]), *after)
    assert mapped[2] == {"role": "tool", "tool_call_id": "t", "content": "[no result]"}


def test_29_a_result_of_no_call_becomes_the_users_words() -> None:
    """Case 29."""
    mapped = messages(("user", [result("gone", "42"), text("so?")]))
    assert mapped == [{"role": "user", "content": "[result of a tool call that is not in this conversation]\n42\nso?"}]


# ---- reasoning and server-side history -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (Kind.LLAMA_CPP, "reasoning_content"),
        (Kind.SGLANG, "reasoning_content"),
        (Kind.OPENAI, "reasoning_content"),
        (Kind.VLLM, "reasoning"),
        (Kind.OLLAMA, "reasoning"),
    ],
)
def test_30_what_the_model_thought_goes_back_under_the_key_of_the_kind(kind: Kind, key: str) -> None:
    """B89. Case 30."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "foreign"},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "thinking", "thinking": "more", "signature": ""},
        text("so"),
    ]
    mapped = messages(("user", "q"), ("assistant", content), ("user", "r"), kind=kind)
    assert mapped[1] == {"role": "assistant", "content": "so", key: "hm\nmore"}


def test_31_server_side_history_is_words() -> None:
    """B89. Case 31."""
    found = {
        "type": "web_search_tool_result",
        "content": [{"type": "web_search_result", "title": "A", "url": "http://a"}],
    }
    content = [
        text("I look."),
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        found,
        text("Yes."),
    ]
    mapped = messages(("user", "q"), ("assistant", content), ("user", "r"))
    assert mapped[1] == {"role": "assistant", "content": "I look.\n[web_search: A - http://a]\nYes."}


# ---- tools -----------------------------------------------------------------------------------------------------------

TOOL = {"name": "w", "description": "Weather.", "input_schema": {"type": "object", "properties": {"b": {}, "a": {}}}}
FUNCTION = {"name": "w", "description": "Weather.", "parameters": TOOL["input_schema"]}


@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": "custom"}])
def test_32_a_tool_is_a_function(kind: dict[str, Any]) -> None:
    """Case 32."""
    assert body(tools=[kind | TOOL])["tools"] == [{"type": "function", "function": FUNCTION}]
    strict = body(tools=[TOOL | {"strict": True}])["tools"][0]["function"]
    assert strict == FUNCTION | {"strict": True}


def test_33_tools_of_the_vendors_servers_do_not_reach_the_upstream() -> None:
    """Case 33."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert [tool["function"]["name"] for tool in body(tools=[search, TOOL])["tools"]] == ["w"]
    assert "tools" not in body(tools=[search])


NAMED = {"type": "function", "function": {"name": "w"}}


@pytest.mark.parametrize(
    ("choice", "kind", "expected"),
    [
        ({"type": "auto"}, Kind.VLLM, "auto"),
        ({"type": "any"}, Kind.VLLM, "required"),
        ({"type": "none"}, Kind.VLLM, "none"),
        ({"type": "tool", "name": "w"}, Kind.VLLM, NAMED),
        ({"type": "tool", "name": "w"}, Kind.SGLANG, NAMED),
        ({"type": "tool", "name": "w"}, Kind.OPENAI, NAMED),
        ({"type": "tool", "name": "w"}, Kind.LLAMA_CPP, "required"),
        ({"type": "tool", "name": "w"}, Kind.OLLAMA, "required"),
        ({"type": "any"}, Kind.LLAMA_CPP, "required"),
        (None, Kind.VLLM, None),
    ],
)
def test_34_the_choice_of_tools_is_said_in_the_words_of_the_kind(choice: Any, kind: Kind, expected: Any) -> None:
    """B86. Case 34."""
    mapped = body(kind, tools=[TOOL, {"name": "other"}], tool_choice=choice)
    assert mapped.get("tool_choice") == expected
    assert "parallel_tool_calls" not in mapped
    forced_by_offer = choice == {"type": "tool", "name": "w"} and expected == "required"
    names = [tool["function"]["name"] for tool in mapped["tools"]]
    assert names == (["w"] if forced_by_offer else ["w", "other"]), (
        "a kind that cannot name one tool is offered only it"
    )


def test_34_ollama_is_kept_from_tools_by_offering_none() -> None:
    """Case 34."""
    mapped = body(Kind.OLLAMA, tools=[TOOL], tool_choice={"type": "none"})
    assert "tools" not in mapped
    assert "tool_choice" not in mapped


@pytest.mark.parametrize("kind", KINDS)
def test_34_one_call_at_a_time_is_asked_for(kind: Kind) -> None:
    """Case 34."""
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert body(kind, tools=[TOOL], tool_choice=choice)["parallel_tool_calls"] is False


@pytest.mark.parametrize("tools", [[], None])
def test_35_without_tools_neither_they_nor_a_choice_are_sent(tools: Any) -> None:
    """B86. Case 35."""
    mapped = body(tools=tools, tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(mapped)


def test_36_a_long_name_comes_back_as_it_was() -> None:
    """B93. Case 36."""
    long, dotted = "n" * 128, "mcp.server.tool"
    sent = {
        "model": "m",
        "max_tokens": 1,
        "tools": [{"name": long}, TOOL],
        "tool_choice": {"type": "tool", "name": long},
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [use("t", dotted), use("u", long)]},
        ],
    }
    request = parse(json.dumps(sent).encode())
    mapped = json.loads(chat_body(request, model="x", kind=Kind.VLLM))
    upstream = mapped["tools"][0]["function"]["name"]
    assert len(upstream) == 64
    assert mapped["tool_choice"]["function"]["name"] == upstream
    calls = [call["function"]["name"] for call in mapped["messages"][1]["tool_calls"]]
    assert calls[1] == upstream
    assert tool_names(request) == {upstream: long, calls[0]: dotted}


# ---- thinking, effort, format, stop ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thinking", "on"),
    [
        ({"type": "enabled", "budget_tokens": 2000}, True),
        ({"type": "enabled"}, True),
        ({"type": "adaptive"}, True),
        ({"type": "between_tools"}, True),
        ({"type": "disabled"}, False),
        (None, False),
    ],
)
def test_37_thinking_is_on_or_off_in_the_words_of_the_kind(thinking: Any, on: bool) -> None:
    """Case 37; a request that says nothing gets none, as on the vendor's API."""
    for kind in (Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG):
        mapped = body(kind, thinking=thinking)
        assert mapped["chat_template_kwargs"] == {"enable_thinking": on}
        budget = (thinking or {}).get("budget_tokens") if kind is Kind.LLAMA_CPP else None
        assert mapped.get("thinking_budget_tokens") == budget
    assert body(Kind.OLLAMA, thinking=thinking).get("reasoning_effort") == (None if on else "none")
    assert {"chat_template_kwargs", "reasoning_effort"}.isdisjoint(body(Kind.OPENAI, thinking=thinking))


# ---- what the gateway asks besides -----------------------------------------------------------------------------------


def termed(terms: Terms, kind: Kind = Kind.LLAMA_CPP, **fields: Any) -> dict[str, Any]:
    return body(kind, {"terms": terms}, **fields)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_is_named_to_a_server_that_lets_one_choose(kind: Kind) -> None:
    mapped = termed(Terms(slot=0), kind)
    assert mapped.get("id_slot") == (0 if kind is Kind.LLAMA_CPP else None)
    assert "id_slot" not in termed(Terms(), kind)


THINKS = {"type": "enabled", "budget_tokens": 2000}


@pytest.mark.parametrize(
    ("cap", "thinking", "told"),
    [
        (500, THINKS, 500),
        (5000, THINKS, 2000),
        (None, THINKS, 2000),
        (500, {"type": "adaptive"}, 500),
        (500, {"type": "disabled"}, 500),
        (500, None, 500),
        (None, {"type": "adaptive"}, None),
    ],
)
def test_the_smaller_of_cap_and_budget_is_told_and_can_be_enforced(
    cap: int | None, thinking: Any, told: int | None
) -> None:
    """Also where no thinking is asked for: some templates think whatever they are told."""
    mapped = termed(Terms(thinking_cap=cap), thinking=thinking)
    assert mapped.get("thinking_budget_tokens") == told
    assert mapped.get("reasoning_control") == (None if told is None else True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Kind.LLAMA_CPP])
def test_a_bound_is_told_only_to_servers_that_know_it(kind: Kind) -> None:
    assert termed(Terms(thinking_cap=500), kind, thinking=THINKS) == body(kind, thinking=THINKS)


def test_a_budget_of_0_asks_for_no_thinking() -> None:
    mapped = termed(Terms(thinking_cap=500), thinking={"type": "enabled", "budget_tokens": 0})
    assert mapped["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_is_asked_again_does_not_think_and_is_the_same_otherwise(kind: Kind) -> None:
    effort = {"output_config": {"effort": "high"}, "thinking": THINKS}
    again = termed(Terms(slot=1, think=False), kind, **effort)
    never = termed(Terms(slot=1), kind, thinking={"type": "disabled"}, output_config={"effort": "high"})
    assert {**again, "thinking_budget_tokens": None, "reasoning_control": None} == {
        **never,
        "thinking_budget_tokens": None,
        "reasoning_control": None,
    }


def test_37_an_effort_asks_for_thinking_unless_it_is_disabled() -> None:
    """Case 37."""
    asked = body(Kind.VLLM, output_config={"effort": "low"})
    assert asked["chat_template_kwargs"] == {"enable_thinking": True}
    assert asked["reasoning_effort"] == "low"
    off = {"output_config": {"effort": "low"}, "thinking": {"type": "disabled"}}
    assert "reasoning_effort" not in body(Kind.VLLM, **off)
    assert body(Kind.OLLAMA, **off)["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    ("kind", "strongest"),
    [
        (Kind.SGLANG, "max"),
        (Kind.OLLAMA, "max"),
        (Kind.VLLM, "high"),
        (Kind.LLAMA_CPP, "high"),
        (Kind.OPENAI, "high"),
    ],
)
def test_38_the_highest_efforts_are_the_strongest_that_the_kind_knows(kind: Kind, strongest: str) -> None:
    """Case 38."""
    for effort in ("xhigh", "max"):
        assert body(kind, output_config={"effort": effort})["reasoning_effort"] == strongest
    assert body(kind, output_config={"effort": "medium"})["reasoning_effort"] == "medium"


@pytest.mark.parametrize("kind", KINDS)
def test_38_a_format_is_a_response_format(kind: Kind) -> None:
    """Case 38."""
    schema = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {}}}
    expected = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    form = {"type": "json_schema", "schema": schema}
    assert body(kind, output_config={"format": form})["response_format"] == expected
    assert body(kind, output_format=form)["response_format"] == expected


def test_39_stop_sequences_reach_the_upstream() -> None:
    """B80. Case 39, the request's half."""
    assert body(stop_sequences=["X", "Y"])["stop"] == ["X", "Y"]


def test_40_empty_stop_sequences_do_not() -> None:
    """Case 40."""
    assert body(stop_sequences=["", "X"])["stop"] == ["X"]
    assert "stop" not in body(stop_sequences=[""])


@pytest.mark.parametrize(
    ("kind", "sent"), [(Kind.LLAMA_CPP, 5), (Kind.VLLM, 5), (Kind.SGLANG, 5), (Kind.OLLAMA, None), (Kind.OPENAI, None)]
)
def test_41_sampling_is_passed_where_it_is_known(kind: Kind, sent: int | None) -> None:
    """Case 41."""
    mapped = body(kind, temperature=0.5, top_p=0.5, top_k=5)
    assert (mapped["temperature"], mapped["top_p"], mapped.get("top_k")) == (0.5, 0.5, sent)


@pytest.mark.parametrize("kind", KINDS)
def test_42_the_user_id_stays_here(kind: Kind) -> None:
    """Case 42."""
    assert "MARKER" not in json.dumps(body(kind, metadata={"user_id": "MARKER"}))


# ---- any request at all ----------------------------------------------------------------------------------------------

words = st.text(max_size=12)
ids = st.sampled_from(["t1", "t2", "t3"])
texts = st.builds(text, words)
user_blocks = st.one_of(
    texts,
    st.just(IMAGE),
    st.builds(
        result, ids, st.one_of(words, st.lists(st.one_of(texts, st.just(IMAGE)), max_size=2)), is_error=st.booleans()
    ),
)
assistant_blocks = st.one_of(
    texts,
    st.builds(use, ids, st.sampled_from(["n", "a.b"]), q=words),
    st.builds(lambda said: {"type": "thinking", "thinking": said, "signature": "s"}, words),
    st.just({"type": "redacted_thinking", "data": "x"}),
    st.just({"type": "web_search_tool_result", "tool_use_id": "w", "content": []}),
)


def turns(role: str, content: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda said: {"role": role, "content": said}, st.one_of(words, st.lists(content, max_size=4)))


talks = st.lists(
    st.one_of(turns("user", user_blocks), turns("assistant", assistant_blocks), turns("system", texts)), max_size=8
).map(lambda talk: [*talk, {"role": "user", "content": "last"}])


def assert_in_order(mapped: list[dict[str, Any]]) -> None:
    """OpenAI's rules, and those of strict chat templates."""
    open_calls: set[str] = set()
    previous = ""
    for index, message in enumerate(mapped):
        role = message["role"]
        assert role != "system" or index == 0, "system only first"
        assert role != previous or role == "tool", "user and assistant alternate"
        if role == "tool":
            assert previous in {"assistant", "tool"}, "results directly follow their calls"
            assert message["tool_call_id"] in open_calls
            assert isinstance(message["content"], str)
        elif role == "assistant":
            open_calls = {call["id"] for call in message.get("tool_calls", [])}
            assert isinstance(message["content"], str)
        elif role == "user":
            assert message["content"]
            open_calls = set()
        previous = role


@given(talks, st.sampled_from(KINDS), st.one_of(st.none(), words))
def test_any_conversation_becomes_one_that_strict_templates_take(
    talk: list[Any], kind: Kind, system: str | None
) -> None:
    mapped = body(kind, messages=talk, system=system)["messages"]
    assert_in_order(mapped)
    answered: list[str] = [message["tool_call_id"] for message in mapped if message["role"] == "tool"]
    for message in mapped:
        for call in message.get("tool_calls", []):
            assert call["id"] in answered, "every call has its result"
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


@given(talks)
def test_no_word_of_a_user_and_no_image_is_lost(talk: list[Any]) -> None:
    mapped = json.dumps(body(messages=talk)["messages"])
    images = json.dumps(talk).count('"type": "base64"')
    assert mapped.count("image_url") == 2 * images
    for message in talk:
        content = message["content"]
        for block in [text(content)] if isinstance(content, str) else content:
            if block["type"] == "text":
                assert json.dumps(block["text"])[1:-1] in mapped


def links(talk: list[Any], **fields: Any) -> tuple[int, ...]:
    sent = {"model": "m", "max_tokens": 10, "messages": talk} | fields
    return chain(parse(json.dumps(sent).encode()))


@given(talks, talks)
def test_two_conversations_share_links_exactly_as_far_as_they_are_the_same(one: list[Any], other: list[Any]) -> None:
    for first, second in ((one, other), (one, [*one, {"role": "assistant", "content": "answer"}, *other])):
        left, right = (
            conversation(parse(json.dumps({"model": "m", "max_tokens": 1, "messages": talk}).encode()))
            for talk in (first, second)
        )
        pairs = zip(left.turns, right.turns, strict=False)
        same = 0
        if left.system == right.system:
            same = 1 + next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left.turns), len(right.turns)))
        assert shared(links(first), links(second)) == same
        assert (len(links(first)), len(links(second))) == (1 + len(left.turns), 1 + len(right.turns))


OFFERED = {"name": "a", "description": "d", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"system": "be brief"},
        {"tools": []},
        {"tools": [{**OFFERED, "name": "b"}]},
        {"tools": [{**OFFERED, "description": "other"}]},
        {"tools": [{**OFFERED, "input_schema": {"type": "object", "properties": {}}}]},
    ],
)
def test_conversations_that_begin_with_another_prompt_share_nothing(change: dict[str, Any]) -> None:
    talk = [{"role": "user", "content": "hi"}]
    assert shared(links(talk, tools=[OFFERED]), links(talk, **{"tools": [OFFERED], **change})) == 0


def test_what_changes_no_prompt_changes_no_link() -> None:
    talk = [{"role": "user", "content": "hi"}]
    plain = links(talk)
    assert links(talk, max_tokens=99, temperature=1, stream=True, metadata={"user_id": "u"}) == plain
    marked = [{"role": "user", "content": [{**text("hi"), "cache_control": {"type": "ephemeral"}}]}]
    assert links(marked) == plain


@given(talks, talks)
def test_what_is_added_to_a_conversation_changes_nothing_before_it(talk: list[Any], more: list[Any]) -> None:
    """Prompt caches live from it. The answer comes between, as it does in a real conversation."""
    before = body(messages=talk)["messages"]
    after = body(messages=[*talk, {"role": "assistant", "content": "answer"}, *more])["messages"]
    assert after[: len(before)] == before


@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda said: {"type": "thinking", "thinking": said, "signature": "made here"}, st.text(min_size=1)
            ),
            st.builds(text, st.text(min_size=1)),
            st.builds(use, st.uuids().map(str), st.just("n"), q=words),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(KINDS),
)
def test_an_answer_that_the_client_sends_back_keeps_its_meaning(answer: list[Any], kind: Kind) -> None:
    """The blocks of an answer, echoed as the official SDKs echo them, with the result of each call."""
    calls = [block for block in answer if block["type"] == "tool_use"]
    results = [result(call["id"], f"result of {call['id']}") for call in calls] or [text("and?")]
    mapped = messages(("user", "q"), ("assistant", answer), ("user", results), kind=kind)
    said = mapped[1]
    assert said["content"] == "".join(block["text"] for block in answer if block["type"] == "text")
    thought = "\n".join(block["thinking"] for block in answer if block["type"] == "thinking")
    assert (said.get("reasoning") or said.get("reasoning_content") or "") == thought
    sent_back = [(call["id"], json.loads(call["function"]["arguments"])) for call in said.get("tool_calls", [])]
    assert sent_back == [(call["id"], call["input"]) for call in calls]
    given_back = [(message["tool_call_id"], message["content"]) for message in mapped if message["role"] == "tool"]
    assert given_back == [(call["id"], f"result of {call['id']}") for call in calls]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["type", "text", "content"]), inner)
    ),
    max_leaves=6,
)
FIELDS: list[str] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
]


@given(st.sampled_from(FIELDS), json_values)
def test_nonsense_in_a_field_is_refused_by_name_or_mapped_and_nothing_else(field: str, value: Any) -> None:
    try:
        mapped = body(**{field: value})
    except Invalid as error:
        named = str(error).partition(".")[0].partition(":")[0]
    else:
        named = field
        assert_in_order(mapped["messages"])
    assert named == field


def nest(block: Any) -> list[Any]:
    return [{"role": "user", "content": [block]}]


PLACES: list[Callable[[Any], dict[str, Any]]] = [
    lambda value: {"messages": nest({"type": "text", "text": value})},
    lambda value: {"messages": nest({"type": "image", "source": value})},
    lambda value: {"messages": nest({"type": "document", "source": value})},
    lambda value: {"messages": nest({"type": "tool_result", "tool_use_id": "t", "content": value})},
    lambda value: {"messages": nest({"type": "web_search_tool_result", "content": value})},
    lambda value: {"messages": nest({"type": "search_result", "content": value})},
    lambda value: {"messages": [value]},
    lambda value: {"tools": [value]},
    lambda value: {"tools": [{"name": "a", "input_schema": value}]},
]


@given(st.sampled_from(PLACES), json_values)
def test_nonsense_deep_inside_is_refused_by_its_path_or_mapped(
    place: Callable[[Any], dict[str, Any]], value: Any
) -> None:
    fields = place(value)
    (field,) = fields
    named = field
    try:
        body(**fields)
    except Invalid as error:
        named = str(error).partition(".")[0].partition(":")[0]
    assert named == field
