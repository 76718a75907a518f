"""The tools of a request, and which of them must be used.

Four sorts come in: functions; custom tools, which take free text, and go upstream as functions of one string;
namespaces, which are tools under a common name; and tools that only OpenAI's servers, or only models trained for them,
could use. The last are left out: a client that offers them along with its own goes on without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from slotline.core.anthropic.tools import Choice, Tool, ToolChoice
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid


class Callee(msgspec.Struct, frozen=True):
    """What a client means by the name under which a tool goes upstream."""

    name: str
    custom: bool = False
    namespace: str | None = None


class Tools(msgspec.Struct, frozen=True):
    """What can be used of the tools in a request, in their order. `sent`: as the client sent them."""

    usable: tuple[Tool, ...]
    callees: Mapping[str, Callee]
    sent: tuple[msgspec.Raw, ...]


class _Tag(msgspec.Struct, frozen=True):
    type: str


class _Function(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, msgspec.Raw] | None = None
    strict: bool | None = None


class _Format(msgspec.Struct, frozen=True):
    type: str
    syntax: str = ""
    definition: str = ""


class _Custom(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    format: _Format | None = None


class _Namespace(msgspec.Struct, frozen=True):
    name: str
    tools: list[msgspec.Raw] = []


_FREE_TEXT = msgspec.Raw(
    msgspec.json.encode(
        {
            "type": "object",
            "properties": {"input": {"type": "string", "description": "The whole input, as it is."}},
            "required": ["input"],
            "additionalProperties": False,
        }
    )
)


def flat(namespace: str | None, name: str) -> str:
    """The one name of a tool in a namespace. Clients end the names of some namespaces in underscores already."""
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def read(raw: Sequence[tuple[str, msgspec.Raw]], ignored: list[str]) -> Tools:
    """Tools and where they stand in the body. What cannot be used here goes into `ignored`."""
    usable: dict[str, Tool] = {}
    callees: dict[str, Callee] = {}
    sent: list[msgspec.Raw] = []
    for at, each in raw:
        found = list(_read(each, at, None, ignored))
        if found:
            sent.append(each)
        for tool, callee, place in found:
            if tool.name in usable:
                raise Invalid(f"{place}.name: the name {callee.name[:80]!r} is taken by another tool")
            usable[tool.name], callees[tool.name] = tool, callee
    return Tools(tuple(usable.values()), callees, tuple(sent))


def _read(raw: msgspec.Raw, at: str, namespace: str | None, ignored: list[str]) -> Iterator[tuple[Tool, Callee, str]]:
    match decode(raw, _Tag, at=at, wording={"type": "the type of a tool"}).type:
        case "function":
            function = decode(raw, _Function, at=at, wording={"parameters": "a JSON Schema object"})
            yield *_function(_named(function, at), namespace), at
        case "custom":
            yield *_custom(_named(decode(raw, _Custom, at=at), at), namespace), at
        case "namespace" if namespace is None:
            inside = _named(decode(raw, _Namespace, at=at), at)
            for index, each in enumerate(inside.tools):
                yield from _read(each, join(at, "tools", index), inside.name, ignored)
        case other:
            ignored.append(f"{at} ({other[:40]}: cannot be used here)")


def _named(tool: Any, at: str) -> Any:
    if not tool.name:
        raise invalid(join(at, "name"), "a non-empty string", tool.name)
    return tool


def _function(function: _Function, namespace: str | None) -> tuple[Tool, Callee]:
    fields = function.parameters or {}
    if "type" not in fields:
        fields = {"type": msgspec.Raw(b'"object"'), **fields}
    schema = msgspec.Raw(msgspec.json.encode(fields))
    name = flat(namespace, function.name)
    tool = Tool(name, function.description or "", schema, function.strict)
    return tool, Callee(function.name, namespace=namespace)


def _custom(custom: _Custom, namespace: str | None) -> tuple[Tool, Callee]:
    """No server here holds a model to another's grammar, so the model is told it."""
    said = [custom.description or ""]
    if custom.format is not None and custom.format.type == "grammar":
        said.append(f"The input follows this grammar ({custom.format.syntax}):\n{custom.format.definition}")
    tool = Tool(flat(namespace, custom.name), "\n\n".join(filter(None, said)), _FREE_TEXT)
    return tool, Callee(custom.name, custom=True, namespace=namespace)


# ---- which must be used ----------------------------------------------------------------------------------------------


class _Choice(msgspec.Struct, frozen=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[dict[str, Any]] = []


_WORDS = {"none": Choice.NONE, "auto": Choice.AUTO, "required": Choice.ANY}


def choose(raw: msgspec.Raw, tools: Tools, *, parallel: bool) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    """The tools to offer, and how free the model is; None: the server's own default.

    A choice that forces a tool which cannot be used here cannot be honoured, and is refused.
    """
    sent = msgspec.json.decode(raw)
    offered = tools.usable
    if sent is None:
        choice = None
    elif isinstance(sent, str):
        choice = _word(sent, tools)
    else:
        offered, choice = _object(decode(raw, _Choice, at="tool_choice"), tools)
    if not offered:
        return (), None
    if not parallel:
        choice = msgspec.structs.replace(choice or ToolChoice(Choice.AUTO), disable_parallel=True)
    return offered, choice


def _word(word: str, tools: Tools) -> ToolChoice:
    if word not in _WORDS:
        raise invalid("tool_choice", '"none", "auto", "required" or an object', word)
    if word == "required":
        _some(tools.usable, "tool_choice")
    return ToolChoice(_WORDS[word])


def _object(sent: _Choice, tools: Tools) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    match sent.type:
        case "function" | "custom":
            name = flat(sent.namespace, sent.name or "")
            if name not in tools.callees:
                raise invalid("tool_choice.name", "the name of one of the tools that can be used here", sent.name)
            return tools.usable, ToolChoice(Choice.TOOL, name)
        case "allowed_tools":
            return _allowed(sent, tools)
        case other:
            raise Invalid(f"tool_choice.type: a tool of type {other[:80]!r} cannot be used here")


def _allowed(sent: _Choice, tools: Tools) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    names = set(_names(sent.tools))
    offered = tuple(tool for tool in tools.usable if tool.name in names)
    if sent.mode == "required":
        return _some(offered, "tool_choice.tools"), ToolChoice(Choice.ANY)
    return offered, ToolChoice(Choice.AUTO)


def _names(allowed: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in allowed:
        if isinstance(name := each.get("name"), str):
            yield flat(each.get("namespace") if isinstance(each.get("namespace"), str) else None, name)


def _some(offered: tuple[Tool, ...], at: str) -> tuple[Tool, ...]:
    if not offered:
        raise Invalid(f"{at}: a tool must be called, and none of those in the request can be used here")
    return offered
