"""The events of a Responses stream: values, and their frames.

Shapes: https://platform.openai.com/docs/api-reference/responses-streaming. Every frame has an `event:` line and one
line of JSON whose `type` is the same name. `sequence_number` counts all events of a stream from 0.
"""

from __future__ import annotations

import msgspec

from slotline.core.responses.output import Item, Part, Response, SummaryText
from slotline.core.sse import encode as _frame

_json = msgspec.json.Encoder().encode


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """Any of them; the tag is its name."""

    sequence_number: int


# ---- the response ----------------------------------------------------------------------------------------------------


class Created(Event, frozen=True, kw_only=True, tag="response.created"):
    """The first event of every stream."""

    response: Response


class Queued(Event, frozen=True, kw_only=True, tag="response.queued"):
    """It still waits for a slot; may come again."""

    response: Response


class InProgress(Event, frozen=True, kw_only=True, tag="response.in_progress"):
    """The model works on it; may come again."""

    response: Response


class Completed(Event, frozen=True, kw_only=True, tag="response.completed"):
    """The last event of a whole answer."""

    response: Response


class Incomplete(Event, frozen=True, kw_only=True, tag="response.incomplete"):
    """The last event of an answer that was cut; `response.incomplete_details` says why."""

    response: Response


class Failed(Event, frozen=True, kw_only=True, tag="response.failed"):
    """There will be no whole answer; `response.error` says why."""

    response: Response


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """The last event of a stream that failed. The fields say twice what is wrong: beside one another, as the API's
    types have them, and in `error`, where the official clients look before they raise."""

    code: str
    message: str
    param: None = None
    error: dict[str, object]


# ---- items and their parts -------------------------------------------------------------------------------------------


class ItemAdded(Event, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item begins. Items follow one another, `output_index` counts them from 0 without a gap."""

    output_index: int
    item: Item


class ItemDone(Event, frozen=True, kw_only=True, tag="response.output_item.done"):
    """The item is complete, and all of it is here."""

    output_index: int
    item: Item


class _OfItem(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int


class PartAdded(_OfItem, frozen=True, kw_only=True, tag="response.content_part.added"):
    """The only part of a message or of reasoning begins."""

    content_index: int = 0
    part: Part


class PartDone(_OfItem, frozen=True, kw_only=True, tag="response.content_part.done"):
    """The part is complete."""

    content_index: int = 0
    part: Part


class TextDelta(_OfItem, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """More of a message."""

    content_index: int = 0
    delta: str
    logprobs: tuple[()] = ()


class TextDone(_OfItem, frozen=True, kw_only=True, tag="response.output_text.done"):
    """All of a message."""

    content_index: int = 0
    text: str
    logprobs: tuple[()] = ()


class ReasoningDelta(_OfItem, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    """More of the reasoning."""

    content_index: int = 0
    delta: str


class ReasoningDone(_OfItem, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    """All of the reasoning."""

    content_index: int = 0
    text: str


class SummaryPartAdded(_OfItem, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    """The only part of a summary begins."""

    summary_index: int = 0
    part: SummaryText


class SummaryPartDone(_OfItem, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    """The part is complete."""

    summary_index: int = 0
    part: SummaryText


class SummaryDelta(_OfItem, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    """More of a summary."""

    summary_index: int = 0
    delta: str


class SummaryDone(_OfItem, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    """All of a summary."""

    summary_index: int = 0
    text: str


class ArgumentsDelta(_OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    """More of a call's arguments."""

    delta: str


class ArgumentsDone(_OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    """All of a call's arguments."""

    arguments: str


class InputDelta(_OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    """More of the text that a custom tool is called with."""

    delta: str


class InputDone(_OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    """All of it."""

    input: str


def encode(event: Event) -> bytes:
    """The whole frame of `event`, with its empty line."""
    return _frame(str(event.__struct_config__.tag), _json(event))
