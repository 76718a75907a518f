"""The journal of a cluster on a real server: each of its verbs is one step, and what was written is what there is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as aioredis

from fakes.network import Network, network
from fakes.redis import RedisServer, redis_server
from slotline.core.errors import Protocol
from slotline.core.journal import Entry, Leave, Offer, Picture, Retry
from slotline.core.party import FairBy
from slotline.gate.journal import Journal, LeaseLost, Line, OtherRules, Silence, Unavailable, WrongPassword
from slotline.gate.names import Names

LEASE = 0.3


@asynccontextmanager
async def opened(
    url: str, namespace: str, lease: float = 5.0, fair_by: FairBy = FairBy.KEY, password: str | None = None
) -> AsyncIterator[Journal]:
    journal = Journal(url, namespace, lease, fair_by, password)
    try:
        yield journal
    finally:
        await journal.close()


@pytest.fixture
async def journal(redis_url: str, namespace: str) -> AsyncIterator[Journal]:
    async with opened(redis_url, namespace) as journal:
        yield journal


@pytest.fixture
async def brief(redis_url: str, namespace: str) -> AsyncIterator[Journal]:
    """One where leases end soon."""
    async with opened(redis_url, namespace, LEASE) as journal:
        yield journal


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[aioredis.Redis]:
    async with aioredis.Redis.from_url(redis_url) as client:
        yield client


async def entries(journal: Journal) -> list[Entry]:
    return [line.entry for line in await journal.read(b"0-0", wait=False)]


async def gone(journal: Journal, *replicas: str) -> None:
    """Returns once the leases of `replicas` have ended, for all to read: somebody else has to be there to see it."""
    async with asyncio.timeout(5):
        while {entry.replica for entry in await entries(journal) if not entry.commands} < set(replicas):
            await journal.beat("witness")


# ---- entries ---------------------------------------------------------------------------------------------------------


async def test_what_is_written_is_read_in_one_order_with_numbers_that_follow_on_each_other(journal: Journal) -> None:
    born = (await journal.enter("a", 0, "")).born
    await journal.enter("b", 0, "")
    await journal.write("a", 1, [Offer("x", 8), Retry(1, 2)])
    await journal.write("b", 1, [Retry(1, 2)])
    await journal.write("a", 2, [Leave(1)])
    found = await entries(journal)
    assert [(entry.replica, list(entry.commands)) for entry in found] == [
        ("a", [Offer("x", 8), Retry(1, 2)]),
        ("b", [Retry(1, 2)]),
        ("a", [Leave(1)]),
    ]
    assert [entry.number for entry in found] == [born, born + 2, born + 3]
    assert [entry.moment for entry in found] == sorted(entry.moment for entry in found)


async def test_a_batch_that_is_sent_twice_is_written_once(journal: Journal) -> None:
    await journal.enter("a", 0, "")
    for batch in (1, 1, 2, 1, 2):
        await journal.write("a", batch, [Leave(batch)])
    assert [list(entry.commands) for entry in await entries(journal)] == [[Leave(1)], [Leave(2)]]


async def test_batches_of_one_replica_are_nothing_to_another(journal: Journal) -> None:
    for replica in ("a", "b"):
        await journal.enter(replica, 0, "")
        await journal.write(replica, 1, [Leave(1)])
    assert len(await entries(journal)) == 2


async def test_one_who_reads_on_is_woken_by_what_is_written(journal: Journal) -> None:
    await journal.enter("a", 0, "")
    reading = asyncio.create_task(journal.read(b"0-0"))
    await asyncio.sleep(0)
    await journal.write("a", 1, [Leave(1)])
    (line,) = await reading
    assert await journal.read(line.place) == []  # half a second, and nothing


async def test_what_no_replica_writes_is_told_from_what_one_does(
    journal: Journal, namespace: str, client: aioredis.Redis
) -> None:
    await client.xadd(Names.of(namespace).journal, {"number": 1, "moment": 1, "replica": "a", "commands": b"\x93"})
    with pytest.raises(Protocol, match="what no replica writes"):
        await journal.read(b"0-0", wait=False)
    await client.delete(Names.of(namespace).journal)
    await client.xadd(Names.of(namespace).journal, {"hello": "world"})
    with pytest.raises(Protocol, match="what no replica writes"):
        await journal.read(b"0-0", wait=False)
    await client.hset(Names.of(namespace).picture, mapping={"data": b"\xff", "id": "0-1"})
    with pytest.raises(Protocol, match="what no replica writes"):
        await journal.picture()


# ---- leases ----------------------------------------------------------------------------------------------------------


async def test_whoever_has_not_entered_may_write_nothing(journal: Journal) -> None:
    with pytest.raises(LeaseLost) as lost:
        await journal.write("a", 1, [Leave(1)])
    assert lost.value.born == 0
    born = (await journal.enter("b", 0, "")).born
    with pytest.raises(LeaseLost) as lost:
        await journal.beat("a")
    assert lost.value.born == born
    assert await entries(journal) == []


async def test_a_lease_that_ends_is_one_entry_and_the_end_of_all_that_the_replica_may_do(brief: Journal) -> None:
    born = (await brief.enter("a", 0, "")).born
    await brief.enter("witness", 0, "")
    await brief.write("a", 1, [Leave(1)])
    await gone(brief, "a")
    for asked in (brief.beat("a"), brief.write("a", 2, [Leave(2)])):
        with pytest.raises(LeaseLost) as lost:
            await asked
        assert lost.value.born == born
    assert [(entry.replica, len(entry.commands)) for entry in await entries(brief)] == [("a", 1), ("a", 0)]


async def test_whoever_beats_keeps_its_lease_and_is_told_when_the_first_of_all_ends(brief: Journal) -> None:
    await brief.enter("a", 0, "")
    await brief.enter("b", 0, "")
    before = beat = await brief.beat("a")
    for _ in range(20):
        beat = await brief.beat("a")
        await asyncio.sleep(LEASE / 50)
    assert 0 < beat.first < before.first <= LEASE  # that is b's
    assert beat.moment > before.moment


async def test_one_that_says_goodbye_is_gone_at_once_and_once(journal: Journal) -> None:
    await journal.enter("a", 0, "")
    await journal.leave("a")
    await journal.leave("a")
    await journal.leave("nobody")
    assert [(entry.replica, len(entry.commands)) for entry in await entries(journal)] == [("a", 0)]
    with pytest.raises(LeaseLost):
        await journal.beat("a")


async def test_one_that_begins_under_another_name_has_its_old_things_for_as_long_as_its_new_lease(
    brief: Journal,
) -> None:
    """If it ends before it has said what becomes of them, they end as well."""
    await brief.enter("a", 0, "")
    await brief.enter("witness", 0, "")
    for _ in range(8):
        await brief.beat("witness")
        await asyncio.sleep(LEASE / 10)
    await brief.enter("a2", 5, "a")
    for _ in range(4):
        await brief.beat("witness")
        await asyncio.sleep(LEASE / 10)
    assert await entries(brief) == []
    await gone(brief, "a", "a2")


async def test_a_server_that_was_silent_for_all_thinks_ill_of_nobody(brief: Journal) -> None:
    await brief.enter("a", 0, "")
    await brief.enter("b", 0, "")
    await asyncio.sleep(1.5 * LEASE)
    beat = await brief.beat("b")
    assert beat.first > 0.9 * LEASE
    await brief.write("a", 1, [Leave(1)])
    await brief.beat("a")


async def test_one_that_comes_when_all_others_have_been_gone_for_long_need_not_wait_for_them(brief: Journal) -> None:
    await brief.enter("a", 0, "")
    await asyncio.sleep(1.5 * LEASE)
    await brief.enter("b", 0, "")
    assert [(entry.replica, len(entry.commands)) for entry in await entries(brief)] == [("a", 0)]


async def test_a_clock_that_is_set_back_does_not_set_the_journal_back(
    journal: Journal, namespace: str, client: aioredis.Redis
) -> None:
    entered = await journal.enter("a", 0, "")
    later = entered.moment + 1000
    await client.hset(Names.of(namespace).meta, "moment", str(round(later * 1e6)))
    await journal.write("a", 1, [Leave(1)])
    assert [entry.moment for entry in await entries(journal)] == [pytest.approx(later)]


# ---- beginnings ------------------------------------------------------------------------------------------------------


async def test_a_new_journal_goes_on_above_all_numbers_that_anybody_remembers_and_waits_for_the_others(
    journal: Journal,
) -> None:
    floor = 8_000_000_000_000_000  # microseconds: in the year 2223
    entered = await journal.enter("a", floor, "before")
    assert entered.born == floor
    assert 0.4 * journal.lease < entered.settle <= 0.5 * journal.lease
    later = await journal.enter("b", 5, "")
    assert later.born == floor
    assert later.settle > 0.4 * journal.lease


async def test_one_that_remembers_nothing_waits_only_where_the_server_has_just_been_started() -> None:
    """There may be others who remember something: they are about to find it."""
    async with its_own(0.6) as (_, journal):
        assert 0.2 < (await journal.enter("a", 0, "")).settle <= 0.3
    async with its_own(60.0) as (_, journal):
        assert 0.9 < (await journal.enter("a", 0, "")).settle <= 1.0
    async with its_own(0.6) as (server, journal), server.client() as client:
        async with asyncio.timeout(5):
            while (await client.info("server"))["uptime_in_seconds"] < 1:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        assert (await journal.enter("a", 0, "")).settle == 0
        assert (await journal.enter("b", 7, "b0")).settle == 0  # and it is no reason to wait that one comes back


async def test_replicas_that_follow_other_rules_do_not_share_a_journal(redis_url: str, namespace: str) -> None:
    async with opened(redis_url, namespace, LEASE) as keys, opened(redis_url, namespace, LEASE, FairBy.FLOW) as flows:
        old = await keys.enter("a", 0, "")
        await keys.write("a", 1, [Leave(1), Leave(2)])
        with pytest.raises(OtherRules, match=r"ours: 1 flow") as refused:
            await flows.enter("b", 0, "")
        assert refused.value.setting == "[cluster]"
        await keys.leave("a")
        new = await flows.enter("b", 0, "")
        assert new.born > old.born + 2
        assert await entries(flows) == []
        with pytest.raises(OtherRules):
            await keys.enter("a2", 0, "a")


async def test_what_is_shared_is_forgotten_when_nobody_has_come_for_a_hundred_leases(
    journal: Journal, namespace: str, client: aioredis.Redis
) -> None:
    await journal.enter("a", 0, "")
    await journal.write("a", 1, [Leave(1)])
    (line,) = await journal.read(b"0-0", wait=False)
    await journal.draw("a", line, picture(line))
    await journal.beat("a")
    ends = [await client.pttl(name) for name in Names.of(namespace).all]
    assert all(0.9 * 100_000 * journal.lease < left <= 100_000 * journal.lease for left in ends)


async def test_all_names_have_one_hash_tag_so_that_a_redis_cluster_keeps_them_together() -> None:
    names = Names.of("box {1}").all
    assert len(set(names)) == 5
    assert {name[name.index("{") : name.index("}") + 1] for name in names} == {"{box {1}"}


# ---- pictures --------------------------------------------------------------------------------------------------------


def picture(line: Line) -> Picture:
    return Picture(line.entry.next, line.entry.moment, [], [], [])


async def test_one_who_comes_later_begins_at_the_last_picture(journal: Journal) -> None:
    assert await journal.picture() == (None, b"0-0")
    await journal.enter("a", 0, "")
    for batch in range(1, 4):
        await journal.write("a", batch, [Leave(batch)])
    lines = await journal.read(b"0-0", wait=False)
    await journal.draw("a", lines[1], picture(lines[1]))
    found, place = await journal.picture()
    assert found == picture(lines[1])
    assert [line.entry.number for line in await journal.read(place, wait=False)] == [found.next]


async def test_what_stands_before_the_picture_before_the_last_is_thrown_away(journal: Journal) -> None:
    await journal.enter("a", 0, "")
    for batch in range(1, 6):
        await journal.write("a", batch, [Leave(batch)])
    lines = await journal.read(b"0-0", wait=False)
    await journal.draw("a", lines[1], picture(lines[1]))
    assert len(await entries(journal)) == 5
    await journal.draw("a", lines[3], picture(lines[3]))
    assert [entry.number for entry in await entries(journal)] == [line.entry.number for line in lines[1:]]


async def test_an_older_picture_and_one_of_a_stranger_are_not_kept(journal: Journal) -> None:
    await journal.enter("a", 0, "")
    for batch in range(1, 4):
        await journal.write("a", batch, [Leave(batch)])
    lines = await journal.read(b"0-0", wait=False)
    await journal.draw("a", lines[1], picture(lines[1]))
    await journal.draw("a", lines[0], picture(lines[0]))
    await journal.draw("stranger", lines[2], picture(lines[2]))
    assert (await journal.picture())[0] == picture(lines[1])
    assert len(await entries(journal)) == 3


# ---- servers that fail -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def its_own(lease: float = 5.0, *, keep: bool = False) -> AsyncIterator[tuple[RedisServer, Journal]]:
    async with redis_server(keep=keep) as server, opened(server.url, "n", lease) as journal:
        yield server, journal


async def asked(journal: Journal) -> Exception:
    """What comes of a beat, on a connection that is new."""
    found: Exception | None = None
    for _ in range(2):
        try:
            await journal.beat("a")
        except (LeaseLost, Unavailable, WrongPassword) as error:
            found = error
    assert found is not None
    return found


@pytest.mark.parametrize("keep", [False, True])
async def test_a_server_that_was_started_anew_is_not_believed_whatever_it_has_on_disk(keep: bool) -> None:
    """It may lack the last words, which those know who wrote and who read them."""
    async with its_own(keep=keep) as (server, journal):
        before = await journal.enter("a", 0, "")
        await journal.write("a", 1, [Leave(1)])
        await server.kill()
        await server.start(keep=keep)
        lost = await asked(journal)
        assert isinstance(lost, LeaseLost)
        assert lost.born == 0
        after = await journal.enter("b", before.born + 1, "a")
        assert after.born > before.born + 1
        assert after.settle > 0.4 * journal.lease
        assert await entries(journal) == []


async def test_one_that_is_new_waits_for_those_who_were_there_before_the_server_was_started_anew() -> None:
    async with its_own(keep=True) as (server, journal):
        await journal.enter("a", 0, "")
        await server.kill()
        await server.start(keep=True)
        assert isinstance(await asked(journal), LeaseLost)
        assert (await journal.enter("new", 0, "")).settle > 0.4 * journal.lease


async def test_where_nobody_listens_nobody_is_answered_and_a_torn_connection_says_nothing() -> None:
    async with its_own() as (server, journal):
        await journal.enter("a", 0, "")
        await server.kill()
        found = [await outcome(journal) for _ in range(2)]
        assert found == [Silence.TORN, Silence.CLOSED]


async def outcome(journal: Journal) -> Silence:
    with pytest.raises(Unavailable) as error:
        await journal.beat("a")
    return error.value.silence


async def test_a_server_that_does_not_answer_may_answer_others() -> None:
    async with its_own(0.6) as (server, journal):
        await journal.enter("a", 0, "")
        server.pause()
        try:
            assert await outcome(journal) is Silence.SILENT
        finally:
            server.resume()


@pytest.fixture
async def net(redis_url: str) -> AsyncIterator[Network]:
    async with network(redis_url) as net:
        yield net


async def test_a_network_that_swallows_everything_is_silence(net: Network, namespace: str) -> None:
    async with opened(net.url, namespace, 0.6) as journal:
        await journal.enter("a", 0, "")
        net.swallow()
        assert [await outcome(journal) for _ in range(2)] == [Silence.SILENT] * 2
        net.mend()
        await journal.enter("a", 0, "")


async def test_an_answer_that_is_lost_on_its_way_does_not_write_twice(
    net: Network, redis_url: str, namespace: str
) -> None:
    async with opened(net.url, namespace, 0.9) as journal, opened(redis_url, namespace) as other:
        await journal.enter("a", 0, "")
        net.swallow_answers()
        with pytest.raises(Unavailable):
            await journal.write("a", 1, [Leave(1)])
        net.mend()
        await journal.enter("a", 0, "")
        await journal.write("a", 1, [Leave(1)])
        assert [list(entry.commands) for entry in await entries(other)] == [[Leave(1)]]


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_a_server_that_wants_another_password_says_so(password: str | None) -> None:
    async with its_own() as (server, journal), aioredis.Redis.from_url(server.url) as client:
        await client.config_set("requirepass", "right")
        async with opened(server.url, "n", password=password) as barred:
            with pytest.raises(WrongPassword, match="does not let this gateway in") as refused:
                await barred.enter("a", 0, "")
            assert refused.value.setting == "[cluster] password_env"
            assert "right" not in str(refused.value)
        async with opened(server.url, "n", password="right") as let_in:
            await let_in.enter("a", 0, "")
        await journal.close()


async def test_a_server_without_memory_writes_nothing_at_all() -> None:
    async with its_own() as (server, journal), aioredis.Redis.from_url(server.url) as client:
        await journal.enter("a", 0, "")
        await journal.write("a", 1, [Leave(1)])
        await client.config_set("maxmemory", "1")
        for asked_for in (journal.write("a", 2, [Leave(2)]), journal.beat("a")):
            with pytest.raises(Unavailable, match="maxmemory"):
                await asked_for
        await client.config_set("maxmemory", "0")
        await journal.write("a", 2, [Leave(2)])
        found = await entries(journal)
        assert [entry.number for entry in found] == [found[0].number, found[0].number + 1]


async def test_whoever_stayed_with_a_server_that_is_a_copy_by_now_looks_for_the_one_that_is_not() -> None:
    async with (
        redis_server() as old,
        redis_server() as new,
        network(old.url) as net,
        opened(net.url, "n") as journal,
        old.client() as client,
    ):
        await journal.enter("a", 0, "")
        await client.replicaof("127.0.0.1", str(new.port))
        net.lead_to(new.url)
        with pytest.raises(Unavailable):  # its connection leads to the old one still
            await journal.write("a", 1, [Leave(1)])
        assert isinstance(await asked(journal), LeaseLost)
