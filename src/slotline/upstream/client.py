"""One inference server, spoken to over HTTP: chat requests as streams of events, bounded in every silence.

Nothing of the client's reaches the server but the body that the dialect made: no header, no cookie, no address; where
requests are traced, the identity of the trace. Errors of the HTTP library are translated here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType, SimpleNamespace, TracebackType
from typing import Self

import aiohttp

from slotline.core.errors import Protocol, ThinkingOverrun, Unreachable, UpstreamFailure, UpstreamStatus
from slotline.core.kind import Kind, Traits
from slotline.core.limits import Limits, ThinkingEnd
from slotline.core.liveness import Silence, State
from slotline.core.openai.errors import explain
from slotline.core.reading import Reading
from slotline.upstream.address import Address
from slotline.upstream.answer import Answer
from slotline.upstream.asker import FAILURES, Asker, connecting, payload, read_at_most, reason
from slotline.upstream.beside import beside
from slotline.upstream.deadline import Deadline
from slotline.upstream.kinds import SERVERS, llama_cpp
from slotline.upstream.probe import Health, Sighting, look
from slotline.upstream.tenancy import Seat, Tenancy
from slotline.upstream.vigil import Call, Vigil

_log = logging.getLogger(__name__)

CHAT = "/v1/chat/completions"
_JSON = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
_OURS = {"user-agent": "slotline"}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_KEEPALIVE = 4.0
"""Seconds for which a connection waits for its next request: less than the 5 s after which llama-server and uvicorn
(vLLM, SGLang) close one, so that hardly ever a request meets a connection that is being closed."""
_STALE_WITHIN = 1.0
"""Seconds within which a connection that was closed already shows it: one round trip, on the slowest of networks."""
_LOADING = re.compile(r"\bloading\b", re.IGNORECASE)  # and not "overloaded", which other servers say with a 503


class UpstreamClient:
    """One upstream. Used with `async with`, in the event loop that it belongs to."""

    def __init__(
        self,
        name: str,
        url: str,
        limits: Limits,
        kind: Kind | None = None,
        api_key: str | None = None,
        tenancy: Tenancy | None = None,
    ) -> None:
        """`kind`: None to find out by asking. `api_key`: sent as a bearer token.

        `tenancy`: who sits where; None for one that lets the server choose and keeps no slot out of use.
        """
        self.name = name
        self.url = url
        self.limits = limits
        self.sighting = Sighting(Health.UNKNOWN)
        self.tenancy = tenancy or Tenancy(None, pins=False, drain=0.0, clock=time.monotonic)
        self._kind = kind
        self._address = Address.parse(url)
        self._warned_of_blindness = False
        self._credentials = _bearer(api_key)

    async def __aenter__(self) -> Self:
        reused = aiohttp.TraceConfig()
        reused.on_connection_reuseconn.append(_note_reuse)
        self._session = self._new_session(self._address.connector(_KEEPALIVE), [reused])
        self._questions = self._new_session(self._address.connector(), [])
        self._asker = self._new_asker()
        self._vigil = Vigil(self._reading, self.limits.poll, self.tenancy)
        self._keeping = beside(self._vigil.keep())
        await self._keeping.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._keeping.__aexit__(kind, error, trace)
        finally:
            await self._session.close()
            await self._questions.close()

    def _new_session(
        self, connector: aiohttp.BaseConnector, traces: list[aiohttp.TraceConfig]
    ) -> aiohttp.ClientSession:
        """Its own limits are all switched off but for that of connecting: silence is bounded by its meaning, here."""
        return aiohttp.ClientSession(
            connector=connector,
            headers=_OURS,
            timeout=connecting(self.limits.connect),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            trace_configs=traces,
            skip_auto_headers=("Accept-Encoding",),
        )

    def _new_asker(self) -> Asker:
        return Asker(self._questions, self._address, self.limits.connect, self._credentials)

    def amend(self, limits: Limits, kind: Kind | None, api_key: str | None) -> None:
        """These hold for requests from now on; those that are out keep what they went out with."""
        self.limits, self._kind, self._credentials = limits, kind, _bearer(api_key)
        self._asker = self._new_asker()
        self._vigil.poll = limits.poll

    @property
    def traits(self) -> Traits:
        """The kind that is configured, else the one seen, else the plainest; the rest as last seen."""
        seen = self.sighting
        return Traits(self._kind or seen.kind or Kind.OPENAI, seen.context, seen.vision)

    async def look(self) -> Sighting:
        """Asks the server how it is, and remembers the answer; what it once told of itself holds while it is away."""
        seen = await look(self._asker, self._kind, self.sighting)
        if seen.state is not Health.UP and self.sighting.models:
            seen = replace(self.sighting, state=seen.state, reason=seen.reason)
        self.sighting = seen
        if seen.state is Health.UP:
            self.tenancy.server_has(seen.slots, shows=seen.kind is Kind.LLAMA_CPP and seen.slots is not None)
        self.tenancy.looked(well=seen.state is Health.UP)
        return seen

    async def glance(self) -> None:
        """Asks an upstream that does nothing for us what it does for others, where it shows that."""
        if self.traits.kind is Kind.LLAMA_CPP and (self._vigil.idle or self.tenancy.outsiders):
            await self._vigil.look()

    @asynccontextmanager
    async def answer(
        self,
        body: bytes,
        slot: int | None = None,
        saw: Callable[[State], None] | None = None,
        *,
        route: str = CHAT,
        patient: bool = False,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> AsyncIterator[Answer]:
        """Sends a request; see `slotline.conversation.Upstream`."""
        limits, now = self.limits, asyncio.get_running_loop().time()
        silence = Silence(limits, now)
        try:
            async with Deadline(silence.deadline, silence.overdue) as deadline:
                call = Call(silence, deadline, slot, saw)
                response = await self._head(_Sent(route, body, headers), call, patient=patient)
                self._vigil.answered(call)
                try:
                    ender = partial(self._end_reasoning, body)
                    yield Answer(self.name, response, limits, silence, deadline, self.tenancy.began, ender)
                finally:
                    self._vigil.ended(call)
                    _let_go(response)
        except UpstreamFailure as failure:
            self.tenancy.ended(failure, silence.state)
            raise
        self.tenancy.ended(None)

    @property
    def closed_since(self) -> float | None:
        """See `slotline.conversation.Upstream`."""
        return self.tenancy.closed_since

    @property
    def remembers(self) -> bool:
        """See `slotline.conversation.Upstream`."""
        return self.tenancy.remembers

    def seat(
        self, chain: Sequence[int], hold: Callable[[], Callable[[], None]], only: int | None = None
    ) -> AbstractContextManager[Seat]:
        """A slot for a conversation; see `slotline.conversation.Upstream`."""
        return self.tenancy.seat(chain, hold, only)

    async def _end_reasoning(self, body: bytes, completion: str | None, passed: str) -> bool:
        """See `slotline.conversation.Answer.end_reasoning`."""
        kind = self.traits.kind
        if kind is Kind.LLAMA_CPP:
            if completion is None or not await llama_cpp.end_reasoning(self._asker, completion, body):
                raise ThinkingOverrun(f"thinking: {passed} was passed, and the upstream refused to end its reasoning")
            return True
        if kind is Kind.OPENAI:
            raise ThinkingOverrun(f"thinking: {passed} was passed, and the upstream has no means to end its reasoning")
        if self.limits.thinking_end is ThinkingEnd.ERROR:
            raise ThinkingOverrun(f"thinking: {passed} was passed, which is an error by thinking_end")
        return False

    async def count(self, body: bytes) -> int | None:
        """The tokens of a chat request's prompt, by the server's own template and tokenizer; None where it has none."""
        return await SERVERS[self.traits.kind].count(self._asker, body)

    async def _reading(self) -> Reading:
        """What the server shows of its slots; asked for every `poll` while somebody waits for an answer to begin."""
        kind = self.traits.kind
        reading = await SERVERS[kind].reading(self._asker)
        if kind is Kind.LLAMA_CPP and reading.blind and not self._warned_of_blindness:
            self._warned_of_blindness = True
            _log.warning(
                "upstream %s does not show its slots: its silence counts as busy, and its slots are counted here alone",
                self.name,
            )
        return reading

    # ---- the head ----------------------------------------------------------------------------------------------------

    async def _head(self, sent: _Sent, call: Call, *, patient: bool) -> aiohttp.ClientResponse:
        """The response to `sent`, once it is a good one; a server that says it is loading is asked again.

        `patient`: one that cannot be connected to is taken for one that loads.
        """
        clock = asyncio.get_running_loop().time
        silence, told = call.silence, patient
        while True:
            try:
                response = await self._watched(sent, call)
                if response.status == 200:
                    silence.bytes(clock())
                    return response
                failure = await self._refusal(response)
                if failure.upstream_status != 503 or not _LOADING.search(failure.body):
                    raise failure
                told = True
            except _NotSent:
                if not told:
                    raise
                # It said that it loads, or restarts: that it cannot be connected to is a part of that.
            call.means(State.LOADING, clock())
            await asyncio.sleep(self.limits.poll)

    async def _watched(self, sent: _Sent, call: Call) -> aiohttp.ClientResponse:
        """One request, watched over for as long as nothing comes back; between two of them there is nothing to see."""
        self._vigil.sent(call, asyncio.get_running_loop().time())
        try:
            return await self._send(sent)
        finally:
            self._vigil.ended(call)

    async def _send(self, sent: _Sent) -> aiohttp.ClientResponse:
        """One request; a kept-alive connection that turns out to be closed is forgotten, and the next one tried."""
        clock, connect = asyncio.get_running_loop().time, self.limits.connect
        while True:
            trace: dict[str, bool] = {}
            began = clock()
            try:
                return await self._session.post(
                    self._address.url(sent.route),
                    data=payload(sent.body),
                    headers={**sent.headers, **_JSON, **self._credentials},
                    timeout=connecting(connect),
                    allow_redirects=False,
                    trace_request_ctx=trace,
                )
            except FAILURES as error:
                if not trace.get("reused") or not _was_closed(error) or clock() - began > _STALE_WITHIN:
                    raise self._unreachable(error, connect) from error

    def _unreachable(self, error: Exception, connect: float) -> UpstreamFailure:
        match error:
            case aiohttp.ClientResponseError():
                return Protocol(f"the upstream {self.name} answered with something that is not HTTP")
            case aiohttp.ConnectionTimeoutError():
                limit = f"connect = {connect:g} s"
                return _NotSent(f"connecting to the upstream {self.name}: no connection within {limit}")
            case aiohttp.ClientConnectorError():
                return _NotSent(f"the upstream {self.name} cannot be reached: {reason(error)}")
            case _:
                return Unreachable(f"the upstream {self.name} did not answer: {reason(error)}")

    async def _refusal(self, response: aiohttp.ClientResponse) -> UpstreamStatus:
        """The error for a head that is no good one. Its text is a small thing: it has as long as a connection has."""
        try:
            if response.status < 400:
                raise Protocol(f"the upstream {self.name} answered with status {response.status}, which is no answer")
            text = await read_at_most(response, UpstreamStatus.MAX_BODY, self.limits.connect)
            return explain(response.status, text, response.headers.get("content-type", ""))
        finally:
            _let_go(response)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What goes to the server, and where to."""

    route: str
    body: bytes
    headers: Mapping[str, str]


class _NotSent(Unreachable):
    """No connection was made, so the request has not left."""


def _bearer(api_key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def _let_go(response: aiohttp.ClientResponse) -> None:
    """Keeps the connection for the next request if this body has been read to its end; else breaks it off.

    Breaks it off, and does not close it: closing would first send all that a server has not yet read of a long request.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.release()


def _was_closed(error: Exception) -> bool:
    """Whether a request fails like this on a connection that the server had closed: it ends, or cannot be written to.

    Not by a reset: so ends a server that had got the request, and a request is not sent to two.
    """
    if isinstance(error, aiohttp.ClientOSError):
        return error.errno in {None, errno.EPIPE}  # None: the library noticed first
    return isinstance(error, aiohttp.ServerDisconnectedError)


async def _note_reuse(session: object, context: SimpleNamespace, params: object) -> None:
    """Marks the request that this trace belongs to: it goes out on a connection that was kept alive."""
    if context.trace_request_ctx is not None:
        context.trace_request_ctx["reused"] = True
