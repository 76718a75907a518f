"""One replica's life, in virtual time, with a journal that fails as the test likes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest

from fakes.ledger import Desk, Ledger, silent
from slotline.core.journal import Bury, Command, Join, Keep, Leave, Mark, Offer, See
from slotline.core.party import FairBy
from slotline.core.shared import Applied
from slotline.gate.journal import OtherRules, Silence
from slotline.gate.replica import Replica
from slotline.upstream.beside import beside

pytestmark = pytest.mark.looptime

LEASE = 9.0


@dataclass
class Mind:
    """For whom the replica writes and reads: it says what it is told to say, and remembers what it hears."""

    says: list[Command] = field(default_factory=lambda: [Offer("x", 8)])
    olds: list[str] = field(default_factory=list)
    heard: list[tuple[float, Applied]] = field(default_factory=list)
    lapses: list[float] = field(default_factory=list)

    def restate(self, old: str) -> Sequence[Command]:
        self.olds.append(old)
        return [*self.says, *([Bury(old)] if old else [])]

    def sights(self) -> Sequence[See]:
        return [See("x", 1)]

    def take(self, applied: Applied) -> None:
        self.heard.append((now(), applied))

    def lapse(self) -> None:
        self.lapses.append(now())

    @property
    def grants(self) -> list[tuple[float, int]]:
        return [(round(when, 6), grant.ticket.number) for when, it in self.heard for grant in it.changes.grants]


@dataclass
class Scene:
    ledger: Ledger
    desk: Desk
    mind: Mind
    replica: Replica

    def trouble(self) -> str | None:
        return self.replica.trouble

    @property
    def beats(self) -> list[float]:
        return [round(when, 6) for verb, when in self.desk.asked if verb == "beat"]

    def said(self, replica: str | None = None) -> list[Command]:
        """All that stands in the journal, of one replica or of this one."""
        name = self.replica.name if replica is None else replica
        return [command for entry in self.ledger.entries if entry.replica == name for command in entry.commands]


def now() -> float:
    return asyncio.get_running_loop().time()


def made(ledger: Ledger | None = None) -> Scene:
    ledger = Ledger(LEASE) if ledger is None else ledger
    desk, mind, names = Desk(ledger), Mind(), count(1)
    replica = Replica(desk, FairBy.KEY, mind, now, lambda: f"r{next(names)}")
    return Scene(ledger, desk, mind, replica)


@asynccontextmanager
async def living(it: Scene) -> AsyncIterator[Scene]:
    async with beside(it.replica.run()):
        await asyncio.sleep(0.01)
        yield it


# ---- well ------------------------------------------------------------------------------------------------------------


async def test_it_says_what_there_is_to_say_and_renews_its_lease_at_a_third_of_it() -> None:
    async with living(made()) as it:
        await asyncio.sleep(10.0)
        assert it.said() == [Offer("x", 8), See("x", 1)]
        assert it.beats == [0.0, 3.0, 6.0, 9.0]
        assert it.trouble() is None
        assert it.mind.lapses == []


async def test_what_is_said_is_written_in_order_and_heard_again() -> None:
    async with living(made()) as it:
        it.replica.say(Join(1, ["x"]), Join(2, ["x"]))
        it.replica.say(Leave(1))
        await asyncio.sleep(0.1)
        assert it.said()[2:] == [Join(2, ["x"])]
        assert len(it.mind.grants) == 1


async def test_the_end_of_anothers_lease_is_seen_when_it_ends() -> None:
    async with living(made()) as it:
        await Desk(it.ledger).enter("other", 0, "")
        began = now()
        await asyncio.sleep(1.5 * LEASE)
        ends = [entry.moment for entry in it.ledger.entries if not entry.commands]
        assert ends == [pytest.approx(began + LEASE, abs=0.05)]


async def test_it_says_goodbye_and_is_gone() -> None:
    async with living(made()) as it:
        await it.replica.leave()
        assert it.ledger.leases == {}


async def test_a_goodbye_that_nobody_hears_takes_a_second_at_most(caplog: pytest.LogCaptureFixture) -> None:
    async with living(made()) as it:

        async def never(verb: str) -> None:
            await asyncio.Event().wait()

        it.desk._ask = never  # type: ignore[method-assign]  # the desk is the test's
    began = now()
    await it.replica.leave()
    assert now() - began == pytest.approx(1.0)
    assert "could not say goodbye" in caplog.text


# ---- the server does not answer --------------------------------------------------------------------------------------


async def test_a_silent_server_ends_everything_when_the_lease_is_over_by_the_own_clock() -> None:
    async with living(made()) as it:
        await asyncio.sleep(4.0)
        it.desk.fault = silent()
        await asyncio.sleep(20.0)
        assert it.mind.lapses == [pytest.approx(3.0 + LEASE, abs=0.02)]  # it was renewed at 3 s
        assert it.trouble() == "the line that it shares with others cannot be reached"


async def test_nothing_is_acted_on_without_a_lease_though_the_journal_can_be_read() -> None:
    async with living(made()) as it:
        it.replica.say(Join(1, ["x"]), Join(2, ["x"]))
        await asyncio.sleep(0.5)
        it.desk.fault = silent("beat")
        it.ledger.leases[it.replica.name] = 1e9  # the server has another opinion
        await asyncio.sleep(LEASE + 1.0)
        heard = len(it.mind.heard)
        it.ledger.add(it.replica.name, [Leave(1)])
        await asyncio.sleep(2.0)
        assert len(it.mind.heard) == heard
        assert it.trouble() is not None
        it.desk.fault = lambda _: None
        await asyncio.sleep(1.0)
        assert it.trouble() is None
        assert len(it.mind.grants) == 2
        assert len(it.mind.lapses) == 1


async def test_where_nobody_listens_the_lease_goes_on() -> None:
    async with living(made()) as it:
        it.desk.fault = silent(why=Silence.CLOSED)
        await asyncio.sleep(10 * LEASE)
        assert it.mind.lapses == []
        it.desk.fault = silent(why=Silence.SILENT)  # it is back, and perhaps for all but us
        closed_until = now()
        await asyncio.sleep(LEASE)
        assert it.mind.lapses == [pytest.approx(closed_until + LEASE / 2, abs=1.0)]


async def test_one_that_was_not_answered_for_long_and_then_is_has_its_lease_from_then_on() -> None:
    """However long the try took that began before: the eye may well see first that the server is back."""
    async with living(made()) as it:
        it.desk.fault = silent(why=Silence.CLOSED)
        await asyncio.sleep(5 * LEASE)
        it.desk.fault = silent("beat", why=Silence.CLOSED)
        await asyncio.sleep(LEASE / 4)
        it.desk.fault = lambda _: None
        it.ledger.leases[it.replica.name] = now() + 1.0
        await asyncio.sleep(5 * LEASE)
        assert it.mind.lapses == []
        assert it.replica.moment() == pytest.approx(now())


async def test_trouble_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async with living(made()) as it:
        caplog.set_level(logging.INFO, "slotline.gate.replica")
        it.desk.fault = silent("write", "read")
        it.replica.say(Join(1, ["x"]))
        await asyncio.sleep(30.0)
        assert it.trouble() is not None
        it.desk.fault = silent("write")
        await asyncio.sleep(30.0)
        assert it.trouble() is not None
        it.desk.fault = lambda _: None
        await asyncio.sleep(1.0)
        assert it.trouble() is None
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_one_idle_connection_that_broke_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    async with living(made()) as it:
        broken = iter([True])

        def fault(verb: str) -> None:
            if next(broken, False):
                silent(why=Silence.TORN)(verb)

        it.desk.fault = fault
        it.replica.say(Join(1, ["x"]))
        await asyncio.sleep(1.0)
        assert len(it.mind.grants) == 1
        assert it.trouble() is None
        assert caplog.records == []


async def test_an_answer_that_is_lost_writes_nothing_twice() -> None:
    async with living(made()) as it:
        it.desk.fault = silent("written")
        it.replica.say(Join(1, ["x"]))
        await asyncio.sleep(1.0)
        it.desk.fault = lambda _: None
        await asyncio.sleep(1.0)
        assert it.said().count(Join(1, ["x"])) == 1


async def test_while_the_server_is_silent_what_is_to_be_written_does_not_grow() -> None:
    async with living(made()) as it:
        it.desk.fault = silent()
        for ticket in range(1000):
            it.replica.say(Join(ticket, ["x"]))
            await asyncio.sleep(0.001)
            it.replica.say(Leave(ticket))
        assert len(it.replica._outbox) <= 2


# ---- the lease, and the journal --------------------------------------------------------------------------------------


async def test_a_lease_that_ended_by_the_servers_word_ends_everything_and_it_begins_anew() -> None:
    async with living(made()) as it:
        await asyncio.sleep(1.0)
        it.ledger.strike("r1")
        it.replica.say(Leave(1))
        await asyncio.sleep(0.1)
        assert it.mind.lapses == [pytest.approx(1.0, abs=0.02)]
        assert it.replica.name == "r2"
        assert it.mind.olds == ["", "r1"]
        assert it.said() == [Offer("x", 8), Bury("r1"), See("x", 1)]


async def test_a_server_that_has_forgotten_everything_is_told_anew_and_nothing_ends() -> None:
    async with living(made()) as it:
        numbers = it.ledger.next
        it.ledger.forget()
        await asyncio.sleep(LEASE / 3 + 0.5)
        assert it.replica.name == "r2"
        assert it.mind.lapses == []
        assert it.ledger.born >= numbers
        assert it.said() == [Offer("x", 8), Bury("r1")]
        await asyncio.sleep(LEASE / 2)
        assert it.said() == [Offer("x", 8), Bury("r1"), See("x", 1)], "slots are spoken of when all others have come"


async def test_what_is_seen_of_slots_meanwhile_is_not_spoken_of_before_that() -> None:
    async with living(made()) as it:
        it.ledger.forget()
        await asyncio.sleep(LEASE / 3 + 0.5)
        it.replica.say(See("x", 7), Keep(b"k", 1))
        await asyncio.sleep(0.5)
        assert [each for each in it.said() if isinstance(each, See)] == []
        assert it.said()[-1] == Keep(b"k", 1)


async def test_the_lease_is_watched_while_it_begins_anew() -> None:
    async with living(made()) as it:
        it.ledger.forget()
        it.desk.fault = silent("enter")
        await asyncio.sleep(2 * LEASE)
        assert len(it.mind.lapses) == 1
        assert it.mind.lapses[0] <= LEASE + 0.1


async def test_catching_up_takes_as_long_as_it_takes_and_costs_no_lease() -> None:
    it = made()
    desk = Desk(it.ledger)
    await desk.enter("other", 0, "")
    it.ledger.leases["other"] = 1e9
    for number in range(200):
        await desk.write("other", number + 1, [Keep(b"k", number)])
    hold = {"reads": 0}

    async def slow(verb: str) -> None:
        it.desk.asked.append((verb, now()))
        hold["reads"] += verb == "read"
        await asyncio.sleep(5 * LEASE if verb == "read" and hold["reads"] == 1 else 0)
        it.desk.fault(verb)

    it.desk._ask = slow  # type: ignore[method-assign]
    async with living(it):
        await asyncio.sleep(5 * LEASE + 1.0)
        assert it.replica.name == "r1"
        assert it.said() == [Offer("x", 8), See("x", 1)]
    assert it.mind.lapses == []


async def test_a_journal_that_does_not_go_on_where_it_was_read_is_read_anew(caplog: pytest.LogCaptureFixture) -> None:
    async with living(made()) as it:
        it.ledger.next += 5  # some entries are missing
        it.ledger.add("other", [Keep(b"k", 1)])
        await asyncio.sleep(0.5)
        assert "the journal goes on with number" in caplog.text
        assert it.trouble() is not None, "and what it is read from must be whole"
        it.ledger.lines = it.ledger.lines[:-1]
        it.ledger.next -= 6
        await asyncio.sleep(2.0)
        assert it.trouble() is None
        assert it.replica.name == "r2"
        assert it.mind.lapses == []


async def test_one_that_hears_nothing_of_what_others_have_heard_looks_for_the_server_again() -> None:
    """What reads is connected to a server that was one once, and what writes is not."""
    async with living(made()) as it:
        it.desk.deaf = True
        await Desk(it.ledger).enter("other", 0, "")
        it.ledger.leases["other"] = 1e9
        it.ledger.add("other", [Keep(b"k", 1)])
        await asyncio.sleep(LEASE / 2)
        assert it.desk.looked_again == 0
        await asyncio.sleep(LEASE / 2)
        assert it.desk.looked_again > 0
        it.desk.deaf = False
        await asyncio.sleep(LEASE)
        times = it.desk.looked_again
        await asyncio.sleep(LEASE)
        assert it.desk.looked_again == times


async def test_one_that_may_not_take_part_is_told_so_at_its_start_and_later_it_is_one_more_trouble() -> None:
    it = made()

    def fault(verb: str) -> None:
        raise OtherRules("other rules hold the line")

    it.desk.fault = fault
    with pytest.raises(OtherRules):
        await it.replica.begin(3.0)
    async with living(it):
        await asyncio.sleep(1.0)
        assert it.trouble() == "the line that it shares with others cannot be reached"
        it.desk.fault = lambda _: None
        await asyncio.sleep(1.0)
        assert it.trouble() is None


async def test_a_start_waits_for_the_server_for_as_long_as_it_is_told_and_then_goes_on_without() -> None:
    it = made()
    it.desk.fault = silent()
    await it.replica.begin(3.0)
    assert now() == pytest.approx(3.0)
    assert it.trouble() is not None
    async with living(it):
        await asyncio.sleep(5.0)
        it.desk.fault = lambda _: None
        await asyncio.sleep(1.0)
        assert it.said() == [Offer("x", 8), Bury("r1"), See("x", 1)]


async def test_before_the_first_answer_it_says_that_there_was_none() -> None:
    assert made().replica.trouble == "the line that it shares with others has not been reached yet"


# ---- pictures --------------------------------------------------------------------------------------------------------


async def test_when_nobody_waits_a_picture_is_made_now_and_then_by_one_of_all() -> None:
    ledger = Ledger(LEASE)
    one, two = made(ledger), made(ledger)
    two.replica._new_name = lambda: "two"
    async with living(one), living(two):
        for number in range(600):
            one.replica.say(Keep(b"%d" % number, number))
            if number % 50 == 0:
                await asyncio.sleep(0.1)
        for number in range(600, 1200):
            two.replica.say(Keep(b"%d" % number, number))
        await asyncio.sleep(2.0)
        marks = [entry.replica for entry in ledger.entries if list(entry.commands) == [Mark()]]
        assert len(marks) == 1
        assert ledger.picture is not None
        later = made(ledger)
        later.replica._new_name = lambda: "later"
        async with living(later):
            assert len(later.replica.shared.kept) == len(one.replica.shared.kept)
            assert later.mind.olds == [""]


async def test_while_somebody_waits_none_is_made_for_long() -> None:
    async with living(made()) as it:
        it.replica.say(Join(1, ["x"]), Join(2, ["x"]))
        for number in range(1500):
            it.replica.say(Keep(b"%d" % number, number))
        await asyncio.sleep(2.0)
        assert not any(isinstance(each, Mark) for each in it.said())
