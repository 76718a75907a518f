"""Small questions to a server, on connections of their own, so that they wait for no answer that flows."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TypeVar

import aiohttp
import msgspec

from slotline.upstream.address import Address

FAILURES = (aiohttp.ClientError, OSError)
"""What the HTTP library raises when a connection cannot be made, or breaks."""
_T = TypeVar("_T")
_MAX_BODY = 4 * 1024 * 1024
_LONG = 256 * 1024  # bytes of a body; about what the buffers of a connection hold


@dataclass(frozen=True, slots=True)
class Told:
    """A server's answer to a question."""

    status: int
    body: bytes

    def read(self, shape: type[_T]) -> _T | None:
        """The JSON body of a good answer as `shape`; None where it is something else, a page of HTML for instance."""
        try:
            return msgspec.json.decode(self.body, type=shape) if self.status == 200 else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None


class Asker:
    """Asks one server.

    Every question raises TimeoutError when it takes too long, and one of FAILURES when nobody is there.
    """

    def __init__(
        self, session: aiohttp.ClientSession, address: Address, limit: float, headers: Mapping[str, str] | None = None
    ) -> None:
        """`session`: one that keeps no connections. `limit`: seconds for one question. `headers`: of every question."""
        self._session = session
        self._address = address
        self._headers = headers or {}
        self.limit = limit

    async def get(self, path: str) -> Told:
        return await self._ask("GET", path, None)

    async def post(self, path: str, body: bytes) -> Told:
        return await self._ask("POST", path, body)

    async def _ask(self, method: str, path: str, body: bytes | None) -> Told:
        headers = {**self._headers, **({} if body is None else {"content-type": "application/json"})}
        if self._session.closed:  # a server that is no longer ours: questions that follow others may come too late
            raise aiohttp.ClientConnectionError("the session is closed")
        async with (
            asyncio.timeout(self.limit),
            self._session.request(
                method,
                self._address.url(path),
                data=payload(body),
                headers=headers,
                timeout=connecting(self.limit),
                allow_redirects=False,
            ) as response,
        ):
            return Told(response.status, await read_at_most(response, _MAX_BODY))


def connecting(limit: float) -> aiohttp.ClientTimeout:
    """The one limit of the library's that is used: `limit` seconds to make a connection."""
    return aiohttp.ClientTimeout(total=None, connect=limit, sock_connect=limit, sock_read=None)


def payload(body: bytes | None) -> bytes | BytesIO | None:
    """A body as the HTTP library wants it: a long one it sends piece by piece, each when the one before it is gone.

    So it does not hold up the event loop, and nothing much is left to be sent to a server that does not read.
    """
    return body if body is None or len(body) < _LONG else BytesIO(body)


async def read_some(response: aiohttp.ClientResponse) -> bytes:
    """What has arrived, at least one byte; empty at the end, and where the connection broke."""
    content = response.content
    try:
        return await content.readany()
    except FAILURES:
        # The library reports a break before what came ahead of it, and that may be the whole answer.
        content.set_exception(None)  # type: ignore[arg-type]
        content.feed_eof()
        return content.read_nowait()


async def read_at_most(response: aiohttp.ClientResponse, limit: int, within: float | None = None) -> bytes:
    """The body up to `limit` bytes, or what came `within` so many seconds, or up to where the connection broke."""
    parts: list[bytes] = []
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            while size < limit and (data := await read_some(response)):
                parts.append(data)
                size += len(data)
    return b"".join(parts)[:limit]


def reason(error: Exception) -> str:
    """What went wrong with a connection, in words that name no address: clients read them too."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not accepted: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return _words(error.os_error)
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientOSError(errno=None):
            return "it closed the connection before the request was sent"
        case _:
            return _words(error)


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):  # whose number is not one of the system's
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return type(error).__name__
