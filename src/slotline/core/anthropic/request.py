"""A request to the Messages API, parsed: what is known to be right from here on, and nothing else.

`parse` is all or nothing. It refuses with `Invalid`, naming field and value, before anything is acquired for the
request; what it returns can be mapped for any upstream. Fields that nothing here can honour are left out, and named in
`ignored`: clients add fields every few releases, and refusing them would only cost everybody a round trip. Three are
refused, because leaving them out would change the meaning: `container`, `mcp_servers` and `thread`.

The fields: https://platform.claude.com/docs/en/api/messages.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from slotline.core.anthropic import blocks, tools
from slotline.core.anthropic.blocks import Block, Reasoning
from slotline.core.anthropic.tools import Tool, ToolChoice
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid


class Mode(StrEnum):
    """Whether the model is to think. `ABSENT`: the request does not say. `MODEL`: as the model does by itself, which
    no request to the Messages API says, but OpenAI's do."""

    ENABLED = "enabled"
    ADAPTIVE = "adaptive"
    BETWEEN_TOOLS = "between_tools"
    DISABLED = "disabled"
    ABSENT = "absent"
    MODEL = "model"


class Effort(StrEnum):
    """How hard the model is to try."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class Thinking(msgspec.Struct, frozen=True):
    """`thinking`. `budget`: tokens, None for no limit. `display`: `summarized`, `omitted`, `updates`, or None."""

    mode: Mode = Mode.ABSENT
    budget: int | None = None
    display: str | None = None


class Message(msgspec.Struct, frozen=True):
    """One message as it came, its content read into blocks."""

    role: Literal["user", "assistant", "system"]
    blocks: tuple[Block, ...]


class MessagesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request. Sequences keep the order of the body."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int | None
    """At least 0. 0 asks for a warm cache and no answer; also 0 where the request only counts. None: no limit, which
    only OpenAI's APIs know."""
    system: tuple[str, ...] = ()
    """The system prompt's texts, none of them empty, without the attribution line (see `_system`)."""
    stream: bool = False
    stop_sequences: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    """At least -1; 0 and -1 mean that all tokens are considered."""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    thinking: Thinking = Thinking()
    effort: Effort | None = None
    schema: msgspec.Raw | None = None
    """The JSON Schema that the answer has to follow."""
    user_id: str | None = None
    """`metadata.user_id`, opaque; it may name a person, and is never logged."""
    ignored: tuple[str, ...] = ()
    """Paths of what was left out, for a debug line; no values."""

    @property
    def disable_parallel(self) -> bool:
        """At most one tool call is wanted in the answer."""
        return self.tool_choice is not None and self.tool_choice.disable_parallel


# ---- the wire --------------------------------------------------------------------------------------------------------

_Null = msgspec.Raw(b"null")
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[msgspec.Raw]


class _SystemBlock(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class _Thinking(msgspec.Struct, frozen=True):
    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    display: str | None = None


class _Format(msgspec.Struct, frozen=True):
    type: Literal["json_schema"]
    schema: dict[str, msgspec.Raw]


class _OutputConfig(msgspec.Struct, frozen=True):
    effort: Effort | None = None
    format: _Format | None = None


class _Metadata(msgspec.Struct, frozen=True):
    user_id: str | None = None


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    model: Annotated[str, msgspec.Meta(min_length=1)]
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1, max_length=100_000)]
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    system: str | list[_SystemBlock] | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: _Share | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _Null
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    output_format: _Format | None = None
    metadata: _Metadata | None = None
    container: Any = None
    mcp_servers: Any = None
    thread: Any = None


_EFFORTS = ", ".join(f'"{effort}"' for effort in Effort)
_WORDING = {
    "model": "a non-empty string",
    "max_tokens": "an integer of at least 0",
    "messages": "a list of 1 to 100000 messages",
    "messages.role": '"user", "assistant" or "system"',
    "messages.content": "a string or a list of content blocks",
    "system": "a string or a list of text blocks",
    "temperature": "a number from 0 to 2",
    "top_p": "a number from 0 to 1",
    "top_k": "an integer of at least -1",
    "thinking.type": '"enabled", "adaptive", "between_tools" or "disabled"',
    "thinking.budget_tokens": "an integer of at least 0",
    "output_config.effort": f"one of {_EFFORTS}",
    "output_config.format.type": '"json_schema"',
    "output_format.type": '"json_schema"',
}


