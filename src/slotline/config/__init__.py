"""TOML → frozen values. An error names file, line, key, value and the nearest valid key.

`values.py` is what others use; `tables.py` says which keys there are, `settings.py` and `units.py` how a value is read,
`load.py` puts it together, `reload.py` says what may change later.
"""

from slotline.config.error import ConfigError
from slotline.config.load import UpstreamFlags, embedded, for_upstreams, load, with_address
from slotline.config.places import admin_token, api_key, candidates, cluster_password, find, read
from slotline.config.reload import changes, merged
from slotline.config.tables import TABLES, every_table
from slotline.config.units import parse_duration, parse_size, show_duration, show_size
from slotline.config.values import (
    ENGINE_NAME,
    ENGINE_URL,
    AdminConfig,
    ClusterConfig,
    Config,
    EngineConfig,
    KeyConfig,
    ModelConfig,
    ServerConfig,
    UpstreamConfig,
)

__all__ = [
    "ENGINE_NAME",
    "ENGINE_URL",
    "TABLES",
    "AdminConfig",
    "ClusterConfig",
    "Config",
    "ConfigError",
    "EngineConfig",
    "KeyConfig",
    "ModelConfig",
    "ServerConfig",
    "UpstreamConfig",
    "UpstreamFlags",
    "admin_token",
    "api_key",
    "candidates",
    "changes",
    "cluster_password",
    "embedded",
    "every_table",
    "find",
    "for_upstreams",
    "load",
    "merged",
    "parse_duration",
    "parse_size",
    "read",
    "show_duration",
    "show_size",
    "with_address",
]
