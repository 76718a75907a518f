"""The gate of one process, in virtual time: who is woken, who is told what and when, and that no slot is ever lost."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from slotline.core.affinity import LINKS
from slotline.core.errors import Busy, LimitReached, QueueTimeout, ShuttingDown, SlotlineError, Withdrawn
from slotline.core.line import Phase, Place
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.queue_frames import Told
from slotline.gate.local import LocalGate
from slotline.gate.turn import Turn
from slotline.gate.usher import Berth

pytestmark = pytest.mark.looptime

MANY = 10_000  # more than any of these tests lets wait


def now() -> float:
    return asyncio.get_running_loop().time()


def gate_with(*, jitter: Callable[[], float] = lambda: 0.5, fair_by: FairBy = FairBy.KEY, **berths: Berth) -> LocalGate:
    return LocalGate(berths, asyncio.get_running_loop().time, jitter, fair_by=fair_by)


def assert_empty(gate: LocalGate) -> None:
    """Nobody waits or runs, and nothing is remembered of those who did."""
    assert gate._usher.turns == {}
    assert not any(gate.lines.lines().values())
    assert not any(gate.lines.room(name).running for name in gate._usher.berths)


@dataclass
class Caller:
    """One request as a relay runs it: waits its turn and listens, then holds the slot until it is told to finish."""

    turn: Turn
    hold: float | None = None  # seconds; None: until `finish` is set
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    heard: list[tuple[float, Told]] = field(default_factory=list)
    started: float | None = None
    error: SlotlineError | None = None
    task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        try:
            async with self.turn:
                async for told in self.turn:
                    self.heard.append((now(), told))
                self.started = now()
                await (self.finish.wait() if self.hold is None else asyncio.sleep(self.hold))
        except SlotlineError as error:
            self.error = error

    def ended(self) -> SlotlineError | None:
        """The error that ended it, if one has."""
        return self.error

    def cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()

    @property
    def positions(self) -> list[int]:
        return [told.place.position for _, told in self.heard]


@dataclass
class Scene:
    """A gate, and callers that come to it one tick after the other."""

    gate: LocalGate
    callers: list[Caller] = field(default_factory=list)

    async def come(
        self,
        *upstreams: str,
        hold: float | None = None,
        party: Party = NOBODY,
        model: str = "",
        place: int | None = None,
        chain: Sequence[int] = (),
    ) -> Caller:
        """One more caller, who has joined, and has heard what there is to hear, when this returns."""
        turn = self.gate.turn(upstreams or ("x",), 0, party, model=model, place=place, chain=lambda: chain)
        caller = Caller(turn, hold)
        caller.task = asyncio.create_task(caller.run())
        self.callers.append(caller)
        await asyncio.sleep(0)
        return caller

    async def crowd(self, count: int, hold: float | None = None) -> list[Caller]:
        return [await self.come(hold=hold) for _ in range(count)]


@asynccontextmanager
async def scene(gate: LocalGate) -> AsyncIterator[Scene]:
    """However a scene ends: once everybody has gone, nothing is left in the gate."""
    it = Scene(gate)
    yield it
    for caller in it.callers:
        caller.cancel()
    await asyncio.wait([caller.task for caller in it.callers if caller.task is not None])
    assert_empty(gate)


def granted(caller: Caller) -> bool:
    return caller.turn.upstream is not None


async def settle() -> None:
    """Lets everything that was woken run to its next wait; no time passes."""
    for _ in range(5):
        await asyncio.sleep(0)


# ---- one tick (a woken waiter is cancelled, and a newcomer comes) ----------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(["release", "disconnect", "newcomer"])))
async def test_a_woken_waiter_that_is_cancelled_in_the_same_tick_gives_its_grant_on(order: Sequence[str]) -> None:
    """A holds; B, C and D wait. In one tick A releases, B's client disconnects and E arrives, in any order."""
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        a = gate.turn(["x"])
        await a.__aenter__()
        b, c, d = await it.crowd(3)
        e = Caller(gate.turn(["x"]))

        async def newcomer() -> None:
            await e.turn.__aenter__()

        async def release() -> None:
            await a.__aexit__()

        async def disconnect() -> None:
            b.cancel()

        for step in order:  # none of the three suspends, so all of it is one tick
            await {"release": release, "disconnect": disconnect, "newcomer": newcomer}[step]()

        await asyncio.sleep(0)
        assert granted(c), "C has the slot one tick later"
        await asyncio.sleep(0)
        assert (b.started, c.started) == (None, now())
        assert not granted(d)
        c.finish.set()
        await settle()
        assert d.started == now()
        assert not granted(e), "E is behind D"
        d.finish.set()
        await settle()
        assert granted(e)
        await e.turn.__aexit__()


