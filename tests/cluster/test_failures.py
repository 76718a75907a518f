"""The table of failures, row by row, with real gateways, a real server and signals: what people see, who gets a slot.

Two gateways with one line stand before a stub with two slots. Its model `held` says one word and waits to be released.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.gateway import MESSAGES, Stream
from fakes.network import Network, network
from fakes.product import Caller, Program, ask, calling, fetch
from fakes.redis import RedisServer, redis_server
from slotline.stub import Stub
from slotline.stub.standard import held

LEASE = 1.5
SOON = 2.0  # seconds that a busy machine may be late

CONFIG = """
[server]
port = 0
grace = "100ms"
drain = "1s"

[[upstream]]
name = "box"
url = "{upstream}"
slots = 2
queue = 50
limits = {{ poll = "100ms", drain = "2s", load_wait = "20s" }}

[cluster]
url = "{redis}"
lease = "{lease}s"
"""


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class House:
    """Two gateways, `a` and `b`; `net` is what lies between `a` and the server."""

    stub: Stub
    server: RedisServer
    net: Network
    a: Program
    b: Program
    streams: list[Stream] = field(default_factory=list)

    async def asks(self, gateway: Program, text: str) -> Stream:
        """One request, whose answer has begun."""
        caller = await Caller.connect(gateway.url)
        await caller.send("POST", MESSAGES, ask(text, model="held"))
        stream = Stream(caller, await caller.head())
        self.streams.append(stream)
        return stream

    async def runs(self, gateway: Program, text: str) -> Stream:
        """… that has its slot, and has said its first word."""
        stream = await self.asks(gateway, text)
        await stream.until(b"text_delta")
        return stream

    async def waits(self, gateway: Program, text: str, position: int) -> Stream:
        """… that stands at this place."""
        stream = await self.asks(gateway, text)
        await stream.until(b'"position":%d' % position)
        return stream

    async def told(self, stream: Stream, wanted: bytes, seconds: float = 10.0) -> None:
        """Returns when the client has read that, however long it was silent before."""
        async with asyncio.timeout(seconds):
            while wanted not in stream.answer.body:
                await anext(stream._pieces)

    async def ready(self, gateway: Program) -> int:
        return (await fetch(gateway.url, "/readyz")).status

    async def becomes_ready(self, gateway: Program, status: int, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while await self.ready(gateway) != status:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.02)


@asynccontextmanager
async def house(folder: Path, *, direct: bool = False, lease: float = LEASE) -> AsyncIterator[House]:
    """`direct`: nothing lies between `a` and the server that would answer in its place."""
    async with AsyncExitStack() as stack:
        stub = await stack.enter_async_context(Stub(slots=2, tokens=3, models=("stub", "held")))
        stub.by_model["held"] = held(3, before=1)
        server = await stack.enter_async_context(redis_server())
        net = await stack.enter_async_context(network(server.url))
        urls = {"a": server.url if direct else net.url, "b": server.url}
        programs = {}
        for name, url in urls.items():
            config = folder / f"{name}.toml"
            config.write_text(CONFIG.format(upstream=stub.url, redis=url, lease=lease))
            programs[name] = Program("serve", "--config", str(config))
        await asyncio.gather(*(stack.enter_async_context(each) for each in programs.values()))
        it = House(stub, server, net, programs["a"], programs["b"])
        for program in programs.values():
            await it.becomes_ready(program, 200)
        yield it
        for stream in it.streams:
            stream.caller.reset()


# ---- clients ---------------------------------------------------------------------------------------------------------


async def test_clients_that_leave_move_up_those_behind_whichever_gateway_they_came_to(tmp_path: Path) -> None:
    """While it waits: at once. While it runs: its upstream is left first, and then its slot is the next one's."""
    async with house(tmp_path) as it:
        running = await it.runs(it.a, "one")
        await it.runs(it.b, "two")
        first = await it.waits(it.b, "three", 1)
        second = await it.waits(it.a, "four", 2)
        first.caller.reset()
        await it.told(second, b'"position":1')
        running.caller.reset()
        await it.stub.until(lambda state: state.aborted == 1)
        await it.told(second, b"text_delta")
        assert it.stub.state.max_running == 2


