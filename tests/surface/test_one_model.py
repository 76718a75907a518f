"""`one_model`: models that cannot be loaded together, as clients see it. Whose turn it is: `core/test_swap.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fakes.checker import check
from fakes.gateway import Front, fronted
from fakes.product import ask
from slotline.core.swap import SWAP_PASSED
from slotline.stub import Stub
from slotline.stub.standard import held

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def box(slots: int) -> Stub:
    """A server with several models, of which it would load one at a time."""
    return Stub(slots=slots, tokens=2, models=("a", "b", "c"))


async def served(front: Front, models: str) -> list[str]:
    """One slot, taken by `a` until all of `models` wait; the models in the order in which the server was asked."""
    front.stub.play(held(2))
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(front.fetch(ask("first", model="a")))]
        await front.stub.until(lambda state: state.held == 1)
        for number, model in enumerate(models):
            calls.append(group.create_task(front.fetch(ask(f"{number}", model=model))))
            await front.until(lambda number=number: front.waiting == number + 1)  # type: ignore[misc]
        front.stub.release()
    assert all(check(call.result().body).complete for call in calls)
    return [request.model for request in front.stub.requests[1:]]


async def test_another_model_waits_until_the_running_ones_answers_have_ended() -> None:
    """B27: a slot is free, and yet the router is not made to unload the model that is answering someone."""
    async with fronted(stub=box(2), slots=2, one_model=True) as front:
        front.stub.play(held(4, before=1), held(4, before=1))
        async with (
            front.streaming(ask("one", model="a")) as one,
            front.streaming(ask("two", model="b")) as other,
            front.streaming(ask("three", model="a")) as more,
        ):
            await one.until(b"token-0")
            assert b'"position":1' in await other.next()
            await more.until(b"token-0")
            front.stub.release(1)
            assert check(await one.rest()).complete
            assert (front.waiting, [request.model for request in front.stub.requests]) == (1, ["a", "a"])
            front.stub.release()
            assert check(await more.rest()).complete
            assert check(await other.rest()).complete
        assert [request.model for request in front.stub.requests] == ["a", "a", "b"]


async def test_without_it_models_run_beside_each_other() -> None:
    async with fronted(stub=box(2), slots=2) as front:
        front.stub.play(held(2))
        async with front.streaming(ask(model="a")):
            assert check((await front.fetch(ask(model="b"))).body).complete
            front.stub.release()


async def test_requests_for_the_loaded_model_go_before_others_which_saves_a_load() -> None:
    """B28: A B A A C takes three loads in place of four."""
    async with fronted(stub=box(1), one_model=True) as front:
        assert await served(front, "baac") == ["a", "a", "b", "c"]


async def test_nobody_is_passed_more_often_than_the_bound_says() -> None:
    """B28: the gain has a limit, and the page tells it."""
    async with fronted(stub=box(1), one_model=True, queue=16) as front:
        assert await served(front, "b" + "a" * (SWAP_PASSED + 2)) == [*["a"] * SWAP_PASSED, "b", "a", "a"]
    assert f"more than {SWAP_PASSED} times" in PAGE.read_text()


async def test_two_cold_models_in_the_same_moment_are_both_served() -> None:
    """B29: one after the other, and none waits for ever."""
    async with fronted(stub=box(2), slots=2, one_model=True) as front, asyncio.TaskGroup() as group:
        calls = [group.create_task(front.fetch(ask(model=model))) for model in "ab"]
        done, _ = await asyncio.wait(calls, timeout=5)
        assert all(check(call.result().body).complete for call in done)
        assert len(done) == 2
        assert front.stub.state.max_running == 1
