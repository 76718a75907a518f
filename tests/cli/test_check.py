"""`slotline check`: prints what the configuration means, or what is wrong with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slotline.cli.check import check, columns, limit_rows, upstream_rows, url_rows, who_may_ask
from slotline.config import TABLES, embedded, load

TWO = """
[[upstream]]
name = "box1"
url = "http://127.0.0.1:8081/v1"
slots = 4
[upstream.limits]
busy_wait = "1h"

[[upstream]]
name = "box2"
url = "unix:/run/llama.sock"
kind = "llama.cpp"
queue = 8
queue_wait = "90s"
api_key_env = "SLOTLINE_TEST_KEY"

[[model]]
name = "reasoning"
upstream = ["box1", "box2"]
aliases = ["claude-*"]

[[model]]
name = "plain"
upstream = "box2"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, a home without a configuration, and the secret that the file here names."""
    monkeypatch.setenv("SLOTLINE_TEST_KEY", "hunter2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(check, arguments)


def test_it_prints_one_row_per_upstream_and_the_limits(folder: Path) -> None:
    (folder / "slotline.toml").write_text(TWO)
    result = run()
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "configuration  slotline.toml",
        "listens on     http://127.0.0.1:8080, first-party mount /llm",
        "who may ask    no keys: loopback only",
        "",
        "upstream  url                    kind       slots  queue  models",
        "box1      http://127.0.0.1:8081  auto       4      64     reasoning, claude-*",
        "box2      unix:/run/llama.sock   llama.cpp  2      8      reasoning, claude-*, plain",
        "",
        "limit        gateway",
        "max_body     32MiB",
        "max_waiting  1GiB",
        "grace        2s",
        "keepalive    10s",
        "rejoin       1m",
        "drain        30s",
        "",
        "limit             box1       box2",
        "queue_wait        no limit   90s",
        "connect           5s         5s",
        "poll              1s         1s",
        "busy_wait         1h         30m",
        "load_wait         15m        15m",
        "idle_grace        1m         1m",
        "liveness          1m         1m",
        "max_event         4MiB       4MiB",
        "client_write      1m         1m",
        "drain             30s        30s",
        "thinking_cap      16384      16384",
        "thinking_overrun  512        512",
        "thinking_end      ask_again  ask_again",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TWO, '[[upstream]] "box2" api_key_env\n  The environment variable SLOTLINE_TEST_KEY is not set.'),
        (
            '[admin]\ntoken_env = "SLOTLINE_TEST_KEY"\n',
            "[admin] token_env\n  The environment variable SLOTLINE_TEST_KEY",
        ),
    ],
)
def test_a_secret_that_the_environment_lacks_is_an_error_as_it_is_for_serve(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (folder / "slotline.toml").write_text(text)
    right = run()
    assert (right.exit_code, right.stderr) == (0, "")
    assert "hunter2" not in right.stdout
    monkeypatch.delenv("SLOTLINE_TEST_KEY")
    wrong = run()
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert said in wrong.stderr


def test_all_secrets_that_are_missing_are_named_and_json_has_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "slotline.toml").write_text(TWO + '[admin]\ntoken_env = "SLOTLINE_TEST_TOKEN"\n')
    monkeypatch.delenv("SLOTLINE_TEST_KEY")
    result = run("--json")
    assert result.exit_code == 1
    assert '[[upstream]] "box2" api_key_env' in result.stderr
    assert "[admin] token_env" in result.stderr
    assert json.loads(result.stdout)["error"]["key"] == '[[upstream]] "box2" api_key_env'


CLUSTER = """
[admin]
token_env = "SLOTLINE_TEST_KEY"
[cluster]
url = "redis://redis:6379/0"
lease = "20s"
"""


def test_it_says_who_operates_it_and_with_whom_it_shares_its_line(folder: Path) -> None:
    (folder / "slotline.toml").write_text(TWO + CLUSTER)
    lines = run().stdout.splitlines()
    assert lines[3:5] == [
        "operators      the token in SLOTLINE_TEST_KEY",
        "cluster        redis://redis:6379/0, namespace slotline, lease 20s, no password",
    ]
    (folder / "slotline.toml").write_text(TWO + CLUSTER + 'password_env = "SLOTLINE_TEST_KEY"\n')
    assert ", lease 20s, the password in SLOTLINE_TEST_KEY" in run().stdout


def test_a_shared_line_whose_password_or_client_is_missing_is_an_error_as_it_is_for_serve(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "slotline.toml").write_text(TWO + CLUSTER + 'password_env = "SLOTLINE_TEST_PASSWORD"\n')
    monkeypatch.delenv("SLOTLINE_TEST_PASSWORD", raising=False)
    unset = run()
    assert (unset.exit_code, unset.stdout) == (1, "")
    assert "[cluster] password_env" in unset.stderr
    monkeypatch.setenv("SLOTLINE_TEST_PASSWORD", "hunter2")
    assert run().exit_code == 0
    monkeypatch.setitem(sys.modules, "redis", None)  # as if it were not installed
    without = run()
    assert (without.exit_code, without.stdout) == (1, "")
    assert "[cluster]" in without.stderr
    assert "Needs the client of Redis: pip install 'slotline[cluster]'." in without.stderr


def test_without_a_file_it_shows_the_embedded_engine(folder: Path) -> None:
    result = run()
    assert result.exit_code == 0
    assert "configuration  built-in defaults" in result.stdout
    assert "engine    embedded: smollm2  llama.cpp  2      64     all it lists" in result.stdout
    assert not list(folder.iterdir())


def test_a_wrong_file_is_told_on_standard_error_with_exit_status_1(folder: Path) -> None:
    (folder / "my.toml").write_text("slots = 4\n")
    result = run("--config", "my.toml")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "my.toml:1: slots = 4\n  There is no `slots` at the top of the file; it belongs in [[upstream]] or [engine].\n"
    )


def test_a_file_that_is_named_and_missing_is_an_error_and_no_other_is_read(folder: Path) -> None:
    (folder / "slotline.toml").write_text(TWO)
    result = run("--config", "missing.toml")
    assert result.exit_code == 1
    assert result.stderr == "missing.toml\n  It cannot be read: No such file or directory.\n"


def test_json_has_the_names_of_the_file_seconds_and_bytes(folder: Path) -> None:
    (folder / "slotline.toml").write_text(TWO)
    result = run("--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"], told["source"]) == (0, True, "slotline.toml")
    first, second = told["upstream"]
    assert (first["url"], first["kind"], first["slots"]) == ("http://127.0.0.1:8081", "auto", 4)
    assert (first["limits"]["busy_wait"], first["limits"]["max_event"]) == (3600.0, 4194304)
    assert (second["kind"], second["queue_wait"], second["api_key_env"]) == (
        "llama.cpp",
        90.0,
        "SLOTLINE_TEST_KEY",
    )
    assert told["model"][1] == {"name": "plain", "upstream": ["box2"], "target": "plain", "aliases": []}
    assert (told["server"]["max_body"], told["engine"]) == (33554432, None)


def test_json_of_an_error_has_its_parts(folder: Path) -> None:
    (folder / "slotline.toml").write_text("[server]\nprot = 1\n")
    result = run("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "ok": False,
        "error": {
            "file": "slotline.toml",
            "line": 2,
            "key": "[server] prot",
            "value": "1",
            "message": "There is no `prot` in [server].",
            "nearest": "`port`",
        },
    }
    assert result.stderr.startswith("slotline.toml:2: [server] prot = 1\n")


def test_every_limit_of_an_upstream_is_shown() -> None:
    assert [row[0] for row in limit_rows(embedded())] == ["queue_wait", *TABLES["upstream"].tables["limits"].settings]


def test_slots_that_the_upstream_is_to_report_are_shown_as_auto(folder: Path) -> None:
    (folder / "slotline.toml").write_text('[[upstream]]\nname = "box1"\nurl = "http://a"\nslots = "auto"\n')
    assert "box1      http://a  auto  auto   64     all it lists" in run().stdout
    assert json.loads(run("--json").stdout)["upstream"][0]["slots"] == "auto"


def test_a_model_that_no_upstream_of_the_row_serves_is_not_in_it() -> None:
    config = load(TWO + '[[upstream]]\nname = "box3"\nurl = "http://c"\n', source="x")
    assert [row[-1] for row in upstream_rows(config)] == ["reasoning, claude-*", "reasoning, claude-*, plain", "none"]


def test_an_ipv6_host_is_shown_as_a_url(folder: Path) -> None:
    (folder / "slotline.toml").write_text('[server]\nhost = "::1"\n')
    assert "http://[::1]:8080," in run().stdout


ALICE, BOB = f"sha256:{'a1' * 32}", f"sha256:{'b2' * 32}"
KEYS = f"""
[[key]]
name = "alice"
hash = "{ALICE}"
weight = 5

