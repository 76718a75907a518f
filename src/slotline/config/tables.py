"""Which tables and keys a configuration has. One place; the defaults are those of the values in `values.py`.

`docs/configuration.md` and `slotline.example.toml` are checked against this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from slotline.config import settings as s
from slotline.config.settings import Setting, choice, duration, size, whole
from slotline.config.values import (
    AdminConfig,
    ClusterConfig,
    EngineConfig,
    KeyConfig,
    ModelConfig,
    ServerConfig,
    UpstreamConfig,
)
from slotline.core.keys import Priority
from slotline.core.kind import Kind
from slotline.core.limits import Limits, ThinkingEnd
from slotline.core.party import FairBy
from slotline.core.queue_frames import QueueForm

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the file."""

    heading: str
    """As it stands in the file; two brackets: there may be many."""
    struct: type[msgspec.Struct]
    settings: Mapping[str, Setting]
    required: frozenset[str] = frozenset()
    tables: Mapping[str, Table] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last word of the heading."""
        return self.heading.strip("[]").rpartition(".")[2]

    @property
    def many(self) -> bool:
        return self.heading.startswith("[[")

    def known(self) -> Iterator[str]:
        """Every key that may stand in it."""
        yield from self.settings
        yield from self.tables


LIMITS = Table(
    "[upstream.limits]",
    Limits,
    {
        "connect": duration(),
        "poll": duration(),
        "busy_wait": duration(),
        "load_wait": duration(),
        "idle_grace": duration(),
        "liveness": duration(),
        "max_event": size(),
        "client_write": duration(),
        "drain": duration(zero=True),
        "thinking_cap": whole(0),
        "thinking_overrun": whole(0),
        "thinking_end": choice(ThinkingEnd),
    },
)
SERVER = Table(
    "[server]",
    ServerConfig,
    {
        "host": Setting(s.host),
        "port": whole(0, 65535),
        "open": Setting(s.flag),
        "prefix": Setting(s.prefix),
        "max_body": size(),
        "max_waiting": size(),
        "grace": duration(zero=True),
        "keepalive": duration(),
        "rejoin": duration(zero=True),
        "drain": duration(zero=True),
        "fair_by": choice(FairBy),
        "queue_frames": choice(QueueForm),
        "root_queue_frames": choice(QueueForm),
        "image_hosts": Setting(s.hosts),
    },
)
UPSTREAM = Table(
    "[[upstream]]",
    UpstreamConfig,
    {
        "name": Setting(s.name),
        "url": Setting(s.url),
        "kind": choice((AUTO, *Kind)),
        "slots": Setting(s.slots),
        "queue": whole(0),
        "queue_wait": duration(zero=True),
        "pin_slots": Setting(s.flag),
        "affinity": Setting(s.flag),
        "one_model": Setting(s.flag),
        "api_key_env": Setting(s.env_name),
    },
    required=frozenset({"name", "url"}),
    tables={"limits": LIMITS},
)
MODEL = Table(
    "[[model]]",
    ModelConfig,
    {
        "name": Setting(s.name),
        "upstream": Setting(s.names),
        "target": Setting(s.text),
        "aliases": Setting(s.patterns),
    },
    required=frozenset({"name"}),
)
KEY = Table(
    "[[key]]",
    KeyConfig,
    {
        "name": Setting(s.name),
        "hash": Setting(s.key_hash),
        "weight": whole(1, 1000),
        "priority": choice(Priority),
        "running": whole(1),
        "waiting": whole(0),
        "models": Setting(s.patterns),
    },
    required=frozenset({"name", "hash"}),
)
ADMIN = Table("[admin]", AdminConfig, {"token_env": Setting(s.env_name)})
CLUSTER = Table(
    "[cluster]",
    ClusterConfig,
    {
        "url": Setting(s.redis_url),
        "namespace": Setting(s.name),
        "lease": duration(least=1.0),
        "password_env": Setting(s.env_name),
    },
    required=frozenset({"url"}),
)
ENGINE = Table(
    "[engine]",
    EngineConfig,
    {"model": Setting(s.text), "slots": whole(1), "context": whole(128), "threads": whole(1, 1024)},
)

TABLES: Mapping[str, Table] = {
    "server": SERVER,
    "upstream": UPSTREAM,
    "model": MODEL,
    "key": KEY,
    "admin": ADMIN,
    "cluster": CLUSTER,
    "engine": ENGINE,
}


def every_table() -> Iterator[Table]:
    """All tables, those inside others after them."""
    for table in TABLES.values():
        yield table
        yield from table.tables.values()


def homes(key: str) -> tuple[str, ...]:
    """The headings of the tables in which `key` may stand."""
    return tuple(table.heading for table in every_table() if key in table.settings)
