"""The content blocks of a message: what a client may send, read into the few that a chat completion knows.

Everything richer (documents, search results, the traces of tools that ran on someone else's servers) is turned into
text and images here, so that what comes after has five cases, and no more: the sixth, a PDF, is there
only until somebody has opened it. New input that cannot be understood is refused; history is not: a transcript that
began on the vendor's own API must go on here.

Block types: https://platform.claude.com/docs/en/api/messages (`ContentBlockParam`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from slotline.core.anthropic import media, traces
from slotline.core.anthropic.media import Image, Pdf, Text, Unsupported
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid


class Reasoning(msgspec.Struct, frozen=True):
    """What the model thought before it spoke. Its signature is not kept: no upstream here can check one."""

    text: str


class ToolUse(msgspec.Struct, frozen=True):
    """A call that the model made. `arguments` is one JSON object, as compact text, numbers as they were written."""

    id: str
    name: str
    arguments: str


class ToolResult(msgspec.Struct, frozen=True):
    """What a call gave."""

    tool_use_id: str
    parts: tuple[Text | Image | Pdf, ...]
    is_error: bool = False


Block: TypeAlias = Text | Image | Pdf | Reasoning | ToolUse | ToolResult


class Place(msgspec.Struct, frozen=True):
    """Where a block stands, and what that means for how it is read."""

    at: str
    role: str
    history: bool
    """An assistant message follows: what stands here was said in an earlier turn."""
    ignored: list[str]
    """Takes the path and type of what is left out, for a debug line."""
    documents_in_assistant: bool = True
    """False from `anthropic-version: 2026-10-21` on."""

    def below(self, step: str | int) -> Place:
        return Place(f"{self.at}.{step}", self.role, self.history, self.ignored, self.documents_in_assistant)


class _Tag(msgspec.Struct, frozen=True):
    type: str


class _Thinking(msgspec.Struct, frozen=True):
    thinking: str = ""


class _ToolUse(msgspec.Struct, frozen=True):
    id: str
    name: str
    input: dict[str, msgspec.Raw] | None = None


class _ToolResult(msgspec.Struct, frozen=True):
    tool_use_id: str
    content: str | list[msgspec.Raw] | None = None
    is_error: bool | None = None


def read(content: str | list[msgspec.Raw], place: Place) -> tuple[Block, ...]:
    """The blocks of one message. Empty text is dropped, as it is worth nothing and some templates stumble over it."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(block for index, raw in enumerate(content) for block in _block(raw, place.below(index)))


def _block(raw: msgspec.Raw, place: Place) -> Iterator[Block]:
    kind = decode(raw, _Tag, at=place.at).type
    if kind in traces.TYPES:
        yield from traces.flatten(kind, raw)
    elif kind not in _READERS:
        _leave_out(kind, place)
    elif place.role == "system" and kind != "text":
        place.ignored.append(f"{place.at} ({kind})")
    elif place.role not in _ROLES.get(kind, {"user", "assistant", "system"}):
        raise Invalid(f"{place.at}.type: a block of type {kind!r} cannot stand in a message of role {place.role!r}")
    else:
        yield from _READERS[kind](raw, place)


def _leave_out(kind: str, place: Place) -> None:
    """An unknown type is left out of history, and refused where it is what the client says now."""
    if not place.history and place.role == "user":
        raise invalid(join(place.at, "type"), f"one of {', '.join(sorted(_READERS))}", kind)
    place.ignored.append(f"{place.at} ({kind[:40]})")


def _thinking(raw: msgspec.Raw, place: Place) -> Iterator[Block]:
    text = decode(raw, _Thinking, at=place.at).thinking
    if text:
        yield Reasoning(text)


def _nothing(_raw: msgspec.Raw, _place: Place) -> Iterator[Block]:
    """Redacted thinking: only its maker can read it."""
    yield from ()


def _document(raw: msgspec.Raw, place: Place) -> Iterator[Block]:
    if place.role == "assistant" and not place.documents_in_assistant:
        raise Invalid(f"{place.at}.type: a document cannot stand in an assistant message")
    yield from media.document(raw, place.at)


def _tool_use(raw: msgspec.Raw, place: Place) -> Iterator[Block]:
    wording = {"id": "a non-empty string", "name": "a non-empty string", "input": "an object"}
    call = decode(raw, _ToolUse, at=place.at, wording=wording)
    for field, value in (("id", call.id), ("name", call.name)):
        if not value:
            raise invalid(join(place.at, field), "a non-empty string", value)
    arguments = msgspec.json.format(msgspec.json.encode(call.input or {}), indent=-1)
    yield ToolUse(call.id, call.name, arguments.decode())


def _tool_result(raw: msgspec.Raw, place: Place) -> Iterator[Block]:
    result = decode(raw, _ToolResult, at=place.at, wording={"content": "a string or a list of content blocks"})
    content = result.content or ()
    parts: list[Text | Image | Pdf] = [Text(content)] if isinstance(content, str) else []
    if not isinstance(content, str):
        for index, inner in enumerate(content):
            parts.extend(_inside_result(inner, place.below(f"content.{index}")))
    yield ToolResult(result.tool_use_id, tuple(parts), bool(result.is_error))


def _inside_result(raw: msgspec.Raw, place: Place) -> Iterator[Text | Image | Pdf]:
    """One block of a tool's result. What cannot be shown to the model is named to it, never refused: the tool has
    run, and a refusal here would come again with every further turn of the conversation."""
    kind = decode(raw, _Tag, at=place.at).type
    reader = _IN_RESULT.get(kind)
    if reader is None:
        place.ignored.append(f"{place.at} ({kind[:40]})")
        yield from traces.flatten(kind[:40], raw)
        return
    try:
        yield from reader(raw, place.at)
    except Unsupported as error:
        yield Text(f"[left out: {error.what}]")


_IN_RESULT: dict[str, Callable[[msgspec.Raw, str], Iterator[Text | Image | Pdf]]] = {
    "text": media.text,
    "image": media.image,
    "document": media.document,
    "search_result": media.search_result,
    "tool_reference": media.tool_reference,
}

_READERS: dict[str, Callable[[msgspec.Raw, Place], Iterator[Block]]] = {
    "text": lambda raw, place: media.text(raw, place.at),
    "image": lambda raw, place: media.image(raw, place.at),
    "document": _document,
    "search_result": lambda raw, place: media.search_result(raw, place.at),
    "thinking": _thinking,
    "redacted_thinking": _nothing,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}

_ROLES: dict[str, frozenset[str]] = {
    "image": frozenset({"user"}),
    "tool_result": frozenset({"user"}),
    "tool_use": frozenset({"assistant"}),
    "thinking": frozenset({"assistant"}),
    "redacted_thinking": frozenset({"assistant"}),
}
