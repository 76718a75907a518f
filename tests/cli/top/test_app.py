"""The application of `slotline top`, with Textual's own pilot at the keys, before a real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from fakes.gateway import Front, fronted
from slotline.cli.top.app import Ask, Detail, Top
from slotline.cli.top.feed import Feed
from slotline.core.report import Phase
from slotline.stub.standard import held


class Watched:
    """The application as it runs, and what is on its screen."""

    def __init__(self, app: Top, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    def text(self, widget: str) -> str:
        strips = self.app.screen.query_one(widget, Static).render_lines(
            self.app.screen.query_one(widget, Static).size.region
        )
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await self.pilot.pause(0.02)

    async def keys(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()


@asynccontextmanager
async def watched(url: str, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Watched]:
    async with Feed(url, None) as feed:
        app = Top(feed, url)
        async with app.run_test(size=size) as pilot:
            yield Watched(app, pilot)


@asynccontextmanager
async def crowded() -> AsyncIterator[Front]:
    """One slot, taken; one who waits."""
    async with fronted() as front:
        front.stub.play(held(3))
        async with front.streaming(), front.streaming():
            yield front


async def test_arrows_choose_enter_says_why_and_k_ends_it_after_a_yes() -> None:
    async with crowded() as front, watched(front.url) as top:
        await top.until(lambda: top.app.state and len(top.app.state.requests) == 2)
        assert top.app.state is not None
        runs, waits = (each.id for each in top.app.state.requests)
        assert f"slotline top · {front.url}" in top.text("#head")
        await top.until(lambda: "1 of 1 slot busy · 1 in line" in top.text("#head"))
        assert "›" not in top.text("#rows")

        await top.keys("down")
        assert runs in next(line for line in top.text("#rows").splitlines() if line.startswith("›"))
        await top.keys("down", "down", "down")
        assert waits in next(line for line in top.text("#rows").splitlines() if line.startswith("›"))

        await top.keys("enter")
        assert isinstance(top.app.screen, Detail)
        assert "It waits for " in top.text("#told")
        assert waits in top.text("#told")
        await top.keys("escape", "k")
        assert isinstance(top.app.screen, Ask)
        await top.keys("n")
        assert front.waiting == 1
        await top.keys("k", "y")
        await top.until(lambda: front.waiting == 0)
        await top.until(lambda: top.app.state and len(top.app.state.requests) == 1)
        assert "›" not in top.text("#rows")  # what was chosen is gone, and nothing else is in its place


async def test_a_detail_goes_on_and_says_at_last_how_it_ended() -> None:
    async with crowded() as front, watched(front.url) as top:
        await top.until(lambda: top.app.state and len(top.app.state.requests) == 2)
        await top.keys("end", "enter")
        assert "1 of 1" in top.text("#told")
        await front.stub.until(lambda state: state.held == 1)
        front.stub.release()
        await top.until(lambda: "completed" in top.text("#told"))
        assert "ended" in top.text("#told")


async def test_with_nothing_chosen_keys_do_nothing() -> None:
    async with fronted() as front, watched(front.url) as top:
        await top.until(lambda: top.app.state)
        await top.keys("down", "enter", "k", "delete", "end", "home")
        assert len(top.app.screen_stack) == 1


async def test_a_gateway_that_is_gone_leaves_its_last_state_dimmed() -> None:
    async with AsyncExitStack() as gateway:
        front = await gateway.enter_async_context(fronted())
        async with watched(front.url) as top:
            await top.until(lambda: top.app.state)
            await gateway.aclose()
            await top.until(lambda: "gateway not reachable for " in top.text("#head"))
            assert "0 of 1 slot busy" in top.text("#head")
            assert "box llama.cpp" in top.text("#rows")


async def test_a_gateway_that_wants_a_token_is_reachable_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TESTS_TOKEN", "right")
    async with fronted(admin="A_TESTS_TOKEN") as front, watched(front.url) as top:
        await top.until(lambda: "token is needed: set SLOTLINE_ADMIN" in top.text("#head"))
        assert "not reachable" not in top.text("#head")


async def test_the_question_goes_when_its_request_has_ended_meanwhile() -> None:
    async with crowded() as front, watched(front.url) as top:
        await top.until(lambda: top.app.state and len(top.app.state.requests) == 2)
        await top.keys("home", "k")
        assert isinstance(top.app.screen, Ask)
        await front.stub.until(lambda state: state.held == 1)
        front.stub.release()
        await top.until(lambda: not isinstance(top.app.screen, Ask))
        await top.keys("y")
        await front.until(lambda: len(front.outcomes) == 2)
    assert front.outcomes == ["completed", "completed"]


@pytest.mark.parametrize("size", [(80, 24), (44, 10), (20, 5)])
async def test_it_runs_in_small_terminals(size: tuple[int, int]) -> None:
    async with crowded() as front, watched(front.url, size) as top:
        await top.until(lambda: top.app.state and len(top.app.state.requests) == 2)
        await top.keys("end", "home", "enter")
        assert isinstance(top.app.screen, Detail)
        assert top.app.state is not None
        assert top.app.state.requests[0].phase is not Phase.ENDED


async def test_q_leaves() -> None:
    async with fronted() as front, watched(front.url) as top:
        await top.keys("q")
        await top.until(lambda: not top.app.is_running)
