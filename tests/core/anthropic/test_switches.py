"""The same wish in the fields that each kind of server reads; what Anthropic's cases say of it is in `test_chat`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotline.core.anthropic import switches
from slotline.core.anthropic.chat import chat_body
from slotline.core.anthropic.request import parse
from slotline.core.kind import Kind, Terms

TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("weather", "clock")]
BEGUN = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "It is"}]
ON = {"type": "enabled", "budget_tokens": 2000}


def body(kind: Kind, terms: Terms | None = None, **fields: Any) -> dict[str, Any]:
    sent = {"model": "m", "max_tokens": 4000, "messages": [{"role": "user", "content": "q"}], **fields}
    made = chat_body(parse(json.dumps(sent).encode()), model="m", kind=kind, terms=terms or Terms())
    found: dict[str, Any] = json.loads(made)
    return found


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
def test_what_the_model_thought_goes_back_under_the_key_that_its_server_reads(kind: Kind, key: str) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = [thought, {"type": "text", "text": "a"}]
    history = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "r"},
    ]
    assistant = body(kind, messages=history)["messages"][1]
    assert assistant == {"role": "assistant", "content": "a", key: "hm"}


@pytest.mark.parametrize("kind", list(Kind))
def test_a_budget_is_told_to_the_one_kind_that_keeps_it(kind: Kind) -> None:
    told = body(kind, Terms(thinking_cap=500), thinking=ON)
    budgets = {"thinking_budget_tokens": 500, "reasoning_control": True}
    assert (told.items() >= budgets.items()) is (kind is Kind.LLAMA_CPP)
    assert "thinking_token_budget" not in told  # vLLM refuses it where it is not configured


@pytest.mark.parametrize(
    ("kind", "off"),
    [
        (Kind.LLAMA_CPP, {"chat_template_kwargs": {"enable_thinking": False}}),
        (Kind.VLLM, {"chat_template_kwargs": {"enable_thinking": False}}),
        (Kind.SGLANG, {"chat_template_kwargs": {"enable_thinking": False}}),
        (Kind.OLLAMA, {"reasoning_effort": "none"}),
        (Kind.OPENAI, {}),
    ],
)
def test_to_end_thinking_by_asking_again_it_is_switched_off_whatever_the_client_asked(
    kind: Kind, off: dict[str, Any]
) -> None:
    again = body(kind, Terms(think=False, thinking_cap=500), thinking=ON, output_config={"effort": "high"})
    keys = {"chat_template_kwargs", "reasoning_effort", "thinking"}
    assert {key: value for key, value in again.items() if key in keys} == off


@pytest.mark.parametrize("kind", list(Kind))
def test_a_begun_answer_is_continued_without_thinking_where_it_would_land_in_the_thoughts(kind: Kind) -> None:
    told = body(kind, messages=BEGUN, thinking=ON)
    assert told["messages"][-1] == BEGUN[-1]
    thinks = told.get("chat_template_kwargs", {}).get("enable_thinking")
    assert thinks is {Kind.LLAMA_CPP: False, Kind.SGLANG: False, Kind.VLLM: True}.get(kind)
    continues = {key: told[key] for key in ("continue_final_message", "add_generation_prompt") if key in told}
    both = {"continue_final_message": True, "add_generation_prompt": False}
    assert continues == {Kind.VLLM: both, Kind.SGLANG: {"continue_final_message": True}}.get(kind, {})
    assert "continue_final_message" not in body(kind, thinking=ON)


@pytest.mark.parametrize(
    ("kind", "offered", "choice"),
    [
        (Kind.LLAMA_CPP, ["clock"], "required"),
        (Kind.OLLAMA, ["clock"], "required"),
        (Kind.VLLM, ["weather", "clock"], {"type": "function", "function": {"name": "clock"}}),
        (Kind.SGLANG, ["weather", "clock"], {"type": "function", "function": {"name": "clock"}}),
        (Kind.OPENAI, ["weather", "clock"], {"type": "function", "function": {"name": "clock"}}),
    ],
)
def test_a_tool_that_must_be_used_is_named_or_offered_alone(kind: Kind, offered: list[str], choice: Any) -> None:
    told = body(kind, tools=TOOLS, tool_choice={"type": "tool", "name": "clock"})
    assert [tool["function"]["name"] for tool in told["tools"]] == offered
    assert told["tool_choice"] == choice


@pytest.mark.parametrize("kind", list(Kind))
def test_tools_that_must_not_be_used_are_not_offered_where_the_choice_is_not_read(kind: Kind) -> None:
    told = body(kind, tools=TOOLS, tool_choice={"type": "none"})
    assert ("tools" in told) is (kind is not Kind.OLLAMA)
    assert told.get("tool_choice") == (None if kind is Kind.OLLAMA else "none")


@pytest.mark.parametrize("kind", list(Kind))
def test_top_k_goes_to_those_who_know_it(kind: Kind) -> None:
    assert ("top_k" in body(kind, top_k=40)) is (kind in {Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG})


@pytest.mark.parametrize("off", [0, -1])
def test_no_top_k_is_spelled_as_each_server_reads_it(off: int) -> None:
    """SGLang refuses 0, and llama.cpp's own route takes -1 too."""
    spelled = {kind: body(kind, top_k=off)["top_k"] for kind in (Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG)}
    assert spelled == {Kind.LLAMA_CPP: 0, Kind.VLLM: 0, Kind.SGLANG: -1}


def test_every_kind_has_its_words() -> None:
    assert set(switches.REASONING_KEY) == set(Kind)
