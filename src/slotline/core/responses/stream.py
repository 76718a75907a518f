"""Messages stream → Responses stream: the same answer, event by event.

At every moment:

1. The first event is `response.created`, however early the client needs one, and whatever comes of it.
2. Items follow one another; each opens, grows and closes before the next one opens, and a block of the Messages stream
   is an item.
3. The last event holds the whole response, and nothing comes after it. A stream that fails has two last events: one
   with the response that failed, which some clients wait for (Codex), and `error`, at which others raise (OpenAI's).

A client that does not stream reads the same response, taken from `response`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import count
from typing import assert_never

import msgspec

from slotline.core.anthropic import events as read
from slotline.core.errors import SlotlineError
from slotline.core.openai.refusal import described
from slotline.core.responses import events as to
from slotline.core.responses.drafts import CallDraft, CustomCallDraft, Draft, MessageDraft, ReasoningDraft, SummaryDraft
from slotline.core.responses.errors import code
from slotline.core.responses.output import (
    Failure,
    Incomplete,
    InputDetails,
    Item,
    OutputDetails,
    Response,
    Status,
    Usage,
    response,
)
from slotline.core.responses.request import ResponsesRequest
from slotline.core.responses.tools import Callee


class _State(Enum):
    NEW = auto()
    """Nothing is out."""
    QUEUED = auto()
    """The response was created before the model began with it."""
    RUNNING = auto()
    ENDED = auto()


class ResponseStream:
    """One response."""

    def __init__(
        self, request: ResponsesRequest, *, response_id: str, item_id: Callable[[str], str], clock: Callable[[], float]
    ) -> None:
        """`item_id`: makes an identity with a prefix such as `msg_`. `clock`: Unix time in seconds."""
        self._response = response(request.echo, response_id, int(clock()))
        self._summarized = request.summarized
        self._sealed = request.sealed
        self._callees: Mapping[str, Callee] = request.callees
        self._item_id = item_id
        self._clock = clock
        self._number = count().__next__
        self._state = _State.NEW
        self._draft: Draft | None = None
        self._items: list[Item] = []
        self._thoughts = 0  # pieces of reasoning

    @property
    def response(self) -> Response:
        """As it is now."""
        return self._response

    @property
    def ended(self) -> bool:
        """The last event is out."""
        return self._state is _State.ENDED

    def translate(self, given: Sequence[read.Event]) -> list[to.Event]:
        """The next events of the Messages stream → what the client gets for them.

        Those that end a stream have to come together: what a message was cut by tells how its last item ended.
        """
        last = next((event for event in given if isinstance(event, read.MessageDelta)), None)
        cut = last is not None and last.stop_reason == "max_tokens"
        closing = max((index for index, event in enumerate(given) if isinstance(event, read.BlockStop)), default=-1)
        return [made for index, event in enumerate(given) for made in self._one(event, cut=cut and index == closing)]

    def sign(self) -> list[to.Event]:
        """A sign of life that is an event, for clients that take nothing else for one; never after the end."""
        made = list(self._create(Status.QUEUED))
        if self._state is _State.QUEUED:
            return [*made, to.Queued(sequence_number=self._number(), response=self._bare(Status.QUEUED))]
        return [to.InProgress(sequence_number=self._number(), response=self._bare(Status.IN_PROGRESS))]

    def fail(self, error: SlotlineError) -> list[to.Event]:
        """The last events of a stream in which `error` happened."""
        made = list(self._create(Status.IN_PROGRESS))
        if self._draft is not None:
            self._items.append(self._draft.item(cut=True))
        what, word = described(error), code(error)
        self._end(Status.FAILED, error=Failure(word, str(what["message"])))
        return [
            *made,
            to.Failed(sequence_number=self._number(), response=self._response),
            to.Error(sequence_number=self._number(), code=word, message=str(what["message"]), error=what),
        ]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _one(self, event: read.Event, *, cut: bool) -> Iterator[to.Event]:
        match event:
            case read.TextDelta(text=text) | read.JsonDelta(partial_json=text):
                yield from self._grow(text)
            case read.ThinkingDelta(thinking=text):
                self._thoughts += 1
                yield from self._grow(text)
            case read.MessageStart():
                yield from self._start()
            case read.TextStart() | read.ThinkingStart() | read.ToolStart():
                self._draft = self._new(event)
                yield from self._draft.begin()
            case read.BlockStop():
                yield from self._close(cut=cut)
            case read.MessageDelta():
                yield self._last(event)
            case read.SignatureDelta() | read.MessageStop() | read.Ping():
                pass
            case never:
                assert_never(never)

    def _create(self, status: Status) -> Iterator[to.Event]:
        if self._state is _State.NEW:
            self._state = _State.QUEUED
            yield to.Created(sequence_number=self._number(), response=self._bare(status))

    def _start(self) -> Iterator[to.Event]:
        yield from self._create(Status.IN_PROGRESS)
        self._state = _State.RUNNING
        yield to.InProgress(sequence_number=self._number(), response=self._bare(Status.IN_PROGRESS))

    def _bare(self, status: Status) -> Response:
        """The response without what has come of it: clients have that."""
        return msgspec.structs.replace(self._response, status=status)

    def _new(self, event: read.BlockStart) -> Draft:
        index = len(self._items)
        match event:
            case read.TextStart():
                return MessageDraft(self._item_id("msg_"), index, self._number)
            case read.ThinkingStart():
                kind = SummaryDraft if self._summarized else ReasoningDraft
                return kind(self._item_id("rs_"), index, self._number, sealed=self._sealed)
            case read.ToolStart(id=call_id, name=name):
                callee = self._callees.get(name) or Callee(name)
                if callee.custom:
                    return CustomCallDraft(self._item_id("ctc_"), index, self._number, call_id, callee)
                return CallDraft(self._item_id("fc_"), index, self._number, call_id, callee)

    def _grow(self, text: str) -> Iterable[to.Event]:
        """An empty piece, which some streams have as a sign of life, adds nothing."""
        return self._draft.add(text) if text and self._draft is not None else ()

    def _close(self, *, cut: bool) -> Iterator[to.Event]:
        if self._draft is None:
            return
        for event in self._draft.end(cut=cut):
            if isinstance(event, to.ItemDone):
                self._items.append(event.item)
            yield event
        self._draft = None

    def _last(self, event: read.MessageDelta) -> to.Event:
        usage = self._usage(event.usage)
        reason = _REASONS.get(event.stop_reason)
        if (
            reason is None or event.stop_details is not None
        ):  # what a model says itself is an answer, also if it refuses
            self._end(Status.COMPLETED, usage=usage, completed_at=int(self._clock()))
            return to.Completed(sequence_number=self._number(), response=self._response)
        self._end(Status.INCOMPLETE, usage=usage, incomplete_details=reason)
        return to.Incomplete(sequence_number=self._number(), response=self._response)

    def _usage(self, usage: read.Usage) -> Usage:
        """Where the server does not count the reasoning, its pieces are: tokens on every server known."""
        told = usage.output_tokens_details
        thoughts = min(self._thoughts, usage.output_tokens)
        prompt = usage.input_tokens + usage.cache_read_input_tokens
        return Usage(
            input_tokens=prompt,
            input_tokens_details=InputDetails(usage.cache_read_input_tokens),
            output_tokens=usage.output_tokens,
            output_tokens_details=OutputDetails(thoughts if told is msgspec.UNSET else told.thinking_tokens),
            total_tokens=prompt + usage.output_tokens,
        )

    def _end(self, status: Status, **what: object) -> None:
        self._draft = None
        self._state = _State.ENDED
        self._response = msgspec.structs.replace(self._response, status=status, output=tuple(self._items), **what)


_REASONS = {"max_tokens": Incomplete("max_output_tokens"), "refusal": Incomplete("content_filter")}
