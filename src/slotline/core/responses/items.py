"""`input`: the conversation as a client sends it, item by item, as messages of blocks.

New input that cannot be understood is refused; history is not: a conversation that began on OpenAI's own API must go on
here. What its tools left in the history is dropped, because it says nothing without the servers that ran them. Only a
reference to an item that is kept elsewhere is refused wherever it stands, for without it the conversation is another.

Item types: https://platform.openai.com/docs/api-reference/responses/create (`input`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from slotline.core.anthropic.blocks import Reasoning, ToolResult, ToolUse
from slotline.core.anthropic.media import Text
from slotline.core.anthropic.request import Message
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid
from slotline.core.responses import content
from slotline.core.responses.content import Content, Place
from slotline.core.responses.opaque import unseal
from slotline.core.responses.tools import flat

_Null = msgspec.Raw(b"null")


class _Item(msgspec.Struct, frozen=True):
    type: str | None = None
    role: str | None = None
    id: str | None = None


class _Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class _Words(msgspec.Struct, frozen=True):
    text: str


class _Thought(msgspec.Struct, frozen=True):
    summary: list[_Words] | None = None
    content: list[_Words] | None = None
    encrypted_content: str | None = None


class _Call(msgspec.Struct, frozen=True):
    call_id: str
    name: str
    arguments: str = ""
    input: str = ""
    namespace: str | None = None


class _ShellCall(msgspec.Struct, frozen=True):
    action: dict[str, Any]
    call_id: str | None = None
    id: str | None = None


class _Output(msgspec.Struct, frozen=True):
    call_id: str | None = None
    id: str | None = None
    output: msgspec.Raw = _Null


class _MoreTools(msgspec.Struct, frozen=True):
    tools: list[msgspec.Raw] = []


def read(sent: Content, ignored: list[str], offers: list[tuple[str, msgspec.Raw]]) -> tuple[Message, ...]:
    """The messages in `input`.

    What is left out goes into `ignored`, as its path and type; tools that are offered on the way into `offers`, each
    with its path.
    """
    if isinstance(sent, str):
        return (Message("user", (Text(sent),)),) if sent else ()
    items = [_typed(raw, join("input", index)) for index, raw in enumerate(sent)]
    newest = max((index for index, (kind, role) in enumerate(items) if _is_answer(kind, role)), default=-1)
    messages: list[Message] = []
    for index, (kind, _) in enumerate(items):
        place = Place(join("input", index), index < newest, ignored, offers)
        messages += _item(kind, sent[index], place)
    return tuple(messages)


def _typed(raw: msgspec.Raw, at: str) -> tuple[str, str | None]:
    """The type of an item and its role. A message may leave its type out; so may a reference, which is only an id."""
    item = decode(raw, _Item, at=at)
    return item.type or ("item_reference" if item.role is None and item.id else "message"), item.role


def _is_answer(kind: str, role: str | None) -> bool:
    return role == "assistant" or kind in _ANSWERS or kind in _TRACES


def _item(kind: str, raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    if kind == "item_reference":
        raise Invalid(f"{place.at}.type: no item is kept here, so none can be referred to; send the item itself")
    if kind in _READERS:
        yield from _READERS[kind](raw, place)
    elif place.history or kind in _TRACES:
        place.ignored.append(f"{place.at} ({kind[:40]})")
    else:
        raise invalid(join(place.at, "type"), f"one of {', '.join(sorted(_READERS))}", kind)


def _message(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    wording = {
        "role": '"user", "assistant", "system" or "developer"',
        "content": "a string or a list of content parts",
    }
    sent = decode(raw, _Message, at=place.at, wording=wording)
    role: Literal["user", "assistant", "system"] = "system" if sent.role == "developer" else sent.role
    yield Message(role, tuple(content.said(sent.content, role, place.below("content"))))


def _more_tools(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    """Tools that are offered from here on. Servers know no such place, so they join the others."""
    sent = decode(raw, _MoreTools, at=place.at)
    place.offers.extend((place.below("tools", index).at, each) for index, each in enumerate(sent.tools))
    yield from ()


def _reasoning(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    """The reasoning itself, if it is there in any form: as text, as we sealed it, or as a summary."""
    thought = decode(raw, _Thought, at=place.at)
    text = (
        "\n".join(part.text for part in thought.content or ())
        or unseal(thought.encrypted_content or "")
        or "\n".join(part.text for part in thought.summary or ())
    )
    if text:
        yield Message("assistant", (Reasoning(text),))


# ---- calls of tools, and what they gave ------------------------------------------------------------------------------


def _function_call(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    call = decode(raw, _Call, at=place.at)
    yield _call(call.call_id, flat(call.namespace, call.name), _object(call.arguments), place)


def _custom_call(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    call = decode(raw, _Call, at=place.at)
    yield _call(call.call_id, flat(call.namespace, call.name), {"input": call.input}, place)


def _shell_call(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    call = decode(raw, _ShellCall, at=place.at)
    action = {name: value for name, value in call.action.items() if name != "type" and value is not None}
    yield _call(call.call_id or call.id or "", "local_shell", action, place)


def _call(identity: str, name: str, arguments: object, place: Place) -> Message:
    for field, value in (("call_id", identity), ("name", name)):
        if not value:
            raise invalid(join(place.at, field), "a non-empty string", value)
    text = msgspec.json.format(msgspec.json.encode(arguments), indent=-1).decode()
    return Message("assistant", (ToolUse(identity, name, text),))


def _object(arguments: str) -> object:
    """The arguments of a call as the object that templates expect; what is none, such as a cut one, is put into one."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return {"input": arguments} if arguments.strip() else {}


def _output(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    result = decode(raw, _Output, at=place.at)
    if not result.call_id:
        raise Invalid(f"{place.at}.call_id: a required field, and it is missing")
    yield _result(result.call_id, result.output, place)


def _shell_output(raw: msgspec.Raw, place: Place) -> Iterator[Message]:
    """Some clients name the call in `call_id`, others in `id`."""
    result = decode(raw, _Output, at=place.at)
    yield _result(result.call_id or result.id or "", result.output, place)


def _result(identity: str, output: msgspec.Raw, place: Place) -> Message:
    return Message("user", (ToolResult(identity, tuple(content.given(output, place.below("output")))),))


_READERS: dict[str, Callable[[msgspec.Raw, Place], Iterator[Message]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
    "local_shell_call": _shell_call,
    "local_shell_call_output": _shell_output,
    "additional_tools": _more_tools,
}
_ANSWERS = frozenset({"reasoning", "function_call", "custom_tool_call", "local_shell_call"})
_TRACES = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "shell_call",
        "apply_patch_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "tool_search_call",
        "tool_search_output",
        "compaction",
        "compaction_summary",
        "program",
        "program_output",
    }
)
"""What OpenAI's own tools leave in an answer."""