[[key]]
name = "bob"
hash = "{BOB}"
priority = "batch"
running = 1
waiting = 0
models = ["plain", "claude-*"]
"""


def test_it_prints_one_row_per_key_without_its_hash(folder: Path) -> None:
    (folder / "slotline.toml").write_text(TWO + KEYS)
    printed = run().stdout
    assert printed.endswith(
        "\n\n"
        "key    weight  priority     running  waiting  models\n"
        "alice  5       interactive  4        16       *\n"
        "bob    2       batch        1        0        plain, claude-*\n"
    )
    assert "who may ask    2 keys\n" in printed
    assert "a1a1" not in printed


def test_json_has_the_keys_without_their_hashes(folder: Path) -> None:
    (folder / "slotline.toml").write_text(TWO + KEYS)
    printed = run("--json").stdout
    alice, bob = json.loads(printed)["key"]
    assert (alice["name"], alice["weight"], bob["models"]) == ("alice", 5, ["plain", "claude-*"])
    assert "hash" not in alice
    assert "a1a1" not in printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no keys: loopback only"),
        ("[server]\nopen = true\n", "no keys, open: whoever reaches the port"),
        (f'[server]\nopen = true\n[[key]]\nname = "alice"\nhash = "{ALICE}"\n', "1 key"),
    ],
)
def test_it_says_who_may_ask(text: str, said: str) -> None:
    assert who_may_ask(load(text, source="x")) == said


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://[::1]:8080"),
        ("http://box.local:8080", "http://box.local:8080"),
    ],
)
def test_the_addresses_to_try_can_be_gone_to(url: str, near: str) -> None:
    rows = dict(url_rows(url, "/llm"))
    assert rows["dashboard"] == f"{near}/"
    assert rows["metrics"] == f"{near}/metrics"
    assert rows["Claude Code"] == f"ANTHROPIC_BASE_URL={near}"
    assert rows["OpenAI clients"] == f"OPENAI_BASE_URL={near}/v1"
    assert rows["a page of yours"] == f"{near}/llm/v1/messages"


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() -> None:
    assert columns(("a", "b"), [("long", "x"), ("y", "")]) == "a     b\nlong  x\ny"


def test_an_upstream_with_one_model_at_a_time_says_so() -> None:
    config = load(TWO.replace("slots = 4", "slots = 4\none_model = true"), source="x")
    assert [row[3] for row in upstream_rows(config)] == ["4, one model", "2"]


def test_an_upstream_where_warm_slots_go_first_says_so() -> None:
    config = load(TWO.replace("slots = 4", "slots = 4\naffinity = true"), source="x")
    assert [row[3] for row in upstream_rows(config)] == ["4, affinity", "2"]
