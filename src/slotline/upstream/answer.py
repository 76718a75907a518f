"""One answer of a server as it comes: bytes into events, bounded in size and in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from slotline.core.errors import Protocol, UpstreamStatus
from slotline.core.limits import Limits
from slotline.core.liveness import Silence
from slotline.core.openai.errors import explain
from slotline.core.sse import Event, Parser
from slotline.upstream.asker import read_at_most, read_some
from slotline.upstream.deadline import Deadline

_WHOLE = 8
"""An answer in one piece may be so many times longer than an event: a batch of embeddings easily has 20 MB."""


class Answer:
    """The events of one answer as they come: the `data` of those that were read together.

    A connection that breaks simply ends here; the dialect knows whether that was too early.
    """

    def __init__(
        self,
        name: str,
        response: aiohttp.ClientResponse,
        limits: Limits,
        silence: Silence,
        deadline: Deadline,
        began: Callable[[], None],
        end_reasoning: Callable[[str | None, str], Awaitable[bool]],
    ) -> None:
        self._began = began
        self._end_reasoning = end_reasoning
        self._name = name
        self._response = response
        self._limits = limits
        self._silence = silence
        self._deadline = deadline
        self._time = asyncio.get_running_loop().time
        self._heard = self._time()  # a byte: the head's, at first
        self._left = self._time()  # when the caller got what there was; since then nobody listens
        self._parser = Parser(limits.max_event)
        self._pieces = 0
        self._ended = False
        self._failure: UpstreamStatus | None = None  # comes next
        self._is_stream = response.content_type == "text/event-stream"
        if not self._is_stream and response.content_type != "application/json":
            raise Protocol(f"the upstream {name} answered with {response.content_type}, not with a stream of events")

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> list[bytes]:
        """The next events. What the caller does with them is not the upstream's silence."""
        if self._failure is not None:
            raise self._failure
        if self._ended:
            raise StopAsyncIteration
        self._silence.excuse(self._time() - self._left)
        self._deadline.move(self._silence.deadline)
        try:
            return await self._events() if self._is_stream else [await self._whole()]
        finally:
            self._deadline.suspend()
            self._left = self._time()

    async def end_reasoning(self, completion: str | None, passed: str) -> bool:
        """See `slotline.conversation.Answer`."""
        return await self._end_reasoning(completion, passed)

    @property
    def quiet(self) -> float:
        """See `slotline.conversation.Answer`."""
        return self._time() - self._heard

    def heard(self, pieces: int) -> None:
        """`pieces` of the answer were in what has come so far: its silence begins anew with each."""
        if pieces > self._pieces:
            if self._pieces == 0:
                self._began()
            self._pieces = pieces
            self._silence.piece(self._left)

    async def _events(self) -> list[bytes]:
        while self._parser.fault is None and (data := await read_some(self._response)):
            self._heard = self._time()
            self._silence.bytes(self._heard)
            self._deadline.move(self._silence.deadline)
            if events := self._parser.feed(data):
                return self._data(events)
        self._ended = True
        if events := self._parser.close():
            return self._data(events)
        raise StopAsyncIteration

    def _data(self, events: list[Event]) -> list[bytes]:
        """What the dialect reads. Very old servers report a failure as an event of another name, then nothing."""
        data: list[bytes] = []
        for event in events:
            if event.name == "error":
                self._failure = explain(500, event.data, "application/json")
                break
            data.append(event.data)
        if self._failure is not None and not data:
            raise self._failure
        return data

    async def _whole(self) -> bytes:
        """An answer in one JSON object: embeddings, and what some servers send although a stream was asked for."""
        self._ended = True
        limit = _WHOLE * self._limits.max_event
        whole = await read_at_most(self._response, limit + 1)
        self._heard = self._time()
        if len(whole) > limit:
            raise Protocol(
                f"the upstream {self._name} sent an answer of more than {_WHOLE} times max_event = {limit} bytes"
            )
        return whole
