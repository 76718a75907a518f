"""Slotline as a library: chats with one inference server, without a gateway in between.

    async with Client("unix:/run/llama.sock", kind="llama.cpp", slots=2, queue=8) as client:
        async for event in client.chat([{"role": "user", "content": "hi"}], slot=0):
            match event: ...

It is made of the gateway's own parts: the line, the upstream and the conversation. Each slot of the server has a line
of its own here, so that a chat can ask for one slot, or for whichever is free first.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from slotline.conversation import Conversation
from slotline.core.anthropic.stream import MessageStream
from slotline.core.chat import Chat, Event, Queued, ThinkingCapped, Waiting
from slotline.core.errors import Invalid
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.core.liveness import State
from slotline.core.thinking import Cap
from slotline.gate.local import LocalGate
from slotline.gate.usher import Berth
from slotline.upstream.client import UpstreamClient
from slotline.upstream.tenancy import Tenancy

_End = Exception | None  # what ends a chat's events: an error, or nothing more


class Client:
    """One server. Used with `async with`, in one event loop."""

    def __init__(
        self,
        url: str,
        *,
        kind: str = "auto",
        slots: int = 2,
        queue: int = 8,
        limits: Limits | None = None,
        api_key: str | None = None,
    ) -> None:
        """`url`: `http://host:port`, with or without `/v1`, or `unix:/path`. `kind`: see the configuration's.

        `slots`: how many chats run at once. `queue`: how many may wait for each slot; one more raises Busy.
        Raises ValueError for an address, a kind or a number that cannot be.
        """
        if not url.startswith(("http://", "https://", "unix:/")):
            raise ValueError(f"url: expected http://host:port, https://… or unix:/path, got {url!r}")
        if kind != "auto" and kind not in set(Kind):
            raise ValueError(f"kind: expected auto, {', '.join(Kind)}, got {kind!r}")
        if slots < 1 or queue < 0:
            raise ValueError(f"slots and queue: expected at least 1 and 0, got {slots} and {queue}")
        self._slots = slots
        self._queue = queue
        self._limits = limits or Limits()
        tenancy = Tenancy(slots, pins=True, drain=self._limits.drain, clock=time.monotonic)
        known = None if kind == "auto" else Kind(kind)
        self._upstream = UpstreamClient("server", url, self._limits, known, api_key, tenancy)
        self._chats: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._upstream)
            await self._upstream.look()
            berths = {str(slot): Berth(1, self._queue) for slot in range(self._slots)}
            self._gate = LocalGate(berths, time.monotonic)
            stack.push_async_callback(self._end_chats)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        slot: int | None = None,
        model: str | None = None,
        **parameters: Any,
    ) -> AsyncGenerator[Event, None]:
        """The events of one chat, the last of them Completed. Leaving the loop ends the chat, also at the server.

        `messages` and `parameters` (`max_tokens`, `tools`, `temperature` …) as in OpenAI's chat completions. `slot`:
        this one and no other. `model`: the first that the server lists, if not given.
        Raises Busy, WaitTimeout, LoadTimeout, Stalled, StreamClosedEarly, ThinkingOverrun, UpstreamStatus, Protocol,
        Unreachable; Invalid for a slot that does not exist, or messages that are not JSON.
        """
        if slot is not None and not 0 <= slot < self._slots:
            raise Invalid(f"slot: expected a number from 0 to {self._slots - 1}, got {slot}")
        served = self._upstream.sighting.models
        target = model or (served[0] if served else "default")
        stream = MessageStream(message_id="", model=target, tool_id=lambda: "call_" + secrets.token_hex(12))
        chat = Chat(messages, parameters, stream)
        events: asyncio.Queue[Event | _End] = asyncio.Queue()
        task = asyncio.create_task(self._run(chat, target, slot, events.put_nowait))
        self._chats.add(task)
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._chats.discard(task)

    async def _end_chats(self) -> None:
        """Ends the chats whose loops were left without being closed."""
        for task in self._chats:
            task.cancel()
        if self._chats:
            await asyncio.wait(self._chats)

    async def _run(self, chat: Chat, target: str, slot: int | None, emit: Callable[[Event | _End], None]) -> None:
        """One chat; whatever happens to it is emitted, and nothing is raised but a cancellation."""
        try:
            await self._converse(chat, target, slot, emit)
        except Exception as error:  # noqa: BLE001 - raised again where the events are read
            emit(error)
        else:
            emit(None)

    async def _converse(self, chat: Chat, target: str, slot: int | None, emit: Callable[[Event | _End], None]) -> None:
        cap = Cap(self._limits, chat.thinking_budget)
        told_of_cap = False

        async def deliver(_: bytes) -> None:
            nonlocal told_of_cap
            if cap.passed and cap.limit is not None and not told_of_cap:
                told_of_cap = True
                emit(ThinkingCapped(cap.limit))
            for event in chat.take():
                emit(event)

        def saw(state: State) -> None:
            emit(Waiting(slot_busy=state is State.BUSY))

        lines = {str(slot)} if slot is not None else {str(each) for each in range(self._slots)}
        async with self._gate.turn(lines) as turn:
            async for told in turn:
                emit(Queued(told.place.position - 1))
            conversation = Conversation(self._upstream, chat, target, cap)
            await conversation.hold(turn.hold, deliver, saw, only=int(str(turn.upstream)))
        await deliver(b"")
