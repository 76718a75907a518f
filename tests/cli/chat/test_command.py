"""`slotline chat` in a pipe: one question in, the answer and nothing else out."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from fakes.gateway import Front, fronted
from slotline.cli import main
from slotline.config import KeyConfig
from slotline.core.keys import digest
from slotline.stub import Stub
from slotline.stub.standard import die, thinking

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it


def run(*arguments: str, text: str | bytes = "hello", **environment: str) -> Result:
    return CliRunner().invoke(main, ["chat", *arguments], input=text, env={"SLOTLINE_KEY": None, **environment})


async def piped(front: Front, *arguments: str, text: str | bytes = "hello", **environment: str) -> Result:
    return await asyncio.to_thread(run, *arguments, "--url", front.url, text=text, **environment)


async def test_all_of_the_input_is_one_message_and_only_the_answer_comes_out() -> None:
    async with fronted(stub=Stub(slots=1, echo=True)) as front:
        result = await piped(front, text="two\nlines, Grüße\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "two\nlines, Grüße\n", "")


async def test_options_are_what_is_asked() -> None:
    async with fronted(stub=Stub(slots=1, models=("stub", "other"))) as front:
        front.stub.play(thinking(2, 2))
        result = await piped(front, "other", "--system", "be brief", "--max-tokens", "7", "--thinking")
        (body,) = [json.loads(each.raw) for each in front.stub.requests]
    assert (result.exit_code, result.stdout) == (0, "token-0 token-1\n")
    assert (body["model"], body["max_tokens"]) == ("other", 7)
    assert body["messages"][0] == {"role": "system", "content": "be brief"}
    assert body["chat_template_kwargs"]["enable_thinking"] is True


async def test_an_error_is_said_and_the_exit_status_is_1() -> None:
    async with fronted(stub=Stub(slots=1)) as front:
        unknown = await piped(front, "nope")
        front.stub.play(die(2))
        died = await piped(front, "stub")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert unknown.stderr == "slotline: model: 'nope' is not served here; the models are: stub\n"
    assert (died.exit_code, died.stdout) == (1, "token-0 token-1\n")
    assert died.stderr.startswith("slotline: ")


async def test_where_there_are_keys_it_shows_the_one_of_the_variable() -> None:
    keys = (KeyConfig(name="alice", hash=f"sha256:{digest('sl-a').hex()}"),)
    async with fronted(keys=keys) as front:
        for model in ((), ("stub",)):
            none, wrong = await piped(front, *model), await piped(front, *model, "--key-env", "MINE", MINE="sl-b")
            assert (none.exit_code, wrong.exit_code) == (1, 1)
            assert none.stderr.startswith("slotline: the gateway needs a key: set SLOTLINE_KEY")
            assert wrong.stderr == "slotline: the gateway refuses the key in MINE\n"
        assert (await piped(front, SLOTLINE_KEY="sl-a")).exit_code == 0
        assert (await piped(front, "--key-env", "MINE", MINE="sl-a")).exit_code == 0


async def test_a_gateway_without_a_model_is_said() -> None:
    async with fronted(stub=Stub(slots=1, models=())) as front:
        result = await piped(front)
    assert (result.exit_code, result.stderr) == (1, f"slotline: the gateway at {front.url} lists no model\n")


@pytest.mark.parametrize("text", ["", " \n", b"\xff\xfe"])
def test_nothing_to_ask_is_a_usage_error(text: str | bytes) -> None:
    result = run("stub", "--url", NOBODY, text=text)
    assert result.exit_code == 2


def test_without_a_gateway_it_says_where_it_looked() -> None:
    for model in ((), ("stub",)):
        result = run(*model, "--url", NOBODY)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"the gateway at {NOBODY} does not answer: " in result.stderr
