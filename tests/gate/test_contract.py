"""What every gate does, whether its line is its own or shared: one alone, one with a journal, two with one line.

Where there are two, callers come to them in turn. Time is real here; what is about time to the millisecond, and about
single turns of the event loop, is in `test_local.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle

import pytest

from fakes.cluster import agreed, gate_at, knows, until
from slotline.core.errors import Busy, LimitReached, QueueTimeout, ShuttingDown, SlotlineError, Withdrawn
from slotline.core.line import Place
from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.queue_frames import Told
from slotline.gate.cluster import ClusterGate
from slotline.gate.local import LocalGate
from slotline.gate.turn import Turn
from slotline.gate.usher import Berth

MANY = 10_000  # more than any of these tests lets wait
Gate = LocalGate | ClusterGate


@dataclass(eq=False)
class Caller:
    """One request as a relay runs it: waits its turn and listens, then holds the slot until it is told to finish."""

    turn: Turn
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    heard: list[Told] = field(default_factory=list)
    started: int = 0  # as how-manieth
    error: SlotlineError | None = None
    task: asyncio.Task[None] | None = None

    async def run(self, order: Callable[[], int]) -> None:
        try:
            async with self.turn:
                self.joined.set()
                async for told in self.turn:
                    self.heard.append(told)
                self.started = order()
                await self.finish.wait()
        except SlotlineError as error:
            self.error = error
        finally:
            self.joined.set()

    def ended(self) -> SlotlineError | None:
        """The error that ended it, if one has."""
        return self.error

    def cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()

    @property
    def positions(self) -> list[int]:
        return [told.place.position for told in self.heard]


class House:
    """One line, the gates that lead to it, and those who come."""

    def __init__(self, make: Callable[[dict[str, Berth], FairBy], AsyncIterator[list[Gate]]], doors: int) -> None:
        self._make = make
        self.doors = doors
        self.gates: list[Gate] = []
        self.callers: list[Caller] = []
        self._starts = 0

    async def open(self, fair_by: FairBy = FairBy.KEY, **berths: Berth) -> None:
        self._stack = self._make(berths, fair_by)
        self.gates = await anext(self._stack)
        self._next = cycle(self.gates)
        self._berths = berths

    def turn(self, *upstreams: str, party: Party = NOBODY, model: str = "", place: int | None = None) -> Turn:
        return next(self._next).turn(upstreams or ("x",), 0, party, model=model, place=place)

    async def come(self, *upstreams: str, party: Party = NOBODY, model: str = "", place: int | None = None) -> Caller:
        """One more caller, who has joined, and has heard what there is to hear, when this returns."""
        caller = Caller(self.turn(*upstreams, party=party, model=model, place=place))
        caller.task = asyncio.create_task(caller.run(self._order))
        self.callers.append(caller)
        async with asyncio.timeout(10):
            await caller.joined.wait()
        await self.settle()
        return caller

    def _order(self) -> int:
        self._starts += 1
        return self._starts

    async def crowd(self, count: int) -> list[Caller]:
        return [await self.come() for _ in range(count)]

    async def settle(self) -> None:
        """All that has been said is known, and everybody who was woken has run to its next wait."""
        shared = [gate for gate in self.gates if isinstance(gate, ClusterGate)]
        await asyncio.sleep(0)
        if shared:
            await agreed(*shared)
        for _ in range(5):
            await asyncio.sleep(0)

    def resize(self, upstream: str, slots: int) -> None:
        for gate in self.gates:
            gate.resize(upstream, slots)

    async def close(self) -> None:
        """Once everybody has gone, nothing is left in any gate."""
        for caller in self.callers:
            caller.cancel()
        if self.callers:
            await asyncio.wait([caller.task for caller in self.callers if caller.task is not None])
        await self.settle()
        for gate in self.gates:
            assert_empty(gate)
        with pytest.raises(StopAsyncIteration):
            await anext(self._stack)


def assert_empty(gate: Gate) -> None:
    """Nobody waits or runs, and nothing is remembered of those who did."""
    assert gate._usher.turns == {}
    assert not any(gate.lines.lines().values())
    assert not any(gate.lines.room(name).running for name in gate._usher.berths)
    if isinstance(gate, ClusterGate):
        assert (gate._claims.by_number, gate._claims.by_turn) == ({}, {})
        assert (gate._claims.waiting, gate._claims.bytes) == (0, 0)
        assert (gate._replica.shared._tickets, gate._replica.shared._fences) == ({}, {})


def granted(caller: Caller) -> bool:
    return caller.turn.upstream is not None


@pytest.fixture(params=["alone", "one with a journal", "two with one line"])
async def house(request: pytest.FixtureRequest, redis_url: str, namespace: str) -> AsyncIterator[House]:
    async def alone(berths: dict[str, Berth], fair_by: FairBy) -> AsyncIterator[list[Gate]]:
        yield [LocalGate(berths, asyncio.get_running_loop().time, lambda: 0.5, fair_by=fair_by)]

    async def shared(berths: dict[str, Berth], fair_by: FairBy) -> AsyncIterator[list[Gate]]:
        async with AsyncExitStack() as stack:
            opened = [gate_at(redis_url, namespace, fair_by=fair_by, berths=berths) for _ in range(doors)]
            gates = [await stack.enter_async_context(each) for each in opened]
            await until(lambda: all(knows(gate, *berths) for gate in gates))
            await agreed(*gates)
            yield [*gates]

    doors = 2 if request.param.startswith("two") else 1
    it = House(alone if request.param == "alone" else shared, doors)
    yield it
    await it.close()


# ---- leaving ---------------------------------------------------------------------------------------------------------


async def test_leaving_while_waiting_moves_up_those_behind(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    _, first, second = await house.crowd(3)
    first.cancel()
    await house.settle()
    assert second.positions == [2, 1]


async def test_slots_are_granted_in_the_order_of_arrival_whichever_gate_they_came_to(house: House) -> None:
    await house.open(x=Berth(2, MANY))
    callers = await house.crowd(12)
    for caller in callers:
        caller.finish.set()
        await house.settle()
    assert [caller.started for caller in callers] == list(range(1, 13))


async def test_leaving_with_a_grant_that_was_not_taken_yet_gives_it_on(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    turn = house.turn()
    async with turn:
        first, second = await house.crowd(2)
    await until(lambda: granted(first))
    first.cancel()
    await house.settle()
    assert granted(second)


async def test_a_cancellation_while_leaving_changes_nothing(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    running, first, second = await house.crowd(3)
    for _ in range(2):
        running.cancel()
        running.cancel()
        await house.settle()
    assert granted(first)
    assert not granted(second)


async def test_leaving_twice_takes_nobody_elses_slot(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    turn = house.turn()
    async with turn:
        first, second = await house.crowd(2)
    await turn.__aexit__()
    await house.settle()
    assert granted(first)
    assert not granted(second)


async def test_one_that_leaves_before_it_was_let_in_leaves_nothing_behind(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    await house.come()
    joining = [asyncio.create_task(house.turn().__aenter__()) for _ in range(4)]
    await asyncio.sleep(0)
    for task in joining:
        task.cancel()
    await asyncio.wait(joining)
    for task in joining:
        if not task.cancelled():  # it was in the line at once
            await task.result().__aexit__()


async def test_a_turn_that_fails_leaves_like_any_other(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    with pytest.raises(ZeroDivisionError):
        async with house.turn():
            raise ZeroDivisionError


async def test_a_turn_at_an_upstream_that_does_not_exist_leaves_nothing_behind(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    with pytest.raises(KeyError):
        async with house.turn("z"):
            pytest.fail("the block must not begin")


async def test_more_slots_are_given_out_at_once_and_fewer_end_nobody(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    callers = await house.crowd(4)
    house.resize("x", 3)
    await house.settle()
    assert [granted(caller) for caller in callers] == [True, True, True, False]
    house.resize("x", 1)
    await house.settle()
    callers[0].finish.set()
    await house.settle()
    lines = house.gates[0].lines
    assert len(lines.room("x").running) == 2
    assert sum(lines.lines().values()) == 1
    assert not granted(callers[3])


# ---- what is told ----------------------------------------------------------------------------------------------------


async def test_a_request_that_gets_a_slot_at_once_hears_nothing(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    caller = await house.come()
    assert (caller.started, caller.heard) == (1, [])


async def test_the_first_place_is_told_on_joining(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    _, *waiting = await house.crowd(6)
    assert [caller.heard[:1] for caller in waiting] == [[Told(Place(n, n), None)] for n in range(1, 6)]


async def test_the_first_three_places_are_told_every_one_of_them_in_order(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    *callers, last = await house.crowd(6)
    for caller in callers[:-1]:
        caller.finish.set()
        await house.settle()
    assert last.positions[-3:] == [3, 2, 1]


async def test_further_back_changes_that_follow_each_other_closely_are_joined(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    callers = await house.crowd(12)
    await asyncio.sleep(0.15)
    for caller in callers[1:6]:
        caller.cancel()
    await until(lambda: callers[-1].positions[-1] == 6)
    assert callers[-1].positions == [11, 6]


async def test_a_change_of_length_alone_tells_nothing(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    _, first, second, third = await house.crowd(4)
    third.cancel()
    await house.settle()
    await asyncio.sleep(0.15)
    assert (first.positions, second.positions) == ([1], [2])


async def test_after_the_grant_nothing_is_told(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    _, *callers, last = await house.crowd(8)
    house.resize("x", 7)
    await until(lambda: last.positions[-1] == 1)
    await asyncio.sleep(0.15)
    assert [caller.positions for caller in callers] == [[1], [2], [3], [4], [5], [6]]


async def test_a_caller_is_told_of_the_lines_that_meet_its_own(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(1, MANY))
    await house.come("x")
    await house.come("y")
    only_x, either, only_y = await house.come("x"), await house.come("x", "y"), await house.come("y")
    only_x.cancel()
    await house.settle()
    assert (either.positions, only_y.positions) == ([2, 1], [2])
    either.cancel()
    await house.settle()
    assert only_y.positions == [2, 1]


# ---- parties ---------------------------------------------------------------------------------------------------------

A, B = Party("a"), Party("b")


async def test_keys_take_turns_and_whoever_is_passed_by_a_newcomer_is_told_so(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    many = [await house.come(party=A) for _ in range(3)]
    other = await house.come(party=B)
    assert other.positions == [1]
    assert [caller.positions for caller in many[1:]] == [[1, 2], [2, 3]]
    many[0].finish.set()
    await house.settle()
    assert (granted(other), granted(many[1])) == (True, False)


async def test_flows_take_turns_where_the_gate_is_told_so(house: House) -> None:
    await house.open(FairBy.FLOW, x=Berth(1, MANY))
    callers = [await house.come(party=Party("a", flow)) for flow in "112"]
    assert callers[-1].positions == [1]


async def test_batch_gives_way_to_interactive(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    await house.come()
    batch = await house.come(party=Party("robot", batch=True))
    person = await house.come(party=A)
    assert (batch.positions, person.positions) == ([1, 2], [1])


async def test_a_key_has_no_more_running_than_it_may_over_all_gates(house: House) -> None:
    await house.open(x=Berth(4, MANY))
    limited = Party("a", running=1)
    callers = [await house.come(party=limited) for _ in range(3)]
    assert [granted(caller) for caller in callers] == [True, False, False]
    number = callers[1].turn.number
    assert number is not None
    standing = house.gates[0].stand([number])
    assert standing[number].barred


async def test_a_key_with_too_many_waiting_is_told_when_to_come_again(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    limited = Party("a", waiting=1)
    for _ in range(2):
        await house.come(party=limited)
    refused = await house.come(party=limited)
    assert isinstance(refused.error, LimitReached)
    assert str(refused.error) == "1 requests of this key wait already, and at most waiting = 1 may"
    assert refused.error.retry_after is not None
    assert 1 <= refused.error.retry_after <= 60


async def test_a_full_line_says_how_many_wait_and_when_to_come_again(house: House) -> None:
    await house.open(x=Berth(1, 2))
    await house.crowd(3)
    refused = await house.come()
    assert isinstance(refused.error, Busy)
    assert str(refused.error) == "the line is full: 2 wait, and at most queue = 2 may"
    assert refused.error.retry_after == 2


async def test_an_exclusive_berth_serves_one_model_at_a_time(house: House) -> None:
    await house.open(x=Berth(2, MANY, exclusive=True))
    first, other = await house.come(model="m"), await house.come(model="n")
    assert (granted(first), granted(other)) == (True, False)
    first.finish.set()
    await house.settle()
    assert granted(other)


async def test_one_that_left_has_its_place_again_by_its_number_at_any_gate(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    _, first, second, third = await house.crowd(4)
    number = second.turn.number
    second.cancel()
    await house.settle()
    again = await house.come(place=number)
    assert (again.turn.number, again.positions) == (number, [2])
    assert (first.positions, third.positions) == ([1], [3, 2, 3])


async def test_a_place_that_was_kept_at_one_gate_is_found_at_every_other(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    _, first = await house.crowd(2)
    number = first.turn.number
    assert number is not None
    for gate in house.gates:
        gate.kept.seconds = 60.0
    now = asyncio.get_running_loop().time()
    house.gates[0].kept.keep(b"request", number, now)
    await house.settle()
    assert house.gates[-1].kept.take(b"request", now) == number
    assert house.gates[-1].kept.take(b"another", now) is None


# ---- upstreams come and go -------------------------------------------------------------------------------------------


async def test_a_new_upstream_serves_those_who_come_for_it(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    await house.come("x")
    waits = await house.come("x")
    for gate in house.gates:
        gate.open("y", Berth(1, MANY, queue_wait=0.1))
    await house.settle()
    assert granted(await house.come("x", "y"))
    late = await house.come("y")
    await until(late.ended)
    assert isinstance(late.error, QueueTimeout)
    assert waits.ended() is None


async def test_whoever_waits_for_a_retired_upstream_alone_is_told_so_and_the_others_wait_on(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(0, MANY))
    running, alone, either = await house.come("x"), await house.come("x"), await house.come("x", "y")
    for gate in house.gates:
        gate.retire("x")
    await house.settle()
    assert isinstance(alone.error, Withdrawn)
    assert (running.error, either.ended()) == (None, None)
    running.finish.set()
    await house.settle()
    assert not granted(either), "the slot of an upstream that is no more is nobody's"
    house.resize("x", 1)
    house.resize("y", 1)
    await house.settle()
    assert either.turn.upstream == "y"


async def test_a_request_that_was_on_its_way_when_its_upstream_was_retired_is_told_so_or_waits_for_the_others(
    house: House,
) -> None:
    await house.open(x=Berth(0, MANY), y=Berth(0, MANY))
    alone, either = Caller(house.turn("x")), Caller(house.turn("x", "y"))
    for caller in (alone, either):
        caller.task = asyncio.create_task(caller.run(house._order))
        house.callers.append(caller)
    await asyncio.sleep(0)  # they have asked, and not been answered
    for gate in house.gates:
        gate.retire("x")
    await house.settle()
    assert isinstance(alone.ended(), Withdrawn)
    house.resize("y", 1)
    await house.settle()
    assert either.turn.upstream == "y"
    late = await house.come("x")
    assert isinstance(late.error, Withdrawn)


async def test_an_amended_berth_holds_for_those_who_come(house: House) -> None:
    await house.open(x=Berth(1, 1))
    await house.crowd(2)
    for gate in house.gates:
        gate.amend("x", Berth(5, 2, queue_wait=0.1))
    await house.settle()
    assert house.gates[0].lines.room("x").slots == 1
    late = await house.come()
    assert late.positions == [2]
    await until(late.ended)
    assert isinstance(late.error, QueueTimeout)


# ---- queue_wait ------------------------------------------------------------------------------------------------------


async def test_whoever_waits_longer_than_queue_wait_is_out_of_the_line_and_those_behind_move_up(house: House) -> None:
    await house.open(x=Berth(1, MANY, queue_wait=0.3))
    running, early = await house.crowd(2)
    await asyncio.sleep(0.2)
    late = await house.come()
    await until(early.ended)
    error = early.ended()
    assert isinstance(error, QueueTimeout)
    assert "queue_wait = 0.3 s" in str(error)
    await house.settle()
    assert late.positions == [2, 1]
    assert (running.started, running.error) == (1, None)


# ---- going back: the upstream failed, and another one may serve ------------------------------------------------------


async def test_one_whose_upstream_failed_goes_back_to_its_place_and_is_told_anew(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(1, MANY))
    async with house.turn("x", "y") as turn:
        assert [told async for told in turn] == []
        other, behind = await house.come("y"), await house.come("y")
        assert (turn.upstream, behind.positions) == ("x", [1])
        assert turn.retry()
        await house.settle()
        assert (await anext(turn)).place == Place(1, 2)
        assert behind.positions == [1, 2]
        assert house.gates[0].lines.room("x").free == 1
        other.finish.set()
        await house.settle()
        assert [told async for told in turn] == []
        assert turn.upstream == "y"
    await house.settle()
    assert granted(behind)


async def test_one_that_goes_back_where_a_slot_is_free_has_it_at_once_and_hears_nothing(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(1, MANY))
    async with house.turn("x", "y") as turn:
        assert turn.retry()
        assert [told async for told in turn] == []
        assert turn.upstream == "y"


async def test_one_without_another_upstream_keeps_its_slot(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(1, MANY))
    async with house.turn("x", "y") as turn:
        assert [told async for told in turn] == []
        first = turn.retry()
        assert [told async for told in turn] == []
        assert [first, turn.retry()] == [True, False], "each upstream is tried once"
        assert turn.upstream == "y"


async def test_one_that_went_back_leaves_like_any_other(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(0, MANY))
    async with house.turn("x", "y") as turn:
        behind = await house.come("y")
        assert turn.retry()
        await house.settle()
    await house.settle()
    assert behind.positions == [1, 2, 1]


async def test_one_that_goes_back_and_leaves_at_once_gives_up_both(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(1, MANY))
    async with house.turn("x", "y") as turn:
        assert turn.retry()


async def test_the_slot_that_was_given_up_goes_to_the_next(house: House) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(0, MANY))
    async with house.turn("x", "y") as turn:
        (next_one,) = await house.crowd(1)
        assert turn.retry()
        await house.settle()
        assert (turn.upstream, next_one.turn.upstream) == (None, "x")


# ---- holding: the slot outlives its request --------------------------------------------------------------------------


async def test_a_slot_that_is_held_outlives_its_turn_and_is_given_back_once(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    async with house.turn() as turn:
        first, second = await house.crowd(2)
        give_back = turn.hold()
    await house.settle()
    assert house.gates[0].lines.room("x").free == 0
    assert not granted(first)
    give_back()
    give_back()
    await house.settle()
    assert granted(first)
    assert not granted(second)


# ---- closing ---------------------------------------------------------------------------------------------------------


async def test_closing_tells_those_who_wait_and_lets_those_run_who_run(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    running, *waiting = await house.crowd(3)
    for gate in house.gates:
        gate.close()
        gate.close()
    await house.settle()
    assert [type(caller.error) for caller in waiting] == [ShuttingDown, ShuttingDown]
    assert running.ended() is None
    late = await house.come()
    assert isinstance(late.error, ShuttingDown)


async def test_one_that_is_about_to_be_let_in_when_the_gate_closes_is_told_so(house: House) -> None:
    await house.open(x=Berth(0, MANY))
    caller = Caller(house.turn())
    caller.task = asyncio.create_task(caller.run(house._order))
    house.callers.append(caller)
    await asyncio.sleep(0)
    for gate in house.gates:
        gate.close()
    await until(caller.ended)
    assert isinstance(caller.error, ShuttingDown)


@pytest.mark.parametrize("first", ["closes", "goes back"])
async def test_one_that_goes_back_to_wait_when_the_gate_is_closed_is_told_so(house: House, first: str) -> None:
    await house.open(x=Berth(1, MANY), y=Berth(0, MANY))
    async with house.turn("x", "y") as turn:
        assert [told async for told in turn] == []
        if first == "closes":
            house.gates[0].close()
        assert turn.retry()
        if first == "goes back":
            house.gates[0].close()
        with pytest.raises(ShuttingDown):
            async with asyncio.timeout(5):
                while True:
                    await anext(turn)


# ---- questions -------------------------------------------------------------------------------------------------------


async def test_every_gate_knows_where_everybody_stands_and_who_runs_since_when(house: House) -> None:
    await house.open(x=Berth(1, MANY))
    running, first, second = await house.crowd(3)
    numbers = [caller.turn.number for caller in (running, first, second)]
    for gate in house.gates:
        places = gate.stand([number for number in numbers if number is not None])
        assert [places[n].told.place.position for n in places] == [1, 2]
        ((ticket, since),) = gate.running("x").items()
        assert ticket.number == numbers[0]
        assert abs(asyncio.get_running_loop().time() - since) < 5.0
        with pytest.raises(KeyError):
            gate.running("z")


async def test_what_others_hold_is_told_from_what_is_ones_own(house: House) -> None:
    await house.open(x=Berth(2, MANY))
    await house.crowd(2)
    assert [gate.elsewhere("x")[1] for gate in house.gates] == [house.doors - 1] * house.doors
    assert house.gates[0].elsewhere("z") == (frozenset(), 0)


# ---- all at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1])
async def test_a_storm_of_cancellations_leaves_nothing_behind(house: House, seed: int) -> None:
    dice = random.Random(seed)
    await house.open(x=Berth(2, MANY), y=Berth(1, MANY))
    sets: Sequence[tuple[str, ...]] = (("x",), ("y",), ("x", "y"))
    for _ in range(150):
        caller = Caller(house.turn(*dice.choice(sets)))
        caller.task = asyncio.create_task(caller.run(house._order))
        house.callers.append(caller)
        if dice.random() < 0.5:
            dice.choice(house.callers).cancel()
        if dice.random() < 0.4:
            dice.choice(house.callers).finish.set()
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.004)
        for gate in house.gates:
            assert all(len(gate.lines.room(name).running) <= slots for name, slots in (("x", 2), ("y", 1)))
    for caller in house.callers:
        caller.finish.set()
    await until(lambda: all(caller.task is not None and caller.task.done() for caller in house.callers))
    assert all(caller.started or (caller.task is not None and caller.task.cancelled()) for caller in house.callers)
