"""Which hosts the gateway may fetch from, and which of their addresses."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL


class Hosts:
    """The list: `name`, or `*.name` for every name below it; with `:port` where that is not the scheme's own."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.become(entries)

    def become(self, entries: Iterable[str]) -> None:
        """From now on these are on the list, and no others."""
        split = [_split(entry) for entry in entries]
        self._exact = {(name, port) for name, port in split if not name.startswith("*")}
        self._below = {(name.removeprefix("*"), port) for name, port in split if name.startswith("*")}

    def allow(self, url: URL) -> bool:
        """Whether `url` is at one of them."""
        name, port = _bare(url.raw_host or ""), None if url.is_default_port() else url.port
        return (name, port) in self._exact or any(
            port == at and name.endswith(end) and not _is_address(name) for end, at in self._below
        )

    def names(self, host: str) -> bool:
        """Whether `host` itself is on the list, and not only matched by a `*`."""
        return any(name == _bare(host) for name, _ in self._exact)


class PublicOnly(AbstractResolver):
    """Resolves names; those that only a `*` allows, to public addresses alone."""

    def __init__(self, hosts: Hosts, inner: AbstractResolver) -> None:
        self._hosts = hosts
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of `host`. Raises OSError where none of them may be visited."""
        found = await self._inner.resolve(host, port, family)
        if self._hosts.names(host):
            return found
        public = [each for each in found if ipaddress.ip_address(each["host"].partition("%")[0]).is_global]
        if not public:
            raise OSError("a name that only a * allows must have a public address")
        return public

    async def close(self) -> None:
        await self._inner.close()


def shown(url: URL) -> str:
    """The host as it would stand in the list."""
    host = f"[{url.host}]" if ":" in (url.host or "") else str(url.host)[:100]
    return host if url.is_default_port() else f"{host}:{url.port}"


def _split(entry: str) -> tuple[str, int | None]:
    name, _, port = entry.rpartition(":")
    return (_bare(name), int(port)) if name and port.isdigit() else (_bare(entry), None)


def _bare(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
