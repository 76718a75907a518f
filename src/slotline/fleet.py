"""The inference servers that a running gateway works with: each client, the watch over it, and its berth at the gate.

`apply` brings the fleet to a configuration, in one step that nobody sees half of, whoever waits or runs at that time:

    new        its client has been started and looked at, then its berth opens
    changed    client and berth stay, and other limits hold for what comes; what runs keeps those it began with
    moved      another address: a new client takes over. The line stays as it is, and what runs goes on at the old one
    removed    its berth is retired: who waits for it alone is told so at once, and what runs there runs on

The client of an address that takes nobody new *leaves*: it is closed when nobody sits there any more, draining slots
included. Until then those who sit there take none of the slots that the new address has.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from slotline.config import UpstreamConfig, api_key
from slotline.gate.usher import Berth
from slotline.upstream.beside import Work, beside
from slotline.upstream.client import UpstreamClient
from slotline.upstream.tenancy import Tenancy
from slotline.upstream.watch import watch

_HOPS = 2  # turns of the event loop: who has just been granted a slot sits in it after one of them
_FIRST_LOOK = 0.5  # seconds: a reload waits no longer for a new server to say how it is; removed ones are to be quick


@dataclass(eq=False, slots=True)
class _Member:
    """One client as long as it is open. `seen`: it has been looked at; `over`: nobody needs it any more."""

    config: UpstreamConfig
    client: UpstreamClient
    seen: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def live(self) -> None:
        """From the first connection to the last."""
        async with self.client:
            await self.client.look()
            async with beside(watch(self.client)):
                self.seen.set()
                await self.over.wait()


class Berths(Protocol):
    """The gate, as far as it is about upstreams; see `slotline.gate.local` and `slotline.gate.cluster`."""

    def open(self, upstream: str, berth: Berth) -> None: ...
    def amend(self, upstream: str, berth: Berth) -> None: ...
    def retire(self, upstream: str) -> None: ...
    def resize(self, upstream: str, slots: int, seats: int = 0, outside: Sequence[int] = ()) -> None: ...
    def elsewhere(self, upstream: str) -> tuple[frozenset[int], int]: ...


class Fleet:
    """Made by `fleet`. `upstreams`: those that take somebody, in the order of the configuration; it is always live."""

    def __init__(self, gate: Berths, urls: Mapping[str, str], start: Callable[[Work], None]) -> None:
        self.upstreams: dict[str, UpstreamClient] = {}
        self._gate = gate
        self._urls = urls
        self._start = start
        self._members: dict[str, _Member] = {}
        self._leaving: list[_Member] = []
        self._coming: Mapping[str, _Member] = {}  # those that will be members in a moment
        self._going: Collection[str] = ()  # names of which no more slots are granted, for a moment

    async def apply(self, wanted: Sequence[UpstreamConfig], patience: float | None = _FIRST_LOOK) -> None:
        """Brings the fleet to `wanted`; one call at a time. `patience`: seconds for first looks, None: all they take.

        Raises ConfigError, and nothing has changed, where the environment lacks a secret.
        """
        secrets = {upstream.name: api_key(upstream, os.environ) for upstream in wanted}
        self._coming = {
            each.name: self._launch(each, secrets[each.name]) for each in wanted if self._is_elsewhere(each)
        }
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await asyncio.gather(*(member.seen.wait() for member in self._coming.values()))
        await self._sit_down(self._members.keys() & self._coming.keys() | self._members.keys() - secrets.keys())
        self._switch(wanted, secrets)

    @property
    def leaving(self) -> Sequence[UpstreamClient]:
        """The clients of addresses that take nobody new, where somebody still sits."""
        return [member.client for member in self._leaving]

    # ---- before the switch -------------------------------------------------------------------------------------------

    def _url(self, upstream: UpstreamConfig) -> str:
        return self._urls.get(upstream.name, upstream.url)

    def _is_elsewhere(self, upstream: UpstreamConfig) -> bool:
        member = self._members.get(upstream.name)
        return member is None or member.client.url != self._url(upstream)

    def _launch(self, upstream: UpstreamConfig, secret: str | None) -> _Member:
        """A client for this name and address: the one that is about to leave from there, or a new one."""
        url = self._url(upstream)
        for member in self._leaving:
            if (member.client.name, member.client.url) == (upstream.name, url):
                return member
        tenancy = Tenancy(
            upstream.slots,
            upstream.pin_slots,
            upstream.limits.drain,
            time.monotonic,
            elsewhere=partial(self._gate.elsewhere, upstream.name),
        )
        member = _Member(upstream, UpstreamClient(upstream.name, url, upstream.limits, upstream.kind, secret, tenancy))
        self._start(member.live())
        return member

    async def _sit_down(self, names: Collection[str]) -> None:
        """Lets those sit down who have just been granted a slot of `names`, which are about to go; nobody follows them.

        They are woken already: they run when the event loop gets round to them. Only one whose client does not read
        what comes before that is still standing afterwards.
        """
        self._going = names
        for name in names:
            self._gate.resize(name, 0)
        for _ in range(_HOPS if names else 0):
            await asyncio.sleep(0)
        self._going = ()

    # ---- the switch: nothing in here waits ---------------------------------------------------------------------------

    def _switch(self, wanted: Sequence[UpstreamConfig], secrets: Mapping[str, str | None]) -> None:
        for name in [name for name in self._members if name not in secrets]:
            self._dismiss(self._members.pop(name))
            self._gate.retire(name)
        for upstream in wanted:
            self._place(upstream, secrets[upstream.name])
        self._coming = {}
        self.upstreams.clear()
        self.upstreams.update((upstream.name, self._members[upstream.name].client) for upstream in wanted)

    def _place(self, upstream: UpstreamConfig, secret: str | None) -> None:
        name, before = upstream.name, self._members.get(upstream.name)
        member = self._members[name] = self._coming.get(name) or self._members[name]
        if member in self._leaving:
            self._leaving.remove(member)
        if before is not None and before is not member:
            self._dismiss(before)
        client, tenancy = member.client, member.client.tenancy
        client.amend(upstream.limits, upstream.kind, secret)
        tenancy.amend(upstream.slots, upstream.limits.drain, pins=upstream.pin_slots)
        if member.config.kind is not upstream.kind:
            self._start(_look(client))
        member.config = upstream
        berth = Berth(
            tenancy.allowed, upstream.queue, upstream.queue_wait, upstream.one_model, affinity=upstream.affinity
        )
        if before is None:
            self._gate.open(name, berth)
        else:
            self._gate.amend(name, berth)
        tenancy.attach(partial(self._resize, name))

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def _dismiss(self, member: _Member) -> None:
        """Its address takes nobody new."""
        self._leaving.append(member)
        member.client.tenancy.detach(partial(self._risen, member))
        self._close_if_empty(member)

    def _risen(self, member: _Member) -> None:
        """Somebody has left it, and takes up none of the slots beside those of the new address any more."""
        successor = self._members.get(member.client.name)
        if successor is not None:
            self._resize(member.client.name, successor.client.tenancy.allowed)
        self._close_if_empty(member)

    def _close_if_empty(self, member: _Member) -> None:
        if not member.client.tenancy.seated and member not in self._coming.values():
            self._leaving.remove(member)
            member.over.set()

    def _resize(self, name: str, allowed: int) -> None:
        """Those who sit at the old address of `name` count there, and not against the slots of the new one."""
        if name in self._going:
            return
        leaving = sum(left.client.tenancy.seated for left in self._leaving if left.client.name == name)
        tenancy = self._members[name].client.tenancy
        outside = [slot for slot in tenancy.outside if slot is not None]
        self._gate.resize(name, allowed + leaving, len(tenancy.numbers), outside)


@asynccontextmanager
async def fleet(gate: Berths, urls: Mapping[str, str]) -> AsyncIterator[Fleet]:
    """A fleet without any ships yet, in the order of `gate`, which has no berths either; all ends with the block.

    `urls`: addresses that are known only at run time, by the names of their upstreams.
    """
    async with beside() as start:
        yield Fleet(gate, urls, start)


async def _look(client: UpstreamClient) -> None:
    await client.look()
