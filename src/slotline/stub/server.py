"""The stub: a scripted upstream on a socket, with slots and a queue of its own like llama-server's.

`async with Stub(slots=2, tokens=5) as stub:` listens on a free port of loopback; `slotline stub` runs the same object.
A request's life is `_infer`: recorded, given a script, seated on a slot, answered; one `finally` lets go of everything.
A client that goes cancels its handler, so its slot is free at once (or after `abort_lag`).
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from slotline.core.kind import Kind
from slotline.stub.answer import Answer
from slotline.stub.chunks import Chunks, TextChunks
from slotline.stub.floor import Condition, Floor
from slotline.stub.plan import Plan, Repertoire, Side, scripts_of
from slotline.stub.received import Ask, Received, TextAsk, count_tokens
from slotline.stub.refusal import Refusal, refused, server_header
from slotline.stub.routes import Routes
from slotline.stub.script import Script
from slotline.stub.standard import usual, words
from slotline.stub.state import Call, State
from slotline.stub.voice import Stream, Voice, Whole, WholeText

_TEXT = "/v1/completions"
_INFERENCE = ("/v1/chat/completions", "/chat/completions", _TEXT)
_MAX_BODY = 1 << 30  # bytes; limits are the gateway's business, not its fake's


@dataclass(kw_only=True, eq=False)
class Stub:
    """A scripted OpenAI-compatible server. Settings are attributes; those below the line may change at any time."""

    host: str = "127.0.0.1"
    port: int = 0  # 0: any free one; after `start` the real one, which a second `start` takes again
    uds: Path | None = None  # a unix socket in place of a port
    backlog: int = 1024  # of the listening socket
    slots: int = 2
    kind: Kind = Kind.LLAMA_CPP  # or OPENAI: no side routes, and the head is sent while the request is queued
    keep: int = 10_000  # how many requests, and how many calls of other routes, are remembered
    load: float = 0.0  # seconds of "Loading model" after each start

    # ------------------------------------------------------------------------------------------------------------------
    models: tuple[str, ...] = ("stub",)  # what /v1/models lists; any name is answered
    context: int = 8192  # tokens; a longer prompt is refused as llama-server refuses it
    tokens: int = 16  # the usual answer: so many content deltas …
    thinking: int = 0  # … after so many reasoning deltas …
    gap: float = 0.0  # … so many seconds apart …
    hold: float = 0.0  # … after so many seconds of silence …
    prefill: float = 0.0  # … after so many seconds of reading the prompt, which /slots shows …
    batches: int = 8  # … in so many steps
    echo: bool = False  # the usual answer repeats the last user text
    default: Script | None = None  # in place of the usual answer
    has_slots: bool = True  # False: /slots answers 501
    abort_lag: float = 0.0  # seconds for which a slot still computes after its client has gone
    sleeping: bool = False  # what /props says; asking for /slots wakes
    refuse: Callable[[Any], str | None] | None = None  # given a body, why it is refused with 400, or None

    floor: Floor = field(init=False, repr=False)
    repertoire: Repertoire = field(init=False, repr=False, default_factory=Repertoire)
    answers: dict[str, Answer] = field(init=False, repr=False, default_factory=dict)  # by completion id
    hits: Counter[str] = field(init=False, repr=False, default_factory=Counter)  # requests by path, of all routes
    calls: deque[Call] = field(init=False, repr=False)  # requests of all routes but the completions
    _runner: web.AppRunner | None = field(init=False, repr=False, default=None)
    _open: set[asyncio.Transport] = field(init=False, repr=False, default_factory=set)
    _loaded_at: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        self.floor = Floor(self.slots, self.keep)
        self.calls = deque(maxlen=self.keep)

    # ---- for tests in the same process -------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """`http://HOST:PORT`, or `unix:PATH`."""
        if self.uds is not None:
            return f"unix:{self.uds}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def state(self) -> State:
        """The numbers of this moment."""
        return self.floor.state

    @property
    def requests(self) -> tuple[Received, ...]:
        """Every request for a completion ever received (the last `keep`), in order of arrival."""
        return tuple(self.floor.requests)

    @property
    def sides(self) -> dict[str, Side]:
        """How routes misbehave, by path; change it as you like."""
        return self.repertoire.sides

    @property
    def by_model(self) -> dict[str, Script]:
        """Scripts for models; change it as you like."""
        return self.repertoire.models

    def play(self, *scripts: Script) -> None:
        """One script for each of the next requests, in order of arrival."""
        self.repertoire.play(*scripts)

    def apply(self, plan: Plan) -> None:
        """Changes the repertoire, as `POST /stub/script` does."""
        self.repertoire.apply(plan)
        if plan.default is not None:
            (self.default,) = scripts_of([plan.default])

    async def until(self, condition: Condition, timeout: float = 5.0) -> State:  # noqa: ASYNC109 — as `Floor.until`
        """Waits until the condition holds of the state, asked at every change; TimeoutError after `timeout` seconds."""
        return await self.floor.until(condition, timeout)

    def release(self, n: int | None = None) -> int:
        """Lets the first `n` of the answers that are held now go on (None: all); returns how many."""
        return self.floor.release(n)

    def start_loading(self, seconds: float = math.inf) -> None:
        """Every route answers 503 "Loading model" from now on, for so long or until `finish_loading`."""
        self._loaded_at = time.monotonic() + seconds

    def finish_loading(self) -> None:
        """The model is loaded."""
        self._loaded_at = 0.0

    # ---- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens. Raises OSError if the address is taken."""
        app = web.Application(client_max_size=_MAX_BODY, middlewares=[self._gate])
        routes = Routes(self)
        app.add_routes([*(web.post(path, self._infer) for path in _INFERENCE), *routes.of_every_server()])
        app.add_routes(routes.of_the_stub())
        if self.kind is Kind.LLAMA_CPP:
            app.add_routes(routes.of_llama_cpp())
        # Handlers are cancelled when their client goes; without this a silent answer would keep its slot.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await self._listen(self._runner)
        except BaseException:
            await self.stop()
            raise
        if self.load:
            self.start_loading(self.load)

    async def _listen(self, runner: web.AppRunner) -> None:
        if self.uds is not None:
            await web.UnixSite(runner, str(self.uds), backlog=self.backlog).start()
            return
        await web.TCPSite(runner, self.host, self.port, backlog=self.backlog).start()
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Breaks off every answer, as a server does that dies, and listens no more. Twice is harmless."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in tuple(runner.sites):
            await site.stop()
        for transport in tuple(self._open):
            transport.abort()
        await runner.cleanup()
        self.floor.stop()
        if self.uds is not None:
            self.uds.unlink(missing_ok=True)

    # ---- requests ----------------------------------------------------------------------------------------------------

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every request passes here: counted, then misbehaved with, refused while loading, or handled."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client has gone")
        self._open.add(transport)
        try:
            if request.path.startswith("/stub/"):
                return await self._handled(request, handler)
            await self._record(request)
            side = self.sides.get(request.path)
            return await (self._handled(request, handler) if side is None else self._aside(side, request, handler))
        finally:
            self._open.discard(transport)

    async def _record(self, request: web.Request) -> None:
        self.hits[request.path] += 1
        if request.path not in _INFERENCE:
            body = await request.read()
            call = Call(request.method, request.path, request.query_string, _headers(request), body, time.monotonic())
            self.calls.append(call)
        self.floor.changed()

    async def _aside(self, side: Side, request: web.Request, handler: Handler) -> web.StreamResponse:
        if side.hang:
            await asyncio.Event().wait()
        if side.status is None and side.body is None:
            response = await self._handled(request, handler)
        else:
            headers = server_header(self.kind) | {"Content-Type": side.content_type}
            response = web.Response(status=side.status or 200, text=side.body or "", headers=headers)
        await asyncio.sleep(side.delay)
        return response

    async def _handled(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if not request.path.startswith("/stub/"):
                self._check_loaded()
            return await handler(request)
        except Refusal as refusal:
            return refused(self.kind, refusal)
        except web.HTTPException as error:
            kind = "not_found_error" if error.status == 404 else "invalid_request_error"
            return refused(self.kind, Refusal(error.status, error.reason, kind))

    def _check_loaded(self) -> None:
        if time.monotonic() < self._loaded_at:
            raise Refusal(503, "Loading model", "unavailable_error")

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        received = self.floor.receive(request.path, _headers(request), await request.read())
        try:
            ask = self._ask(received)
            script = self._script(ask)
            answer = Answer(
                self.floor, request, received, ask, script, self._voice(request, received, ask, script), self.kind
            )
            self.answers[received.id] = answer
            if not script.takes_slot:
                self.floor.run(received)
            else:
                if self.kind is not Kind.LLAMA_CPP:
                    await answer.open()
                answer.task = await self.floor.seat(received, ask)
            return await answer.play()
        except Refusal:
            self.floor.finished(received)
            raise
        except ConnectionError:  # the client has gone, and writing to it noticed that first
            return web.Response()  # never sent
        finally:
            self.answers.pop(received.id, None)
            self.floor.left(received, self.abort_lag)

    def _ask(self, received: Received) -> Ask:
        try:
            ask = msgspec.json.decode(received.raw, type=TextAsk if received.path == _TEXT else Ask)
        except msgspec.DecodeError as wrong:
            raise Refusal(400, str(wrong)) from wrong
        received.model = ask.model
        if self.refuse is not None and (reason := self.refuse(received.body)) is not None:
            raise Refusal(400, reason)
        tokens = count_tokens(ask.prompt)
        if tokens > self.context:
            message = f"the request exceeds the available context size ({tokens} tokens > {self.context})"
            numbers = {"n_prompt_tokens": tokens, "n_ctx": self.context}
            raise Refusal(400, message, "exceed_context_size_error", **numbers)
        return ask

    def _script(self, ask: Ask) -> Script:
        try:
            return self.repertoire.choose(ask.model) or self.default or self._usual(ask)
        except ValueError as wrong:
            raise Refusal(400, str(wrong)) from wrong

    def _usual(self, ask: Ask) -> Script:
        """The answer of the settings, within the limits that the request sets."""
        text = ask.last_user_text if self.echo else None
        wanted = self.tokens if text is None else len(words(text))
        limit = sys.maxsize if ask.limit is None else ask.limit
        budget = sys.maxsize if ask.thinking_limit is None else ask.thinking_limit
        thinking = min(self.thinking, budget, limit)
        tokens = min(wanted, limit - thinking)
        return usual(
            tokens=tokens,
            gap=self.gap,
            thinking=thinking,
            hold=self.hold,
            prefill=self.prefill,
            batches=self.batches if self.prefill else 1,
            echo=text,
            reason="stop" if tokens == wanted else "length",
        )

    def _voice(self, request: web.Request, received: Received, ask: Ask, script: Script) -> Voice:
        created, headers, chat = int(time.time()), server_header(self.kind), received.path != _TEXT
        if ask.stream:
            chunks = (Chunks if chat else TextChunks)(received.id, ask.model, created, script.newline)
            return Stream(request, chunks, headers, script.write_size)
        whole = {"id": received.id, "created": created, "model": ask.model}
        return (Whole if chat else WholeText)(request, whole, headers)


def _headers(request: web.Request) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
