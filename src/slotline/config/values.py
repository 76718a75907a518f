"""What a configuration means: frozen values, checked, in seconds and bytes, with the defaults.

The field names are those of the file (`Config.upstreams` is `[[upstream]]`). Nothing here reads anything; `load.py`
makes these values and vouches for them.
"""

from __future__ import annotations

import msgspec

from slotline.config.units import GIB, MIB
from slotline.core.keys import Priority
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.core.party import FairBy
from slotline.core.queue_frames import QueueForm

ENGINE_NAME = "engine"
"""The name of the embedded engine among the upstreams."""
ENGINE_URL = "embedded:"
"""Stands where its url will be: the socket exists only once the engine has been started."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[server]`."""

    host: str = "127.0.0.1"
    """A name or an address, IPv6 without brackets."""
    port: int = 8080
    """0: one that the operating system chooses."""
    open: bool = False
    """Without keys: whoever reaches the port may use the gateway. Without both, only loopback is listened on."""
    prefix: str = "/llm"
    max_body: int = 32 * MIB
    max_waiting: int = GIB
    grace: float = 2.0
    keepalive: float = 10.0
    rejoin: float = 60.0
    drain: float = 30.0
    fair_by: FairBy = FairBy.KEY
    queue_frames: QueueForm = QueueForm.EVENT
    root_queue_frames: QueueForm = QueueForm.PING
    image_hosts: tuple[str, ...] = ()
    """Where images and PDFs may be fetched from: `name`, or `*.name` for all below it; each with `:port` or without."""


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[upstream]]`."""

    name: str
    url: str
    """`http://…` or `https://…` without `/v1` and without a slash at its end, `unix:/path`, or `ENGINE_URL`."""
    kind: Kind | None = None
    """None: found by asking."""
    slots: int | None = 2
    """None: as many as the upstream reports."""
    queue: int = 64
    queue_wait: float = 0.0
    """0: as long as the client stays."""
    pin_slots: bool = True
    """Only where the kind of server has it: a conversation returns to the slot that still holds it."""
    affinity: bool = False
    """Whose conversation a free slot holds may go before others; see `slotline.core.affinity`. Needs `pin_slots`."""
    one_model: bool = False
    """Its models cannot be loaded together: what runs there at one time is of one model; see `slotline.core.swap`."""
    api_key_env: str | None = None
    """The environment variable that holds the key, never the key."""
    limits: Limits = Limits()


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[model]]`."""

    name: str
    upstreams: tuple[str, ...] = msgspec.field(name="upstream")
    """Names of upstreams that exist, each once, at least one."""
    target: str
    """The name sent upstream."""
    aliases: tuple[str, ...] = ()
    """Other names of the same model; `*` stands for any run of characters, everything else for itself."""


class KeyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[key]]`."""

    name: str
    hash: str
    """`sha256:` and the 64 lower-case hexadecimal digits of the whole key's SHA-256; no two keys have the same."""
    weight: int = 2
    priority: Priority = Priority.INTERACTIVE
    running: int = 4
    waiting: int = 16
    models: tuple[str, ...] = ("*",)
    """Patterns as in `ModelConfig.aliases`."""


class AdminConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[admin]`."""

    token_env: str | None = None
    """None: the admin surface answers on loopback only."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cluster]`."""

    url: str
    namespace: str = "slotline"
    lease: float = 15.0
    password_env: str | None = None


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[engine]`."""

    model: str = "smollm2"
    """`smollm2`, or the path of a GGUF file as it stands in the configuration."""
    slots: int = 2
    context: int = 8192
    """Tokens."""
    threads: int = 2


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole."""

    source: str
    """The file it came from, or what stood for one. For messages."""
    server: ServerConfig = ServerConfig()
    upstreams: tuple[UpstreamConfig, ...] = msgspec.field(name="upstream")
    """At least one, names differ. The embedded engine, where there is one, is the last."""
    models: tuple[ModelConfig, ...] = msgspec.field(name="model", default=())
    """None: the models are those that the upstreams list."""
    keys: tuple[KeyConfig, ...] = msgspec.field(name="key", default=())
    admin: AdminConfig = AdminConfig()
    cluster: ClusterConfig | None = None
    engine: EngineConfig | None = None
    """None: the embedded engine is not to be started."""
