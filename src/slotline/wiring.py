"""Configuration → a running gateway. The only module that knows every concrete class."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aiohttp import web

from slotline import __version__
from slotline.attachments.fetch import Fetcher
from slotline.attachments.pdf import PdfReader
from slotline.config import (
    ENGINE_NAME,
    Config,
    ConfigError,
    KeyConfig,
    ServerConfig,
    admin_token,
    changes,
    cluster_password,
    merged,
)
from slotline.core.anthropic.clients import BEAT_AFTER
from slotline.core.keys import Key, Keyring, digest
from slotline.core.models import Model
from slotline.fleet import Fleet, fleet
from slotline.gate.local import LocalGate
from slotline.observe import log
from slotline.observe.gauges import Gauges
from slotline.observe.metrics import Metrics
from slotline.observe.observer import Observer
from slotline.observe.traces import traces
from slotline.overview import Overview, Recent
from slotline.relay import Relay
from slotline.surface.app import application
from slotline.surface.ports import Ports, Settings
from slotline.upstream.beside import beside
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.roster import Roster
from slotline.witness import Witness

if TYPE_CHECKING:
    from slotline.gate.cluster import ClusterGate

Report = Callable[[str], None]
NO_CLIENT = "Needs the client of Redis: pip install 'slotline[cluster]'."
_REACH = 3.0  # seconds that a start waits for the line to be reached


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
    _gate: LocalGate | ClusterGate
    _fleet: Fleet
    _roster: Roster
    _fetcher: Fetcher
    _ports: Ports

    @property
    def url(self) -> str:
        return url(self.config.server, self.port)

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
    config: Config,
    engine: EngineSpec | None,
    report: Report,
    *,
    beat_after: float = BEAT_AFTER,
    listener: socket.socket | None = None,
) -> AsyncIterator[Gateway]:
    """Starts everything that `config` names and accepts connections within the block.

    `engine`: what the embedded engine is to run, where `config` has that engine. `report` gets a line of progress now
    and then. `beat_after`: see `core.anthropic.clients`. `listener`: a socket that is bound already, and belongs to
    others, too (`slotline.cli.workers`). On leaving the block, and on a failure to start, all is ended;
    `relay.drain` lets answers end first.
    """
    async with AsyncExitStack() as stack:
        # First, because a model may load for minutes:
        listener = stack.enter_context(bound(config.server) if listener is None else listener)
        token = _token(config)
        urls: dict[str, str] = {}
        if engine is not None:
            embedded = await stack.enter_async_context(Engine(engine, report))
            urls[ENGINE_NAME] = embedded.url
            await embedded.started()
        server = config.server
        gate = await stack.enter_async_context(_gate(config, lambda: relay.lapse()))  # noqa: PLW0108 - there is no relay yet
        ships = await stack.enter_async_context(fleet(gate, urls))
        await ships.apply(config.upstreams, patience=None)
        recent = Recent(time.monotonic)
        roster = Roster(_models(config), ships.upstreams)
        metrics = Metrics(roster.models)
        observer = Observer(metrics, await stack.enter_async_context(traces(os.environ)))
        witness = Witness(recent, observer, metrics)
        relay = Relay(gate, ships.upstreams, time.monotonic, witness.ended, server.rejoin, witness.noted)
        await stack.enter_async_context(beside(relay.patrol()))
        overview = Overview(relay, gate, ships.upstreams, recent, time.monotonic)
        await stack.enter_async_context(beside(overview.watch()))
        metrics.add(Gauges(__version__, overview.rooms, roster.models))
        fetcher = await stack.enter_async_context(Fetcher(server.image_hosts))
        ports = Ports(
            _settings(config, beat_after),
            relay,
            roster,
            _Readiness(gate, roster),
            fetcher,
            PdfReader(),
            overview,
            _keyring(config),
            token,
            observer,
        )
        port = await stack.enter_async_context(_listening(application(ports), listener))
        yield Gateway(config, port, relay, gate, ships, roster, fetcher, ports)


@asynccontextmanager
async def _gate(config: Config, lapsed: Callable[[], None]) -> AsyncIterator[LocalGate | ClusterGate]:
    """A gate of this gateway alone, or one that shares its lines. `lapsed`: whatever runs here must end."""
    server, cluster = config.server, config.cluster
    if cluster is None:
        yield LocalGate({}, time.monotonic, max_waiting=server.max_waiting, fair_by=server.fair_by)
        return
    try:
        from slotline.gate.cluster import ClusterGate  # noqa: PLC0415 - Redis' client is an extra
        from slotline.gate.journal import Barred, Journal  # noqa: PLC0415
    except ImportError:
        raise ConfigError(file=config.source, key="[cluster]", message=NO_CLIENT) from None
    password = cluster_password(cluster, os.environ)
    journal = Journal(cluster.url, cluster.namespace, cluster.lease, server.fair_by, password)
    gate = ClusterGate(
        journal,
        time.monotonic,
        lambda: f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
        lapsed,
        max_waiting=server.max_waiting,
        fair_by=server.fair_by,
    )
    try:
        await gate.begin(_REACH)
        async with beside(gate.run()):
            yield gate
        await gate.leave()
    except Barred as error:
        raise ConfigError(file=config.source, key=error.setting, message=f"{error}.") from None
    finally:
        await journal.close()


@dataclass(frozen=True, slots=True)
class _Readiness:
    """See `slotline.surface.ports.Health`: nobody can be let in while the line cannot be reached."""

    gate: LocalGate | ClusterGate
    roster: Roster

    def unready(self) -> str | None:
        return self.gate.trouble or self.roster.unready()


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


def url(server: ServerConfig, port: int) -> str:
    """The address at which `server` is found that listens on `port`."""
    return f"http://[{server.host}]:{port}" if ":" in server.host else f"http://{server.host}:{port}"


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
