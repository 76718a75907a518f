"""Configuration → a running gateway. The only module that knows every concrete class."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from slotline.config import ENGINE_NAME, Config, ServerConfig, UpstreamConfig, api_key
from slotline.core.errors import Outcome, SlotlineError
from slotline.core.models import Model
from slotline.gate.local import Berth, LocalGate
from slotline.observe import log
from slotline.relay import Passage, Relay
from slotline.surface.app import application
from slotline.surface.ports import Ports, Settings
from slotline.upstream.beside import beside
from slotline.upstream.client import UpstreamClient
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.roster import Roster
from slotline.upstream.tenancy import Tenancy
from slotline.upstream.watch import watch

_log = logging.getLogger(__name__)

_LOGGED = 500  # characters of an error: an upstream may have written a page

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that accepts connections."""

    host: str
    port: int
    relay: Relay

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@asynccontextmanager
async def gateway(config: Config, engine: EngineSpec | None, report: Report) -> AsyncIterator[Gateway]:
    """Starts everything that `config` names and accepts connections within the block.

    `engine`: what the embedded engine is to run, where `config` has that engine. `report` gets a line of progress now
    and then. On leaving the block, and on a failure to start, all is ended; `relay.drain` lets answers end first.
    """
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(bound(config.server))  # first: a model may load for minutes
        urls: dict[str, str] = {}
        if engine is not None:
            embedded = await stack.enter_async_context(Engine(engine, report))
            urls[ENGINE_NAME] = embedded.url
            await embedded.started()
        upstreams = {u.name: await stack.enter_async_context(_client(u, urls)) for u in config.upstreams}
        await asyncio.gather(*(upstream.look() for upstream in upstreams.values()))
        gate = LocalGate(
            {u.name: Berth(upstreams[u.name].tenancy.allowed, u.queue, u.queue_wait) for u in config.upstreams},
            time.monotonic,
            max_waiting=config.server.max_waiting,
        )
        for name, upstream in upstreams.items():
            upstream.tenancy.attach(partial(gate.resize, name))
        relay = Relay(gate, upstreams, time.monotonic, _ended)
        watches = [watch(upstream) for upstream in upstreams.values()]
        await stack.enter_async_context(beside(relay.patrol(), *watches))
        roster = Roster([Model(m.name, frozenset(m.upstreams), m.target, m.aliases) for m in config.models], upstreams)
        app = application(Ports(_settings(config), relay, roster, roster))
        port = await stack.enter_async_context(_listening(app, listener))
        yield Gateway(config.server.host, port, relay)


def _client(upstream: UpstreamConfig, urls: Mapping[str, str]) -> UpstreamClient:
    url = urls.get(upstream.name, upstream.url)
    tenancy = Tenancy(upstream.slots, upstream.pin_slots, upstream.limits.drain, time.monotonic)
    return UpstreamClient(upstream.name, url, upstream.limits, upstream.kind, api_key(upstream, os.environ), tenancy)


def _settings(config: Config) -> Settings:
    server = config.server
    return Settings(
        prefix=server.prefix,
        max_body=server.max_body,
        grace=server.grace,
        keepalive=server.keepalive,
        queue_frames=server.queue_frames,
        root_queue_frames=server.root_queue_frames,
        started=int(time.time()),
    )


class CannotListen(Exception):
    """The address in the configuration cannot be listened on; the message says why."""


@contextmanager
def bound(server: ServerConfig) -> Iterator[socket.socket]:
    """A socket at the address that `server` names, where nobody is let in yet. Raises CannotListen."""
    where = f"http://{server.host}:{server.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"cannot listen on {where}: {error.strerror or error}") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CannotListen(f"cannot listen on {where}: {reason}; --port chooses another port") from error
        yield listener


@asynccontextmanager
async def _listening(app: web.Application, listener: socket.socket) -> AsyncIterator[int]:
    """Accepts connections; gives the port. A client that leaves cancels its handler: the one place that is armed."""
    runner = web.AppRunner(app, logger=log.http(), handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=1024).start()
        yield int(listener.getsockname()[1])
    finally:
        await runner.cleanup()


def _ended(passage: Passage, outcome: Outcome, error: SlotlineError | None) -> None:
    """One line for each request that has ended: what it was and how it went, never what was said."""
    now = time.monotonic()
    granted = passage.granted
    fields = {
        "outcome": outcome,
        "request_id": passage.call.id,
        "model": passage.call.model,
        "upstream": passage.upstream,
        "waited_s": round((granted or now) - passage.arrived, 3),
        "ran_s": None if granted is None else round(now - granted, 3),
        "thinking_capped": passage.capped,
        "notes": "; ".join(passage.call.dialect.notes) or None,
        "error": None if error is None else str(error)[:_LOGGED],
    }
    _log.info("request ended", extra={"fields": fields})