async def test_a_newcomer_never_passes_one_who_was_woken_and_has_not_run_yet() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        async with gate.turn(["x"]):
            (waiter,) = await it.crowd(1)
        async with gate.turn(["x"]) as newcomer:  # the same tick: the waiter has the slot and has not run
            assert (waiter.turn.upstream, newcomer.upstream) == ("x", None)


async def test_every_woken_waiter_in_a_row_may_be_cancelled_and_the_last_one_still_gets_the_slot() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        async with gate.turn(["x"]):
            *cancelled, last = await it.crowd(20)
        for caller in cancelled:
            caller.cancel()
        await settle()
        assert last.started == now()
        assert [caller.started for caller in cancelled] == [None] * 19


# ---- leaving ---------------------------------------------------------------------------------------------------------


async def test_leaving_while_waiting_moves_up_those_behind() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        _, first, second = await it.crowd(3)
        first.cancel()
        await settle()
        assert second.positions == [2, 1]


async def test_leaving_with_a_grant_that_was_not_taken_yet_gives_it_on() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        async with gate.turn(["x"]):
            first, second = await it.crowd(2)
        assert first.turn.upstream == "x"
        first.cancel()
        await settle()
        assert (first.started, second.started) == (None, now())


async def test_leaving_while_running_frees_the_slot_in_the_tick_of_the_cancellation() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        running, waiter = await it.crowd(2)
        running.cancel()
        await asyncio.sleep(0)
        assert waiter.turn.upstream == "x"


async def test_a_cancellation_while_leaving_changes_nothing() -> None:
    """Leaving has no await, so the second cancellation finds the slot already given back, once."""
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        running, first, second = await it.crowd(3)
        running.cancel()
        running.cancel()
        await settle()
        running.cancel()
        await settle()
        assert first.started == now()
        assert second.turn.upstream is None


async def test_leaving_twice_takes_nobody_elses_slot() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        turn = gate.turn(["x"])
        async with turn:
            first, second = await it.crowd(2)
        await turn.__aexit__()
        await settle()
        assert first.started == now()
        assert second.turn.upstream is None


async def test_a_turn_that_fails_leaves_like_any_other() -> None:
    gate = gate_with(x=Berth(1, MANY))
    with pytest.raises(ZeroDivisionError):
        async with gate.turn(["x"]):
            raise ZeroDivisionError
    assert_empty(gate)


async def test_a_turn_at_an_upstream_that_does_not_exist_leaves_nothing_behind() -> None:
    gate = gate_with(x=Berth(1, MANY))
    with pytest.raises(KeyError):
        async with gate.turn(["z"]):
            pytest.fail("the block must not begin")
    assert_empty(gate)


async def test_more_slots_are_given_out_at_once_and_fewer_end_nobody() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        callers = await it.crowd(4)
        gate.resize("x", 3)
        await settle()
        assert [caller.started is not None for caller in callers] == [True, True, True, False]
        gate.resize("x", 1)
        callers[0].finish.set()
        await settle()
        assert [gate.lines.phase(c.turn.ticket) for c in callers if c.turn.ticket is not None] == [
            Phase.GONE,
            Phase.RUNNING,
            Phase.RUNNING,
            Phase.WAITING,
        ]


# ---- what is told, and when ------------------------------------------------------------------------------------------


async def test_a_request_that_gets_a_slot_at_once_hears_nothing() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        caller = await it.come()
        assert caller.started == now()
        assert caller.heard == []


