"""What is not in this release is refused, never ignored."""

from __future__ import annotations

import pytest

from slotline.config import NOT_YET, ConfigError, UpstreamFlags, every_table, for_upstreams, has_effect, load

BOX = '[[upstream]]\nname = "box1"\nurl = "http://127.0.0.1:1"\n'
HASH = f'hash = "sha256:{"0" * 64}"\n'

ASKED = {  # what asks for each feature: the text, the key and the value that the message names
    "key": (f'[[key]]\nname = "alice"\n{HASH}', '[[key]] "alice"', None),
    "admin": ('[admin]\ntoken_env = "A"\n', "[admin]", None),
    "cluster": ('[cluster]\nurl = "redis://r/0"\n', "[cluster]", None),
    "server.fair_by": ('[server]\nfair_by = "flow"\n', "[server] fair_by", '"flow"'),
    "server.rejoin": ('[server]\nrejoin = "60s"\n', "[server] rejoin", '"60s"'),
    "upstream.kind": (BOX + 'kind = "vllm"\n', '[[upstream]] "box1" kind', '"vllm"'),
    "upstream.slots": (BOX + 'slots = "auto"\n', '[[upstream]] "box1" slots', '"auto"'),
    "upstream.pin_slots": (BOX + "pin_slots = true\n", '[[upstream]] "box1" pin_slots', "true"),
    "upstream.limits.poll": (BOX + 'limits.poll = "1s"\n', '[[upstream]] "box1" limits.poll', '"1s"'),
    "upstream.limits.idle_grace": (BOX + 'limits.idle_grace = "1s"\n', '[[upstream]] "box1" limits.idle_grace', '"1s"'),
    "upstream.limits.drain": (BOX + 'limits.drain = "1s"\n', '[[upstream]] "box1" limits.drain', '"1s"'),
    "upstream.limits.thinking_cap": (BOX + "limits.thinking_cap = 1\n", '[[upstream]] "box1" limits.thinking_cap', "1"),
    "upstream.limits.thinking_overrun": (
        BOX + "limits.thinking_overrun = 1\n",
        '[[upstream]] "box1" limits.thinking_overrun',
        "1",
    ),
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


@pytest.mark.parametrize(
    "text",
    [
        '[server]\nfair_by = "key"\nrejoin = "0s"\n',
        BOX + "pin_slots = false\n",
        BOX + 'kind = "auto"\n',
        BOX + 'kind = "llama.cpp"\n',
        BOX + 'kind = "openai"\n',
    ],
)
def test_a_value_that_asks_for_nothing_missing_is_taken(text: str) -> None:
    assert load(text, source="slotline.toml").upstreams


@pytest.mark.parametrize("kind", ["ollama", "vllm", "sglang"])
def test_a_kind_that_is_missing_is_refused_on_the_command_line_too(kind: str) -> None:
    with pytest.raises(ConfigError, match="Not yet in this release") as refused:
        for_upstreams([UpstreamFlags("http://127.0.0.1:1", kind=kind)])
    assert (refused.value.file, refused.value.key, refused.value.value) == ("command line", "--kind", f'"{kind}"')


def test_a_wrong_value_is_refused_as_wrong_before_it_is_refused_as_missing() -> None:
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        load('[[key]]\nname = "a"\nhash = "sl-x"\n', source="slotline.toml")


def test_a_key_has_an_effect_unless_all_its_values_are_missing() -> None:
    assert has_effect("upstream.kind")
    assert has_effect("upstream.limits.connect")
    assert has_effect("upstream.limits.poll") is ("upstream.limits.poll" not in NOT_YET)
