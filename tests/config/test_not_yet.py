"""What is not in this release is refused, never ignored."""

from __future__ import annotations

import pytest

from slotline.config import NOT_YET, ConfigError, every_table, has_effect, load

BOX = '[[upstream]]\nname = "box1"\nurl = "http://127.0.0.1:1"\n'

ASKED = {  # what asks for each feature: the text, the key and the value that the message names
    "cluster": ('[cluster]\nurl = "redis://r/0"\n', "[cluster]", None),
}


@pytest.mark.parametrize("feature", sorted(NOT_YET))
def test_a_setting_whose_feature_is_missing_is_refused_with_key_and_value(feature: str) -> None:
    text, key, value = ASKED[feature]
    with pytest.raises(ConfigError) as refused:
        load(text, source="slotline.toml")
    error = refused.value
    assert (error.key, error.value) == (key, value)
    assert error.message == f"Not yet in this release. {NOT_YET[feature].instead}"


def test_every_key_that_is_said_to_be_missing_exists() -> None:
    paths = {f"{'upstream.' if table.name == 'limits' else ''}{table.name}" for table in every_table()}
    keys = {
        f"{'upstream.' if table.name == 'limits' else ''}{table.name}.{key}"
        for table in every_table()
        for key in table.settings
    }
    assert set(NOT_YET) <= paths | keys


def test_a_value_that_asks_for_nothing_missing_is_taken() -> None:
    assert load('[server]\nfair_by = "key"\nrejoin = "0s"\n', source="slotline.toml").upstreams


@pytest.mark.parametrize("table", ["upstream", "limits", "model", "key", "admin", "engine"])
def test_everything_about_upstreams_models_and_keys_is_there(table: str) -> None:
    (found,) = (each for each in every_table() if each.name == table)
    path = "upstream.limits" if table == "limits" else table
    assert has_effect(path)
    assert all(f"{path}.{key}" not in NOT_YET for key in found.settings)


def test_a_wrong_value_is_refused_as_wrong_before_it_is_refused_as_missing() -> None:
    with pytest.raises(ConfigError, match="redis://"):
        load('[cluster]\nurl = "http://r"\n', source="slotline.toml")


@pytest.mark.parametrize(
    ("path", "effect"),
    [("key", True), ("admin", True), ("cluster", False), ("server.rejoin", True), ("upstream.limits.drain", True)],
)
def test_a_key_has_an_effect_unless_all_its_values_are_missing(path: str, *, effect: bool) -> None:
    assert has_effect(path) is effect
