"""One answer being played: a script's steps in order, with their pauses, through a voice.

Order and time live here; bytes live in `voice` and `chunks`, slots in `slots`. Cancelled when its client goes.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable
from typing import Any, Protocol, assert_never

from aiohttp import web

from slotline.core.kind import Kind
from slotline.stub.received import Ask, Received
from slotline.stub.script import (
    Chunk,
    Close,
    Comment,
    Cut,
    Done,
    End,
    Error,
    Event,
    Finish,
    Hang,
    Head,
    Hold,
    Pause,
    Prefill,
    Progress,
    Raw,
    Reasoning,
    Repeat,
    Reset,
    Role,
    Saying,
    Script,
    Sleep,
    Step,
    Text,
    Tokens,
    ToolCall,
    Usage,
)
from slotline.stub.slots import Task
from slotline.stub.voice import Voice, reset_connection

_WORDS = {"text": "token", "reasoning": "thought"}


class Host(Protocol):
    """What an answer needs of the stub that plays it."""

    def changed(self) -> None:
        """Something that a test may wait for has happened."""

    async def held(self) -> None:
        """Waits until somebody releases the answers that are held."""

    def finished(self, received: Received) -> None:
        """Nothing more is generated for this request: its slot is free. Twice is harmless."""


class Answer:
    """Plays one script."""

    def __init__(
        self, host: Host, request: web.Request, received: Received, ask: Ask, script: Script, voice: Voice, kind: Kind
    ) -> None:
        self._host = host
        self._is_llama_cpp = kind is Kind.LLAMA_CPP
        self._request = request
        self._received = received
        self._ask = ask
        self._script = script
        self._voice = voice
        self.task = Task(0, "", 0)  # the slot's, once there is one
        self._numbers = {kind: itertools.count() for kind in _WORDS}
        self._thinking_ended = False
        self._head_sent = False
        self._started = time.monotonic()

    @property
    def controllable(self) -> bool:
        """Whether the request asked for `reasoning_control`, without which the control endpoint does nothing."""
        return bool(self._ask.reasoning_control)

    def end_thinking(self) -> None:
        """No further reasoning delta goes out, from the next one on, if the script heeds it."""
        self._thinking_ended = self._script.heeds_control

    async def open(self) -> None:
        """Sends the script's head before a slot is free, as servers do that queue behind their HTTP front."""
        match self._script.steps:
            case (Head() as head, *_):
                await self._head(head)

    async def play(self) -> web.StreamResponse:
        """All steps; returns the response, whose body is still to be ended by the server.

        Raises CancelledError or ConnectionError when the client goes.
        """
        self._started = time.monotonic()
        end = await self._run(self._script.steps)
        await self._voice.flush()
        self._host.finished(self._received)
        match end:
            case None:
                return await self._voice.end()
            case Close():
                return await self._voice.close()
            case Cut():
                return await self._voice.cut()
            case Reset():
                reset_connection(self._request)
                return web.Response()  # never sent: there is no connection any more
            case _:
                assert_never(end)

    async def _run(self, steps: Iterable[Step]) -> End | None:
        for step in steps:
            match step:
                case Tokens():
                    await self._tokens(step)
                case Head():
                    await self._head(step)
                case Repeat():
                    if end := await self._repeat(step):
                        return end
                case Sleep() | Prefill() | Hold() | Hang():
                    await self._pause(step)
                case Close() | Cut() | Reset():
                    return step
                case Comment() | Event() | Raw() | Error() | Done():
                    if isinstance(step, Done):
                        self._host.finished(self._received)
                    await self._voice.frame(step)
                case _:
                    await self._say(step)
        return None

    async def _repeat(self, repeat: Repeat) -> End | None:
        rounds = itertools.count() if repeat.times is None else range(repeat.times)
        for _ in rounds:
            if end := await self._run(repeat.steps):
                return end
            await asyncio.sleep(0)  # for ever, without a pause in it, must still be stoppable
        return None

    async def _head(self, head: Head) -> None:
        if self._head_sent:
            return
        self._head_sent = True
        await self._voice.head(head)
        self._host.changed()

    async def _tokens(self, step: Tokens) -> None:
        key = "content" if step.kind == "text" else step.key
        word, numbers = _WORDS[step.kind], self._numbers[step.kind]
        for first in itertools.count() if step.n is None else range(step.n):
            await asyncio.sleep(step.gap if first else 0)
            if step.kind == "reasoning" and self._thinking_ended:
                return
            number = next(numbers)
            await self._token(key, f" {word}-{number}" if number else f"{word}-{number}")

    async def _token(self, key: str, text: str) -> None:
        await self._voice.token(key, text)
        self._count()

    def _count(self) -> None:
        self._received.tokens += 1
        self.task.decoded += 1
        self._host.changed()

    async def _pause(self, pause: Pause) -> None:
        await self._voice.flush()
        match pause:
            case Sleep():
                await asyncio.sleep(pause.seconds)
            case Prefill():
                await self._prefill(pause)
            case Hold():
                await self._host.held()
            case Hang():
                await asyncio.Event().wait()
            case _:
                assert_never(pause)

    async def _prefill(self, step: Prefill) -> None:
        task, tells = self.task, self._is_llama_cpp and bool(self._ask.return_progress) and not step.silent
        todo = task.prompt_tokens - task.cached
        for batch in range(step.batches + 1):
            if batch:
                await asyncio.sleep(step.seconds / step.batches)
            task.processed = task.cached + todo * batch // step.batches
            self._host.changed()
            if tells:
                took = round((time.monotonic() - self._started) * 1000)
                await self._progress(Progress(task.processed, task.prompt_tokens, task.cached, took))

    async def _progress(self, step: Progress) -> None:
        progress = {
            "total": step.total,
            "cache": step.cached,
            "processed": step.processed,
            "time_ms": step.time_ms,
        }
        await self._voice.delta({"role": "assistant", "content": None}, prompt_progress=progress)
        await self._voice.flush()

    async def _say(self, step: Saying) -> None:
        match step:
            case Text():
                await self._token("content", step.text)
            case Reasoning():
                if not self._thinking_ended:
                    await self._token(step.key, step.text)
            case ToolCall():
                await self._voice.delta({"tool_calls": [_call(step)]})
                self._count()
            case Role():
                await self._voice.delta({"role": "assistant", "content": step.content})
            case Chunk():
                await self._voice.chunk(step.body)
            case Progress():
                await self._progress(step)
            case Finish():
                last = not (self._ask.stream and self._ask.wants_usage)
                await self._voice.delta({}, step.reason, **(self._timings() if last else {}))
            case Usage():
                await self._usage(step)
            case _:
                assert_never(step)

    async def _usage(self, step: Usage) -> None:
        if self._ask.stream and not (self._ask.wants_usage or step.always):
            return
        prompt = self.task.prompt_tokens if step.prompt is None else step.prompt
        completion = self._received.tokens if step.completion is None else step.completion
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": self.task.cached if step.cached is None else step.cached},
        }
        await self._voice.chunk({"choices": [], "usage": usage, **self._timings()})

    def _timings(self) -> dict[str, Any]:
        """llama-server's `timings`, which stand on its last chunk."""
        if not self._is_llama_cpp:
            return {}
        n, milliseconds = self._received.tokens, max((time.monotonic() - self._started) * 1000, 0.001)
        prompt = self.task.prompt_tokens - self.task.cached
        return {
            "timings": {
                "cache_n": self.task.cached,
                "prompt_n": prompt,
                "prompt_ms": milliseconds,
                "prompt_per_token_ms": milliseconds / max(prompt, 1),
                "prompt_per_second": prompt / milliseconds * 1000,
                "predicted_n": n,
                "predicted_ms": milliseconds,
                "predicted_per_token_ms": milliseconds / max(n, 1),
                "predicted_per_second": n / milliseconds * 1000,
            }
        }


def _call(step: ToolCall) -> dict[str, Any]:
    function = {"name": step.name, "arguments": step.arguments}
    call: dict[str, Any] = {"function": {key: value for key, value in function.items() if value is not None}}
    if step.index is not None:
        call["index"] = step.index
    if step.id is not None:
        call |= {"id": step.id, "type": "function"}
    return call