async def test_the_first_place_is_told_in_the_moment_of_joining() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        _, *waiting = await it.crowd(6)
        assert [caller.heard for caller in waiting] == [[(0.0, Told(Place(n, n), None))] for n in range(1, 6)]


async def test_the_first_three_places_are_told_at_once_and_every_one_of_them_in_order() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        *callers, last = await it.crowd(6)
        await asyncio.sleep(1.0)
        for caller in callers[:-1]:
            caller.finish.set()
            await asyncio.sleep(0.01)
        assert [(round(when, 6), told.place.position) for when, told in last.heard] == [
            (0.0, 5),
            (1.01, 3),
            (1.02, 2),
            (1.03, 1),
        ]


async def test_three_changes_in_one_tick_are_three_frames_for_the_first_three_places() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        _, one, two, three, last = await it.crowd(5)
        for caller in (one, two, three):
            caller.cancel()
        await settle()
        assert last.positions == [4, 3, 2, 1]


async def test_further_back_changes_within_100_ms_are_joined_into_one() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        callers = await it.crowd(12)
        await asyncio.sleep(1.0)
        for caller in callers[1:6]:
            caller.cancel()
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        assert [(round(when, 6), told.place.position) for when, told in callers[-1].heard] == [(0.0, 11), (1.1, 6)]


async def test_a_burst_of_any_shape_is_told_rarely_and_never_late() -> None:
    """Beyond the third place: at most one frame in 100 ms, and nobody believes in a place that it lost 100 ms ago."""
    dice = random.Random(7)
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        _, *waiting = await it.crowd(61)
        await asyncio.sleep(1.0)
        last = waiting.pop()
        changes = [(0.0, 60)]
        dice.shuffle(waiting)
        for place, caller in enumerate(waiting[:56]):
            caller.cancel()
            await asyncio.sleep(0)
            changes.append((now(), 59 - place))
            await asyncio.sleep(dice.choice([0.0, 0.004, 0.03, 0.15]))
        await asyncio.sleep(0.2)
        frames = [(when, told.place.position) for when, told in last.heard]
        assert frames[-1][1] == 4
        assert all(later - earlier >= 0.099 for (earlier, _), (later, _) in itertools.pairwise(frames))
        for when, position in frames:
            assert position == [place for moment, place in changes if moment <= when][-1], "the place is the true one"
        for moment, place in changes:
            assert any(moment <= when <= moment + 0.101 and position <= place for when, position in frames)


async def test_a_change_of_length_alone_tells_nothing() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        _, first, second, third = await it.crowd(4)
        third.cancel()
        await asyncio.sleep(1.0)
        assert (first.positions, second.positions) == ([1], [2])


async def test_after_the_grant_nothing_is_told() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        _, *callers, last = await it.crowd(8)
        await asyncio.sleep(1.0)
        gate.resize("x", 7)
        await asyncio.sleep(1.0)
        assert [caller.started for caller in callers] == [1.0] * 6
        assert [caller.positions for caller in callers] == [[1], [2], [3], [4], [5], [6]]
        assert last.positions == [7, 1]


async def test_a_caller_is_told_of_the_lines_that_meet_its_own() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(1, MANY))
    async with scene(gate) as it:
        await it.come("x")
        await it.come("y")
        only_x, either, only_y = await it.come("x"), await it.come("x", "y"), await it.come("y")
        only_x.cancel()
        await settle()
        assert (either.positions, only_y.positions) == ([2, 1], [2])
        either.cancel()
        await settle()
        assert only_y.positions == [2, 1]


async def test_the_first_of_its_own_line_who_stands_far_back_in_all_is_told_like_those_far_back() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(0, MANY))
    async with scene(gate) as it:
        _, *only_x = await it.crowd(7)
        either = await it.come("x", "y")
        await asyncio.sleep(1.0)
        for caller in only_x[:2]:
            caller.cancel()
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        assert [(round(when, 6), told.place.position) for when, told in either.heard] == [(0.0, 7), (1.1, 5)]


