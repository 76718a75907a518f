"""What people see: the terminal commands in a real terminal (tmux), before the product and a stub that is held."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from fakes.product import ask, calling
from fakes.stage import Stage

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Terminal:
    """A terminal in which one command runs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.seen = ""

    async def tmux(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec("tmux", "-L", self._name, *arguments, stdout=-1)
        out, _ = await process.communicate()
        return out.decode()

    async def keys(self, *keys: str) -> None:
        """Types: names of keys as tmux has them, anything else as it is."""
        await self.tmux("send-keys", "-t", "0", *keys)

    async def until(self, *wanted: str, gone: str | None = None) -> str:
        """The screen, once all of this stands on it, and `gone` does not."""
        try:
            async with asyncio.timeout(15):
                while True:
                    self.seen = await self.tmux("capture-pane", "-p", "-t", "0")
                    if all(each in self.seen for each in wanted) and (gone is None or gone not in self.seen):
                        return self.seen
        except TimeoutError:
            raise AssertionError(f"{wanted} never stood there, but:\n{self.seen}") from None


SLOTLINE = shlex.join([sys.executable, "-m", "slotline"])


@asynccontextmanager
async def terminal(command: str, *, columns: int = 100, rows: int = 30) -> AsyncIterator[Terminal]:
    """The shell's `command` in a terminal of this size; it stays to be looked at when the command has ended."""
    made = Terminal(f"slotline-{os.getpid()}-{secrets.token_hex(4)}")
    size = ("-x", str(columns), "-y", str(rows))
    try:
        await made.tmux("-f", "/dev/null", "new-session", "-d", *size, f"{command}; echo exit status $?; cat")
        yield made
    finally:
        await made.tmux("kill-server")


async def test_top_shows_slots_and_line_and_ends_what_it_is_told_to_end(stage: Stage) -> None:
    async with stage.crowded(), calling(stage.gateway.url, "/llm/v1/messages", ask("in line")) as waits:
        answer = await waits.head()
        async with terminal(f"{SLOTLINE} top --url {stage.gateway.url}") as screen:
            shown = await screen.until("2 of 2 slots busy · 1 in line", "2 slots are held", "k end it")
            lines = [line.split() for line in shown.splitlines()]
            assert [line[:2] for line in lines if line[:1] in (["0"], ["1"])][:2] == [
                ["0", "prefill"],
                ["1", "prefill"],
            ]
            await screen.keys("Down", "Down", "Down", "Enter")
            await screen.until("It waits for ", "at place 1 of 1", answer.headers["request-id"])
            await screen.keys("Escape")
            await screen.until("› ", gone="It waits for ")
            await screen.keys("k")
            await screen.until(f"End {answer.headers['request-id']}", "y / n")
            await screen.keys("y")
            await screen.until("nobody in line")
            async for _ in waits.pieces(answer):
                pass
            assert b"an operator has ended this request" in answer.body
            await screen.keys("q")
            await screen.until("exit status 0")


async def test_chat_shows_the_place_stops_at_ctrl_c_and_streams_an_answer(stage: Stage) -> None:
    async with terminal(f"{SLOTLINE} chat --url {stage.gateway.url}", columns=80, rows=24) as screen:
        await screen.until(f"stub at {stage.gateway.url}", ">")
        async with stage.crowded():
            await screen.keys("who is next?", "Enter")
            await screen.until("place 1 of 1 · waiting for ")
            await screen.keys("C-c")
            await screen.until("stopped · waited ", gone="place 1 of 1")
            await stage.waiting(0)
            await screen.keys("and now?", "Enter")
            await screen.until("place 1 of 1 · waiting for ")
        await screen.until("token-0 token-1 token-2 token-3 token-4", " · 5 tokens", "end_turn")
        await screen.keys("Up")
        await screen.until("> and now?\n")
        await screen.keys("C-u", "C-d")
        await screen.until("exit status 0")


async def test_a_question_from_a_pipe_shows_its_place_only_until_the_answer_begins(stage: Stage) -> None:
    async with AsyncExitStack() as crowd:
        await crowd.enter_async_context(stage.crowded())
        async with terminal(f"echo hello | {SLOTLINE} chat --url {stage.gateway.url}") as screen:
            await screen.until("place 1 of 1 · waiting for ")
            await crowd.aclose()
            shown = await screen.until("exit status 0")
    assert shown.splitlines()[:2] == ["token-0 token-1 token-2 token-3 token-4", "exit status 0"]


async def test_without_textual_top_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['textual'] = None; from slotline.cli import main; main(['top'])"
    async with terminal(shlex.join([sys.executable, "-c", code])) as screen:
        await screen.until("slotline top needs Textual", "pip install 'slotline[top]'", "exit status 1")


async def test_bench_shows_how_far_it_is_and_then_its_report(stage: Stage) -> None:
    command = f"{SLOTLINE} bench --url {stage.gateway.url} --requests 3"
    async with stage.crowded(), terminal(command) as screen:
        await screen.until("━━━━", "0 done · 0 running · 3 in line")
        await screen.keys("C-c")
        shown = await screen.until("exit status 130")
        assert "━━━━" not in shown
        assert "3 stopped" in shown
