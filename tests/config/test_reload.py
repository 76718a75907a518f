"""What may change in a gateway that runs, and what waits for a restart."""

from __future__ import annotations

import msgspec
import pytest

from slotline.config import TABLES, ClusterConfig, Config, ConfigError, changes, load, merged
from slotline.config.reload import LIVE

BOX = '[[upstream]]\nname = "box"\nurl = "http://127.0.0.1:8081"\n'
KEY = '[[key]]\nname = "alice"\nhash = "sha256:' + "a" * 64 + '"\n'
OTHER_KEY = KEY.replace("alice", "bob").replace("aaa", "bbb")
ENGINE = "[engine]\nslots = 3\n"


def read(*parts: str) -> Config:
    return load("".join(parts), source="slotline.toml")


def test_what_may_change_changes() -> None:
    old = read(BOX)
    new = read('[server]\ngrace = "5s"\nmax_body = "1MiB"\nimage_hosts = ["a.example"]\n', BOX, KEY, 'models = ["a"]\n')
    assert merged(old, new) == (new, ())


def test_the_socket_the_routes_and_who_takes_turns_stay_as_they_were() -> None:
    new = read('[server]\nhost = "::1"\nport = 1\nprefix = "/other"\nfair_by = "flow"\ngrace = "5s"\n', BOX)
    config, waiting = merged(read(BOX), new)
    assert config == read('[server]\ngrace = "5s"\n', BOX)
    assert waiting == ("[server] host", "[server] port", "[server] prefix", "[server] fair_by")


def test_every_key_of_the_server_either_may_change_or_needs_a_restart() -> None:
    assert set(TABLES["server"].settings) - LIVE == {"host", "port", "prefix", "fair_by"}
    assert set(TABLES["server"].settings) >= LIVE


def test_a_gateway_that_others_can_reach_is_not_left_without_keys() -> None:
    """The file alone would be right, because it no longer says where the gateway listens."""
    old = read('[server]\nhost = "0.0.0.0"\n', BOX, KEY)
    with pytest.raises(ConfigError, match=r"slotline.toml: \[server\] host\n  The gateway listens on 0.0.0.0 until"):
        merged(old, read(BOX))
    opened, waiting = merged(old, read("[server]\nopen = true\n", BOX))
    assert (opened.server.host, opened.server.open, waiting) == ("0.0.0.0", True, ("[server] host",))


def test_the_embedded_engine_is_not_started_later() -> None:
    with pytest.raises(ConfigError, match=r"\[engine\]\n  The embedded engine is started with the gateway: restart"):
        merged(read(BOX), read(BOX, ENGINE))


def test_a_file_that_has_lost_its_upstreams_does_not_end_those_who_wait_for_them() -> None:
    """An editor that has just emptied the file is the usual reason."""
    with pytest.raises(ConfigError, match=r"With no \[\[upstream\]\] there is only the embedded engine"):
        merged(read(BOX), read(""))


def test_the_embedded_engine_runs_on_as_it_was_started() -> None:
    old = read(BOX, ENGINE)
    for text in ("", ENGINE.replace("3", "4")):
        config, waiting = merged(old, read(BOX.replace("8081", "8082"), text))
        assert config.engine == old.engine
        assert [(each.name, each.slots) for each in config.upstreams] == [("box", 2), ("engine", 3)]
        assert config.upstreams[0].url == "http://127.0.0.1:8082"
        assert waiting == ("[engine]",)
    assert merged(old, old) == (old, ())


def test_no_other_upstream_takes_the_name_of_the_engine_that_runs() -> None:
    with pytest.raises(ConfigError, match=r'\[\[upstream\]\] "engine" name = "engine"'):
        merged(read(BOX, ENGINE), read(BOX.replace("box", "engine")))


def test_a_table_that_nobody_thought_of_needs_a_restart() -> None:
    old = read(BOX)
    new = msgspec.structs.replace(old, cluster=ClusterConfig(url="redis://127.0.0.1:6379/0"))
    config, waiting = merged(old, new)
    assert config == old
    assert waiting == ("[cluster]",)


def test_what_is_different_is_told_by_its_names() -> None:
    old = read(BOX, BOX.replace("box", "old"), '[[model]]\nname = "m"\nupstream = "box"\n', KEY, OTHER_KEY)
    new = read(
        '[server]\ngrace = "5s"\ndrain = "1s"\n[admin]\ntoken_env = "TOKEN"\n',
        BOX.replace("8081", "8082"),
        BOX.replace("box", "new"),
        '[[model]]\nname = "m"\nupstream = "new"\n',
        KEY.replace("alice", "carol"),
        OTHER_KEY,
        "weight = 3\n",
    )
    assert changes(old, new) == (
        "upstreams added: new",
        "upstreams removed: old",
        "upstreams changed: box",
        "models changed: m",
        "keys added: carol",
        "keys removed: alice",
        "keys changed: bob",
        "[server] changed: grace, drain",
        "[admin] changed",
    )
    assert changes(old, old) == ()