async def test_a_long_line_is_told_in_portions_between_which_others_run() -> None:
    gate = gate_with(x=Berth(1, MANY))
    turns = [gate.turn(["x"]) for _ in range(701)]
    for turn in turns:
        await turn.__aenter__()
    for turn in turns[1:]:
        await anext(turn)
    behind = turns[5:]
    told: list[int] = []  # how many had been told, seen by someone else who runs in every turn of the event loop

    def look() -> None:
        told.append(sum(1 for turn in behind if turn._news))
        if told[-1] < len(behind) and len(told) < 20:
            asyncio.get_running_loop().call_soon(look)

    asyncio.get_running_loop().call_later(0.1, look)
    await turns[1].__aexit__()
    await asyncio.sleep(0.2)
    assert told[0] == 0
    assert told[-1] == len(behind)
    assert max(later - earlier for earlier, later in itertools.pairwise(told)) <= 256
    assert [len(turn._news) for turn in behind] == [1] * len(behind)
    for turn in turns:
        await turn.__aexit__()
    await asyncio.sleep(0.3)
    assert_empty(gate)
    assert (gate._usher._stirred, gate._usher._telling) == ({}, False)


async def test_changes_while_a_long_line_is_told_are_told_as_well() -> None:
    gate = gate_with(x=Berth(1, MANY))
    turns = [gate.turn(["x"]) for _ in range(701)]
    for turn in turns:
        await turn.__aenter__()
    await turns[1].__aexit__()
    await asyncio.sleep(0.1)  # the sweep has begun and is not over
    assert gate._usher._telling
    await turns[2].__aexit__()
    await turns[600].__aexit__()
    await asyncio.sleep(0.2)
    waiting = [turn for turn in turns if turn.ticket is not None and gate.lines.phase(turn.ticket) is Phase.WAITING]
    assert len(waiting) == 697
    assert [turn._news[-1].place.position for turn in waiting] == list(range(1, 698))
    for turn in turns:
        await turn.__aexit__()


async def test_those_who_are_granted_while_a_long_line_is_told_are_passed_over_by_the_telling() -> None:
    gate = gate_with(x=Berth(1, MANY))
    turns = [gate.turn(["x"]) for _ in range(701)]
    for turn in turns:
        await turn.__aenter__()
    await turns[1].__aexit__()
    await asyncio.sleep(0.1)  # the sweep has begun and is not over
    assert gate._usher._telling
    gate.resize("x", 651)
    await asyncio.sleep(0.2)
    assert (gate._usher._stirred, gate._usher._telling) == ({}, False)
    assert [turn._news[-1].place.position for turn in turns[652:]] == list(range(1, 50))
    assert all(turn.upstream == "x" for turn in turns[2:652])
    for turn in turns:
        await turn.__aexit__()


# ---- parties ---------------------------------------------------------------------------------------------------------

A, B = Party("a"), Party("b")


async def test_keys_take_turns_and_whoever_is_passed_by_a_newcomer_is_told_so() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        many = [await it.come(party=A, hold=2.0) for _ in range(6)]
        other = await it.come(party=B, hold=2.0)
        await asyncio.sleep(1.0)
        assert other.positions == [1]
        assert [caller.positions for caller in many[1:]] == [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]
        await asyncio.sleep(12.0)
        assert [caller.started for caller in [*many, other]] == [0.0, 4.0, 6.0, 8.0, 10.0, 12.0, 2.0]


async def test_the_first_places_hear_of_a_newcomer_before_them_at_once_and_the_others_within_100_ms() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        many = [await it.come(party=A) for _ in range(6)]
        await asyncio.sleep(1.0)
        await it.come(party=B)
        await settle()
        assert [caller.positions[-1] for caller in many[1:]] == [2, 3, 3, 4, 5]
        await asyncio.sleep(0.1)
        assert [caller.positions[-1] for caller in many[1:]] == [2, 3, 4, 5, 6]


async def test_a_request_is_taken_to_need_what_others_did() -> None:
    gate = gate_with(x=Berth(1, MANY))
    costs: list[float] = []
    for _ in range(2):
        async with gate.turn(["x"]) as turn:
            assert turn.ticket is not None
            costs.append(turn.ticket.cost)
            await asyncio.sleep(7.0)
    assert costs == [10.0, 7.0], "before the first has been measured, all are taken to need the same"


