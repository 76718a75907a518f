"""`slotline why`: one sentence about one request."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from fakes.gateway import Front, fronted
from fakes.product import ask
from slotline.cli import main
from slotline.config import KeyConfig
from slotline.core.keys import digest
from slotline.stub.standard import held

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it
TOKEN, VARIABLE = "a-token", "A_TESTS_TOKEN"


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["why", *arguments], env={"SLOTLINE_ADMIN": None, **environment})


async def asked(front: Front, *arguments: str, **environment: str) -> Result:
    return await asyncio.to_thread(run, *arguments, "--url", front.url, **environment)


async def test_it_says_why_a_request_waits_and_for_how_long() -> None:
    async with fronted() as front:
        front.stub.play(held(3))
        async with front.calling(), front.calling(ask(stream=False)):
            await front.until(lambda: front.waiting == 1)
            (waits,) = [each.call.id for each in front.relay.passages if each.granted is None]
            result = await asked(front, waits)
            told = json.loads((await asked(front, waits, "--json")).stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{waits} waits for 0.")
    assert " at place 1 of 1 for box: 1 slot is held, for " in line
    assert (told["id"], told["phase"], told["position"]) == (waits, "waiting", 1)


async def test_of_one_that_has_ended_it_says_how() -> None:
    async with fronted() as front:
        identity = (await front.fetch()).headers["request-id"]
        await front.until(lambda: not front.relay.passages)
        result = await asked(front, identity)
    assert result.exit_code == 0
    assert f"{identity} ended 0." in result.stdout
    assert " ago: completed, after " in result.stdout


@pytest.mark.parametrize("identity", ["req_0", "../state", "a b?c#d", "ü"])
async def test_of_one_that_is_not_known_it_says_so_and_fails(identity: str) -> None:
    async with fronted() as front:
        result = await asked(front, identity)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "slotline: there is no such request, or it ended too long ago\n"


async def test_the_operators_token_and_a_callers_key_both_come_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)
    keys = (KeyConfig(name="alice", hash=f"sha256:{digest('sl-a').hex()}"),)
    async with fronted(keys=keys, admin=VARIABLE) as front:
        identity = (await front.fetch(headers={"x-api-key": "sl-a"})).headers["request-id"]
        await front.until(lambda: not front.relay.passages)
        assert (await asked(front, identity)).exit_code == 1
        assert (await asked(front, identity, SLOTLINE_ADMIN=TOKEN)).exit_code == 0
        assert (await asked(front, identity, "--token-env", "MY_KEY", MY_KEY="sl-a")).exit_code == 0
        assert (await asked(front, identity, "--token-env", "MY_KEY", MY_KEY="sl-b")).exit_code == 1


def test_without_a_gateway_it_says_where_it_looked() -> None:
    result = run("req_0", "--url", NOBODY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the gateway at {NOBODY} does not answer: " in result.stderr


def test_an_address_that_is_none_is_refused() -> None:
    result = run("req_0", "--url", "box1")
    assert result.exit_code == 2
    assert "expected an address such as http://127.0.0.1:8080, got 'box1'" in result.stderr
