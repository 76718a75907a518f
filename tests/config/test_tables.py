"""The list of keys agrees with the values they become, with the reference page and with the example file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slotline.config import TABLES, every_table, load, read
from slotline.config.tables import Table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text()
EXAMPLE = ROOT / "slotline.example.toml"

KEYS = [(table, key) for table in every_table() for key in table.settings]
ANY_KEY = pytest.mark.parametrize(("table", "key"), KEYS, ids=lambda part: getattr(part, "heading", part))
NAMES = {"upstream.name", "upstream.url", "model.name", "model.upstream", "model.target", "model.aliases"} | {
    "key.name",
    "key.hash",
    "admin.token_env",
    "cluster.url",
    "cluster.password_env",
    "upstream.api_key_env",
}  # names, addresses and keys: an example shows one of them, not a default

OF_THE_INTERFACE = {  # its own table, in its own spelling; names, addresses and keys have none
    "server.host": "127.0.0.1",
    "server.port": 8080,
    "server.open": False,
    "server.prefix": "/llm",
    "server.max_body": "32MiB",
    "server.max_waiting": "1GiB",
    "server.grace": "2s",
    "server.keepalive": "10s",
    "server.rejoin": "60s",
    "server.drain": "30s",
    "server.fair_by": "key",
    "server.queue_frames": "event",
    "server.root_queue_frames": "ping",
    "upstream.slots": 2,
    "upstream.queue": 64,
    "upstream.queue_wait": "0s",
    "upstream.pin_slots": True,
    "limits.connect": "5s",
    "limits.poll": "1s",
    "limits.busy_wait": "30m",
    "limits.load_wait": "15m",
    "limits.idle_grace": "60s",
    "limits.liveness": "60s",
    "limits.max_event": "4MiB",
    "limits.client_write": "60s",
    "limits.drain": "30s",
    "limits.thinking_cap": 16384,
    "limits.thinking_overrun": 512,
    "key.weight": 2,
    "key.priority": "interactive",
    "key.running": 4,
    "key.waiting": 16,
    "key.models": ["*"],
    "cluster.namespace": "slotline",
    "cluster.lease": "15s",
    "engine.model": "smollm2",
    "engine.slots": 2,
    "engine.context": 8192,
    "engine.threads": 2,
}
ADDED = {
    "limits.thinking_end": "ask_again",
    "server.image_hosts": [],
    "upstream.affinity": False,
    "upstream.one_model": False,
}  # keys that the interface leaves to us
DEFAULTS = OF_THE_INTERFACE | ADDED


def default_of(table: Table, key: str) -> Any:
    """What the key is when the file does not give it; `msgspec.NODEFAULT` where it must, or where others decide."""
    return next(field.default for field in msgspec.structs.fields(table.struct) if field.encode_name == key)


@pytest.mark.parametrize("table", list(every_table()), ids=lambda table: table.heading)
def test_the_keys_of_a_table_are_the_fields_of_its_value(table: Table) -> None:
    assert set(table.known()) == {field.encode_name for field in msgspec.structs.fields(table.struct)}


@pytest.mark.parametrize(("path", "written"), list(DEFAULTS.items()))
def test_a_default_is_the_one_that_was_promised(path: str, written: object) -> None:
    name, key = path.split(".")
    table = next(table for table in every_table() if table.name == name)
    assert table.settings[key].read(written) == default_of(table, key)


def test_every_key_has_a_default_or_is_a_name() -> None:
    paths = {f"{table.name}.{key}" for table, key in KEYS}
    assert set(DEFAULTS) | NAMES | {"upstream.kind"} == paths
    assert not ADDED.keys() & OF_THE_INTERFACE.keys()


# ---- the reference page ----------------------------------------------------------------------------------------------


def page_rows(table: Table) -> dict[str, list[str]]:
    """The rows of the table's section: key → type, default, meaning."""
    section = PAGE.partition(f"## `{table.heading}`\n")[2].partition("\n## ")[0]
    rows = (re.split(r"\s+\|\s+", line.strip("| ")) for line in section.splitlines() if line.startswith("| `"))
    return {row[0].strip("`"): row[1:] for row in rows}


@pytest.mark.parametrize("table", list(every_table()), ids=lambda table: table.heading)
def test_the_page_has_a_row_for_every_key_in_this_order_and_no_other(table: Table) -> None:
    assert list(page_rows(table)) == list(table.settings)


@ANY_KEY
def test_the_page_gives_the_default(table: Table, key: str) -> None:
    written = page_rows(table)[key][1]
    default = default_of(table, key)
    if key in table.required:
        assert written == "required"
    elif default is None and key != "kind":
        assert written == "none"
    elif default is msgspec.NODEFAULT:
        assert written == {"upstream": "the only upstream", "target": "the name"}[key]
    else:
        value = tomllib.loads(f"x = {written.strip('`')}")["x"]
        assert table.settings[key].read(value) == ("auto" if key == "kind" else default)


def test_the_examples_of_the_page_load() -> None:
    examples = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert examples
    for example in examples:
        assert load(example, source="docs/configuration.md").upstreams


# ---- the example file ------------------------------------------------------------------------------------------------


def uncommented() -> dict[str, Any]:
    """The example with every setting in it, also those that stand in comments."""
    text = re.sub(r"^# (?=\[+[a-z.]+\]+$|[a-z_]+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE)
    return tomllib.loads(text)


def example_tables() -> Iterator[tuple[Table, dict[str, Any]]]:
    document = uncommented()
    for name, table in TABLES.items():
        found = document[name][0] if table.many else document[name]
        yield table, found
        for inner_name, inner in table.tables.items():
            yield inner, found[inner_name]


def test_the_example_file_loads() -> None:
    config = read(EXAMPLE)
    assert [upstream.name for upstream in config.upstreams] == ["box1"]
    assert config.models[0].aliases == ("claude-*",)


def test_the_example_file_has_every_key_in_this_order_at_its_default() -> None:
    for table, found in example_tables():
        assert [key for key in found if key not in table.tables] == list(table.settings), table.heading
        for key, value in found.items():
            path = f"{table.name}.{key}"
            if path in DEFAULTS:
                assert value == DEFAULTS[path], path
            elif key not in table.tables:
                table.settings[key].read(value)
