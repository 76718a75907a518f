"""Fetches what a request names by URL, from the hosts that `[server] image_hosts` allows and from nowhere else.

The address comes from a client, and the gateway may reach what that client cannot. So: http and https, only a host on
the list, each redirect held against the same list, no password, no cookie, no proxy, nothing of the client's own
headers, a bound on time and size. A `*` in the list stands for names that somebody else may give out, so what only a
`*` allows is followed to public addresses alone. Errors name the host, never the whole address: that may be a secret.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from slotline.attachments.hosts import Hosts, PublicOnly, shown
from slotline.core.errors import Busy, Invalid

CONNECT = 5.0  # seconds
REDIRECTS = 3
AT_ONCE = 16  # each may hold its limit in memory
PATIENCE = 30.0  # seconds until one of them is free
_CHUNK = 64 * 1024
_HEADERS = {"accept": "image/*, application/pdf", "accept-encoding": "identity", "user-agent": "slotline"}
_MOVED = frozenset({301, 302, 303, 307, 308})


class Fetcher:
    """An async context manager. `seconds`: for one fetch, redirects included."""

    def __init__(self, hosts: Sequence[str], *, seconds: float = 30.0) -> None:
        self._hosts = Hosts(hosts)
        self._seconds = seconds
        self._free = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        resolver = PublicOnly(self._hosts, aiohttp.ThreadedResolver())
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            auto_decompress=False,  # what unpacks to any size has no size
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def allow(self, hosts: Sequence[str]) -> None:
        """From now on these hosts and no others, also for a redirect of what is just being fetched."""
        self._hosts.become(hosts)

    async def fetch(self, address: str, limit: int) -> str:
        """What lies at `address`, in base64; `limit`: bytes of it at most.

        Raises Invalid, whose message is the reason alone; Busy when too much is being fetched for others.
        """
        url = self._visitable(address)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._free.acquire()
        except TimeoutError:
            raise Busy("too much is being fetched for other requests", retry_after=10) from None
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(url, limit)
        except TimeoutError:
            raise Invalid(f"{shown(url)} did not send it within {self._seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Invalid(f"{shown(url)} could not be asked: {_reason(error)}") from None
        finally:
            self._free.release()

    def _visitable(self, address: str) -> URL:
        try:
            url = URL(address).with_fragment(None)
        except ValueError:
            raise Invalid("it is not a valid address") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise Invalid("only http and https addresses are fetched")
        if url.user is not None or url.password is not None:
            raise Invalid("an address with a user or a password in it is not fetched")
        if not self._hosts.allow(url):
            why = "which is not among image_hosts in [server]; send it as base64"
            raise Invalid(f"nothing is fetched from {shown(url)}, {why}")
        return url

    async def _follow(self, url: URL, limit: int) -> str:
        if self._session is None:
            raise RuntimeError("nothing is fetched outside of the block")
        for _ in range(REDIRECTS + 1):
            async with self._session.get(url, allow_redirects=False) as answer:
                if answer.status not in _MOVED:
                    return await _content(answer, limit)
                to = answer.headers.get("location", "")
            url = self._visitable(_joined(url, to))
        raise Invalid(f"it was redirected more than {REDIRECTS} times")


def _joined(url: URL, to: str) -> str:
    try:
        return str(url.join(URL(to)))
    except ValueError:
        raise Invalid("it was redirected to an invalid address") from None


async def _content(answer: aiohttp.ClientResponse, limit: int) -> str:
    """The body in base64, encoded piece by piece: in one go, twenty megabytes would hold up everybody else."""
    if answer.status != 200:
        raise Invalid(f"{shown(answer.url)} answered with status {answer.status}")
    size, rest, encoded = 0, b"", list[bytes]()
    if (answer.content_length or 0) > limit:
        raise _too_large(limit)
    async for piece in answer.content.iter_chunked(_CHUNK):
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        together = rest + piece
        whole = len(together) // 3 * 3  # three bytes make four characters
        encoded.append(binascii.b2a_base64(together[:whole], newline=False))
        rest = together[whole:]
    return b"".join((*encoded, binascii.b2a_base64(rest, newline=False))).decode()


def _too_large(limit: int) -> Invalid:
    return Invalid(f"it is larger than {limit} bytes, the most that may be fetched here")


def _reason(error: Exception) -> str:
    """Why nobody could be asked. Most words of the library are for those who wrote it."""
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)):
        return "no trusted TLS connection could be made"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT:g} s"
    if isinstance(cause, OSError):
        return (cause.strerror or str(cause) or "the connection broke").lower()
    return "the connection broke, or it does not speak HTTP"
