"""The tools of a request, and which of them must be used."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.responding import read, upstream
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Traits

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
F = {"type": "function", "name": "f", "description": "does", "parameters": SCHEMA, "strict": True}
G = {"type": "function", "name": "g"}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin"},
}
SEARCH = {"type": "web_search"}
SPACE = {"type": "namespace", "name": "mcp__files__", "description": "…", "tools": [{**F, "name": "read"}, PATCH]}


def names(**fields: Any) -> list[str]:
    return [tool["function"]["name"] for tool in upstream(**fields).get("tools", [])]


def test_a_function_goes_upstream_as_it_is() -> None:
    assert upstream(tools=[F])["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "does", "parameters": SCHEMA, "strict": True}}
    ]


def test_a_function_without_parameters_takes_an_object() -> None:
    assert upstream(tools=[{**G, "parameters": None, "description": None, "strict": None}])["tools"] == [
        {"type": "function", "function": {"name": "g", "description": "", "parameters": {"type": "object"}}}
    ]


def test_a_custom_tool_is_a_function_of_one_string_whose_grammar_is_told() -> None:
    (tool,) = upstream(tools=[PATCH])["tools"]
    function = tool["function"]
    assert function["name"] == "apply_patch"
    assert function["parameters"]["required"] == ["input"]
    assert function["description"] == "Edits files.\n\nThe input follows this grammar (lark):\nstart: begin"


@pytest.mark.parametrize("form", [None, {"type": "text"}])
def test_a_custom_tool_of_free_text_has_no_grammar(form: Any) -> None:
    (tool,) = upstream(tools=[{"type": "custom", "name": "note", "format": form}])["tools"]
    assert tool["function"]["description"] == ""


def test_tools_of_a_namespace_have_its_name_before_their_own() -> None:
    assert names(tools=[SPACE, {**SPACE, "name": "web"}]) == [
        "mcp__files__read",
        "mcp__files__apply_patch",
        "web__read",
        "web__apply_patch",
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "mcp",
        "computer_use_preview",
        "local_shell",
    ],
)
def test_tools_that_cannot_be_used_here_are_left_out_and_noted(kind: str) -> None:
    request = read(tools=[{"type": kind, "server_url": "https://secret.example"}, F])
    assert [tool.name for tool in request.messages.tools] == ["f"]
    assert request.messages.ignored == (f"tools.0 ({kind}: cannot be used here)",)
    assert len(request.echo.tools) == 1


def test_with_no_tool_left_nothing_is_said_of_tools() -> None:
    sent = upstream(tools=[SEARCH], tool_choice="auto", parallel_tool_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([{"type": "function"}], "tools.0.name: a required field"),
        ([{"type": "function", "name": ""}], "tools.0.name: expected a non-empty string"),
        ([{"type": "function", "function": {"name": "f"}}], "tools.0.name: a required field"),
        ([{**F, "parameters": []}], "tools.0.parameters: expected a JSON Schema object"),
        ([F, F], "tools.1.name: the name 'f' is taken by another tool"),
        ([SPACE, {**F, "name": "mcp__files__read"}], "tools.1.name: the name 'mcp__files__read' is taken"),
        ([{**SPACE, "tools": [F, F]}], "tools.0.tools.1.name: the name 'f' is taken"),
        ([{**SPACE, "tools": [{"type": "function"}]}], "tools.0.tools.0.name: a required field"),
        (["f"], 'tools.0: expected an object, got "f"'),
        ([{"name": "f"}], "tools.0.type: a required field"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(tools: Any, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(tools=tools)
    assert says in caught.value.message


# ---- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "custom", "name": "apply_patch"}, {"type": "function", "function": {"name": "apply_patch"}}),
        (
            {"type": "function", "name": "read", "namespace": "mcp__files__"},
            {"type": "function", "function": {"name": "mcp__files__read"}},
        ),
    ],
)
def test_a_choice_goes_upstream(choice: Any, sent: Any) -> None:
    assert upstream(tools=[F, PATCH, SPACE], tool_choice=choice)["tool_choice"] == sent


def test_without_a_choice_none_is_sent() -> None:
    assert "tool_choice" not in upstream(tools=[F])
    assert "tool_choice" not in upstream(tools=[F], tool_choice=None)


def test_allowed_tools_are_the_only_ones_that_are_offered() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}, SEARCH]}
    assert names(tools=[F, G, SEARCH], tool_choice=allowed) == ["g"]
    assert upstream(tools=[F, G], tool_choice=allowed)["tool_choice"] == "required"
    assert upstream(tools=[F, G], tool_choice={**allowed, "mode": "auto"})["tool_choice"] == "auto"
    assert names(tools=[F], tool_choice={**allowed, "mode": "auto"}) == []


def test_one_call_at_a_time_is_asked_for() -> None:
    assert upstream(tools=[F], parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in upstream(tools=[F], parallel_tool_calls=True)


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.OLLAMA])
def test_a_server_that_cannot_be_told_which_tool_gets_only_that_one(kind: Kind) -> None:
    sent = upstream(Traits(kind), tools=[F, G], tool_choice={"type": "function", "name": "g"})
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["g"]


@pytest.mark.parametrize(
    ("tools", "choice", "says"),
    [
        ([SEARCH], "required", "tool_choice: a tool must be called"),
        ([], "required", "tool_choice: a tool must be called"),
        ([F], {"type": "web_search_preview"}, "tool_choice.type: a tool of type 'web_search_preview' cannot be used"),
        ([SEARCH], {"type": "function", "name": "f"}, "tool_choice.name: expected the name of one of the tools"),
        ([F], {"type": "function"}, "tool_choice.name: expected the name of one of the tools"),
        ([F], "maybe", 'tool_choice: expected "none", "auto", "required" or an object, got "maybe"'),
        ([F], 5, "tool_choice: expected an object, got 5"),
        (
            [F],
            {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]},
            "tool_choice.tools: a tool must be called",
        ),
    ],
)
def test_a_choice_that_cannot_be_honoured_is_refused(tools: Any, choice: Any, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(tools=tools, tool_choice=choice)
    assert says in caught.value.message