def parse(raw: bytes, *, version: str = "") -> MessagesRequest:
    """The body of a call to `/v1/messages`. `version`: the header `anthropic-version`; what it does not know is
    taken as the oldest."""
    body = _decode(raw)
    if body.max_tokens is None:
        raise Invalid("max_tokens: a required field, and it is missing")
    return _request(body, raw, version)


def parse_count(raw: bytes, *, version: str = "") -> MessagesRequest:
    """The body of a call to `/v1/messages/count_tokens`: the same, and nothing is generated."""
    return _request(_decode(raw), raw, version)


def _decode(raw: bytes) -> _Body:
    try:
        raw.decode()  # parts of the body are passed on unread, and have to be text all the same
    except UnicodeDecodeError as error:
        raise Invalid(f"body: not valid UTF-8 at byte {error.start}") from None
    return decode(raw, _Body, wording=_WORDING)


def _request(body: _Body, raw: bytes, version: str) -> MessagesRequest:
    _refuse_stateful(body)
    known = frozenset(_Body.__struct_fields__)
    ignored = [name[:80] for name in decode(raw, dict[str, msgspec.Raw]) if name not in known]
    messages = _messages(body.messages, ignored, version)
    usable = tools.read(body.tools or (), ignored)
    choice = tools.read_choice(body.tool_choice, usable, offered=bool(body.tools))
    config = body.output_config or _OutputConfig()
    wanted = config.format or body.output_format
    return MessagesRequest(
        model=body.model,
        messages=messages,
        max_tokens=body.max_tokens or 0,
        system=_system(body.system or ""),
        stream=bool(body.stream),
        stop_sequences=tuple(filter(None, body.stop_sequences or ())),
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        tools=usable,
        tool_choice=choice,
        thinking=_thinking(body.thinking),
        effort=config.effort,
        schema=None if wanted is None else msgspec.Raw(msgspec.json.encode(wanted.schema)),
        user_id=body.metadata.user_id if body.metadata else None,
        ignored=tuple(ignored),
    )


def _refuse_stateful(body: _Body) -> None:
    """What asks for the vendor's servers to hold or run something."""
    if body.container is not None:
        raise Invalid("container: not supported here, as code runs on no server of this gateway; leave it out")
    if body.mcp_servers:
        raise Invalid("mcp_servers: not supported here; connect to MCP servers from the client, and offer their tools")
    if body.thread is not None:
        raise Invalid("thread: not supported here, as no conversation is kept; send its messages")


def _messages(sent: list[_Message], ignored: list[str], version: str) -> tuple[Message, ...]:
    newest = max((index for index, message in enumerate(sent) if message.role == "assistant"), default=-1)
    strict = version >= "2026-10-21"  # dates in ISO form sort as text
    read = []
    for index, message in enumerate(sent):
        place = blocks.Place(
            at=join("messages", index, "content"),
            role=message.role,
            history=index < newest,
            ignored=ignored,
            documents_in_assistant=not strict,
        )
        read.append(Message(message.role, blocks.read(message.content, place)))
    if all(isinstance(block, Reasoning) for message in read for block in message.blocks):
        raise invalid("messages", "something to answer", [message.content for message in sent])
    return tuple(read)


_ATTRIBUTION = "x-anthropic-billing-header:"


def _system(sent: str | list[_SystemBlock]) -> tuple[str, ...]:
    """The texts of the system prompt, without the line that Claude Code puts first for its vendor's accounting.

    The line is not meant for the model, and in some versions it differs from request to request: left in, no server
    could ever use its prompt cache.
    """
    texts = [sent] if isinstance(sent, str) else [block.text for block in sent if block.type == "text"]
    if texts and texts[0].startswith(_ATTRIBUTION):
        texts[0] = texts[0].partition("\n")[2]
    return tuple(filter(None, texts))


def _thinking(sent: _Thinking | None) -> Thinking:
    return Thinking() if sent is None else Thinking(Mode(sent.type), sent.budget_tokens, sent.display)
