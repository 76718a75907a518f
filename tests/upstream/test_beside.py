"""Tasks that live beside a block."""

from __future__ import annotations

import asyncio

import pytest

from slotline.upstream.beside import beside


class Work:
    """Runs until it is cancelled, or until it is told to fail."""

    def __init__(self) -> None:
        self.state = "new"
        self.fault = asyncio.Event()

    async def run(self) -> None:
        self.state = "runs"
        try:
            await self.fault.wait()
            raise ZeroDivisionError
        finally:
            self.state = "ended"


async def test_the_work_runs_with_the_block_and_ends_with_it() -> None:
    one, other = Work(), Work()
    async with beside(one.run(), other.run()):
        await asyncio.sleep(0)
        assert [work.state for work in (one, other)] == ["runs", "runs"]
    assert [work.state for work in (one, other)] == ["ended", "ended"]


async def test_an_error_of_the_block_arrives_as_it_is() -> None:
    work = Work()
    with pytest.raises(KeyError, match="mine"):
        async with beside(work.run()):
            await asyncio.sleep(0)
            raise KeyError("mine")
    assert work.state == "ended"


async def test_a_fault_of_the_work_cancels_the_block_and_arrives_as_a_group() -> None:
    work, cancelled = Work(), False
    with pytest.raises(ExceptionGroup) as caught:
        async with beside(work.run()):
            work.fault.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    assert caught.group_contains(ZeroDivisionError)


async def test_a_cancellation_from_outside_stays_one() -> None:
    work = Work()

    async def block() -> None:
        async with beside(work.run()):
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.state == "ended"


async def test_work_that_the_block_starts_ends_with_it_and_its_faults_are_as_any_others() -> None:
    early, late = Work(), Work()
    async with beside(early.run()) as start:
        start(late.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert late.state == "runs"
    assert (early.state, late.state) == ("ended", "ended")
    with pytest.raises(ExceptionGroup) as caught:
        async with beside() as start:
            work = Work()
            start(work.run())
            work.fault.set()
            await asyncio.Event().wait()
    assert caught.group_contains(ZeroDivisionError)
