"""The examples of the pages, run as they stand: only the gateway's address is another one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from docs.pages import page
from fakes.checker import check
from fakes.product import Caller, Program, ask, calling

README = page("README.md")
EXTENSION = page("docs/queue-extension.md")
WRITTEN = "http://127.0.0.1:8080"
SHOWN = "const show = console.log;"  # what the page brings


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[Program]:
    """The product before a stub with one slot, whose answers take a second."""
    arguments = ("--slots", "1", "--tokens", "10", "--gap", "0.1", "--model", "smollm2")
    async with (
        Program("stub", "--port", "0", *arguments) as upstream,
        Program("serve", "--port", "0", "--upstream", upstream.url, "--slots", "1") as program,
    ):
        yield program


@asynccontextmanager
async def taken(gateway: Program) -> AsyncIterator[None]:
    """One caller has the slot, another one waits."""
    body = ask(model="smollm2")
    async with (
        calling(gateway.url, "/llm/v1/messages", body) as running,
        calling(gateway.url, "/llm/v1/messages", body) as waiting,
    ):
        await first(running, b"event: message_start")
        await first(waiting, b"event: queue")
        yield


async def first(caller: Caller, expected: bytes) -> None:
    """The first piece of the answer, which begins as `expected`."""
    async for piece in caller.pieces(await caller.head()):
        assert piece.startswith(expected)
        return


async def output(*command: str, text: str = "") -> str:
    """What `command` prints, with `text` as its input; it and all that it started end with the test."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, start_new_session=True)
    try:
        out, _ = await process.communicate(text.encode())
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert process.returncode == 0
    return out.decode()


def the_code(language: str) -> str:
    """The one block of `language` in the page on queue frames."""
    (block,) = EXTENSION.code(language)
    return block


async def test_the_python_example_shows_each_place_and_then_the_answer(gateway: Program) -> None:
    code = the_code("python")
    assert WRITTEN in code
    async with taken(gateway):
        printed = await output(sys.executable, "-c", code.replace(WRITTEN, gateway.url))
    places, answer = printed.splitlines()[:-1], printed.splitlines()[-1]
    assert places == ["place 2 of 2", "place 1 of 1"]
    assert answer.split() == [f"token-{number}" for number in range(10)]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_the_javascript_example_shows_each_place_and_then_the_answer(gateway: Program) -> None:
    """In node, which has the same `fetch` and the same streams as a browser, but no origin of its own."""
    code = the_code("js")
    assert 'const url = "/' in code
    program = SHOWN + code.replace('const url = "/', f'const url = "{gateway.url}/')
    async with taken(gateway):
        printed = await output("node", "--input-type=module", "-", text=program)
    assert printed.splitlines()[:2] == ["place 2 of 2", "place 1 of 1"]
    assert printed.split()[-10:] == [f"token-{number}" for number in range(10)]


def shell(begin: str, gateway: Program) -> str:
    """The one block of shell in the README that begins so, for this gateway."""
    (block,) = [block for block in README.code("sh") if block.startswith(begin)]
    assert WRITTEN in block
    return block.replace(WRITTEN, gateway.url)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_first_command_of_the_readme_streams_an_answer(gateway: Program) -> None:
    printed = await output("bash", "-c", shell("curl", gateway))
    assert check(printed.encode()).complete


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_loop_of_the_readme_shows_a_place_that_counts_down(gateway: Program) -> None:
    """With one slot and four callers ahead; how many of them are served before the fifth asks, is chance."""
    printed = (await output("bash", "-c", shell("ask()", gateway))).splitlines()
    assert len(printed) == 5
    queue = [json.loads(line.removeprefix("data: ")) for line in printed if '"queue"' in line]
    positions = [frame["position"] for frame in queue]
    assert positions
    assert positions == list(range(positions[0], positions[0] - len(positions), -1))


def test_the_output_that_the_readme_shows_is_what_its_loop_prints() -> None:
    """Three places, then the answer begins, each line as `grep` cuts it."""
    (shown,) = [block for block in README.code("") if block.startswith('data: {"type":"queue"')]
    lines = shown.splitlines()
    assert [json.loads(line.removeprefix("data: "))["position"] for line in lines[:3]] == [3, 2, 1]
    assert lines[3].startswith('data: {"type":"message_start"')
    assert len(lines) == 5
    assert max(map(len, lines)) == len("data: ") + 80