async def test_flows_take_turns_where_the_gate_is_told_so() -> None:
    gate = gate_with(x=Berth(1, MANY), fair_by=FairBy.FLOW)
    async with scene(gate) as it:
        callers = [await it.come(party=Party("a", flow)) for flow in "112"]
        assert callers[-1].positions == [1]


async def test_a_key_with_too_many_waiting_is_told_when_to_come_again() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        limited = Party("a", waiting=1)
        for _ in range(2):
            await it.come(party=limited)
        refused = await it.come(party=limited)
        assert isinstance(refused.error, LimitReached)
        assert str(refused.error) == "1 requests of this key wait already, and at most waiting = 1 may"
        assert refused.error.retry_after is not None
        assert 1 <= refused.error.retry_after <= 60


async def test_an_exclusive_berth_serves_one_model_at_a_time() -> None:
    gate = gate_with(x=Berth(2, MANY, exclusive=True))
    async with scene(gate) as it:
        first, other = await it.come(model="m"), await it.come(model="n")
        assert (granted(first), granted(other)) == (True, False)
        first.finish.set()
        await settle()
        assert granted(other)


async def test_where_a_berth_has_affinity_those_whose_conversation_the_slot_holds_go_first() -> None:
    gate = gate_with(x=Berth(1, MANY, affinity=True))
    async with scene(gate) as it:
        first, other, again = [await it.come(chain=chain) for chain in ((0, 1), (0, 2), (0, 1, 3))]
        first.finish.set()
        await settle()
        assert (granted(other), granted(again)) == (False, True)
        gate.amend("x", Berth(1, MANY))
        last = await it.come(chain=(0, 1, 3, 4))
        again.finish.set()
        await settle()
        assert (granted(other), granted(last)) == (True, False)


async def test_a_conversation_is_asked_for_only_where_it_matters_and_only_its_beginning_is_kept() -> None:
    asked: list[str] = []

    def chain(name: str) -> Sequence[int]:
        asked.append(name)
        return range(10_000)

    gate = gate_with(plain=Berth(1, MANY), warm=Berth(1, MANY, affinity=True))
    for name in ("plain", "warm"):
        async with gate.turn([name], chain=partial(chain, name)) as turn:
            assert turn.ticket is not None
            assert len(turn.ticket.chain) == (LINKS if name == "warm" else 0)
    assert asked == ["warm"]


async def test_one_that_left_has_its_place_again_by_its_number() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        assert gate.turn(["x"]).number is None
        _, first, second, third = await it.crowd(4)
        number = second.turn.number
        second.cancel()
        await settle()
        again = await it.come(place=number)
        assert (again.turn.number, again.positions) == (number, [2])
        await settle()
        assert (first.positions, third.positions) == ([1], [3, 2, 3])


# ---- upstreams come and go -------------------------------------------------------------------------------------------


async def test_a_new_upstream_serves_those_who_come_for_it() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        await it.come("x")
        waits = await it.come("x")
        gate.open("y", Berth(1, MANY, queue_wait=3.0))
        assert granted(await it.come("x", "y"))
        late = await it.come("y")
        await asyncio.sleep(3.1)
        assert isinstance(late.error, QueueTimeout)
        assert waits.ended() is None
    gate.retire("y")
    assert_empty(gate)


async def test_whoever_waits_for_a_retired_upstream_alone_is_told_so_and_the_others_wait_on() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(0, MANY))
    async with scene(gate) as it:
        running, alone, either = await it.come("x"), await it.come("x"), await it.come("x", "y")
        gate.retire("x")
        await settle()
        assert isinstance(alone.error, Withdrawn)
        assert (running.error, either.error) == (None, None)
        assert either.positions == [2, 1]
        running.finish.set()
        await settle()
        assert not granted(either), "the slot of an upstream that is no more is nobody's"
        gate.resize("x", 1)
        gate.resize("y", 1)
        await settle()
        assert either.turn.upstream == "y"


