"""The tools of a request, and which of them must be used.

Three sorts come in: tools with a schema; the vendor's client tools, which the client runs and whose schema only the
vendor's models know (`schemas.py` writes them down); and tools that run on the vendor's servers, which cannot run here
and are left out.

A chat completion's function name is `[a-zA-Z0-9_-]{1,64}` (https://platform.openai.com/docs/api-reference/chat); others
get a name that depends on nothing but themselves, so that the prompt stays the same from turn to turn.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from slotline.core.anthropic.schemas import CLIENT_TOOLS
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid


class Tool(msgspec.Struct, frozen=True):
    """A tool that goes upstream; `schema` is a JSON Schema of type object."""

    name: str
    description: str
    schema: msgspec.Raw
    strict: bool | None = None


class Choice(StrEnum):
    """`tool_choice.type`."""

    AUTO = "auto"
    ANY = "any"
    TOOL = "tool"
    NONE = "none"


class ToolChoice(msgspec.Struct, frozen=True):
    """How free the model is. `name` is the tool that it must use, with `Choice.TOOL`."""

    choice: Choice
    name: str = ""
    disable_parallel: bool = False


class _Tag(msgspec.Struct, frozen=True):
    type: str | None = None


class _Tool(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    input_schema: dict[str, msgspec.Raw] | None = None
    strict: bool | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str


class _ToolChoice(msgspec.Struct, frozen=True):
    type: Choice
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


_SERVER_SIDE = re.compile(r"(web_search|web_fetch|code_execution|tool_search_tool|advisor)_.*|mcp_toolset")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read(raw: Sequence[msgspec.Raw], ignored: list[str]) -> tuple[Tool, ...]:
    """`tools`, in their order, without those that would run on the vendor's servers (these go into `ignored`)."""
    tools: dict[str, Tool] = {}
    for index, each in enumerate(raw):
        at = join("tools", index)
        tool = _tool(each, at, ignored)
        if tool is None:
            continue
        if tool.name in tools:
            raise Invalid(f"{at}.name: the name {tool.name[:80]!r} is taken by another tool")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(raw: msgspec.Raw, at: str, ignored: list[str]) -> Tool | None:
    kind = decode(raw, _Tag, at=at, wording={"type": "the type of a tool"}).type or "custom"
    if kind == "custom":
        return _custom(raw, at)
    if _SERVER_SIDE.fullmatch(kind):
        ignored.append(f"{at} ({kind[:40]}: runs on the vendor's servers)")
        return None
    for prefix, (description, schema) in CLIENT_TOOLS.items():
        if kind.startswith(prefix):
            return Tool(decode(raw, _Named, at=at).name, description, schema)
    if decode(raw, dict[str, msgspec.Raw], at=at).get("input_schema") is not None:
        return _custom(raw, at)  # a newer name for what is still a tool with a schema
    raise invalid(join(at, "type"), "a tool with an input_schema, or one whose schema is known here", kind)


def _custom(raw: msgspec.Raw, at: str) -> Tool:
    tool = decode(raw, _Tool, at=at, wording={"input_schema": "a JSON Schema object"})
    if not tool.name:
        raise invalid(join(at, "name"), "a non-empty string", tool.name)
    fields = tool.input_schema or {}
    if "type" not in fields:
        fields = {"type": msgspec.Raw(b'"object"'), **fields}
    return Tool(tool.name, tool.description or "", msgspec.Raw(msgspec.json.encode(fields)), tool.strict)


def read_choice(raw: msgspec.Raw | None, tools: Sequence[Tool], *, offered: bool) -> ToolChoice | None:
    """`tool_choice`; None where there is nothing to choose from. `offered`: the request named tools, of whatever sort.

    A choice without tools is dropped: clients send it so, and some servers refuse it. A choice that *forces* a tool
    when all tools that were offered had to be left out cannot be honoured, and is refused.
    """
    wording = {"type": '"auto", "any", "tool" or "none"'}
    sent = None if raw is None else decode(raw, _ToolChoice | None, at="tool_choice", wording=wording)  # type: ignore[arg-type]
    if sent is None or not offered:
        return None
    if sent.type is Choice.TOOL and not sent.name:
        raise Invalid('tool_choice.name: a required field with type "tool", and it is missing')
    if sent.type is Choice.TOOL and all(tool.name != sent.name for tool in tools):
        raise invalid("tool_choice.name", "the name of one of the tools that can be used here", sent.name)
    if not tools:
        if sent.type is Choice.ANY:
            raise Invalid(
                'tool_choice.type: "any" with no tool left: those of this request run on the vendor\'s servers'
            )
        return None
    name = sent.name or "" if sent.type is Choice.TOOL else ""
    return ToolChoice(sent.type, name, bool(sent.disable_parallel_tool_use))


def upstream_name(name: str) -> str:
    """The name under which a tool goes upstream: its own where it can, else one made from it and only from it."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:55]}_{digest}"