# ---- a gateway -------------------------------------------------------------------------------------------------------


async def test_what_a_gateway_had_that_was_killed_is_free_after_at_most_its_lease(tmp_path: Path) -> None:
    """Its connections close with it, so the server stops working on what it asked for at once."""
    async with house(tmp_path) as it:
        await it.runs(it.a, "one")
        await it.runs(it.a, "two")
        await it.waits(it.a, "three", 1)
        last = await it.waits(it.b, "four", 2)
        killed = now()
        it.a.kill(signal.SIGKILL)
        await it.stub.until(lambda state: state.aborted == 2)
        assert now() - killed < SOON
        await it.told(last, b"text_delta", LEASE + 1.0 + SOON)
        assert now() - killed < LEASE + 1.0 + SOON


async def test_a_gateway_that_stood_still_for_longer_than_its_lease_stops_what_it_ran_and_its_waiters_wait_on(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as it:
        lost = await it.runs(it.a, "one")
        kept = await it.runs(it.b, "two")
        waits_here = await it.waits(it.a, "three", 1)
        waits_there = await it.waits(it.b, "four", 2)
        stopped = now()
        it.a.kill(signal.SIGSTOP)
        try:  # its connections are open still, so the next one stands in the upstream's own queue
            await it.stub.until(lambda state: state.waiting == 1, LEASE + 1.0 + SOON)
            assert now() - stopped > 0.5 * LEASE
        finally:
            it.a.kill(signal.SIGCONT)
        await it.told(lost, b"event: error")
        assert b"lost its lease" in lost.answer.body
        assert b"message_stop" not in lost.answer.body
        await it.told(waits_there, b"text_delta")
        assert b"text_delta" not in waits_here.answer.body
        kept.caller.reset()
        await it.told(waits_here, b"text_delta")
        assert b"event: error" not in waits_here.answer.body


# ---- the server ------------------------------------------------------------------------------------------------------


async def test_one_gateway_that_cannot_reach_the_server_holds_its_line_and_says_so_to_all_who_wait(
    tmp_path: Path,
) -> None:
    """Within its lease what it runs runs on; after that it stops, because others may have the slots."""
    async with house(tmp_path, lease=3.0) as it:
        running = await it.runs(it.a, "one")
        other = await it.runs(it.b, "two")
        waits = await it.waits(it.a, "three", 1)
        it.net.swallow()
        await it.told(waits, b": the line stands still: the line that it shares with others cannot be reached")
        assert b"event: error" not in running.answer.body
        assert await it.ready(it.a) == 503
        assert await it.ready(it.b) == 200
        said = (await fetch(it.a.url, f"/api/requests/{waits.answer.headers['request-id']}")).json()
        assert "the line that it shares with others cannot be reached" in said["why"]
        late = await it.asks(it.a, "four")
        await it.told(late, b": the line stands still: ")
        it.net.mend()
        await it.becomes_ready(it.a, 200)
        await it.told(late, b'"position":')
        other.caller.reset()
        await it.told(waits, b"text_delta")


async def test_a_server_that_is_away_for_all_and_comes_back_empty_costs_nobody_anything(tmp_path: Path) -> None:
    """For longer than a lease: what runs runs on, and everybody stands where it stood."""
    async with house(tmp_path, direct=True) as it:
        one = await it.runs(it.a, "one")
        two = await it.runs(it.b, "two")
        three = await it.waits(it.b, "three", 1)
        four = await it.waits(it.a, "four", 2)
        await it.server.kill()
        for stream in (three, four):
            await it.told(stream, b": the line stands still: ")
        assert [await it.ready(gateway) for gateway in (it.a, it.b)] == [503, 503]
        await asyncio.sleep(1.2 * LEASE)
        assert it.stub.state.aborted == 0
        it.stub.release(1)
        await it.told(one, b"message_stop")
        await it.server.start()
        back = now()
        await it.told(three, b"text_delta", LEASE + 1.0 + SOON)
        assert now() - back < LEASE + 1.0 + SOON
        await it.told(four, b": the line moves on")
        assert b"text_delta" not in four.answer.body
        assert b"event: error" not in two.answer.body
        two.caller.reset()
        await it.told(four, b"text_delta")
        assert it.stub.state.max_running == 2


async def test_a_gateway_ends_in_time_while_the_server_is_silent(tmp_path: Path) -> None:
    async with house(tmp_path) as it:
        running = await it.runs(it.a, "one")
        it.net.swallow()
        await it.becomes_ready(it.a, 503)
        began = now()
        status = await it.a.stop(signal.SIGTERM)
        assert status == 0
        assert now() - began < 1.0 + 1.0 + SOON
        await it.told(running, b"event: error")


async def test_a_gateway_that_starts_while_the_server_is_away_takes_part_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async with Stub(slots=2, tokens=3) as stub, redis_server() as server:
        await server.kill()
        config = tmp_path / "a.toml"
        config.write_text(CONFIG.format(upstream=stub.url, redis=server.url, lease=LEASE))
        async with Program("serve", "--config", str(config)) as gateway:
            assert (await fetch(gateway.url, "/readyz")).status == 503
            async with calling(gateway.url, MESSAGES, ask("hello", model="stub")) as caller:
                stream = Stream(caller, await caller.head())
                await server.start()
                async with asyncio.timeout(10):
                    async for _ in stream._pieces:
                        pass
            assert b"message_stop" in stream.answer.body


async def test_a_password_that_is_wrong_is_told_at_the_start(tmp_path: Path) -> None:
    async with redis_server() as server:
        async with server.client() as client:
            await client.config_set("requirepass", "right")
        config = tmp_path / "a.toml"
        text = CONFIG.format(upstream="http://127.0.0.1:9", redis=server.url, lease=LEASE)
        config.write_text(text + 'password_env = "LINE_PASSWORD"\n')
        program = Program("serve", "--config", str(config), env={"LINE_PASSWORD": "wrong"})
        with pytest.raises(RuntimeError, match="ended before it was ready") as failed:
            async with program:
                pytest.fail("it must not start")
        assert "[cluster] password_env" in str(failed.value)
        assert "does not let this gateway in" in str(failed.value)


# ---- the upstream ----------------------------------------------------------------------------------------------------


async def test_an_upstream_that_is_started_again_serves_on_in_the_same_order(tmp_path: Path) -> None:
    async with house(tmp_path) as it:
        one = await it.runs(it.a, "one")
        two = await it.runs(it.b, "two")
        three = await it.waits(it.b, "three", 1)
        four = await it.waits(it.a, "four", 2)
        five = await it.waits(it.b, "five", 3)
        await it.stub.stop()
        for stream in (one, two):
            await it.told(stream, b"event: error")
        await it.stub.start()
        for stream in (three, four):
            await it.told(stream, b"text_delta", 15.0)
        await it.told(five, b'"position":1')
        assert it.stub.state.running == 2
        for stream in (three, four, five):
            assert b"event: error" not in stream.answer.body


async def test_what_others_use_of_the_upstream_is_not_given_out_by_any_gateway(tmp_path: Path) -> None:
    async with house(tmp_path) as it:
        async with calling(it.stub.url, "/v1/chat/completions", _direct()) as outsider:
            await it.stub.until(lambda state: state.running == 1)
            async with asyncio.timeout(10):
                for gateway in (it.a, it.b):
                    while b'"outside"' not in (await fetch(gateway.url, "/api/state")).body:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            await it.runs(it.a, "one")
            waits = await it.waits(it.b, "two", 1)
            assert it.stub.state.max_waiting == 0
            outsider.reset()
        await it.told(waits, b"text_delta")


def _direct() -> dict[str, object]:
    return {"model": "held", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
