"""The body of a request to one of OpenAI's routes: read as far as it is acted upon, and passed on as it came.

Fields that are not known here travel untouched, in the bytes that were received: they are the business of the client
and its server. The same conversation gives the same bytes, turn after turn, because nothing in it is written anew.

Shapes: https://platform.openai.com/docs/api-reference/chat/create and …/completions/create, and what llama.cpp adds:
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, TypeVar

import msgspec

from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.openai.attachments import refuse_addresses

T = TypeVar("T")
Fields = Mapping[str, msgspec.Raw]

_ANSWERS = ("n", "n_cmpl", "best_of")  # how many answers: OpenAI's, llama.cpp's and the old route's word for it
_BUDGETS = ("thinking_budget_tokens", "reasoning_budget_tokens")  # llama.cpp's two names for one thing
_TEMPLATE_SWITCH = frozenset({Kind.LLAMA_CPP, Kind.VLLM, Kind.SGLANG})
_STEP = 1024
"""Bytes of a plain prompt that count as one link of its chain: some 250 tokens, less than a batch of any server."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as the gateway heeds it. `usage`, `progress`: the client wants to see such chunks."""

    fields: Fields
    model: str
    stream: bool = False
    options: Fields = field(default_factory=dict)  # `stream_options`, as they came
    usage: bool = False
    progress: bool = False
    budget: int | None = None  # tokens of reasoning, of the client's own will
    most: int | None = None  # tokens of the answer
    user: str | None = None  # whom it is for, in the client's words


class _Role(msgspec.Struct):
    role: Any = None


class _Seen(msgspec.Struct):
    content: Any = None


# ---- what the client asks --------------------------------------------------------------------------------------------


def parse_plain(raw: bytes) -> Asked:
    """A request of which only the model matters. Raises Invalid."""
    fields = _fields(raw)
    _no_addresses(fields, "input", "messages")
    return Asked(fields, _model(fields), user=_user(fields))


def parse_text(raw: bytes) -> Asked:
    """A request for a completion of a plain prompt. Raises Invalid."""
    asked = _streamed(_fields(raw))
    _one_prompt(asked.fields)
    _no_addresses(asked.fields, "prompt", "messages")
    return asked


def parse_chat(raw: bytes) -> Asked:
    """A request for a chat completion. Raises Invalid."""
    asked = _streamed(_fields(raw))
    if not _messages(asked.fields):
        raise invalid("messages", "at least one message", [])
    _read(asked.fields, "chat_template_kwargs", dict[str, msgspec.Raw])
    return asked


def see_no_images(asked: Asked) -> None:
    """Raises Invalid for an image in the messages: the model has no eyes."""
    for number, message in enumerate(_messages(asked.fields)):
        content = decode(message, _Seen, at=join("messages", number)).content
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") == "image_url":
                where = join("messages", number, "content", place)
                raise Invalid(f"{where}: the model {asked.model[:80]!r} cannot see images")


