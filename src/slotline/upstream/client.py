"""One inference server, spoken to over HTTP: chat requests as streams of events, bounded in every silence.

Nothing of the client's reaches the server but the body that the dialect made: no header, no cookie, no address. Errors
of the HTTP library are translated here, and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace, TracebackType
from typing import Self

import aiohttp

from slotline.core.errors import Protocol, Unreachable, UpstreamStatus
from slotline.core.kind import Kind, Traits
from slotline.core.limits import Limits
from slotline.core.liveness import Silence, State
from slotline.core.openai.errors import explain
from slotline.core.reading import Reading
from slotline.core.sse import Event, Parser
from slotline.upstream.address import Address
from slotline.upstream.asker import FAILURES, Asker, read_at_most, read_some
from slotline.upstream.deadline import Deadline
from slotline.upstream.kinds import llama_cpp, openai
from slotline.upstream.probe import Health, Sighting, look
from slotline.upstream.vigil import Call, Vigil

_CHAT = "/v1/chat/completions"
_JSON = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
_STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


class UpstreamClient:
    """One upstream. Used with `async with`, in the event loop that it belongs to."""

    def __init__(
        self, name: str, url: str, limits: Limits, kind: Kind | None = None, api_key: str | None = None
    ) -> None:
        """`kind`: None to find out by asking. `api_key`: sent as a bearer token."""
        self.name = name
        self.url = url
        self.limits = limits
        self.sighting = Sighting(Health.UNKNOWN)
        self._kind = kind
        self._address = Address.parse(url)
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}

    async def __aenter__(self) -> Self:
        reused = aiohttp.TraceConfig()
        reused.on_connection_reuseconn.append(_note_reuse)
        self._session = aiohttp.ClientSession(
            connector=self._address.connector(),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect, sock_read=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            trace_configs=[reused],
            skip_auto_headers=("Accept-Encoding",),
        )
        self._asker = Asker(self._session, self._address, self.limits.connect)
        self._vigil = Vigil(self._reading, self.limits.poll)
        self._keeping = asyncio.create_task(self._vigil.keep(), name=f"vigil {self.name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        await self._session.close()

    @property
    def traits(self) -> Traits:
        """The kind that is configured, else the one seen, else the plainest; the rest as last seen."""
        seen = self.sighting
        return Traits(self._kind or seen.kind or Kind.OPENAI, seen.context, seen.vision)

    async def look(self) -> Sighting:
        """Asks the server how it is, and remembers the answer."""
        self.sighting = await look(self._asker, self._kind)
        return self.sighting

    @asynccontextmanager
    async def answer(self, body: bytes) -> AsyncIterator[Answer]:
        """Sends a chat request; see `slotline.relay.Upstream`."""
        now = asyncio.get_running_loop().time()
        silence = Silence(self.limits, now)
        async with Deadline(silence.deadline, silence.overdue) as deadline:
            call = Call(silence, deadline, now)
            self._vigil.sent(call)
            try:
                response = await self._head(body, call)
                self._vigil.answered(call)
                try:
                    yield Answer(self.name, response, self.limits, silence, deadline)
                finally:
                    response.release()  # closes the connection unless its body has been read to the end
            finally:
                self._vigil.ended(call)

    async def count(self, body: bytes) -> int | None:
        """The tokens of a chat request's prompt, by the server's own template and tokenizer; None where it has none."""
        return await llama_cpp.count(self._asker, body) if self.traits.kind is Kind.LLAMA_CPP else None

    async def _reading(self) -> Reading:
        """What the server shows of its slots; asked for every `poll` while somebody waits for an answer to begin."""
        if self.traits.kind is Kind.LLAMA_CPP:
            return await llama_cpp.reading(self._asker)
        return await openai.reading(self._asker)

    # ---- the head ----------------------------------------------------------------------------------------------------

    async def _head(self, body: bytes, call: Call) -> aiohttp.ClientResponse:
        """The response to `body`, once it is a good one; a server that says it is loading is asked again."""
        time = asyncio.get_running_loop().time
        silence, deadline = call.silence, call.deadline
        while True:
            try:
                response = await self._send(body)
            except Unreachable:
                if silence.state is not State.LOADING:
                    raise
                await asyncio.sleep(self.limits.poll)  # it said that it loads, so this is one more part of that
                continue
            if response.status == 200:
                silence.bytes(time())
                return response
            failure = await self._refusal(response)
            if failure.upstream_status != 503 or "load" not in failure.body.lower():
                raise failure
            silence.saw(State.LOADING, time())
            deadline.move(silence.deadline)
            await asyncio.sleep(self.limits.poll)

    async def _send(self, body: bytes) -> aiohttp.ClientResponse:
        """One request; a kept-alive connection that turns out to be closed is forgotten, and the next one tried."""
        while True:
            trace: dict[str, bool] = {}
            try:
                return await self._session.post(
                    self._address.url(_CHAT), data=body, headers=_JSON, allow_redirects=False, trace_request_ctx=trace
                )
            except _STALE as error:
                if not trace.get("reused"):
                    raise self._unreachable(error) from error
            except FAILURES as error:
                raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> Unreachable:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            limit = f"connect = {self.limits.connect:g} s"
            return Unreachable(f"connecting to the upstream {self.name}: no connection within {limit}")
        reason = str(error) or type(error).__name__
        return Unreachable(f"the upstream {self.name} cannot be reached: {reason}")

    async def _refusal(self, response: aiohttp.ClientResponse) -> UpstreamStatus:
        try:
            if response.status < 400:
                raise Protocol(f"the upstream {self.name} answered with status {response.status}, which is no answer")
            text = await read_at_most(response, UpstreamStatus.MAX_BODY)
            return explain(response.status, text, response.headers.get("content-type", ""))
        finally:
            response.release()


class Answer:
    """The events of one answer as they come: the `data` of those that were read together.

    A connection that breaks simply ends here; the dialect knows whether that was too early.
    """

    def __init__(
        self, name: str, response: aiohttp.ClientResponse, limits: Limits, silence: Silence, deadline: Deadline
    ) -> None:
        self._name = name
        self._response = response
        self._limits = limits
        self._silence = silence
        self._deadline = deadline
        self._time = asyncio.get_running_loop().time
        self._parser = Parser(limits.max_event)
        self._pieces = 0
        self._ended = False
        self._is_stream = response.content_type == "text/event-stream"
        if not self._is_stream and response.content_type != "application/json":
            raise Protocol(f"the upstream {name} answered with {response.content_type}, not with a stream of events")

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> list[bytes]:
        """The next events. What the caller does with them is not the upstream's silence."""
        if self._ended:
            raise StopAsyncIteration
        self._deadline.move(self._silence.deadline)
        try:
            return await self._events() if self._is_stream else [await self._whole()]
        finally:
            self._deadline.suspend()

    def heard(self, pieces: int) -> None:
        """`pieces` of the answer were in what has come so far: its silence begins anew with each."""
        if pieces > self._pieces:
            self._pieces = pieces
            self._silence.piece(self._time())

    async def _events(self) -> list[bytes]:
        while data := await read_some(self._response):
            self._silence.bytes(self._time())
            self._deadline.move(self._silence.deadline)
            if events := self._parser.feed(data):
                return self._data(events)
        self._ended = True
        if events := self._parser.close():
            return self._data(events)
        raise StopAsyncIteration

    def _data(self, events: list[Event]) -> list[bytes]:
        """What the dialect reads. Very old servers report a failure as an event of another name, then nothing."""
        for event in events:
            if event.name == "error":
                raise explain(500, event.data, "application/json")
        return [event.data for event in events]

    async def _whole(self) -> bytes:
        """The one JSON object that some servers send although a stream was asked for; `max_event` bounds it."""
        self._ended = True
        limit = self._limits.max_event
        whole = await read_at_most(self._response, limit + 1)
        if len(whole) > limit:
            raise Protocol(f"the upstream {self._name} sent an answer of more than max_event = {limit} bytes")
        return whole


async def _note_reuse(session: object, context: SimpleNamespace, params: object) -> None:
    """Marks the request that this trace belongs to: it goes out on a connection that was kept alive."""
    if context.trace_request_ctx is not None:
        context.trace_request_ctx["reused"] = True
