"""From the text of a file to what it means."""

from __future__ import annotations

import pytest

from slotline.config import (
    ENGINE_URL,
    AdminConfig,
    Config,
    ConfigError,
    EngineConfig,
    KeyConfig,
    ModelConfig,
    ServerConfig,
    UpstreamConfig,
    UpstreamFlags,
    embedded,
    for_upstreams,
    load,
    with_address,
)
from slotline.core.keys import Priority
from slotline.core.kind import Kind
from slotline.core.limits import Limits, ThinkingEnd
from slotline.core.party import FairBy
from slotline.core.queue_frames import QueueForm

BOX = '[[upstream]]\nname = "box1"\nurl = "http://127.0.0.1:1"\n'
BOX2 = BOX.replace("box1", "box2")

EVERYTHING = """
[server]
host = "0.0.0.0"
port = 0
open = true
prefix = "/a/b"
max_body = "1MiB"
max_waiting = "2MiB"
grace = "0s"
keepalive = "250ms"
rejoin = "0s"
drain = "1m"
fair_by = "key"
queue_frames = "comment"
root_queue_frames = "off"

[[upstream]]
name = "box1"
url = "http://127.0.0.1:8081/v1"
kind = "llama.cpp"
slots = 3
queue = 0
queue_wait = "1h"
pin_slots = false
api_key_env = "BOX1_KEY"
[upstream.limits]
connect = "1s"
poll = "250ms"
busy_wait = "2s"
load_wait = "3s"
idle_grace = "6s"
liveness = "4s"
max_event = "1KiB"
client_write = "5s"
drain = "0s"
thinking_cap = 0
thinking_overrun = 7
thinking_end = "error"

[[upstream]]
name = "box2"
url = "unix:/run/llama.sock"

[[model]]
name = "reasoning"
upstream = ["box1", "box2"]
target = "qwen3-30b"
aliases = ["claude-*"]

[[model]]
name = "plain"
upstream = "box2"

[[key]]
name = "alice"
hash = "sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
weight = 3
priority = "batch"
running = 1
waiting = 0
models = ["plain", "claude-*"]

[admin]
token_env = "SLOTLINE_ADMIN"
"""


def parsed(text: str) -> Config:
    return load(text, source="slotline.toml")


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        parsed(text)
    return error.value


def test_every_key_of_a_file_reaches_its_value_in_seconds_and_bytes() -> None:
    assert parsed(EVERYTHING) == Config(
        source="slotline.toml",
        server=ServerConfig(
            host="0.0.0.0",
            port=0,
            open=True,
            prefix="/a/b",
            max_body=1048576,
            max_waiting=2097152,
            grace=0.0,
            keepalive=0.25,
            rejoin=0.0,
            drain=60.0,
            fair_by=FairBy.KEY,
            queue_frames=QueueForm.COMMENT,
            root_queue_frames=QueueForm.OFF,
        ),
        upstreams=(
            UpstreamConfig(
                name="box1",
                url="http://127.0.0.1:8081",
                kind=Kind.LLAMA_CPP,
                slots=3,
                queue=0,
                queue_wait=3600.0,
                pin_slots=False,
                api_key_env="BOX1_KEY",
                limits=Limits(
                    connect=1.0,
                    poll=0.25,
                    busy_wait=2.0,
                    load_wait=3.0,
                    idle_grace=6.0,
                    liveness=4.0,
                    max_event=1024,
                    client_write=5.0,
                    drain=0.0,
                    thinking_cap=0,
                    thinking_overrun=7,
                    thinking_end=ThinkingEnd.ERROR,
                ),
            ),
            UpstreamConfig(name="box2", url="unix:/run/llama.sock"),
        ),
        models=(
            ModelConfig(name="reasoning", upstreams=("box1", "box2"), target="qwen3-30b", aliases=("claude-*",)),
            ModelConfig(name="plain", upstreams=("box2",), target="plain"),
        ),
        keys=(
            KeyConfig(
                name="alice",
                hash=f"sha256:{'a' * 64}",
                weight=3,
                priority=Priority.BATCH,
                running=1,
                waiting=0,
                models=("plain", "claude-*"),
            ),
        ),
        admin=AdminConfig(token_env="SLOTLINE_ADMIN"),
        engine=None,
    )


