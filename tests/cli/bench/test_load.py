"""The load of a bench: how many ask at once, when, with which words; and what becomes of it when it is stopped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest

from slotline.cli.asking import Asker
from slotline.cli.bench.load import Load, Plan, Prompts
from slotline.cli.bench.sample import End
from slotline.cli.hearing import Begun, Done, Failed, Fault, Heard, Progress, Queued, Text

PLAN = Plan(
    model="m", clients=3, requests=9, seconds=None, rate=None, prompt_tokens=50, max_tokens=9, stream=True,
    shared_prefix=False, leave=0.0, seed=1,
)  # fmt: skip


@dataclass
class Fake:
    """A gateway that takes a second for each call, and notes who asks what when."""

    answer: list[Heard] = field(default_factory=lambda: [Begun(), Text("a"), Done("end_turn")])
    takes: float = 1.0
    calls: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    now: int = 0
    most: int = 0

    async def ask(self, body: bytes, *, again: bool = False) -> AsyncGenerator[Heard]:
        self.calls.append((asyncio.get_running_loop().time(), msgspec.json.decode(body)))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if len(self.answer) > 1:
                yield self.answer[0]
            await asyncio.sleep(self.takes)
            for heard in self.answer[1:] or self.answer:
                yield heard
        finally:
            self.now -= 1

    @property
    def texts(self) -> list[str]:
        return [body["messages"][0]["content"] for _, body in self.calls]


def loaded(plan: Plan, *fakes: Fake) -> Load:
    return Load(plan, [cast("Asker", fake) for fake in fakes])


def but(**changes: Any) -> Plan:
    return msgspec.structs.replace(PLAN, **changes)


@pytest.mark.looptime
async def test_in_a_closed_loop_each_client_asks_again_when_it_was_answered() -> None:
    fake = Fake()
    load = loaded(PLAN, fake)
    await load.run()
    assert (len(load.samples), fake.most) == (9, 3)
    assert load.elapsed == pytest.approx(3.0)
    assert Counter(sample.client for sample in load.samples) == {0: 3, 1: 3, 2: 3}
    assert {sample.end for sample in load.samples} == {End.COMPLETED}
    assert not load.going


@pytest.mark.looptime
async def test_for_so_many_seconds_new_ones_are_sent_and_the_last_ones_are_waited_for() -> None:
    load = loaded(but(requests=None, seconds=2.5), Fake())
    await load.run()
    assert len(load.samples) == 9
    assert load.elapsed == pytest.approx(3.0)


@pytest.mark.looptime
async def test_in_an_open_loop_requests_come_when_they_are_due_whatever_becomes_of_those_before() -> None:
    async def arrivals(seed: int) -> tuple[list[float], Fake, Load]:
        fake = Fake(takes=50.0)
        load = loaded(but(rate=4.0, requests=150, seed=seed), fake)
        await load.run()
        return [at - load.began for at, _ in fake.calls], fake, load

    first, fake, load = await arrivals(1)
    assert fake.most > 100
    assert 150 / 4.0 * 0.7 < first[-1] < 150 / 4.0 * 1.3
    assert max(sample.late for sample in load.samples) < 0.01
    assert len(load.samples) == 150
    gaps = [later - earlier for earlier, later in pairwise(first)]
    assert 0.5 < sum(gap < 0.25 * 0.693 for gap in gaps) / len(gaps) * 2 < 1.5  # the median of an exponential
    assert first == pytest.approx((await arrivals(1))[0])
    assert first != pytest.approx((await arrivals(2))[0])


@pytest.mark.looptime
async def test_who_is_to_leave_does_so_in_line_within_a_second() -> None:
    fake = Fake([Queued(1, 1, None), Begun(), Done("end_turn")], takes=5.0)
    load = loaded(but(leave=0.5, requests=60), fake)
    await load.run()
    ends = Counter(sample.end for sample in load.samples)
    assert set(ends) == {End.LEFT, End.COMPLETED}
    assert 15 < ends[End.LEFT] < 45
    assert all(sample.total < 1.0 for sample in load.samples if sample.end is End.LEFT)
    assert fake.now == 0


@pytest.mark.looptime
@pytest.mark.parametrize("granted", [Progress("prefill", None, None), Begun()])
async def test_who_has_its_slot_does_not_leave(granted: Heard) -> None:
    class Granting(Fake):
        async def ask(self, body: bytes, *, again: bool = False) -> AsyncGenerator[Heard]:
            yield Queued(1, 1, None)
            yield granted
            await asyncio.sleep(5)
            yield Done("end_turn")

    load = loaded(but(leave=1.0), Granting())
    await load.run()
    assert {sample.end for sample in load.samples} == {End.COMPLETED}


@pytest.mark.looptime
async def test_stopped_it_has_what_there_was() -> None:
    load = loaded(PLAN, Fake(takes=1.0))
    task = asyncio.create_task(load.run())
    await asyncio.sleep(1.5)
    assert (len(load.samples), len(load.going)) == (3, 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert Counter(sample.end for sample in load.samples) == {End.COMPLETED: 3, End.STOPPED: 3}
    assert not load.going
    assert load.elapsed == pytest.approx(1.5)


@pytest.mark.looptime
async def test_who_is_refused_waits_a_moment_before_it_asks_again() -> None:
    fake = Fake([Failed(Fault.REFUSED, "overloaded_error", "full", 529)], takes=0.0)
    load = loaded(but(clients=1, requests=3), fake)
    await load.run()
    assert [sample.end for sample in load.samples] == [End.FAILED] * 3
    assert load.elapsed == pytest.approx(1.5)


@pytest.mark.looptime
async def test_clients_take_the_keys_in_turn() -> None:
    alice, bob = Fake(), Fake()
    await loaded(but(clients=3), alice, bob).run()
    assert (len(alice.calls), len(bob.calls)) == (6, 3)


@pytest.mark.looptime
async def test_every_prompt_is_another_one() -> None:
    fake, again = Fake(), Fake()
    await loaded(PLAN, fake).run()
    await loaded(PLAN, again).run()
    texts = [*fake.texts, *again.texts]
    assert len({text[:8] for text in texts}) == len(texts)
    assert {body["max_tokens"] for _, body in fake.calls} == {9}


def test_with_a_shared_prefix_only_the_end_differs() -> None:
    prompts = Prompts(200, shared_prefix=True)
    one, other = prompts.prompt(1), prompts.prompt(2)
    assert one != other
    assert one[:-10] == other[:-10]
    apart = Prompts(200, shared_prefix=False)
    assert apart.prompt(1) == apart.prompt(1)
    assert len(apart.prompt(1).split()) == pytest.approx(200, abs=45)
