"""A deadline that moves, in virtual time: what it ends, what it leaves alone, and that it swallows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from slotline.upstream.deadline import Deadline

pytestmark = pytest.mark.looptime


class Late(Exception):
    """What these deadlines raise."""


def now() -> float:
    return asyncio.get_running_loop().time()


def due(seconds: float, error: Callable[[], Exception] = Late) -> Deadline:
    return Deadline(now() + seconds, error)


def pending() -> int:
    """Timers that are still to fire."""
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in scheduled)


async def forever() -> None:
    await asyncio.Event().wait()


# ---- alone -----------------------------------------------------------------------------------------------------------


async def test_the_block_is_ended_at_the_deadline_with_its_error() -> None:
    began = now()
    with pytest.raises(Late):
        async with due(3):
            await forever()
    assert now() - began == pytest.approx(3)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_block_that_ends_in_time_hears_nothing_of_it() -> None:
    async with due(3):
        await asyncio.sleep(2)
    await asyncio.sleep(10)
    assert pending() == 0


async def test_a_deadline_that_has_passed_ends_the_block_at_its_first_wait_and_not_before() -> None:
    reached = False
    with pytest.raises(Late):
        async with due(-1):
            reached = True
            await forever()
    assert reached


async def test_moved_later_again_and_again_it_holds_from_the_last_time() -> None:
    began = now()
    with pytest.raises(Late):
        async with due(3) as deadline:
            for _ in range(100):
                await asyncio.sleep(1)
                deadline.move(now() + 3)
            await forever()
    assert now() - began == pytest.approx(103)


async def test_moved_a_thousand_times_it_has_one_timer() -> None:
    async with due(3) as deadline:
        for _ in range(1000):
            deadline.move(now() + 3)
            assert pending() == 1


async def test_moved_earlier_it_holds_from_then() -> None:
    began = now()
    with pytest.raises(Late):
        async with due(100) as deadline:
            await asyncio.sleep(1)
            deadline.move(now() + 1)
            await forever()
    assert now() - began == pytest.approx(2)


async def test_moved_earlier_and_later_again_it_holds_from_the_last() -> None:
    began = now()
    with pytest.raises(Late):
        async with due(10) as deadline:
            deadline.move(now() + 1)
            deadline.move(now() + 20)
            await forever()
    assert now() - began == pytest.approx(20)


async def test_suspended_the_block_has_all_the_time_it_wants_until_it_is_moved() -> None:
    began = now()
    with pytest.raises(Late):
        async with due(1) as deadline:
            deadline.suspend()
            await asyncio.sleep(1000)
            assert pending() == 0
            deadline.move(now() + 2)
            await forever()
    assert now() - began == pytest.approx(1002)


async def test_after_its_block_it_can_no_longer_be_armed() -> None:
    async with due(1) as deadline:
        pass
    deadline.move(now() + 1)
    deadline.suspend()
    deadline.move(now() - 1)
    await asyncio.sleep(5)
    assert pending() == 0


async def test_the_error_is_made_when_the_deadline_passes_not_when_the_block_has_ended() -> None:
    """A moment later the state that it describes may be another."""
    phase = "waiting"
    with pytest.raises(Late, match="waiting"):
        async with due(1, lambda: Late(phase)):
            try:
                await forever()
            finally:
                phase = "loading"


# ---- what else happens in the block ----------------------------------------------------------------------------------


async def test_an_error_of_the_block_passes_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with due(1):
            raise ZeroDivisionError


async def test_an_error_that_the_block_makes_of_its_end_passes_as_it_is_and_no_cancellation_is_left_over() -> None:
    async def convert() -> None:
        async with due(1):
            try:
                await forever()
            except asyncio.CancelledError:
                raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError):
        await convert()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(1)  # a cancellation left over would end this


async def test_a_block_that_swallows_its_end_is_late_all_the_same() -> None:
    with pytest.raises(Late):
        async with due(1):
            with suppress(asyncio.CancelledError):
                await forever()


# ---- cancelled from outside ------------------------------------------------------------------------------------------


async def test_a_cancellation_from_outside_is_not_taken_for_the_deadline() -> None:
    async def work() -> None:
        async with due(10):
            await forever()

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pending() == 0


@pytest.mark.parametrize("outside_first", [True, False])
async def test_a_cancellation_from_outside_wins_over_a_deadline_in_the_same_moment(outside_first: bool) -> None:
    ready: asyncio.Future[Deadline] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with due(100) as deadline:
            ready.set_result(deadline)
            await forever()

    task = asyncio.create_task(work())
    deadline = await ready
    deadline.move(now())  # its timer has fired, or will, before the task runs again
    if outside_first:
        task.cancel()
        deadline._look()
    else:
        deadline._look()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_that_passes_while_a_cancelled_block_tidies_up_does_not_hide_the_cancellation() -> None:
    async def work() -> None:
        async with due(2):
            try:
                await forever()
            finally:
                await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_in_a_task_that_was_cancelled_already_it_still_raises_its_error() -> None:
    """Tidying up may talk to an upstream too."""

    async def work() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            try:
                async with due(1):
                    await forever()
            except Late:
                return "late"
        return "never"

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    assert await task == "late"


# ---- nested ----------------------------------------------------------------------------------------------------------


async def test_inside_a_timeout_that_is_shorter_the_timeout_is_raised() -> None:
    began = now()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), due(2):
            await forever()
    assert now() - began == pytest.approx(1)


async def test_inside_a_timeout_that_is_longer_its_own_error_is_raised() -> None:
    with pytest.raises(Late):
        async with asyncio.timeout(2), due(1):
            await forever()


async def test_around_a_timeout_that_is_shorter_it_is_not_disturbed_by_it() -> None:
    began = now()
    with pytest.raises(Late):
        async with due(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await forever()
            await forever()
    assert now() - began == pytest.approx(3)


async def test_around_a_timeout_of_the_same_moment_exactly_one_error_comes_out() -> None:
    with pytest.raises((Late, TimeoutError)):
        async with due(1), asyncio.timeout(1):
            await forever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_deadlines_in_one_another_raise_each_its_own_error() -> None:
    began = now()
    with pytest.raises(ZeroDivisionError):
        async with due(5, ZeroDivisionError):
            with pytest.raises(Late):
                async with due(1):
                    await forever()
            await forever()
    assert now() - began == pytest.approx(5)


async def test_inside_a_task_group_the_error_ends_the_group_with_its_tasks() -> None:
    ended: list[str] = []

    async def beside() -> None:
        try:
            await forever()
        finally:
            ended.append("beside")

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(beside())
            async with due(1):
                await forever()
    assert caught.group_contains(Late, depth=1)
    assert ended == ["beside"]


async def test_around_a_task_group_it_ends_the_group_and_its_error_comes_alone() -> None:
    ended: list[str] = []

    async def within() -> None:
        try:
            await forever()
        finally:
            ended.append("within")

    with pytest.raises(Late):
        async with due(1), asyncio.TaskGroup() as tasks:
            tasks.create_task(within())
    assert ended == ["within"]


async def test_a_neighbour_that_fails_in_a_task_group_ends_the_block_and_is_the_error() -> None:
    async def beside() -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(beside())
            async with due(10):
                await forever()
    assert caught.group_contains(ZeroDivisionError)
    assert not caught.group_contains(Late)
