"""Gates with one line, and what becomes of it when one of them, the network or the server fails.

The table of failures, as far as it can be seen in one process; with real ones: `tests/cluster/test_failures.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import redis.asyncio as aioredis

from fakes.cluster import Runner, agreed, gate_at, knows, until
from fakes.network import Network, network
from fakes.redis import RedisServer, redis_server
from slotline.core.errors import Busy, QueueTimeout, ShuttingDown
from slotline.core.journal import Mark
from slotline.gate.cluster import ClusterGate
from slotline.gate.usher import Berth

LEASE = 1.0
BERTH = Berth(2, 50)
SOON = 1.0  # seconds that a busy machine may be late


@dataclass(eq=False)
class Side:
    """One gate behind a network of its own, and its requests."""

    gate: ClusterGate
    net: Network
    order: list[str]
    lapses: list[float]
    runners: list[Runner] = field(default_factory=list)

    def come(self, name: str, *upstreams: str) -> Runner:
        runner = Runner(self.gate.turn(upstreams or ("x",)), self.order, name)
        self.runners.append(runner)
        return runner

    def lapse(self) -> None:
        """As a relay does: whatever runs ends."""
        self.lapses.append(asyncio.get_running_loop().time())
        for runner in self.runners:
            if runner.runs:
                runner.stop()


@dataclass(eq=False)
class House:
    """Two gates with one line for `x`, which has two slots. `order`: who began, one after the other."""

    server: RedisServer
    a: Side
    b: Side
    order: list[str]

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    async def settle(self) -> None:
        await agreed(self.a.gate, self.b.gate)
        for _ in range(5):
            await asyncio.sleep(0)

    async def crowd(self, *names: str) -> list[Runner]:
        """Requests that come one after the other: `a…` to the one gate, `b…` to the other."""
        runners = []
        for name in names:
            runners.append((self.a if name.startswith("a") else self.b).come(name))
            await until(lambda: runners[-1].runs or runners[-1].waits)
            await self.settle()
        return runners

    async def well(self) -> None:
        """Returns once both have all that there is, and slots are given out."""
        await until(lambda: all(knows(side.gate, "x") for side in self.sides))
        await self.settle()

    def fences(self) -> dict[str, int]:
        return {
            runner.name: claim.held.fence
            for side in self.sides
            for runner in side.runners
            if (claim := side.gate._claims.by_turn.get(runner.turn)) is not None and claim.held is not None
        }


@asynccontextmanager
async def side(
    server: RedisServer, order: list[str], lease: float = LEASE, berth: Berth = BERTH, *, direct: bool = False
) -> AsyncIterator[Side]:
    """`direct`: there is no network in between, which accepts connections though the server does not."""
    lapses: list[float] = []
    made: list[Side] = []
    async with network(server.url) as net:
        url = server.url if direct else net.url
        lapsed = lambda: made[0].lapse()  # noqa: E731, PLW0108 - it is not there yet
        async with gate_at(url, "n", lease=lease, lapsed=lapsed, berths={"x": berth}) as gate:
            made.append(Side(gate, net, order, lapses))
            yield made[0]
            for runner in made[0].runners:
                runner.stop()
            net.mend()
            await net.listen()


@asynccontextmanager
async def house(lease: float = LEASE, *, berth: Berth = BERTH, direct: bool = False) -> AsyncIterator[House]:
    order: list[str] = []
    async with redis_server() as server, AsyncExitStack() as stack:
        a, b = [await stack.enter_async_context(side(server, order, lease, berth, direct=direct)) for _ in range(2)]
        it = House(server, a, b, order)
        await it.well()
        yield it


def now() -> float:
    return asyncio.get_running_loop().time()


async def ends(*runners: Runner) -> None:
    """They finish, one after the other."""
    for runner in runners:
        runner.finish.set()
        await runner.task


# ---- one gateway of several ------------------------------------------------------------------------------------------


async def test_what_one_had_that_vanished_is_free_after_at_most_its_lease() -> None:
    async with redis_server() as server, gate_at(server.url, "n", lease=LEASE, berths={"x": Berth(2, 50)}) as gate:
        order: list[str] = []
        async with gate_at(server.url, "n", lease=LEASE, says_goodbye=False, berths={"x": Berth(2, 50)}) as gone:
            await until(lambda: knows(gate, "x") and knows(gone, "x"))
            theirs = [Runner(gone.turn(["x"]), order, f"gone{n}") for n in range(4)]
            await until(lambda: len(order) == 2)
            mine = Runner(gate.turn(["x"]), order, "mine")
            await until(lambda: mine.waits)
            assert gate.lines.lines() == {frozenset("x"): 3}
        vanished = now()
        await until(lambda: mine.runs, LEASE + SOON)
        assert now() - vanished < LEASE + SOON
        assert sum(gate.lines.lines().values()) == 0
        for runner in [*theirs, mine]:
            runner.stop()


async def test_one_that_is_cut_off_ends_what_it_runs_before_anybody_else_gets_its_slots() -> None:
    async with house() as it:
        a1, a2, b1, b2 = await it.crowd("a1", "a2", "b1", "b2")
        it.a.net.swallow()
        cut = now()
        await until(lambda: b1.runs and b2.runs, 2 * LEASE + SOON)
        assert b1.since is not None
        assert b1.since - cut < LEASE + SOON
        assert [len(it.a.lapses), len(it.b.lapses)] == [1, 0]
        assert it.a.lapses[0] <= b1.since
        assert a1.until is not None
        assert a2.until is not None
        assert max(a1.until, a2.until) <= b1.since


async def test_those_who_wait_at_one_that_was_cut_off_stand_where_they_stood() -> None:
    async with house() as it:
        await it.crowd("b1", "b2", "a3", "b4", "a5")
        it.a.net.swallow()
        await until(lambda: it.a.gate.trouble is not None)
        late = it.b.come("b6")
        await until(lambda: late.waits)
        await until(lambda: it.b.gate.lines.lines() == {frozenset("x"): 2}, 2 * LEASE + SOON)
        it.a.net.mend()
        await until(lambda: it.b.gate.lines.lines() == {frozenset("x"): 4})
        await it.settle()
        for runner in [*it.b.runners[:1], *it.b.runners[1:2]]:
            await ends(runner)
        await until(lambda: len(it.order) == 4)
        assert it.order == ["b1", "b2", "a3", "b4"]


async def test_a_slot_that_was_granted_to_one_that_never_heard_of_it_goes_to_the_next_and_it_waits_on() -> None:
    async with house() as it:
        b1, b2, a3, b4 = await it.crowd("b1", "b2", "a3", "b4")
        it.a.net.swallow()
        await ends(b1)
        await until(lambda: it.b.gate.lines.lines() == {frozenset("x"): 1})
        assert not a3.runs
        await until(lambda: b4.runs, 2 * LEASE + SOON)
        it.a.net.mend()
        await it.well()
        assert a3.waits
        assert a3.error is None
        await ends(b2)
        await until(lambda: a3.runs)


async def test_a_connection_that_breaks_harms_nobody() -> None:
    async with house() as it:
        await it.crowd("a1", "b1", "a2", "b2")
        for _ in range(5):
            it.a.net.cut()
            it.b.net.cut()
            await asyncio.sleep(0.05)
        await it.well()
        assert [len(each.lapses) for each in it.sides] == [0, 0]
        await ends(*it.a.runners[:1], *it.b.runners[:1])
        await until(lambda: it.order == ["a1", "b1", "a2", "b2"])


async def test_whoever_comes_to_one_that_is_cut_off_waits_to_be_let_in_and_is_let_in_later() -> None:
    async with house() as it:
        await it.crowd("b1", "b2")
        it.a.net.swallow()
        await until(lambda: it.a.gate.trouble is not None)
        comes = it.a.come("a3")
        leaves = it.a.come("a4")
        await asyncio.sleep(0)
        assert comes.turn.ticket is None
        leaves.stop()
        it.a.net.mend()
        await until(lambda: comes.waits)
        await it.settle()
        assert it.b.gate.lines.lines() == {frozenset("x"): 1}


async def test_no_more_wait_to_be_let_in_than_could_wait_and_none_longer_than_they_may() -> None:
    async with house(berth=Berth(2, 3, queue_wait=0.4)) as it:
        it.a.net.swallow()
        await until(lambda: it.a.gate.trouble is not None)
        waiting = [it.a.come(f"a{n}") for n in range(3)]
        await asyncio.sleep(0)
        refused = it.a.come("a9")
        await refused.task
        assert isinstance(refused.error, Busy)
        assert "the line is full: 3 wait here, at most queue = 3 may, and the line that it shares" in str(refused.error)
        for runner in waiting:
            await runner.task
            assert isinstance(runner.error, QueueTimeout)
            assert "queue_wait = 0.4 s" in str(runner.error)


async def test_one_that_shuts_down_while_it_is_cut_off_lets_nobody_wait() -> None:
    async with house() as it:
        b1, b2, a3 = await it.crowd("b1", "b2", "a3")
        it.a.net.swallow()
        await until(lambda: it.a.gate.trouble is not None)
        late = it.a.come("a4")
        await asyncio.sleep(0)
        it.a.gate.close()
        for runner in (a3, late):
            await runner.task
            assert isinstance(runner.error, ShuttingDown)
        assert b1.runs
        assert b2.runs
        began = now()
        await it.a.gate.leave()
        assert now() - began < 1.0 + SOON


# ---- the server ------------------------------------------------------------------------------------------------------


async def restart(it: House, *, away: float) -> None:
    await it.server.kill()
    await asyncio.sleep(away)
    for each in it.sides:
        assert each.gate.trouble is not None
        assert "cannot be reached" in each.gate.trouble
    await it.server.start()


async def test_a_server_that_was_away_for_longer_than_a_lease_and_comes_back_changes_nothing() -> None:
    """Who runs runs on, who waits stands where it stood, who came meanwhile comes after them."""
    async with house(2 * LEASE, direct=True) as it:
        a1, b1, *_ = await it.crowd("a1", "b1", "b2", "a2", "a3", "b3")
        before = it.fences()
        killed = asyncio.create_task(restart(it, away=2.4 * LEASE))
        await until(lambda: all(each.gate.trouble for each in it.sides))
        late = it.a.come("a4")
        await killed
        back = now()
        await until(lambda: late.waits)
        await it.well()
        assert now() - back < 2 * LEASE + SOON
        assert [len(each.lapses) for each in it.sides] == [0, 0]
        assert (a1.runs, b1.runs) == (True, True)
        assert it.fences() == before
        for runner in (a1, b1, it.b.runners[1], it.a.runners[1], it.a.runners[2]):
            await ends(runner)
            await it.settle()
        await until(lambda: len(it.order) == 7)
        assert it.order == ["a1", "b1", "b2", "a2", "a3", "b3", "a4"]
        assert min(it.fences().values()) > max(before.values())


async def test_nobody_is_granted_a_slot_that_somebody_says_later_that_he_holds() -> None:
    """After a restart the first to come back has somebody who waits, and the slots look free to it."""
    async with house(2 * LEASE) as it:
        a1, a2, b1 = await it.crowd("a1", "a2", "b1")
        await it.a.net.refuse()
        await it.server.kill()
        await it.server.start()
        await until(lambda: it.b.gate._replica.shared.lines.lines() == {frozenset("x"): 1})
        assert not b1.runs
        await it.a.net.listen()
        await it.well()
        assert not b1.runs
        assert (a1.runs, a2.runs) == (True, True)
        await ends(a1)
        await until(lambda: b1.runs)


async def test_one_that_comes_too_late_to_say_what_it_holds_stops_what_it_runs() -> None:
    """It was cut off while the server began anew, for longer than the others wait for it, and not for a whole lease."""
    async with house(5 * LEASE) as it:
        await it.crowd("a1", "a2", "b1")
        it.a.net.swallow()
        await it.server.kill()
        await it.server.start()
        await until(lambda: it.b.runners[0].runs)
        assert it.a.lapses == []
        it.a.net.mend()
        it.a.net.cut()
        await until(lambda: len(it.a.lapses) == 1)
        await it.well()
        assert [each.name for side in it.sides for each in side.runners if each.runs] == ["b1"]


async def test_a_server_that_is_silent_for_all_ends_what_runs_after_a_lease_and_nobody_loses_its_place() -> None:
    """Each of them must think that it is the only one that is not answered."""
    async with house() as it:
        await it.crowd("a1", "b1", "b2", "a2")
        it.server.pause()
        try:
            await until(lambda: it.a.lapses and it.b.lapses, LEASE + SOON)
            await asyncio.sleep(LEASE / 2)
            assert it.order == ["a1", "b1"]
        finally:
            it.server.resume()
        await until(lambda: len(it.order) == 4, LEASE + SOON)
        assert it.fences()["b2"] < it.fences()["a2"]


async def test_a_fail_over_that_loses_the_last_words_loses_nobody_and_gives_no_slot_twice() -> None:
    """The copy stopped following before the last of them came, and takes the place of the server."""
    async with house(2 * LEASE) as it, redis_server() as copy, aioredis.Redis.from_url(copy.url) as client:
        a1, b1, b2 = await it.crowd("a1", "b1", "b2")
        await client.replicaof("127.0.0.1", str(it.server.port))
        await follows(client)
        await client.replicaof("NO", "ONE")
        await ends(a1)  # b2 has its slot by a word that the copy has not heard
        await until(lambda: b2.runs)
        (a3,) = await it.crowd("a3")
        before = it.fences()
        for each in it.sides:
            each.net.lead_to(copy.url)
            each.net.cut()
        await until(lambda: it.a.gate._replica._born > max(before.values()))
        await until(lambda: it.b.gate._replica._born > max(before.values()))
        await it.well()
        assert (b1.runs, b2.runs, a3.waits) == (True, True, True)
        assert [len(each.lapses) for each in it.sides] == [0, 0]
        assert it.fences() == before
        await ends(b1)
        await until(lambda: a3.runs)
        assert it.fences()["a3"] > max(before.values())


async def follows(client: aioredis.Redis) -> None:
    async with asyncio.timeout(10):
        while (await client.info("replication")).get("master_link_status") != "up":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_that_still_reads_from_a_server_that_is_none_any_more_finds_the_new_one() -> None:
    async with house() as it, redis_server() as other:
        await it.crowd("a1", "b1")
        for each in it.sides:
            each.net.lead_to(other.url)
        async with aioredis.Redis.from_url(it.server.url) as client:
            for connection in await client.client_list():
                if connection["name"] == "slotline" and connection["cmd"] != "xread":
                    await client.client_kill_filter(_id=connection["id"])
        await until(lambda: it.a.gate._replica._place > b"0-0" and all(each.gate.trouble is None for each in it.sides))
        await until(lambda: knows(it.a.gate, "x") and knows(it.b.gate, "x"), 3 * LEASE + SOON)
        b2 = it.b.come("b2")
        await until(lambda: b2.waits)
        await ends(it.a.runners[0])
        await until(lambda: b2.runs, 2 * LEASE + SOON)


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_one_that_is_told_to_end_does_so_whatever_it_is_about_to_do() -> None:
    """Cancelled in every turn of the event loop from its start to its first beats, while the server breaks off."""
    async with redis_server() as server, network(server.url) as net:
        for turns in range(0, 160, 5):
            async with gate_at(net.url, f"n{turns % 2}", lease=LEASE, says_goodbye=False, berths={"x": BERTH}) as gate:
                for turn in range(turns):
                    await asyncio.sleep(0)
                    if turn == turns // 2:
                        net.cut()
                ended = now()
            assert now() - ended < SOON
            assert gate.trouble is None or "reached" in gate.trouble


# ---- pictures --------------------------------------------------------------------------------------------------------


async def test_a_picture_in_the_middle_of_everything_changes_nothing_for_anybody() -> None:
    async with house() as it:
        runners = await it.crowd("a1", "b1", "b2", "a2", "a3", "b3")
        pending = it.a.come("a4")
        it.a.gate._replica.say(Mark())
        await until(lambda: pending.waits)
        await it.settle()
        journal = it.a.gate._replica._journal
        async with asyncio.timeout(5):
            while (await journal.picture())[0] is None:  # noqa: ASYNC110 - it is on the server
                await asyncio.sleep(0.01)
        async with side(it.server, it.order) as late:
            await until(lambda: knows(late.gate, "x"))
            assert late.gate.lines.lines() == {frozenset("x"): 5}
            for runner in runners:
                await ends(runner)
                await it.settle()
            await until(lambda: pending.runs)
            assert it.order == ["a1", "b1", "b2", "a2", "a3", "b3", "a4"]


async def test_the_places_of_those_who_stand_far_back_are_told_again_after_the_server_has_forgotten_everything() -> (
    None
):
    """It is forgotten while a long line is being told."""
    async with house(berth=Berth(1, 2000), direct=True) as it:
        first = it.a.come("a0")
        await until(lambda: first.runs)
        many = [it.a.come(f"a{n}") for n in range(1, 401)]
        await until(lambda: all(runner.waits for runner in many), 30.0)
        many[0].stop()
        await it.server.kill()
        await it.server.start()
        await until(lambda: it.a.gate._replica._born and knows(it.a.gate, "x"))
        await until(lambda: it.a.gate.lines.lines() == {frozenset("x"): 399})
        many[1].stop()
        await until(lambda: many[-1].turn._told == 398)