async def test_a_request_that_was_on_its_way_when_its_upstream_was_retired_is_told_so_or_waits_for_the_others() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(1, MANY))
    async with scene(gate) as it:
        gate.retire("x")
        late = await it.come("x")
        assert isinstance(late.error, Withdrawn)
        assert (await it.come("x", "y")).turn.upstream == "y"
        gate.open("x", Berth(1, MANY))
        assert (await it.come("x")).turn.upstream == "x"


async def test_an_amended_berth_holds_for_those_who_come_and_its_slots_are_left_to_resize() -> None:
    gate = gate_with(x=Berth(1, 1))
    async with scene(gate) as it:
        await it.crowd(2)
        gate.amend("x", Berth(5, 2, queue_wait=4.0))
        assert gate.lines.room("x").slots == 1
        late = await it.come()
        assert late.positions == [2]
        await asyncio.sleep(4.1)
        assert isinstance(late.error, QueueTimeout)


# ---- queue_wait ------------------------------------------------------------------------------------------------------


async def test_whoever_waits_longer_than_queue_wait_is_told_phase_limit_and_value() -> None:
    gate = gate_with(x=Berth(1, MANY, queue_wait=2.5))
    async with scene(gate) as it:
        running, waiter = await it.crowd(2)
        await asyncio.sleep(2.4)
        assert waiter.ended() is None
        await asyncio.sleep(0.2)
        error = waiter.ended()
        assert isinstance(error, QueueTimeout)
        for part in ("waiting in line", "queue_wait", "2.5 s"):
            assert part in str(error)
        assert running.started == 0.0
        assert running.error is None


async def test_a_timed_out_waiter_is_out_of_the_line_and_those_behind_move_up() -> None:
    gate = gate_with(x=Berth(1, MANY, queue_wait=5.0))
    async with scene(gate) as it:
        _, early = await it.crowd(2)
        await asyncio.sleep(1.0)
        late = await it.come()
        await asyncio.sleep(4.5)
        assert isinstance(early.error, QueueTimeout)
        assert [(round(when, 6), told.place.position) for when, told in late.heard] == [(1.0, 2), (5.0, 1)]


@pytest.mark.parametrize("grant_first", [True, False])
async def test_a_grant_in_the_tick_in_which_queue_wait_ends_wins(grant_first: bool) -> None:
    gate = gate_with(x=Berth(1, MANY, queue_wait=5.0))
    loop = asyncio.get_running_loop()
    async with scene(gate) as it:
        await it.come()
        if grant_first:
            loop.call_at(5.0, gate.resize, "x", 2)
        waiter = await it.come()
        if not grant_first:
            loop.call_at(5.0, gate.resize, "x", 2)
        await asyncio.sleep(6.0)
        assert (waiter.started, waiter.error) == (5.0, None)


async def test_a_request_that_runs_may_run_for_longer_than_queue_wait() -> None:
    gate = gate_with(x=Berth(1, MANY, queue_wait=5.0))
    async with scene(gate) as it:
        first, second = await it.crowd(2)
        await asyncio.sleep(4.0)
        first.finish.set()
        await asyncio.sleep(60.0)
        assert (second.started, second.error) == (4.0, None)
        assert second.turn.ticket is not None
        assert gate.lines.phase(second.turn.ticket) is Phase.RUNNING


@pytest.mark.parametrize(("x", "y", "limit"), [(5.0, 9.0, 9.0), (5.0, 0.0, None), (0.0, 0.0, None)])
async def test_of_several_upstreams_the_longest_queue_wait_holds(x: float, y: float, limit: float | None) -> None:
    gate = gate_with(x=Berth(0, MANY, queue_wait=x), y=Berth(0, MANY, queue_wait=y))
    async with scene(gate) as it:
        waiter = await it.come("x", "y")
        await asyncio.sleep(8.9)
        assert waiter.ended() is None
        await asyncio.sleep(1000.0)
        error = waiter.ended()
        assert (None if error is None else str(error)) == (
            None if limit is None else f"waiting in line: no slot became free within queue_wait = {limit:g} s"
        )


# ---- going back: the upstream failed, and another one may serve ------------------------------------------------------


