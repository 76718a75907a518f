"""Calls to the Responses API whose identities and times are known, and what their clients get."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from fakes.chunks import DONE, Json, say
from fakes.responses_checker import CheckedResponse, check
from slotline.core.errors import SlotlineError
from slotline.core.kind import Kind, Traits
from slotline.core.queue_frames import QueueForm
from slotline.core.responses.dialect import ResponsesDialect
from slotline.core.responses.request import ResponsesRequest, parse

PLAIN = Traits(Kind.OPENAI)
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def ask(text: str = "hello", /, **fields: Any) -> dict[str, Any]:
    """The body of a simple streamed call; `fields` change it."""
    return {"model": "stub", "stream": True, "input": text, **fields}


def read(**fields: Any) -> ResponsesRequest:
    """A body, parsed."""
    return parse(msgspec.json.encode(ask(**fields)))


def items(*sent: Any) -> list[Any]:
    """What goes upstream for these items of `input`, message by message."""
    messages: list[Any] = upstream(input=list(sent))["messages"]
    return messages


def upstream(traits: Traits = PLAIN, **fields: Any) -> dict[str, Any]:
    """What goes upstream for a body."""
    body: dict[str, Any] = msgspec.json.decode(dialect(**fields).body("target", traits))
    return body


def dialect(form: QueueForm = QueueForm.COMMENT, *, beat_after: float = 240.0, **fields: Any) -> ResponsesDialect:
    """A call; identities count from 1 and so does time."""
    numbers, seconds = itertools.count(1), itertools.count(1000)
    return ResponsesDialect(
        msgspec.json.encode(ask(**fields)),
        request_id="req_1",
        response_id="resp_1",
        item_id=lambda prefix: f"{prefix}{next(numbers)}",
        clock=lambda: float(next(seconds)),
        form=form,
        beat_after=beat_after,
    )


def answer(*chunks: Json, finish: str = "stop") -> list[Any]:
    """A whole answer of the upstream."""
    return [*chunks, say(finish=finish), {"choices": [], "usage": USAGE}, DONE]


def fed(call: ResponsesDialect, chunks: Iterable[Any]) -> bytes:
    """What the client gets for the chunks; an error ends it as the relay would."""
    out = b""
    try:
        for chunk in chunks:
            out += call.feed(chunk.encode() if isinstance(chunk, str) else msgspec.json.encode(chunk))
        out += call.end()
    except SlotlineError as error:
        out += call.error_event(error)
    return out


def heard(chunks: Iterable[Any], **fields: Any) -> CheckedResponse:
    """A streamed answer, read by the strict checker."""
    return check(fed(dialect(**fields), chunks))
