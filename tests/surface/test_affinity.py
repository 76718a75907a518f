"""`affinity`: warm slots first, as clients and the server see it. Whose turn it is: `core/test_affinity.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fakes.checker import check
from fakes.gateway import Front, fronted
from fakes.product import ask
from slotline.core.affinity import DEPTH, PASSED
from slotline.core.kind import Kind
from slotline.stub import Stub
from slotline.stub.received import Received
from slotline.stub.standard import held

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def question(name: str, number: int) -> dict[str, object]:
    """One of several that an agent asks at once about the same text: only the last message is another one."""
    said = [
        {"role": "user", "content": f"{name}: {'word ' * 200}"},
        {"role": "assistant", "content": "I have read it."},
        {"role": "user", "content": f"question {number}"},
    ]
    return {**ask(), "messages": said}


def name(received: Received) -> str:
    return str(received.body["messages"][0]["content"])[0]


async def served(front: Front, names: str, *, path: str | None = None) -> tuple[str, int]:
    """One slot, taken by A until all of `names` wait: in which order they are served, and what is read again.

    The latter in tokens of their prompts that the slot held already.
    """
    front.stub.play(held(2))
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(front.fetch(question("A", 0)))]
        await front.stub.until(lambda state: state.held == 1)
        for number, letter in enumerate(names, 1):
            calls.append(group.create_task(front.fetch(question(letter, number))))
            await front.until(lambda number=number: front.waiting == number)  # type: ignore[misc]
        front.stub.release()
    seen = [check(call.result().body) for call in calls]
    assert all(each.complete for each in seen)
    cached = sum(each.usage["cache_read_input_tokens"] for each in seen)
    return "".join(map(name, front.stub.requests[1:])), cached


async def test_those_whose_prompt_the_slot_holds_go_first_and_have_it_read_once() -> None:
    async with fronted(affinity=True) as front:
        order, cached = await served(front, "BABAB")
    assert order == "AABBB"
    async with fronted() as front:
        plain, read = await served(front, "BABAB")
    assert plain == "BABAB"
    assert cached > 800 > read, "four of five found some 250 tokens"


async def test_nobody_is_passed_more_often_than_the_bound_says() -> None:
    async with fronted(affinity=True, queue=16) as front:
        order, _ = await served(front, "B" + "A" * (PASSED + 2))
    assert order == "A" * PASSED + "BAA"
    page = PAGE.read_text()
    assert f"more than {PASSED} times" in page
    assert f"of the first {DEPTH}" in page


async def test_a_position_counts_who_stands_before_and_does_not_change_by_who_passes() -> None:
    async with fronted(affinity=True) as front:
        front.stub.play(held(2), held(2), held(2))
        async with front.streaming(question("A", 0)) as first:
            await front.stub.until(lambda state: state.held == 1)
            async with front.streaming(question("B", 1)) as other, front.streaming(question("A", 2)) as again:
                assert b'"position":1,"queue_length":1' in await other.next()
                assert b'"position":2,"queue_length":2' in await again.next()
                front.stub.release()
                assert check(await first.rest()).complete
                await front.stub.until(lambda state: state.held == 1)
                assert name(front.stub.requests[-1]) == "A"
                assert b"position" not in again.answer.body.partition(b"message_start")[2]
                front.stub.release()
                await front.stub.until(lambda state: state.held == 1 and len(front.stub.requests) == 3)
                front.stub.release()
                assert b'"position":2' not in await other.rest()
                assert check(await again.rest()).complete


async def test_on_a_server_that_cannot_be_told_where_to_go_on_the_order_is_that_of_arrival() -> None:
    async with fronted(affinity=True, stub=Stub(slots=1, tokens=3, kind=Kind.OPENAI), kind=Kind.OPENAI) as front:
        order, _ = await served(front, "BAB")
    assert order == "BAB"