async def test_one_whose_upstream_failed_goes_back_to_its_place_and_is_told_anew() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(1, MANY))
    async with scene(gate) as it:
        async with gate.turn(["x", "y"]) as turn:
            other, behind = await it.come("y"), await it.come("y")
            assert (turn.upstream, behind.positions) == ("x", [1])
            assert turn.retry()
            await settle()
            assert (await anext(turn)).place == Place(1, 2)
            assert behind.positions == [1, 2]
            assert gate.lines.room("x").free == 1
            other.finish.set()
            await settle()
            assert [told async for told in turn] == []
            assert turn.upstream == "y"
        await settle()
        assert behind.started == now()


async def test_one_that_goes_back_where_a_slot_is_free_has_it_at_once_and_hears_nothing() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(1, MANY))
    async with gate.turn(["x", "y"]) as turn:
        assert turn.retry()
        assert [told async for told in turn] == []
        assert turn.upstream == "y"
    assert_empty(gate)


async def test_one_without_another_upstream_keeps_its_slot() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(1, MANY))
    async with gate.turn(["x", "y"]) as turn:
        assert [turn.retry(), turn.retry()] == [True, False], "each upstream is tried once"
        assert turn.upstream == "y"
    assert_empty(gate)


async def test_one_that_went_back_leaves_like_any_other() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(0, MANY))
    async with scene(gate) as it:
        async with gate.turn(["x", "y"]) as turn:
            behind = await it.come("y")
            assert turn.retry()
            await settle()
        await settle()
        assert behind.positions == [1, 2, 1]


async def test_the_slot_that_was_given_up_goes_to_the_next_in_the_same_tick() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(0, MANY))
    async with scene(gate) as it, gate.turn(["x", "y"]) as turn:
        (next_one,) = await it.crowd(1)
        assert turn.retry()
        assert (turn.upstream, next_one.turn.upstream) == (None, "x")


@pytest.mark.parametrize(("x", "y", "limit"), [(50.0, 5.0, 5.0), (5.0, 0.0, None)])
async def test_one_that_went_back_waits_for_the_queue_wait_of_those_that_are_left(
    x: float, y: float, limit: float | None
) -> None:
    gate = gate_with(x=Berth(1, MANY, queue_wait=x), y=Berth(0, MANY, queue_wait=y))
    async with gate.turn(["x", "y"]) as turn:
        await asyncio.sleep(100.0)
        assert turn.retry()
        await anext(turn)
        if limit is None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1000.0):
                    await anext(turn)
        else:
            with pytest.raises(QueueTimeout, match="queue_wait = 5 s"):
                await anext(turn)
            assert now() == 105.0
    assert_empty(gate)


async def test_one_that_goes_back_to_wait_when_the_gate_is_closed_is_told_so() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(0, MANY))
    async with gate.turn(["x", "y"]) as turn:
        gate.close()
        assert turn.retry()
        with pytest.raises(ShuttingDown):
            await anext(turn)
    assert_empty(gate)


# ---- holding: the slot outlives its request --------------------------------------------------------------------------


async def test_a_slot_that_is_held_outlives_its_turn_and_is_given_back_once() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        async with gate.turn(["x"]) as turn:
            first, second = await it.crowd(2)
            give_back = turn.hold()
        await settle()
        assert gate.lines.room("x").free == 0
        assert not granted(first)
        give_back()
        give_back()
        await settle()
        assert first.started == now()
        assert not granted(second)


# ---- closing ---------------------------------------------------------------------------------------------------------


async def test_closing_tells_those_who_wait_and_lets_those_run_who_run() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        running, *waiting = await it.crowd(4)
        gate.close()
        await settle()
        assert [type(caller.error) for caller in waiting] == [ShuttingDown] * 3
        assert running.error is None
        assert running.turn.ticket is not None
        assert gate.lines.phase(running.turn.ticket) is Phase.RUNNING
        running.finish.set()
        await settle()
        assert running.error is None
        assert_empty(gate)


async def test_a_closed_gate_refuses_newcomers_even_where_a_slot_is_free() -> None:
    gate = gate_with(x=Berth(1, MANY))
    gate.close()
    with pytest.raises(ShuttingDown):
        async with gate.turn(["x"]):
            pytest.fail("the block must not begin")
    assert_empty(gate)


