"""`slotline env claude-code`: lines for a shell, right as they are."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess

import pytest
from click.testing import CliRunner, Result

from fakes.gateway import fronted
from slotline.cli import main
from slotline.cli.env import claude_code, first_model
from slotline.config import KeyConfig
from slotline.core.keys import digest
from slotline.stub import Side, Stub

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it


def run(*arguments: str, url: str = NOBODY) -> Result:
    result = CliRunner().invoke(main, ["env", "claude-code", "--url", url, *arguments])
    assert result.exit_code == 0, result.output
    return result


def exported(text: str) -> dict[str, str]:
    """What a shell has in its environment after it has read `text`, beyond what it had before."""
    script = f"{text}\nenv -0"
    out = subprocess.run(["sh", "-euc", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True).stdout
    pairs = (entry.split("=", 1) for entry in out.decode().split("\0") if entry)
    return {name: value for name, value in pairs if name not in {"PATH", "PWD", "_", "SHLVL", "OLDPWD"}}


def test_a_shell_that_evaluates_it_has_the_variables() -> None:
    found = exported(f'eval "$(printf %s {shlex.quote(run("--model", "m").stdout)})"')
    assert found == {
        "ANTHROPIC_BASE_URL": NOBODY,
        "ANTHROPIC_AUTH_TOKEN": "unused",
        "ANTHROPIC_MODEL": "m",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "m",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "m",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "m",
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "3600000",
        "API_TIMEOUT_MS": "3600000",
        "API_FORCE_IDLE_TIMEOUT": "0",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    }


def test_every_line_is_an_export_or_a_comment() -> None:
    for arguments in ((), ("--model", "m")):
        assert all(line.startswith(("export ", "# ")) for line in run(*arguments).stdout.splitlines())


@pytest.mark.parametrize("value", ["a b", "a'b", "$(touch x)", "a;b", "a\nb", "#x"])
def test_a_value_means_itself_whatever_is_in_it(value: str) -> None:
    found = exported(run("--model", value, "--token", value).stdout)
    assert (found["ANTHROPIC_MODEL"], found["ANTHROPIC_AUTH_TOKEN"]) == (value, value)


def test_as_json_it_is_the_same() -> None:
    assert json.loads(run("--json", "--model", "m").stdout) == exported(run("--model", "m").stdout)


def test_without_a_gateway_that_tells_one_no_model_is_named_and_it_says_so() -> None:
    result = run()
    assert "ANTHROPIC_MODEL" not in exported(result.stdout)
    assert "# ANTHROPIC_MODEL: the gateway told no model" in result.stdout
    assert NOBODY in result.stderr
    assert "ANTHROPIC_MODEL" not in json.loads(run("--json").stdout)


async def test_the_first_model_of_the_gateway_is_taken() -> None:
    async with Stub(models=("one", "two")) as stub:
        assert await asyncio.to_thread(first_model, stub.url, "sl-key") == "one"
        assert ("authorization", "Bearer sl-key") in [(name.lower(), value) for name, value in stub.calls[-1].headers]
        result = await asyncio.to_thread(run, url=stub.url)
    assert exported(result.stdout)["ANTHROPIC_MODEL"] == "one"
    assert result.stderr == ""


async def test_a_gateway_with_keys_is_said_to_need_one() -> None:
    keys = (KeyConfig(name="alice", hash=f"sha256:{digest('sl-a').hex()}"),)
    async with fronted(keys=keys) as front:
        none = await asyncio.to_thread(run, url=front.url)
        wrong = await asyncio.to_thread(run, "--token", "sl-b", url=front.url)
        right = await asyncio.to_thread(run, "--token", "sl-a", url=front.url)
    assert none.stderr == f"the gateway at {front.url} needs a key: --token\n"
    assert wrong.stderr == f"the gateway at {front.url} does not know the key of --token\n"
    assert exported(right.stdout)["ANTHROPIC_MODEL"] == "stub"


@pytest.mark.parametrize("side", [Side(status=401), Side(body="{}"), Side(body="<html>"), Side(body='{"data":[]}')])
async def test_an_answer_that_names_none_is_no_model(side: Side) -> None:
    async with Stub() as stub:
        stub.sides["/v1/models"] = side
        assert await asyncio.to_thread(first_model, stub.url, "unused") is None


@pytest.mark.parametrize(
    ("url", "base"),
    [("http://box:1/", "http://box:1"), ("http://box/v1", "http://box"), ("https://b/llm/", "https://b/llm")],
)
def test_the_client_wants_the_address_without_v1(url: str, base: str) -> None:
    result = CliRunner().invoke(main, ["env", "claude-code", "--url", url, "--model", "m", "--json"])
    assert json.loads(result.stdout)["ANTHROPIC_BASE_URL"] == base


@pytest.mark.parametrize("url", ["box:8080", "ftp://box", "http://", "/run/x.sock"])
def test_what_is_no_address_is_refused(url: str) -> None:
    result = CliRunner().invoke(main, ["env", "claude-code", "--url", url])
    assert result.exit_code == 2
    assert "expected an address such as http://127.0.0.1:8080" in result.output


def test_without_a_model_the_clients_own_choice_stays() -> None:
    assert not [name for name in claude_code("u", "t", None) if "MODEL" in name]
