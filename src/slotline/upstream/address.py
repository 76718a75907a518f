"""Where an upstream listens: over TCP, with or without `/v1` in its URL, or on a unix socket."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp

_UNIX = "unix:"


@dataclass(frozen=True, slots=True)
class Address:
    """One upstream's address. `socket`: the path of a unix socket, or None for TCP."""

    base: str  # scheme, host and any path before `/v1`, without a slash at the end
    socket: str | None = None

    @classmethod
    def parse(cls, url: str) -> Address:
        """`http://host:port`, `http://host:port/v1`, `https://host/some/path` or `unix:/run/llama.sock`."""
        if url.startswith(_UNIX):
            return cls("http://localhost", url.removeprefix(_UNIX))
        return cls(url.rstrip("/").removesuffix("/v1").rstrip("/"))

    def url(self, path: str) -> str:
        """The URL of `path`, which begins with a slash (`/v1/models`, `/slots`)."""
        return self.base + path

    def connector(self, keepalive: float | None = None) -> aiohttp.BaseConnector:
        """Connections to this address, as many at once as are asked for: the gate bounds them, not the pool.

        `keepalive`: for how many seconds one may wait for its next use; None: each is used once.
        """
        once = keepalive is None
        if self.socket is not None:
            return aiohttp.UnixConnector(self.socket, limit=0, force_close=once, keepalive_timeout=keepalive)
        return aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, force_close=once, keepalive_timeout=keepalive)
