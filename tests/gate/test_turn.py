"""A turn as the one who waits sees it, with the test as its gate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from slotline.core.errors import Busy, QueueTimeout, ShuttingDown
from slotline.core.line import Place
from slotline.core.queue_frames import Told
from slotline.gate.turn import FIRST, Ask, Turn

pytestmark = pytest.mark.looptime


@dataclass
class Gate:
    """Lets everyone in, decides nothing, and notes who came and went."""

    log: list[str] = field(default_factory=list)
    refusal: Exception | None = None

    def turn(self) -> Turn:
        return Turn(Ask(["x"]), self.join, self.leave, self.retry)

    async def join(self, _: Turn) -> None:
        self.log.append("join")
        if self.refusal is not None:
            raise self.refusal

    def leave(self, _: Turn) -> None:
        self.log.append("leave")

    def retry(self, turn: Turn) -> bool:
        self.log.append("retry")
        turn.requeue()
        return True


def at(position: int, wait: float | None = None) -> Told:
    return Told(Place(position, 20), wait)


async def positions(turn: Turn) -> list[int]:
    """Everything that is heard until the slot is granted."""
    return [told.place.position async for told in turn]


# ---- coming and going ------------------------------------------------------------------------------------------------


async def test_a_turn_joins_as_its_block_begins_and_leaves_as_it_ends() -> None:
    gate = Gate()
    turn = gate.turn()
    assert gate.log == []
    async with turn:
        assert gate.log == ["join"]
    assert gate.log == ["join", "leave"]


async def test_a_turn_that_was_refused_has_nothing_to_leave() -> None:
    gate = Gate(refusal=Busy("full"))
    with pytest.raises(Busy, match="full"):
        async with gate.turn():
            pytest.fail("the block must not begin")
    assert gate.log == ["join"]


async def test_a_turn_leaves_when_its_block_fails_and_the_failure_goes_on() -> None:
    gate = Gate()
    with pytest.raises(ValueError, match="of the caller"):
        async with gate.turn():
            raise ValueError("of the caller")
    assert gate.log == ["join", "leave"]


async def test_a_turn_leaves_when_it_is_cancelled_and_leaving_takes_no_tick() -> None:
    gate = Gate()

    async def wait() -> None:
        async with gate.turn() as turn:
            await positions(turn)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    task.cancel()
    await asyncio.sleep(0)
    assert gate.log == ["join", "leave"]
    assert task.cancelled()


async def test_a_slot_that_is_held_is_left_by_the_call_and_not_by_the_block() -> None:
    gate = Gate()
    async with gate.turn() as turn:
        give_back = turn.hold()
    assert gate.log == ["join"]
    give_back()
    assert gate.log == ["join", "leave"]


async def test_one_that_gave_its_slot_up_hears_its_places_anew_and_nothing_of_the_wait_before() -> None:
    gate = Gate()
    turn = gate.turn()
    turn.tell(at(2))
    turn.tell(at(1))
    turn.grant("x")
    assert turn.retry()
    assert (gate.log, turn.upstream) == (["retry"], None)
    turn.tell(at(1))
    assert await anext(turn) == at(1)
    turn.grant("y")
    assert (await positions(turn), turn.upstream) == ([], "y")


# ---- what is heard ---------------------------------------------------------------------------------------------------


async def test_the_iteration_ends_when_the_slot_is_granted() -> None:
    turn = Gate().turn()
    heard = asyncio.create_task(positions(turn))
    await asyncio.sleep(0)
    turn.tell(at(1))
    await asyncio.sleep(0)
    assert not heard.done()
    turn.grant("x")
    assert await heard == [1]
    assert turn.upstream == "x"


async def test_a_turn_that_was_granted_at_once_hears_nothing() -> None:
    turn = Gate().turn()
    turn.grant("x")
    assert await positions(turn) == []


async def test_each_of_the_first_places_is_heard_in_order_even_by_one_who_reads_late() -> None:
    turn = Gate().turn()
    for position in (3, 2, 1):
        turn.tell(at(position))
    assert [(await anext(turn)).place.position for _ in range(3)] == [3, 2, 1]


async def test_further_back_only_the_newest_place_is_kept_for_one_who_reads_late() -> None:
    turn = Gate().turn()
    turn.tell(at(9))
    for position in (8, 7, 6):
        turn.tell(at(position))
    assert (await anext(turn)).place.position == 6


async def test_news_of_a_first_place_are_never_replaced() -> None:
    turn = Gate().turn()
    turn.tell(at(FIRST))
    turn.tell(at(FIRST - 1))
    assert [(await anext(turn)).place.position for _ in range(2)] == [FIRST, FIRST - 1]


async def test_a_place_further_back_that_was_not_read_gives_way_to_a_first_one() -> None:
    turn = Gate().turn()
    turn.tell(at(5))
    turn.tell(at(3))
    assert (await anext(turn)).place.position == 3


async def test_the_same_place_is_told_once_even_if_the_estimate_changed() -> None:
    turn = Gate().turn()
    turn.tell(at(2, None))
    turn.tell(at(2, 2.5))
    turn.tell(at(1, 1.0))
    assert [await anext(turn) for _ in range(2)] == [at(2, None), at(1, 1.0)]


async def test_after_the_grant_nothing_is_told_not_even_what_was_not_read_yet() -> None:
    turn = Gate().turn()
    turn.tell(at(2))
    turn.grant("x")
    assert await positions(turn) == []


async def test_reading_with_a_time_limit_loses_no_news() -> None:
    """A caller waits for news or for the next keep-alive, whichever is first; here both come in the same moment."""
    turn = Gate().turn()
    asyncio.get_running_loop().call_later(5.0, lambda: turn.tell(at(1)))
    heard: list[Told] = []
    for _ in range(2):
        try:
            async with asyncio.timeout(5.0):
                heard.append(await anext(turn))
            break
        except TimeoutError:
            continue
    assert heard == [at(1)]


# ---- ends ------------------------------------------------------------------------------------------------------------


async def test_an_end_reaches_the_one_who_waits() -> None:
    turn = Gate().turn()
    heard = asyncio.create_task(positions(turn))
    await asyncio.sleep(0)
    turn.end(ShuttingDown("over"))
    with pytest.raises(ShuttingDown, match="over"):
        await heard


async def test_an_end_reaches_one_who_was_not_reading_and_comes_before_unread_news() -> None:
    turn = Gate().turn()
    turn.tell(at(2))
    turn.end(ShuttingDown("over"))
    with pytest.raises(ShuttingDown):
        await anext(turn)


async def test_an_end_does_not_touch_a_turn_that_has_its_slot() -> None:
    turn = Gate().turn()
    turn.grant("x")
    turn.end(ShuttingDown("over"))
    assert await positions(turn) == []


@pytest.mark.parametrize("reading", [True, False])
async def test_a_grant_in_the_same_tick_wins_over_an_end(reading: bool) -> None:
    turn = Gate().turn()
    heard = asyncio.create_task(positions(turn))
    if reading:
        await asyncio.sleep(0)
    turn.end(QueueTimeout("too long"))
    turn.grant("x")
    assert await heard == []


async def test_a_limit_ends_the_wait_when_its_time_has_passed() -> None:
    loop = asyncio.get_running_loop()
    async with Gate().turn() as turn:
        turn.limit(30.0, QueueTimeout("too long"))
        with pytest.raises(QueueTimeout, match="too long"):
            await positions(turn)
    assert loop.time() == 30.0


async def test_a_limit_is_over_with_the_grant() -> None:
    async with Gate().turn() as turn:
        turn.limit(30.0, QueueTimeout("too long"))
        turn.grant("x")
        assert turn._timer is None
        await asyncio.sleep(31.0)
        assert await positions(turn) == []


async def test_a_limit_is_over_with_the_block() -> None:
    turn = Gate().turn()
    async with turn:
        turn.limit(30.0, QueueTimeout("too long"))
    assert turn._timer is None
    await asyncio.sleep(31.0)
    assert turn._error is None


async def test_it_knows_since_when_it_has_its_slot_until_it_gives_that_up() -> None:
    async with Gate().turn() as turn:
        before = turn.since
        turn.grant("x", 12.5)
        assert [before, turn.since] == [None, 12.5]
        turn.requeue()
        assert (turn.since, turn.upstream) == (None, None)
