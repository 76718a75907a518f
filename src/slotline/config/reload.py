"""What a new configuration changes in a gateway that runs, and what has to wait for a restart. Reads nothing.

What cannot change while connections are open, or while a model is in memory, stays as it was at the start; the rest of
the new configuration holds. A table that nobody has thought of here is taken for one that needs a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from slotline.config.error import ConfigError
from slotline.config.settings import is_loopback
from slotline.config.values import ENGINE_NAME, Config, ServerConfig, UpstreamConfig

LIVE = frozenset(
    {
        "open",
        "max_body",
        "max_waiting",
        "grace",
        "keepalive",
        "rejoin",
        "drain",
        "queue_frames",
        "root_queue_frames",
        "image_hosts",
    }
)
"""Keys of `[server]` that may change at any time. The socket, the routes, and who takes turns in the lines may not."""
_TABLES = frozenset({"source", "server", "upstreams", "models", "keys", "admin", "engine"})


def merged(old: Config, new: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration that holds from now on, and the keys whose new values need a restart.

    Raises ConfigError where `new` asks for what a gateway that was started with `old` cannot be.
    """
    server, waiting = _server(old.server, new.server)
    if not (is_loopback(server.host) or server.open or new.keys):
        message = (
            f"The gateway listens on {server.host} until it is restarted, which other machines can reach: "
            "so the file still needs [[key]] tables, or open = true."
        )
        raise ConfigError(file=new.source, key="[server] host", message=message)
    upstreams, of_engine = _upstreams(old, new)
    held = {
        name: getattr(old, name)
        for name in sorted(set(Config.__struct_fields__) - _TABLES)
        if getattr(old, name) != getattr(new, name)
    }
    config = msgspec.structs.replace(new, server=server, upstreams=upstreams, engine=old.engine, **held)
    return config, (*waiting, *of_engine, *(f"[{name}]" for name in held))


def changes(old: Config, new: Config) -> tuple[str, ...]:
    """What differs between the two, in a few words each: "upstreams added: box3". Names, never values."""
    server = _different(old.server, new.server)
    found = chain(
        _differences("upstreams", {u.name: u for u in old.upstreams}, {u.name: u for u in new.upstreams}),
        _differences("models", {m.name: m for m in old.models}, {m.name: m for m in new.models}),
        _differences("keys", {k.name: k for k in old.keys}, {k.name: k for k in new.keys}),
        [f"[server] changed: {', '.join(server)}"] if server else [],
        ["[admin] changed"] if old.admin != new.admin else [],
    )
    return tuple(found)


def _server(old: ServerConfig, new: ServerConfig) -> tuple[ServerConfig, tuple[str, ...]]:
    held = {key: getattr(old, key) for key in _different(old, new) if key not in LIVE}
    return msgspec.structs.replace(new, **held), tuple(f"[server] {key}" for key in held)


def _different(old: ServerConfig, new: ServerConfig) -> list[str]:
    return [key for key in ServerConfig.__struct_fields__ if getattr(old, key) != getattr(new, key)]


def _upstreams(old: Config, new: Config) -> tuple[tuple[UpstreamConfig, ...], tuple[str, ...]]:
    """The embedded engine runs from the start to the end, as it was started; the others come and go."""
    if old.engine is None and new.engine is not None:
        alone = "With no [[upstream]] there is only the embedded engine, and that"
        who = "The embedded engine" if len(new.upstreams) > 1 else alone
        raise ConfigError(file=new.source, key="[engine]", message=f"{who} is started with the gateway: restart it.")
    if old.engine is None:
        return new.upstreams, ()
    others = new.upstreams if new.engine is None else new.upstreams[:-1]
    if any(upstream.name == ENGINE_NAME for upstream in others):
        message = "This is the name of the embedded engine, which runs until the gateway is restarted."
        raise ConfigError(
            file=new.source, key=f'[[upstream]] "{ENGINE_NAME}" name', message=message, value=f'"{ENGINE_NAME}"'
        )
    return (*others, old.upstreams[-1]), () if old.engine == new.engine else ("[engine]",)


def _differences(noun: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    yield from _listed(f"{noun} added", (name for name in new if name not in old))
    yield from _listed(f"{noun} removed", (name for name in old if name not in new))
    yield from _listed(f"{noun} changed", (name for name in new if name in old and old[name] != new[name]))


def _listed(what: str, names: Iterable[str]) -> Iterator[str]:
    if listed := ", ".join(names):
        yield f"{what}: {listed}"