def test_what_is_not_given_has_its_default() -> None:
    config = parsed(BOX)
    assert config.server == ServerConfig()
    assert config.upstreams == (UpstreamConfig(name="box1", url="http://127.0.0.1:1"),)
    assert config.models == ()
    assert config.keys == ()
    assert config.admin == AdminConfig(token_env=None)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_server_may_be_named(kind: Kind) -> None:
    assert parsed(BOX + f'kind = "{kind}"\n').upstreams[0].kind is kind
    assert for_upstreams([UpstreamFlags("http://127.0.0.1:1", kind=kind.value)]).upstreams[0].kind is kind


def test_kind_auto_is_none() -> None:
    assert parsed(BOX + 'kind = "auto"\n').upstreams[0].kind is None


def test_slots_auto_are_none_and_those_that_are_not_given_are_two() -> None:
    assert parsed(BOX + 'slots = "auto"\n').upstreams[0].slots is None
    assert parsed(BOX).upstreams[0].slots == 2


@pytest.mark.parametrize("end", list(ThinkingEnd))
def test_how_thinking_is_ended_may_be_chosen(end: ThinkingEnd) -> None:
    assert parsed(BOX + f'limits.thinking_end = "{end}"\n').upstreams[0].limits.thinking_end is end


def test_the_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        parsed(BOX).server.port = 1  # type: ignore[misc]


# ---- the embedded engine ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "[server]\nport = 1\n", "upstream = []\n", "[engine]\n"])
def test_without_an_upstream_a_file_means_the_embedded_engine(text: str) -> None:
    config = parsed(text)
    assert config.engine == EngineConfig(model="smollm2", slots=2, context=8192, threads=2)
    assert config.upstreams == (UpstreamConfig(name="engine", url=ENGINE_URL, kind=Kind.LLAMA_CPP, slots=2),)


def test_the_engine_is_built_from_its_table() -> None:
    config = parsed('[engine]\nmodel = "/models/q.gguf"\nslots = 4\ncontext = 4096\nthreads = 8\n')
    assert config.engine == EngineConfig(model="/models/q.gguf", slots=4, context=4096, threads=8)
    assert config.upstreams[0].slots == 4


def test_with_an_upstream_the_engine_is_started_only_if_its_table_is_given() -> None:
    assert parsed(BOX).engine is None
    both = parsed(BOX + "[engine]\n")
    assert both.engine == EngineConfig()
    assert [upstream.name for upstream in both.upstreams] == ["box1", "engine"]


def test_an_upstream_cannot_take_the_name_of_an_engine_that_is_started() -> None:
    named = BOX.replace("box1", "engine")
    assert parsed(named).upstreams[0].url == "http://127.0.0.1:1"
    error = refused(named + "[engine]\n")
    assert (error.key, error.line) == ('[[upstream]] "engine" name', 2)


def test_embedded_is_an_empty_file() -> None:
    assert embedded().engine == parsed("").engine
    assert embedded().upstreams == parsed("").upstreams


# ---- what two values say about each other ----------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["upstream", "model"])
def test_two_tables_of_a_kind_with_one_name_are_refused(table: str) -> None:
    text = BOX + BOX if table == "upstream" else BOX + '[[model]]\nname = "box1"\n' * 2
    error = refused(text)
    assert error.key == f'[[{table}]] "box1" name'
    assert error.line == (5 if table == "upstream" else 7)


def test_a_model_goes_to_the_only_upstream_unless_it_names_one() -> None:
    assert parsed(BOX + '[[model]]\nname = "m"\n').models[0].upstreams == ("box1",)
    assert parsed('[[model]]\nname = "m"\n').models[0].upstreams == ("engine",)


def test_a_model_must_name_its_upstream_where_there_are_several() -> None:
    error = refused(BOX + BOX2 + '[[model]]\nname = "m"\n')
    assert (error.key, error.line) == ('[[model]] "m"', 7)
    assert error.message == '`upstream` is missing, and there are several: "box1", "box2".'


@pytest.mark.parametrize(("written", "value"), [('"box"', '"box"'), ('["box1", "box"]', '["box1", "box"]')])
def test_a_model_with_an_upstream_that_does_not_exist_is_refused(written: str, value: str) -> None:
    error = refused(BOX + f'[[model]]\nname = "m"\nupstream = {written}\n')
    assert (error.key, error.value, error.nearest) == ('[[model]] "m" upstream', value, '"box1"')
    assert 'No [[upstream]] has the name "box"' in error.message


