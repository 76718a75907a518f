"""TOML → frozen values. An error names file, line, key, value and the nearest valid key.

`values.py` is what others use; `tables.py` says which keys there are, `settings.py` and `units.py` how a value is read,
`not_yet.py` which of them this release refuses; `load.py` puts it together, `reload.py` says what may change later.
"""

from slotline.config.error import ConfigError
from slotline.config.load import UpstreamFlags, embedded, for_upstreams, load, with_address
from slotline.config.not_yet import NOT_YET, has_effect
from slotline.config.places import admin_token, api_key, candidates, find, read
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
    "NOT_YET",
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
    "embedded",
    "every_table",
    "find",
    "for_upstreams",
    "has_effect",
    "load",
    "merged",
    "parse_duration",
    "parse_size",
    "read",
    "show_duration",
    "show_size",
    "with_address",
]
