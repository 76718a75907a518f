"""What a response is made of, as it goes over the wire.

Shapes: https://platform.openai.com/docs/api-reference/responses/object. Every field that the official clients' types
demand is there, also where it can only be null.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType


class Status(StrEnum):
    """How far an item or a response is."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class OutputText(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    """What the model said."""

    text: str
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    """What the model thought."""

    text: str


class SummaryText(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    """What the model thought, for a client that asked for a summary of it."""

    text: str


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """One message of the model."""

    id: str
    status: Status
    role: Literal["assistant"] = "assistant"
    content: tuple[OutputText, ...] = ()


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """One stretch of thinking; `encrypted_content`: see `opaque`."""

    id: str
    status: Status
    summary: tuple[SummaryText, ...] = ()
    content: tuple[ReasoningText, ...] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET


class FunctionCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    """A call of a function. `arguments`: a JSON object as text, or the beginning of one that was cut."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status
    namespace: str | UnsetType = UNSET


class CustomCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call"):
    """A call of a tool that takes free text."""

    id: str
    call_id: str
    name: str
    input: str
    status: Status
    namespace: str | UnsetType = UNSET


Part: TypeAlias = OutputText | ReasoningText
Item: TypeAlias = MessageItem | ReasoningItem | FunctionCallItem | CustomCallItem


class InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens. `input_tokens` includes what was read from the cache."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class Failure(msgspec.Struct, frozen=True):
    """Why a response failed; `code` is one of the API's words."""

    code: str
    message: str


class Incomplete(msgspec.Struct, frozen=True):
    """Why a response is not whole."""

    reason: Literal["max_output_tokens", "content_filter"]


class Reasoning(msgspec.Struct, frozen=True):
    """`reasoning`, as it was asked for."""

    effort: str | None = None
    summary: str | None = None


class Text(msgspec.Struct, frozen=True):
    """`text`, as it was asked for."""

    format: msgspec.Raw = msgspec.Raw(b'{"type":"text"}')
    verbosity: str = "medium"


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """What a response repeats of its request."""

    model: str
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    prompt_cache_key: str | None = None
    reasoning: Reasoning = Reasoning()
    safety_identifier: str | None = None
    temperature: float | None = None
    text: Text = Text()
    tool_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    tools: tuple[msgspec.Raw, ...] = ()
    top_p: float | None = None
    user: str | None = None


class Response(Echo, frozen=True, kw_only=True):
    """A response, at any moment of its life. Times are Unix times."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    completed_at: int | None = None
    background: bool = False
    error: Failure | None = None
    incomplete_details: Incomplete | None = None
    output: tuple[Item, ...] = ()
    previous_response_id: None = None
    service_tier: Literal["default"] = "default"
    store: bool = False
    top_logprobs: int = 0
    truncation: Literal["disabled"] = "disabled"
    usage: Usage | None = None


def response(echo: Echo, identity: str, created_at: int) -> Response:
    """A response that has just begun."""
    return Response(
        **{name: getattr(echo, name) for name in echo.__struct_fields__},
        id=identity,
        created_at=created_at,
        status=Status.IN_PROGRESS,
    )
