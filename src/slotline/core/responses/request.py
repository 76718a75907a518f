"""A request to the Responses API, parsed: what is known to be right from here on, and nothing else.

`parse` is all or nothing, and refuses with `Invalid`, naming field and value, before anything is acquired for the
request. What asks for something that is kept between requests is refused, because leaving it out would change the
meaning; so are jobs that run after their request has ended. Fields that nothing here can honour are left out, and named
in `ignored`.

A request that says nothing about reasoning gets what the model does by itself: on OpenAI's API models reason unless
they are told not to, and this is what those who write for it expect.

The fields: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from slotline.core.anthropic.blocks import Reasoning as Thought
from slotline.core.anthropic.request import Effort, MessagesRequest, Mode, Thinking
from slotline.core.anthropic.switches import ANY_OBJECT
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid
from slotline.core.responses import items, tools
from slotline.core.responses.output import Echo, Reasoning, Text
from slotline.core.responses.tools import Callee


class ResponsesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request. `messages`: as it goes upstream. `echo`: what the response repeats of it."""

    messages: MessagesRequest
    echo: Echo
    callees: Mapping[str, Callee]
    """What the client means by the names of tools."""
    summarized: bool
    """It asked for a summary of the reasoning."""
    sealed: bool
    """It asked for the reasoning in a form that it can send back."""


# ---- the wire --------------------------------------------------------------------------------------------------------

_Null = msgspec.Raw(b"null")
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class _Reasoning(msgspec.Struct, frozen=True):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: str | None = None
    generate_summary: str | None = None  # its name until 2025


class _Format(msgspec.Struct, frozen=True):
    type: Literal["text", "json_schema", "json_object"] = "text"
    schema: dict[str, msgspec.Raw] | None = None


class _Text(msgspec.Struct, frozen=True):
    format: msgspec.Raw = _Null
    verbosity: str | None = None


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    model: Annotated[str, msgspec.Meta(min_length=1)]
    input: str | list[msgspec.Raw]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: _Positive | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _Null
    parallel_tool_calls: bool | None = None
    reasoning: _Reasoning | None = None
    text: _Text | None = None
    include: list[str] | None = None
    metadata: dict[str, str] | None = None
    max_tool_calls: _Positive | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None


_WORDING = {
    "model": "a non-empty string",
    "input": "a string or a list of items",
    "max_output_tokens": "an integer of at least 1",
    "max_tool_calls": "an integer of at least 1",
    "temperature": "a number from 0 to 2",
    "top_p": "a number from 0 to 1",
    "reasoning.effort": '"none", "minimal", "low", "medium", "high", "xhigh" or "max"',
}


def parse(raw: bytes) -> ResponsesRequest:
    """The body of a call to `/v1/responses`."""
    try:
        raw.decode()  # parts of the body are passed on unread, and have to be text all the same
    except UnicodeDecodeError as error:
        raise Invalid(f"body: not valid UTF-8 at byte {error.start}") from None
    body = decode(raw, _Body, wording=_WORDING)
    _refuse_kept(body)
    known = frozenset(_Body.__struct_fields__)
    ignored = [name[:80] for name in decode(raw, dict[str, msgspec.Raw]) if name not in known]
    offers = [(join("tools", index), raw) for index, raw in enumerate(body.tools or ())]
    messages = items.read(body.input, ignored, offers)
    if all(isinstance(block, Thought) for message in messages for block in message.blocks):
        raise invalid("input", "something to answer", body.input)
    found = tools.read(offers, ignored)
    parallel = body.parallel_tool_calls is not False
    offered, choice = tools.choose(body.tool_choice, found, parallel=parallel)
    reasoning, text = body.reasoning or _Reasoning(), body.text or _Text()
    return ResponsesRequest(
        messages=MessagesRequest(
            model=body.model,
            messages=messages,
            max_tokens=body.max_output_tokens,
            system=(body.instructions,) if body.instructions else (),
            stream=bool(body.stream),
            temperature=body.temperature,
            top_p=body.top_p,
            tools=offered,
            tool_choice=choice,
            thinking=_thinking(reasoning.effort),
            effort=_EFFORTS.get(reasoning.effort or ""),
            schema=_schema(text.format),
            user_id=body.user or body.safety_identifier or body.prompt_cache_key,
            ignored=tuple(ignored),
        ),
        echo=_echo(body, found.sent, reasoning, text),
        callees=found.callees,
        summarized=_asked(reasoning) is not None,
        sealed="reasoning.encrypted_content" in (body.include or ()),
    )


def _refuse_kept(body: _Body) -> None:
    """What needs a memory, or somebody who goes on when the client has left."""
    for field, value in (
        ("previous_response_id", body.previous_response_id),
        ("conversation", body.conversation),
        ("prompt", body.prompt),
    ):
        if value is not None:
            raise Invalid(f"{field}: not supported here, as nothing is kept between requests; send all of it in input")
    if body.store:
        raise Invalid("store: true is not supported here, as no response is kept; send false, or leave it out")
    if body.background:
        raise Invalid("background: true is not supported here, as a request ends with its connection; leave it out")


_EFFORTS: Mapping[str, Effort] = {"minimal": Effort.LOW, **{effort.value: effort for effort in Effort}}


def _thinking(effort: str | None) -> Thinking:
    if effort is None:
        return Thinking(Mode.MODEL)
    return Thinking(Mode.DISABLED if effort == "none" else Mode.ENABLED)


def _schema(raw: msgspec.Raw) -> msgspec.Raw | None:
    if bytes(raw) == b"null":
        return None
    wanted = decode(raw, _Format, at="text.format", wording={"type": '"text", "json_schema" or "json_object"'})
    if wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return msgspec.Raw(ANY_OBJECT)
    if wanted.schema is None:
        raise Invalid('text.format.schema: a required field with type "json_schema", and it is missing')
    return msgspec.Raw(msgspec.json.encode(wanted.schema))


def _asked(reasoning: _Reasoning) -> str | None:
    """The summary that was asked for."""
    summary = reasoning.summary or reasoning.generate_summary
    return None if summary == "none" else summary


def _echo(body: _Body, sent: tuple[msgspec.Raw, ...], reasoning: _Reasoning, text: _Text) -> Echo:
    unset = bytes(text.format) == b"null"
    return Echo(
        model=body.model,
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        max_tool_calls=body.max_tool_calls,
        metadata=body.metadata or {},
        parallel_tool_calls=body.parallel_tool_calls is not False,
        prompt_cache_key=body.prompt_cache_key,
        reasoning=Reasoning(reasoning.effort, _asked(reasoning)),
        safety_identifier=body.safety_identifier,
        temperature=body.temperature,
        text=Text(verbosity=text.verbosity or "medium") if unset else Text(text.format, text.verbosity or "medium"),
        tool_choice=msgspec.Raw(b'"auto"') if bytes(body.tool_choice) == b"null" else body.tool_choice,
        tools=tuple(map(_whole, sent)),
        top_p=body.top_p,
        user=body.user,
    )


def _whole(tool: msgspec.Raw) -> msgspec.Raw:
    """A tool with the fields that the clients' types demand of a function in a response."""
    fields = msgspec.json.decode(tool, type=dict[str, msgspec.Raw])
    if bytes(fields["type"]) != b'"function"':
        return tool
    return msgspec.Raw(msgspec.json.encode({"parameters": None, "strict": None, **fields}))
