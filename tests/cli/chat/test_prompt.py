"""What a person can type, to a real gateway. What is drawn meanwhile: tests/e2e/test_terminal.py."""

from __future__ import annotations

import asyncio
import json
from io import StringIO

import pytest
from rich.console import Console

from fakes.gateway import Front, fronted
from slotline.cli.asking import Asker
from slotline.cli.chat.prompt import Prompt
from slotline.cli.chat.talk import Talk
from slotline.stub import Stub
from slotline.stub.standard import error


def typed(front: Front, text: str, talk: Talk | None = None) -> list[str]:
    """Types `text`, and leaves with Ctrl-D; what is printed."""
    console = Console(file=StringIO(), width=100, highlight=False)

    async def opened() -> Asker:
        return await Asker(front.url, None).__aenter__()

    with pytest.MonkeyPatch.context() as patched, asyncio.Runner() as runner:
        patched.setattr("sys.stdin", StringIO(text))
        asker = runner.run(opened())
        Prompt(console, asker, talk or Talk("stub", 64), runner, (front.url, None)).run()
        runner.run(asker.__aexit__())
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]


async def test_what_is_typed_is_asked_and_answers_are_remembered() -> None:
    async with fronted(stub=Stub(slots=1, echo=True)) as front:
        printed = await asyncio.to_thread(typed, front, "first \\\nquestion\nsecond\n")
        bodies = [json.loads(each.raw) for each in front.stub.requests]
    assert printed[0] == f"stub at {front.url}. /help tells more, Ctrl-D leaves."
    assert printed[1] == "first question"
    assert printed[3] == "second"
    assert [len(body["messages"]) for body in bodies] == [1, 3]


async def test_commands_are_obeyed_and_none_is_sent() -> None:
    async with fronted(stub=Stub(slots=1, models=("stub", "other"))) as front:
        talk = Talk("stub", 64)
        text = "/model\n/model nope\n/model other\n/new\n/wrong\n/help\n\n/quit\nnever\n"
        printed = await asyncio.to_thread(typed, front, text, talk)
        assert not front.stub.requests
    assert talk.model == "other"
    assert [line for line in printed[1:] if not line.startswith(("/", "Ctrl", "\\"))] == [
        "* stub",
        "  other",
        "error: model: 'nope' is not served here; the models are: stub, other",
        "the next answers are of other",
        "a new chat",
        "error: there is no command /wrong; /help lists them",
    ]


async def test_what_went_wrong_is_said_and_is_no_part_of_the_chat() -> None:
    async with fronted(stub=Stub(slots=1)) as front:
        front.stub.play(error(500, "out of memory"))
        talk = Talk("stub", 64)
        printed = await asyncio.to_thread(typed, front, "hello\n", talk)
    assert printed[1].startswith("error: ")
    assert "out of memory" in printed[1]
    assert talk.said == []