async def test_closing_twice_is_closing_once() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        running, waiter = await it.crowd(2)
        gate.close()
        gate.close()
        await settle()
        assert isinstance(waiter.error, ShuttingDown)
        assert running.error is None


# ---- refusals --------------------------------------------------------------------------------------------------------


async def refusal(gate: LocalGate) -> Busy:
    with pytest.raises(Busy) as refused:
        await gate.turn(["x"]).__aenter__()
    return refused.value


async def crowded(gate: LocalGate, held: float | None) -> None:
    """One request of `held` seconds has been measured, the slot is taken, and the line is full."""
    if held is not None:
        async with gate.turn(["x"]):
            await asyncio.sleep(held)
    for _ in range(2):
        await gate.turn(["x"]).__aenter__()


async def test_a_full_line_says_how_many_wait_and_when_to_come_again() -> None:
    gate = gate_with(x=Berth(1, 1))
    await crowded(gate, held=8.0)
    busy = await refusal(gate)
    assert str(busy) == "the line is full: 1 wait, and at most queue = 1 may"
    assert busy.retry_after == 8, "when the slot is expected to be free, with the jitter in its middle"
    assert len(gate._usher.turns) == 2


@pytest.mark.parametrize("held", [None, 0.01, 1.0, 8.0, 60.0, 3600.0])
@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
async def test_retry_after_is_between_1_and_60_whole_seconds(held: float | None, jitter: float) -> None:
    gate = gate_with(jitter=lambda: jitter, x=Berth(1, 1))
    await crowded(gate, held)
    retry_after = (await refusal(gate)).retry_after
    assert isinstance(retry_after, int)
    assert 1 <= retry_after <= 60


@pytest.mark.parametrize("held", [None, 8.0, 60.0, 3600.0])
async def test_jitter_spreads_those_who_are_asked_to_come_again(held: float | None) -> None:
    jitters = itertools.cycle(number / 50 for number in range(50))
    gate = gate_with(jitter=lambda: next(jitters), x=Berth(1, 1))
    await crowded(gate, held)
    answers = [(await refusal(gate)).retry_after or 0 for _ in range(50)]
    basis = 2.0 if held is None else min(held, 60.0)
    assert max(answers) - min(answers) >= basis / 4
    commonest = max(answers.count(answer) for answer in answers)
    assert commonest <= 30, f"most are sent to the same moment: {sorted(answers)}"


# ---- estimates -------------------------------------------------------------------------------------------------------


async def test_before_the_first_measurement_nobody_is_promised_anything() -> None:
    gate = gate_with(x=Berth(1, MANY))
    async with scene(gate) as it:
        await it.crowd(5)
        await asyncio.sleep(100.0)
        assert {told.wait for caller in it.callers for _, told in caller.heard} == {None}


@pytest.mark.parametrize("slots", [1, 3])
async def test_with_constant_service_times_every_estimate_comes_true(slots: int) -> None:
    gate = gate_with(x=Berth(slots, MANY))
    async with scene(gate) as it:
        for _ in range(20):
            await it.come(hold=10.0)
            await asyncio.sleep(0.7)
        await asyncio.sleep(500.0)
        checked = 0
        for caller in it.callers:
            for when, told in caller.heard:
                if when < 10.0:
                    assert told.wait is None
                    continue
                assert told.wait is not None
                assert caller.started is not None
                assert told.wait == pytest.approx(caller.started - when, abs=1.0)  # a tenth: see `Forecast`
                checked += 1
        assert checked > 40


async def test_an_estimate_is_that_of_the_upstreams_that_may_serve_the_ticket() -> None:
    gate = gate_with(x=Berth(1, MANY), y=Berth(1, MANY))
    async with scene(gate) as it:
        await it.come("x", hold=4.0)
        await it.come("y", hold=100.0)
        await asyncio.sleep(5.0)
        await it.come("x", hold=4.0)
        by_x, by_y = await it.come("x"), await it.come("y")
        assert [told.wait for _, told in by_x.heard] == [pytest.approx(4.0)]
        assert [told.wait for _, told in by_y.heard] == [None]
