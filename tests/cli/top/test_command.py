"""`slotline top` in a pipe: one look, as text or as JSON. On a terminal: tests/cli/top/test_app.py."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from fakes.gateway import Front, fronted
from slotline.cli import main
from slotline.stub.standard import held

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["top", *arguments], env={"SLOTLINE_ADMIN": None, **environment})


async def looked(front: Front, *arguments: str, **environment: str) -> Result:
    return await asyncio.to_thread(run, *arguments, "--url", front.url, **environment)


@pytest.mark.parametrize("arguments", [(), ("--once",)])
async def test_in_a_pipe_it_prints_what_there_is_now(arguments: tuple[str, ...]) -> None:
    async with fronted() as front:
        front.stub.play(held(3))
        async with front.streaming(), front.streaming():
            result = await looked(front, *arguments)
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0].startswith("1 of 1 slot busy · 1 in line, the longest for 0.")
    assert lines[2].startswith("box llama.cpp up · 1 of 1 slot busy · 1 in line")
    assert lines[4].split()[1] == "prefill"
    assert "1 slot is held, for 0." in lines[8]


async def test_json_is_the_state_as_the_gateway_tells_it() -> None:
    async with fronted() as front:
        result = await looked(front, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout).keys() == {"gateway", "upstreams", "lines", "requests"}


async def test_the_operators_token_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TESTS_TOKEN", "right")
    async with fronted(admin="A_TESTS_TOKEN") as front:
        none, wrong = await looked(front), await looked(front, "--token-env", "MINE", MINE="wrong")
        assert (none.exit_code, wrong.exit_code) == (1, 1)
        assert none.stderr.startswith("slotline: the operator's token is needed: set SLOTLINE_ADMIN")
        assert wrong.stderr == "slotline: the operator's token is needed: the one in MINE is refused\n"
        assert (await looked(front, SLOTLINE_ADMIN="right")).exit_code == 0
        assert (await looked(front, "--token-env", "MINE", MINE="right")).exit_code == 0


def test_without_a_gateway_it_says_where_it_looked() -> None:
    result = run("--url", NOBODY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"slotline: the gateway at {NOBODY} does not answer: Connection refused\n"