@pytest.mark.parametrize("alias", ["claude-*", "one"])
def test_an_alias_that_already_means_another_model_is_refused(alias: str) -> None:
    first = '[[model]]\nname = "one"\naliases = ["claude-*"]\n'
    error = refused(BOX + first + f'[[model]]\nname = "two"\naliases = ["{alias}"]\n')
    assert (error.key, error.line) == ('[[model]] "two" aliases', 9)
    assert error.message == f'"{alias}" already means the model "one".'


def key(name: str, digit: str = "0") -> str:
    return f'[[key]]\nname = "{name}"\nhash = "sha256:{digit * 64}"\n'


def test_two_keys_with_one_name_are_refused() -> None:
    error = refused(key("alice") + key("alice", "1"))
    assert (error.key, error.line) == ('[[key]] "alice" name', 5)


def test_two_keys_with_one_hash_are_refused_and_the_hash_is_not_shown() -> None:
    """Upper or lower case, it is the same one."""
    error = refused(key("alice", "a") + key("bob", "A"))
    assert (error.key, error.line, error.value) == ('[[key]] "bob" hash', 6, None)
    assert error.message == 'This is the hash of the key "alice" already.'
    assert "aaaa" not in str(error).lower()


@pytest.mark.parametrize(
    "wrong", ['hash = "sl-marker"', 'key = "sl-marker"', 'models = "sl-marker"', 'priority = "sl-marker"']
)
def test_a_key_that_stands_anywhere_in_the_file_is_not_shown(wrong: str) -> None:
    assert "marker" not in str(refused(f'[[key]]\nname = "alice"\n{wrong}\n'))