def _fields(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        raw.decode()  # what is not read here goes on unread, and a server's own parser may answer it with a 500
    except UnicodeDecodeError as error:
        raise Invalid(f"body: not valid UTF-8: {error.reason} at byte {error.start}") from None
    return decode(raw, dict[str, msgspec.Raw])


def _no_addresses(fields: Fields, *names: str) -> None:
    """Some servers take pictures on these routes too, and would visit whatever address stands for one."""
    for name in names:
        if name in fields:
            refuse_addresses(fields[name], name)


def _read(fields: Fields, name: str, kind: type[T]) -> T | None:
    """One field; None where it is missing or null."""
    raw = fields.get(name)
    return None if raw is None or bytes(raw) == b"null" else decode(raw, kind, at=name)


def _model(fields: Fields) -> str:
    if "model" not in fields:
        raise Invalid("model: a required field, and it is missing")
    model = decode(fields["model"], str, at="model")
    if not model:
        raise invalid("model", "the name of a model", model)
    return model


def _streamed(fields: Fields) -> Asked:
    for name in _ANSWERS:
        count = _read(fields, name, int)
        if count is not None and count != 1:
            raise invalid(name, "1, because each answer would take a slot of its own", count)
    options = _read(fields, "stream_options", dict[str, msgspec.Raw]) or {}
    raw = options.get("include_usage")
    usage = False if raw is None or bytes(raw) == b"null" else decode(raw, bool, at="stream_options.include_usage")
    return Asked(
        fields,
        _model(fields),
        stream=_read(fields, "stream", bool) or False,
        options=options,
        usage=usage,
        progress=_read(fields, "return_progress", bool) or False,
        budget=_budget(fields),
        most=_most(fields),
        user=_user(fields),
    )


def _user(fields: Fields) -> str | None:
    """`user`, or what OpenAI wants in its place. It is for taking turns only: what is no text is nobody's."""
    told = (_read(fields, name, object) for name in ("user", "safety_identifier", "prompt_cache_key"))
    return next((user for user in told if isinstance(user, str) and user), None)


def _budget(fields: Fields) -> int | None:
    """The smaller one of the client's own; a negative one says that it has no wish."""
    told = [_read(fields, name, int) for name in _BUDGETS]
    return min((budget for budget in told if budget is not None and budget >= 0), default=None)


def _most(fields: Fields) -> int | None:
    """The smaller one of the client's bounds. What is no bound is the server's business."""
    told = (_read(fields, name, object) for name in ("max_tokens", "max_completion_tokens"))
    return min((most for most in told if isinstance(most, int) and most > 0), default=None)


def _messages(fields: Fields) -> list[msgspec.Raw]:
    if "messages" not in fields:
        raise Invalid("messages: a required field, and it is missing")
    return decode(fields["messages"], list[msgspec.Raw], at="messages")


def _one_prompt(fields: Fields) -> None:
    """A list is one prompt if it holds tokens, or one text; llama.cpp also takes tokens and texts in turn for one."""
    prompt = _read(fields, "prompt", object)
    if isinstance(prompt, list) and len(prompt) > 1 and not any(isinstance(each, int) for each in prompt):
        raise invalid("prompt", "one prompt, because each would take a slot of its own", prompt)


# ---- what the upstream gets ------------------------------------------------------------------------------------------


def plain_body(asked: Asked, target: str) -> bytes:
    """The request as it came, for the model `target`."""
    return msgspec.json.encode({**asked.fields, "model": target})


def text_body(asked: Asked, target: str, traits: Traits, terms: Terms) -> bytes:
    """The request for `POST /v1/completions`: always a stream, in the slot that was chosen."""
    return msgspec.json.encode(_seated(asked, target, traits, terms))


def chat_body(asked: Asked, target: str, traits: Traits, terms: Terms) -> bytes:
    """The request for `POST /v1/chat/completions`: always a stream, its reasoning bounded where that can be told."""
    fields = _seated(asked, target, traits, terms)
    if traits.kind is Kind.LLAMA_CPP:
        # An early chunk gives the answer's name, without which its reasoning could not be ended.
        fields |= {"return_progress": True, "reasoning_control": True}
        if terms.thinking_cap is not None:
            for name in _BUDGETS:
                fields.pop(name, None)
            fields["thinking_budget_tokens"] = terms.thinking_cap
    if not terms.think:
        fields |= _without_thinking(asked, traits.kind)
    return msgspec.json.encode(fields)


def _seated(asked: Asked, target: str, traits: Traits, terms: Terms) -> dict[str, object]:
    """A slot of the client's own choice is left out: it would be taken from whoever has it."""
    fields: dict[str, object] = {**asked.fields, "model": target, "stream": True}
    fields["stream_options"] = {**asked.options, "include_usage": True}
    fields.pop("id_slot", None)
    if traits.kind is Kind.LLAMA_CPP:
        fields.setdefault("cache_prompt", True)
        if terms.slot is not None:
            fields["id_slot"] = terms.slot
    return fields


def _without_thinking(asked: Asked, kind: Kind) -> dict[str, object]:
    if kind is Kind.OLLAMA:
        return {"reasoning_effort": "none"}
    if kind not in _TEMPLATE_SWITCH:
        return {}
    wishes = _read(asked.fields, "chat_template_kwargs", dict[str, msgspec.Raw]) or {}
    return {"chat_template_kwargs": {**wishes, "enable_thinking": False}}


# ---- the conversation, as `core.seats` compares it -------------------------------------------------------------------


def chat_chain(asked: Asked) -> Sequence[int]:
    """A number for what stands before the talk (model, tools, instructions), then one for each message."""
    messages = _messages(asked.fields)
    instructions = list(takewhile(_instructs, messages))
    head = _linked(zlib.crc32(asked.model.encode()), asked.fields.get("tools", b""), *instructions)
    return tuple(accumulate(messages[len(instructions) :], _linked, initial=head))


def text_chain(asked: Asked) -> Sequence[int]:
    """A number for the model, then one for every kilobyte of the prompt."""
    prompt = bytes(asked.fields.get("prompt", b""))
    pieces = [prompt[at : at + _STEP] for at in range(0, len(prompt), _STEP)]
    return tuple(accumulate(pieces, _linked, initial=zlib.crc32(asked.model.encode())))


def _linked(link: int, *parts: bytes | msgspec.Raw) -> int:
    for part in parts:
        link = zlib.crc32(part, link)
    return link


def _instructs(message: msgspec.Raw) -> bool:
    try:
        return msgspec.json.decode(message, type=_Role).role in {"system", "developer"}
    except msgspec.DecodeError:
        return False  # whatever it is, the server will say so
