"""`slotline keys new`: a key, shown once, and the table that lets it in."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from click.testing import CliRunner, Result

from slotline.cli import main
from slotline.config import KeyConfig, load


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", "new", *arguments])


def test_it_prints_the_key_and_a_table_that_knows_it_by_its_hash() -> None:
    result = run("alice")
    assert result.exit_code == 0
    assert result.stderr == ""
    key, empty, *table = result.stdout.splitlines()
    assert empty == ""
    known = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    assert table == ["[[key]]", 'name = "alice"', f'hash = "{known}"']
    assert load("\n".join(table), source="x").keys == (KeyConfig(name="alice", hash=known),)


def test_a_key_is_sl_and_32_bytes_in_base64url_without_padding_and_never_the_same() -> None:
    keys = {run("alice").stdout.splitlines()[0] for _ in range(20)}
    assert len(keys) == 20
    for key in keys:
        assert key.startswith("sl-")
        assert "=" not in key
        assert len(base64.urlsafe_b64decode(key.removeprefix("sl-") + "=")) == 32


def test_json_is_one_object() -> None:
    told = json.loads(run("alice", "--json").stdout)
    assert set(told) == {"name", "key", "hash"}
    assert told["hash"] == f"sha256:{hashlib.sha256(told['key'].encode()).hexdigest()}"


@pytest.mark.parametrize("name", ["al ice", 'a"b', "a\\b", "größe", "a=[1]#", "'''", "😀"])
def test_any_name_that_the_configuration_takes_stands_in_the_table_as_it_is(name: str) -> None:
    _, _, table = run("--", name).stdout.partition("\n\n")
    assert load(table, source="x").keys[0].name == name


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a\x7fb", "x" * 101, "\ud800"])
def test_a_name_that_the_configuration_would_refuse_makes_no_key(name: str) -> None:
    result = run("--", name)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Invalid value for NAME" in result.stderr
    assert "sl-" not in result.stderr