@pytest.mark.parametrize("wrong", ["weight = 0", "weight = -1", "running = 0", "waiting = -1", 'priority = "urgent"'])
def test_a_key_with_a_value_that_cannot_be_is_refused_by_name(wrong: str) -> None:
    setting, _, value = wrong.partition(" = ")
    error = refused(f"{key('alice')}{wrong}\n")
    assert (error.key, error.value) == (f'[[key]] "alice" {setting}', value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.lan"])
def test_a_host_that_others_can_reach_needs_keys_or_open(host: str) -> None:
    for none in ("", "key = []\n"):
        error = refused(f'{none}[server]\nhost = "{host}"\n')
        assert (error.key, error.value) == ("[server] host", f'"{host}"')
        assert "slotline keys new NAME" in error.message
        assert "open = true" in error.message
    assert parsed(f'[server]\nhost = "{host}"\nopen = true\n').server.host == host
    assert parsed(f'[server]\nhost = "{host}"\n{key("alice")}').server.host == host
    assert with_address(parsed(key("alice")), new_host=host).server.host == host


@pytest.mark.parametrize(
    ("text", "key", "missing"),
    [
        ('[[upstream]]\nname = "a"\n', '[[upstream]] "a"', "`url` is missing"),
        ('[[upstream]]\nurl = "http://a"\n', "[[upstream]] number 1", "`name` is missing"),
        ("[[model]]\n", "[[model]] number 1", "`name` is missing"),
        ('[[key]]\nname = "a"\n', '[[key]] "a"', "`hash` is missing"),
        ("[cluster]\n", "[cluster]", "`url` is missing"),
    ],
)
def test_a_required_key_that_is_missing_is_named(text: str, key: str, missing: str) -> None:
    error = refused(text)
    assert (error.key, error.line) == (key, 1)
    assert error.message.startswith(missing)


# ---- the command line ------------------------------------------------------------------------------------------------


def test_upstreams_of_the_command_line_need_no_file_and_are_named_after_their_address() -> None:
    config = for_upstreams([UpstreamFlags("http://127.0.0.1:1/v1", slots=4, kind="openai"), UpstreamFlags("unix:/s")])
    assert config.upstreams == (
        UpstreamConfig(name="127.0.0.1:1", url="http://127.0.0.1:1", slots=4, kind=Kind.OPENAI),
        UpstreamConfig(name="unix:/s", url="unix:/s"),
    )
    assert config.engine is None


@pytest.mark.parametrize(
    ("flags", "key", "value"),
    [
        (UpstreamFlags("box:1"), "--upstream", '"box:1"'),
        (UpstreamFlags(""), "--upstream", '""'),
        (UpstreamFlags("http://a", slots=0), "--slots", "0"),
        (UpstreamFlags("http://a", kind="lama.cpp"), "--kind", '"lama.cpp"'),
    ],
)
def test_a_fault_of_the_command_line_names_the_option(flags: UpstreamFlags, key: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        for_upstreams([flags])
    assert (error.value.file, error.value.key, error.value.value) == ("command line", key, value)
    assert error.value.line is None


def test_the_same_upstream_twice_on_the_command_line_is_refused() -> None:
    with pytest.raises(ConfigError, match="has this name already"):
        for_upstreams([UpstreamFlags("http://a"), UpstreamFlags("http://a")])


def test_host_and_port_of_the_command_line_take_the_place_of_the_files() -> None:
    config = with_address(parsed(BOX), new_host="::1", new_port=0)
    assert (config.server.host, config.server.port) == ("::1", 0)
    assert with_address(parsed(BOX)) == parsed(BOX)


@pytest.mark.parametrize(
    ("host", "port", "key"), [("0.0.0.0", None, "--host"), ("a b", None, "--host"), (None, 70000, "--port")]
)
def test_host_and_port_of_the_command_line_are_checked_like_the_files(
    host: str | None, port: int | None, key: str
) -> None:
    with pytest.raises(ConfigError) as error:
        with_address(parsed(BOX), new_host=host, new_port=port)
    assert error.value.key == key
    assert with_address(parsed("[server]\nopen = true\n"), new_host="0.0.0.0").server.host == "0.0.0.0"


# ---- values and shapes -----------------------------------------------------------------------------------------------


def test_a_wrong_value_is_named_with_file_line_key_and_the_right_one() -> None:
    error = refused(BOX + "\n[upstream.limits]\nbusy_wait = 30\n")
    assert str(error) == (
        'slotline.toml:6: [[upstream]] "box1" limits.busy_wait = 30\n'
        '  A duration is a number and a unit in quotes, as in "250ms", "10s", "5m" or "1h". Did you mean "30s"?'
    )


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ('[upstream]\nname = "a"\n', "[upstream]", "two brackets"),
        ("[[server]]\nport = 1\n", "[server]", "There is only one"),
        ("server = 3\n", "[server]", "This is a table"),
        ("upstream = [3]\n", "[[upstream]] number 1", "This is a table"),
        (BOX + "limits = 3\n", '[[upstream]] "box1" limits', "This is a table"),
        ("model = 3\n", "[[model]]", "two brackets"),
    ],
)
def test_a_table_in_the_wrong_shape_is_refused_with_the_right_one(text: str, key: str, says: str) -> None:
    error = refused(text)
    assert error.key == key
    assert says in error.message


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[server]\ngrace = 2s\n", 2, 'Text, durations and sizes stand in quotes. Did you mean grace = "2s"?'),
        ("[server]\nhost = localhost  # here\n", 2, 'Did you mean host = "localhost"?'),
        ("[server]\nport\n", 2, "This is not TOML"),
        ("[server]\nport = 1\nport = 2\n", 3, "This is not TOML"),
        ("[server]\nopen = true\nopen = true\n", 3, "This is not TOML"),
        ("[server]\nport = 08080\n", 2, "This is not TOML"),
        ("a = [", 1, "This is not TOML"),
        ("[upstream.limits]\n" + BOX, 2, "A line above it is [upstream] or [upstream.…]"),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    error = refused(text)
    assert error.line == line
    assert says in str(error)


def test_a_secret_without_quotes_is_not_shown() -> None:
    assert "hunter2" not in str(refused(BOX + "api_key_env = hunter2\n"))


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault() -> None:
    assert parsed(("\ufeff" + EVERYTHING).replace("\n", "\r\n")) == parsed(EVERYTHING)
    assert refused("\ufeff[server]\r\nprot = 1\r\n").line == 2


def test_affinity_may_be_asked_for_where_requests_are_sent_to_a_slot() -> None:
    for kind in ("auto", "llama.cpp"):
        assert parsed(BOX + f'kind = "{kind}"\naffinity = true\n').upstreams[0].affinity


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("pin_slots = false", "Needs pin_slots = true"),
        ("one_model = true", "Cannot be had together with one_model = true"),
        ('kind = "vllm"', 'Only llama.cpp can be told in which slot to go on, and kind = "vllm".'),
    ],
)
def test_affinity_is_refused_where_it_would_have_no_effect(line: str, says: str) -> None:
    error = refused(BOX + f"affinity = true\n{line}\n")
    assert error.key == '[[upstream]] "box1" affinity'
    assert says in error.message
    assert not parsed(BOX + f"affinity = false\n{line}\n").upstreams[0].affinity
