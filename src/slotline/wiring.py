"""Configuration → a running gateway. The only module that knows every concrete class."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from aiohttp import web

from slotline.attachments.fetch import Fetcher
from slotline.attachments.pdf import PdfReader
from slotline.config import ENGINE_NAME, Config, KeyConfig, ServerConfig, admin_token, changes, merged
from slotline.core.anthropic.clients import BEAT_AFTER
from slotline.core.errors import Outcome, SlotlineError
from slotline.core.keys import Key, Keyring, Priority, digest
from slotline.core.models import Model
from slotline.fleet import Fleet, fleet
from slotline.gate.local import LocalGate
from slotline.observe import log
from slotline.overview import Overview, Recent
from slotline.relay import Passage, Relay
from slotline.surface.app import application
from slotline.surface.ports import Ports, Settings
from slotline.upstream.beside import beside
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.roster import Roster

_log = logging.getLogger(__name__)

_LOGGED = 500  # characters of an error: an upstream may have written a page

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did, in a few words each. `waiting`: keys whose new values need a restart."""

    changed: tuple[str, ...]
    waiting: tuple[str, ...]


@dataclass(slots=True)
class Gateway:
    """A gateway that accepts connections. `config`: what holds at present."""

    config: Config
    port: int
    relay: Relay
    _gate: LocalGate
    _fleet: Fleet
    _roster: Roster
    _fetcher: Fetcher
    _ports: Ports

    @property
    def url(self) -> str:
        host = self.config.server.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    async def reload(self, wanted: Config) -> Reloaded:
        """From now on `wanted` holds, as far as it can without a restart; one call at a time.

        Who waits keeps its place, and who runs runs on. Raises ConfigError, and nothing has changed, where `wanted`
        cannot hold at all.
        """
        config, waiting = merged(self.config, wanted)
        token = _token(config)
        await self._fleet.apply(config.upstreams)
        # From here on nothing waits: nobody sees the half of it.
        self._roster.offer(_models(config))
        self._gate.bound(config.server.max_waiting)
        self._fetcher.allow(config.server.image_hosts)
        self.relay.kept.seconds = config.server.rejoin
        was = self._ports.settings
        self._ports.settings = replace(_settings(config, was.beat_after), started=was.started)
        self._ports.keys, self._ports.admin = _keyring(config), token
        changed, self.config = changes(self.config, config), config
        return Reloaded(changed, waiting)


@asynccontextmanager
async def gateway(
    config: Config, engine: EngineSpec | None, report: Report, *, beat_after: float = BEAT_AFTER
) -> AsyncIterator[Gateway]:
    """Starts everything that `config` names and accepts connections within the block.

    `engine`: what the embedded engine is to run, where `config` has that engine. `report` gets a line of progress now
    and then. `beat_after`: see `core.anthropic.clients`. On leaving the block, and on a failure to start, all is ended;
    `relay.drain` lets answers end first.
    """
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(bound(config.server))  # first: a model may load for minutes
        token = _token(config)
        urls: dict[str, str] = {}
        if engine is not None:
            embedded = await stack.enter_async_context(Engine(engine, report))
            urls[ENGINE_NAME] = embedded.url
            await embedded.started()
        server = config.server
        gate = LocalGate({}, time.monotonic, max_waiting=server.max_waiting, fair_by=server.fair_by)
        ships = await stack.enter_async_context(fleet(gate, urls))
        await ships.apply(config.upstreams, patience=None)
        recent = Recent(time.monotonic)
        relay = Relay(gate, ships.upstreams, time.monotonic, partial(_ended, recent), server.rejoin)
        await stack.enter_async_context(beside(relay.patrol()))
        roster = Roster(_models(config), ships.upstreams)
        fetcher = await stack.enter_async_context(Fetcher(server.image_hosts))
        ports = Ports(
            _settings(config, beat_after),
            relay,
            roster,
            roster,
            fetcher,
            PdfReader(),
            Overview(relay, gate, ships.upstreams, recent, time.monotonic),
            _keyring(config),
            token,
        )
        port = await stack.enter_async_context(_listening(application(ports), listener))
        yield Gateway(config, port, relay, gate, ships, roster, fetcher, ports)


def _token(config: Config) -> bytes | None:
    token = admin_token(config.admin, os.environ)
    return None if token is None else digest(token)


def _models(config: Config) -> list[Model]:
    return [Model(each.name, frozenset(each.upstreams), each.target, each.aliases) for each in config.models]


def _keyring(config: Config) -> Keyring:
    return Keyring(tuple(map(_key, config.keys)))


def _key(key: KeyConfig) -> Key:
    known = bytes.fromhex(key.hash.removeprefix("sha256:"))
    return Key(key.name, known, key.weight, key.priority, key.running, key.waiting, key.models)


def _settings(config: Config, beat_after: float) -> Settings:
    server = config.server
    return Settings(
        prefix=server.prefix,
        max_body=server.max_body,
        grace=server.grace,
        keepalive=server.keepalive,
        queue_frames=server.queue_frames,
        root_queue_frames=server.root_queue_frames,
        started=int(time.time()),
        rejoin=server.rejoin,
        beat_after=beat_after,
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


def _ended(recent: Recent, passage: Passage, outcome: Outcome, error: SlotlineError | None) -> None:
    """One line for each request that has ended: what it was and how it went, never what was said."""
    recent.note(passage, outcome, error)
    now = time.monotonic()
    granted = passage.granted
    fields = {
        "outcome": outcome,
        "request_id": passage.call.id,
        "key": passage.call.caller.name,
        "class": Priority.BATCH if passage.call.party.batch else Priority.INTERACTIVE,
        "model": passage.call.model,
        "upstream": passage.upstream,
        "waited_s": round((granted or now) - passage.arrived, 3),
        "ran_s": None if granted is None else round(now - granted, 3),
        "bytes": passage.size,
        "pieces": passage.pieces,
        "thinking_capped": passage.capped,
        "notes": "; ".join(passage.call.dialect.notes) or None,
        "error": None if error is None else str(error)[:_LOGGED],
    }
    _log.info("request ended", extra={"fields": fields})
