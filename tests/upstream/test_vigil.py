"""The watch over silent calls, in virtual time: when the server is asked, for whom, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from slotline.core.errors import LoadTimeout, Stalled, WaitTimeout
from slotline.core.limits import Limits
from slotline.core.liveness import Silence, State
from slotline.core.reading import Reading, Slot
from slotline.upstream.deadline import Deadline
from slotline.upstream.tenancy import Tenancy
from slotline.upstream.vigil import Call, Vigil

pytestmark = pytest.mark.looptime

LIMITS = Limits(busy_wait=100.0, load_wait=50.0, idle_grace=20.0, liveness=10.0)
POLL = 2.0
LOADING = Reading(loading=True)
NO_ANSWER = Reading()


def slots(*busy: bool) -> Reading:
    return Reading(slots=tuple(Slot(number, works) for number, works in enumerate(busy)))


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """Shows what it is told to show; writes down when it was asked."""

    def __init__(self, shows: Reading, takes: float = 0.0) -> None:
        self.shows = shows
        self.takes = takes
        self.asked: list[float] = []

    async def ask(self) -> Reading:
        self.asked.append(now())
        await asyncio.sleep(self.takes)
        return self.shows


def tenancy(slots: int = 1, drain: float = 30.0, *, pins: bool = False) -> Tenancy:
    """Who sits where on a server that shows its slots."""
    made = Tenancy(slots, pins=pins, drain=drain, clock=now)
    made.server_has(slots, shows=True)
    return made


def left_early(who: Tenancy) -> None:
    """A request is ended before its time: its slot drains."""
    with who.seat((), lambda: lambda: None):
        pass


@asynccontextmanager
async def kept(server: Server, who: Tenancy | None = None) -> AsyncIterator[Vigil]:
    """A vigil at work."""
    vigil = Vigil(server.ask, POLL, who or tenancy())
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(vigil.keep())
        try:
            yield vigil
        finally:
            keeping.cancel()


@asynccontextmanager
async def silent(vigil: Vigil, *, slot: int | None = None) -> AsyncIterator[Call]:
    """A call that is out and that nothing comes back for."""
    silence = Silence(LIMITS, now())
    async with Deadline(silence.deadline, silence.overdue) as deadline:
        call = Call(silence, deadline, slot)
        vigil.sent(call, now())
        try:
            yield call
        finally:
            vigil.ended(call)


async def forever() -> None:
    await asyncio.Event().wait()


# ---- when it asks ----------------------------------------------------------------------------------------------------


async def test_while_nobody_waits_nobody_is_asked() -> None:
    server = Server(slots(True))
    async with kept(server):
        await asyncio.sleep(1000)
    assert server.asked == []


async def test_an_answer_that_begins_within_the_first_poll_costs_no_question() -> None:
    server = Server(slots(True))
    async with kept(server) as vigil:
        for _ in range(10):
            async with silent(vigil) as call:
                await asyncio.sleep(POLL / 2)
                vigil.answered(call)
                await asyncio.sleep(90)
    assert server.asked == []


async def test_it_asks_once_every_poll_however_many_wait() -> None:
    server = Server(slots(True, True, True))
    async with kept(server) as vigil, silent(vigil), silent(vigil), silent(vigil):
        began = now()
        await asyncio.sleep(5 * POLL + POLL / 2)
        assert [asked - began for asked in server.asked] == pytest.approx([POLL * n for n in range(1, 6)])


async def test_a_question_that_takes_long_is_not_asked_twice_at_once() -> None:
    server = Server(slots(True), takes=3 * POLL)
    async with kept(server) as vigil, silent(vigil):
        began = now()
        await asyncio.sleep(10 * POLL)
        assert [asked - began for asked in server.asked] == pytest.approx([POLL, 5 * POLL, 9 * POLL])


async def test_after_the_head_nothing_is_asked_any_more() -> None:
    server = Server(slots(True))
    async with kept(server) as vigil, silent(vigil) as call:
        await asyncio.sleep(3 * POLL + 1)
        vigil.answered(call)
        await asyncio.sleep(40 * POLL)
        assert len(server.asked) == 3


async def test_when_the_next_one_waits_it_asks_again() -> None:
    server = Server(slots(True))
    async with kept(server) as vigil:
        async with silent(vigil):
            await asyncio.sleep(POLL * 1.5)
        await asyncio.sleep(1000)
        async with silent(vigil):
            await asyncio.sleep(POLL * 1.5)
    assert len(server.asked) == 2


# ---- what follows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shows", "error", "after"),
    [
        (slots(True), WaitTimeout, 100.0),
        (NO_ANSWER, WaitTimeout, 100.0),
        (slots(False), Stalled, POLL + 20.0),
        (LOADING, LoadTimeout, POLL + 50.0),
    ],
)
async def test_each_meaning_has_its_own_limit_counted_from_when_it_was_first_seen(
    shows: Reading, error: type[Exception], after: float
) -> None:
    began = now()
    async with kept(Server(shows)) as vigil:
        with pytest.raises(error):
            async with silent(vigil):
                await forever()
    assert now() - began == pytest.approx(after)


async def test_a_meaning_that_breaks_off_has_all_its_time_again() -> None:
    server = Server(slots(False))
    began = now()
    async with kept(server) as vigil:
        with pytest.raises(Stalled, match="idle_grace"):
            async with silent(vigil):
                await asyncio.sleep(19)
                server.shows = slots(True)
                await asyncio.sleep(60)
                server.shows = slots(False)
                await forever()
    assert now() - began == pytest.approx(80 + 20)  # seen idle again at the first question after 79 s


async def test_the_idle_slots_beside_an_answer_say_that_the_other_request_was_swallowed() -> None:
    server = Server(slots(True, False))
    async with kept(server) as vigil, silent(vigil) as answering:
        await asyncio.sleep(1)
        vigil.answered(answering)
        answering.deadline.suspend()
        with pytest.raises(Stalled):
            async with silent(vigil):
                await forever()


async def test_an_answer_that_has_ended_is_not_counted_any_more() -> None:
    server = Server(slots(True, False))
    async with kept(server) as vigil:
        async with silent(vigil) as answered:
            vigil.answered(answered)
        async with silent(vigil) as call:
            await asyncio.sleep(POLL + 1)
            assert call.silence.state is State.BUSY


async def test_a_call_that_has_a_slot_is_judged_by_that_slot() -> None:
    server = Server(slots(True, False))
    async with kept(server) as vigil, silent(vigil, slot=0) as works, silent(vigil, slot=1) as swallowed:
        await asyncio.sleep(POLL + 1)
        assert works.silence.state is State.BUSY
        assert swallowed.silence.state is State.IDLE


async def test_a_call_that_went_out_after_the_question_is_not_judged_by_its_answer() -> None:
    server = Server(slots(False), takes=1.5)
    async with kept(server) as vigil, silent(vigil) as early:
        await asyncio.sleep(POLL + 1)
        async with silent(vigil) as late:
            await asyncio.sleep(1)
            assert [call.silence.state for call in (early, late)] == [State.IDLE, State.BUSY]
            await asyncio.sleep(POLL + 2)
            assert [call.silence.state for call in (early, late)] == [State.IDLE, State.IDLE]


async def test_a_call_that_goes_out_again_is_not_judged_by_an_answer_to_an_older_question() -> None:
    server = Server(slots(False), takes=1.5)
    async with kept(server) as vigil, silent(vigil) as call:
        await asyncio.sleep(POLL + 0.5)
        vigil.ended(call)
        vigil.sent(call, now())
        await asyncio.sleep(1.25)
        assert len(server.asked) == 1
        assert call.silence.state is State.BUSY


async def test_a_call_that_ended_while_the_question_was_out_is_left_alone() -> None:
    server = Server(LOADING, takes=5)
    async with kept(server) as vigil:
        async with silent(vigil) as call:
            await asyncio.sleep(POLL + 1)
        await asyncio.sleep(100)
        assert call.silence.state is State.BUSY


async def test_ended_twice_is_harmless_and_leaves_nothing_behind() -> None:
    async with kept(Server(slots(True))) as vigil:
        async with silent(vigil) as call:
            vigil.answered(call)
            vigil.ended(call)
        vigil.ended(call)
        assert not vigil._silent
        assert not vigil._answering


# ---- slots that drain ------------------------------------------------------------------------------------------------


async def test_a_slot_that_drains_is_asked_about_soon_then_less_often_until_it_is_idle() -> None:
    server, who = Server(slots(True)), tenancy()
    async with kept(server, who):
        began = now()
        left_early(who)
        await asyncio.sleep(1.5)
        server.shows = slots(False)
        await asyncio.sleep(100)
        asked = [asked - began for asked in server.asked]
    assert asked == pytest.approx([0.05, 0.15, 0.35, 0.6, 0.85, 1.1, 1.35, 1.6])
    assert not who.draining


async def test_a_slot_that_drains_is_asked_about_soon_although_somebody_waits_already() -> None:
    server, who = Server(slots(True, True)), tenancy(2)
    async with kept(server, who) as vigil, silent(vigil):
        began = now()
        await asyncio.sleep(0.5)
        left_early(who)
        await asyncio.sleep(0.1)
        assert [asked - began for asked in server.asked] == pytest.approx([0.55])


async def test_slots_that_drain_one_after_the_other_do_not_put_the_question_off() -> None:
    server, who = Server(slots(True)), tenancy(100)
    async with kept(server, who):
        for _ in range(20):
            left_early(who)
            await asyncio.sleep(0.02)
        assert len(server.asked) >= 5


async def test_a_slot_that_works_for_too_long_is_given_back_when_drain_has_passed() -> None:
    server, who = Server(slots(True)), tenancy(drain=3.0)
    async with kept(server, who):
        left_early(who)
        await asyncio.sleep(2.9)
        assert who.draining
        await asyncio.sleep(0.5)
        assert not who.draining
        asked = len(server.asked)
        await asyncio.sleep(100)
        assert len(server.asked) == asked


async def test_a_server_that_does_not_answer_holds_a_slot_back_no_longer_than_drain() -> None:
    server, who = Server(slots(False), takes=60.0), tenancy(drain=3.0)
    async with kept(server, who):
        began = now()
        left_early(who)
        while who.draining:  # noqa: ASYNC110 - in virtual time, and there is nothing else to wait for
            await asyncio.sleep(0.05)
        assert now() - began == pytest.approx(3.0, abs=0.3)


async def test_a_question_that_was_given_up_for_that_says_nothing_about_those_who_wait() -> None:
    server, who = Server(slots(False, False), takes=1.0), tenancy(2, drain=5.0)
    async with kept(server, who) as vigil, silent(vigil) as call:
        await asyncio.sleep(POLL + 1.5)
        assert call.silence.state is State.IDLE
        server.takes = 60.0
        left_early(who)
        await asyncio.sleep(10)
        assert not who.draining
        assert call.silence.state is State.IDLE


async def test_a_late_answer_about_a_slot_that_drains_is_waited_for() -> None:
    server, who = Server(Reading(late=True)), tenancy(drain=30.0)
    async with kept(server, who):
        left_early(who)
        await asyncio.sleep(20)
        assert who.draining
        server.shows = slots(False)
        await asyncio.sleep(0.5)
        assert not who.draining


async def test_a_slot_that_was_chosen_drains_by_itself() -> None:
    """What the other slots do says nothing about it."""
    server, who = Server(slots(True, True)), tenancy(2, pins=True)
    async with kept(server, who) as vigil:
        with who.seat((1,), lambda: lambda: None) as other:
            left_early(who)
            server.shows = slots(True, False)
            await asyncio.sleep(0.5)
            assert not who.draining
            other.finish()
        assert vigil.idle


async def test_an_answer_to_a_question_from_before_the_slot_drained_says_nothing_about_it() -> None:
    server, who = Server(slots(False, False), takes=1.0), tenancy(2)
    async with kept(server, who) as vigil, silent(vigil):
        await asyncio.sleep(POLL + 0.5)
        left_early(who)
        await asyncio.sleep(0.75)  # the first question is answered, and the second is out
        assert len(server.asked) == 2
        assert who.draining
        await asyncio.sleep(1)
        assert not who.draining


async def test_it_tells_whether_any_request_is_with_the_server() -> None:
    async with kept(Server(slots(True))) as vigil:
        idle = [vigil.idle]
        async with silent(vigil) as call:
            idle.append(vigil.idle)
            vigil.answered(call)
            idle.append(vigil.idle)
        assert [*idle, vigil.idle] == [True, False, False, True]
