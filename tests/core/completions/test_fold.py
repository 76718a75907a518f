"""Chunks folded into one answer: known fields as OpenAI documents them, unknown ones by what they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from slotline.core.completions.fold import Fold

SAME = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}


def folded(*chunks: dict[str, Any], kind: str = "chat.completion") -> dict[str, Any]:
    fold = Fold(kind)
    for chunk in chunks:
        fold.add(msgspec.json.encode(SAME | chunk))
    whole: dict[str, Any] = msgspec.json.decode(fold.encode())
    return whole


def said(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def message(*deltas: dict[str, Any]) -> dict[str, Any]:
    whole = folded(*(said(**delta) for delta in deltas))
    made: dict[str, Any] = whole["choices"][0]["message"]
    return made


def calls(*pieces: Any) -> list[Any]:
    made: list[Any] = message(*({"tool_calls": list(each)} for each in pieces))["tool_calls"]
    return made


def piece(index: int | None, identity: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    made: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    return made | ({"id": identity, "type": "function"} if identity else {})


def test_an_ordinary_answer() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    chunks = [
        said(role="assistant", content=None),
        said(content="one"),
        said(content=" two"),
        said("stop"),
        {"choices": [], "usage": usage},
    ]
    assert folded(*chunks) == {
        **SAME,
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"},
        ],
        "usage": usage,
    }


def test_texts_grow_also_unknown_ones_and_what_names_things_does_not() -> None:
    grown = message(
        {"role": "assistant", "reasoning_content": "a", "poem": "x"},
        {"role": "assistant", "reasoning_content": "b", "poem": "y", "content": ""},
        {"role": None, "content": "z"},
    )
    assert grown == {"role": "assistant", "reasoning_content": "ab", "poem": "xy", "content": "z"}


def test_null_says_nothing() -> None:
    whole = folded({**said(content="x"), "usage": {"n": 1}, "tier": None}, {**said(content=None), "usage": None})
    assert whole["choices"][0]["message"]["content"] == "x"
    assert (whole["usage"], whole["tier"]) == ({"n": 1}, None)


def test_of_numbers_and_objects_the_latest_holds() -> None:
    whole = folded({**said(), "created": 1, "timings": {"a": 1, "b": 1}}, {**said(), "created": 2, "timings": {"a": 2}})
    assert (whole["created"], whole["timings"]) == (2, {"a": 2})


def test_log_probabilities_of_all_tokens_are_kept() -> None:
    def chunk(token: str) -> dict[str, Any]:
        logprobs = {"content": [{"token": token, "logprob": -1.5, "top_logprobs": []}], "refusal": None}
        return {"choices": [{"index": 0, "delta": {"content": token}, "logprobs": logprobs, "token_ids": [1]}]}

    (choice,) = folded(chunk("a"), {"choices": [{"index": 0, "delta": {}, "logprobs": None}]}, chunk("b"))["choices"]
    assert [each["token"] for each in choice["logprobs"]["content"]] == ["a", "b"]
    assert choice["token_ids"] == [1, 1]


def test_calls_are_put_together_by_their_index() -> None:
    made = calls(
        [piece(0, "call_a", "f", "")],
        [piece(0, None, None, '{"a"'), piece(1, "call_b", "g", "{")],
        [piece(1, None, None, "}"), piece(0, None, None, ":1}")],
    )
    assert made == [
        {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "call_b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        [[piece(0, "a", "f", "{}")], [piece(0, "b", "g", "[]")]],
        [[piece(0, "a", "f", "{}"), piece(0, "b", "g", "[]")]],
        [[piece(None, "a", "f", "{}")], [piece(None, "b", "g", "[]")]],
        [[piece(None, "a", "f", "{")], [piece(None, None, None, "}")], [piece(None, "b", "g", "[]")]],
        [[piece(0, "a", "f", "{")], [piece(0, "a", "f", "}")], [piece(1, "b", "g", "[]")]],
        [[piece(None, "a", "f", "{")], [piece(None, "a", "f", "}")], [piece(None, "b", "g", "[]")]],
    ],
    ids=["one index", "one index, one chunk", "no index", "no index, pieces", "repeated", "repeated, no index"],
)
def test_servers_that_count_calls_in_their_own_way_are_understood(pieces: list[Any]) -> None:
    made = calls(*pieces)
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in made] == [
        ("a", "f", "{}"),
        ("b", "g", "[]"),
    ]


def test_arguments_that_are_an_object_become_its_text() -> None:
    assert calls([piece(0, "a", "f", {"x": 1})])[0]["function"]["arguments"] == '{"x":1}'


def test_other_lists_grow_and_their_numbered_items_are_put_together() -> None:
    made = message(
        {"notes": [1], "details": [{"index": 0, "text": "a"}]},
        {"notes": [2], "details": [{"index": 0, "text": "b"}, {"index": 1, "text": "c"}]},
    )
    assert made["notes"] == [1, 2]
    assert made["details"] == [{"index": 0, "text": "ab"}, {"index": 1, "text": "c"}]


@pytest.mark.parametrize(
    ("delta", "content"),
    [
        ({"content": None}, ""),
        ({"content": ""}, ""),
        ({"reasoning_content": "x"}, ""),
        ({"tool_calls": [piece(0, "a", "f", "{}")], "content": ""}, None),
        ({"tool_calls": [piece(0, "a", "f", "{}")], "content": "x"}, "x"),
        ({"function_call": {"name": "f", "arguments": "{}"}}, None),
        ({"refusal": "no"}, None),
    ],
)
def test_an_answer_that_is_no_text_has_none(delta: dict[str, Any], content: str | None) -> None:
    made = message(delta)
    assert made["content"] == content
    assert made["role"] == "assistant"


def test_the_finish_reason_is_the_last_that_says_anything() -> None:
    (choice,) = folded(said("length"), said(""), said(None))["choices"]
    assert choice["finish_reason"] == "length"
    assert folded(said(content="x"))["choices"][0]["finish_reason"] is None


def test_a_plain_completion_is_its_text() -> None:
    def chunk(text: str, finish: str | None = None) -> dict[str, Any]:
        logprobs = {"tokens": [text], "token_logprobs": [-1.0]}
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}
        return {"object": "text_completion", "choices": [choice]}

    whole = folded(chunk("a"), chunk("b"), chunk("", "stop"), kind="text_completion")
    assert whole == {
        **SAME,
        "object": "text_completion",
        "choices": [
            {
                "index": 0,
                "text": "ab",
                "logprobs": {"tokens": ["a", "b", ""], "token_logprobs": [-1.0, -1.0, -1.0]},
                "finish_reason": "stop",
            }
        ],
    }


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": {"index": 0}},
        {"choices": [5, None]},
        {"choices": [{"index": "x", "delta": None}]},
        {"choices": [{"index": 0, "delta": "text"}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [5, {"function": 5}], "content": {"a": 1}}}]},
    ],
)
def test_nonsense_is_folded_without_a_fault(odd: dict[str, Any]) -> None:
    assert folded(odd, said(content="x"), odd)["object"] == "chat.completion"


def test_a_long_answer_is_folded_in_time_that_grows_with_its_length_only() -> None:
    fold = Fold("chat.completion")
    payload = msgspec.json.encode(said(content="x" * 100))
    for _ in range(20_000):
        fold.add(payload)
    assert len(msgspec.json.decode(fold.encode())["choices"][0]["message"]["content"]) == 2_000_000
