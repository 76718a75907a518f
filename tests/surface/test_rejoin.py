"""A client that gave up and sends the same request again stands where it stood, and never twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from fakes.checker import check
from fakes.gateway import MESSAGES, PATIENT, Exit, Front, Stream, fronted, leave
from fakes.product import ask
from slotline.config import KeyConfig
from slotline.core.keys import Priority, digest
from slotline.stub.standard import held, ok

REJOINING = msgspec.structs.replace(PATIENT, rejoin=60.0)
TURN = ask("the same turn")
RETRY = {"x-stainless-retry-count": "1"}


async def first_place(stream: Stream) -> int:
    return int(check(await stream.next(), whole=False).places[0]["position"])


async def gone(front: Front, waiting: int) -> None:
    """The gateway has seen who left: so many still stand in line."""
    await front.until(lambda: front.waiting == waiting)


async def occupied(front: Front, stack: AsyncExitStack) -> None:
    """The one slot is taken by a request that is held until the stub releases it."""
    front.stub.play(held(1))
    await stack.enter_async_context(front.calling(ask("in the slot")))
    await front.stub.until(lambda state: state.held == 1)


async def in_line(front: Front, stack: AsyncExitStack, *texts: str) -> list[Stream]:
    """One caller after the other, each at the end of the line."""
    return [await stack.enter_async_context(front.streaming(ask(text))) for text in texts]


@pytest.mark.parametrize("way", list(Exit))
async def test_the_same_request_stands_where_it_stood(way: Exit) -> None:
    """B35: the client gave up and asks again; those who came later stay behind it."""
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        mine = await stack.enter_async_context(front.streaming(TURN))
        assert await first_place(mine) == 1
        others = await in_line(front, stack, "a", "b")
        assert [await first_place(other) for other in others] == [2, 3]
        leave(mine.caller, way)
        await gone(front, 2)
        again = await stack.enter_async_context(front.streaming(TURN))
        assert await first_place(again) == 1


async def test_three_times_in_a_row_and_the_upstream_reads_the_prompt_once() -> None:
    """B35: what the mission calls the livelock. One request reaches the server in all."""
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        for _ in range(3):
            async with front.streaming(TURN) as attempt:
                assert await first_place(attempt) == 1
                leave(attempt.caller, Exit.FIN)
            await gone(front, 0)
        last = await stack.enter_async_context(front.streaming(TURN))
        assert await first_place(last) == 1
        front.stub.play(ok(3))
        front.stub.release()
        assert check(await last.rest()).complete
        assert len(front.stub.requests) == 2, "the one in the slot, and one copy of the turn"


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (ask("another turn"), {}, "another body"),
        (TURN, {"x-claude-code-session-id": "another"}, "another session"),
    ],
)
async def test_another_request_goes_to_the_end(body: object, headers: dict[str, str], why: str) -> None:
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        async with front.streaming(TURN, headers={"x-claude-code-session-id": "one"}) as mine:
            await first_place(mine)
            await in_line(front, stack, "a")
            leave(mine.caller, Exit.FIN)
        await gone(front, 1)
        again = await stack.enter_async_context(front.streaming(body, headers=headers))
        assert await first_place(again) == 2, why


async def test_a_place_is_not_kept_where_the_configuration_keeps_none() -> None:
    async with fronted(server=msgspec.structs.replace(PATIENT, rejoin=0.0)) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        async with front.streaming(TURN) as mine:
            await first_place(mine)
            await in_line(front, stack, "a")
            leave(mine.caller, Exit.FIN)
        await gone(front, 1)
        again = await stack.enter_async_context(front.streaming(TURN))
        assert await first_place(again) == 2


async def test_a_place_is_kept_for_as_long_as_configured() -> None:
    server = msgspec.structs.replace(PATIENT, rejoin=0.05)
    async with fronted(server=server) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        async with front.streaming(TURN) as mine:
            await first_place(mine)
            await in_line(front, stack, "a")
            leave(mine.caller, Exit.FIN)
        await gone(front, 1)
        left = asyncio.get_running_loop().time()
        await front.until(lambda: asyncio.get_running_loop().time() > left + 0.1)
        again = await stack.enter_async_context(front.streaming(TURN))
        assert await first_place(again) == 2


async def test_equal_requests_on_two_open_connections_are_two_requests() -> None:
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        one, two = [await stack.enter_async_context(front.streaming(TURN)) for _ in range(2)]
        assert [await first_place(one), await first_place(two)] == [1, 2]


async def test_a_copy_that_says_that_it_is_one_ends_the_earlier_one_in_line_and_takes_its_place() -> None:
    """The earlier connection may still be open: a proxy between holds it, or its end has not come here yet."""
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        earlier = await stack.enter_async_context(front.streaming(TURN))
        await first_place(earlier)
        await in_line(front, stack, "a")
        later = await stack.enter_async_context(front.streaming(TURN, headers=RETRY))
        assert await first_place(later) == 1
        told = check(await earlier.rest())
        assert told.error is not None
        assert told.error["type"] == "invalid_request_error"
        assert "sent this request again" in told.error["message"]
        assert front.outcomes == ["client_left_waiting"]


async def test_a_copy_ends_an_earlier_one_that_runs_and_goes_on_in_its_slot() -> None:
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        front.stub.play(held(1), ok(3))
        await stack.enter_async_context(front.calling(TURN))
        await front.stub.until(lambda state: state.held == 1)
        await in_line(front, stack, "a")
        later = await stack.enter_async_context(front.streaming(TURN, headers=RETRY))
        assert check(await later.rest()).complete
        assert front.outcomes[0] == "client_left_running"
        assert [b"the same turn" in each.raw for each in front.stub.requests[:2]] == [True, True]


async def test_a_copy_of_nothing_is_an_ordinary_request() -> None:
    async with fronted(server=REJOINING) as front:
        assert check((await front.fetch(TURN, headers=RETRY)).body).complete


async def test_a_key_finds_its_place_from_any_connection_and_another_key_does_not() -> None:
    keys = tuple(
        KeyConfig(name=name, hash=f"sha256:{digest(f'sl-{name}').hex()}", running=9, waiting=9) for name in ("a", "b")
    )
    async with fronted(server=REJOINING, keys=keys) as front, AsyncExitStack() as stack:
        front.stub.play(held(1))
        await stack.enter_async_context(front.calling(ask("in the slot"), headers={"x-api-key": "sl-a"}))
        await front.stub.until(lambda state: state.held == 1)
        async with front.streaming(TURN, headers={"x-api-key": "sl-a"}) as mine:
            await first_place(mine)
            await stack.enter_async_context(front.streaming(ask("x"), headers={"x-api-key": "sl-a"}))
            leave(mine.caller, Exit.FIN)
        await gone(front, 1)
        stranger = await stack.enter_async_context(front.streaming(TURN, headers={"x-api-key": "sl-b"}))
        await first_place(stranger)
        leave(stranger.caller, Exit.FIN)
        await gone(front, 1)
        again = await stack.enter_async_context(front.streaming(TURN, headers={"authorization": "Bearer sl-a"}))
        assert await first_place(again) == 1


async def test_a_request_that_does_not_stream_finds_its_place_too() -> None:
    body = ask("the same turn", stream=False)
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        async with front.calling(body) as mine:
            await front.until(lambda: front.waiting == 1)
            (other,) = await in_line(front, stack, "a")
            assert await first_place(other) == 2
            leave(mine, Exit.FIN)
        await gone(front, 1)
        assert int(check(await other.next(), whole=False).places[0]["position"]) == 1
        async with front.calling(body):
            assert int(check(await other.next(), whole=False).places[0]["position"]) == 2


async def test_who_was_sent_away_because_its_own_time_was_over_finds_its_place() -> None:
    """The client's SDK says for how long it waits, is told 529 when that is over, and asks again by itself."""
    body = ask("the same turn", stream=False)
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        async with front.calling(body, headers={"x-stainless-timeout": "0.2"}) as mine:
            await front.until(lambda: front.waiting == 1)
            (other,) = await in_line(front, stack, "a")
            assert await first_place(other) == 2
            assert (await mine.answer()).status == 529
        assert int(check(await other.next(), whole=False).places[0]["position"]) == 1
        async with front.calling(body, headers=RETRY):
            assert int(check(await other.next(), whole=False).places[0]["position"]) == 2


async def test_who_comes_back_to_a_full_line_is_told_so_and_finds_its_place_the_next_time() -> None:
    async with fronted(server=REJOINING, queue=2) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        async with front.streaming(TURN) as mine:
            await first_place(mine)
            leave(mine.caller, Exit.FIN)
        await gone(front, 0)
        others = await in_line(front, stack, "a", "b")
        assert (await front.fetch(TURN)).status == 529
        leave(others[1].caller, Exit.FIN)
        await gone(front, 1)
        again = await stack.enter_async_context(front.streaming(TURN))
        assert await first_place(again) == 1


async def test_of_copies_that_come_all_at_once_one_is_left() -> None:
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        callers = [await stack.enter_async_context(front.calling(TURN))]
        await front.until(lambda: front.waiting == 1)
        for count in range(1, 5):
            headers = {"x-stainless-retry-count": str(count)}
            callers.append(await stack.enter_async_context(front.calling(TURN, headers=headers)))
        await front.until(lambda: len(front.outcomes) == 4)
        assert front.waiting == 1
        assert front.outcomes == ["client_left_waiting"] * 4


# ---- keys in line ----------------------------------------------------------------------------------------------------


def key(name: str, **fields: Any) -> KeyConfig:
    return KeyConfig(name=name, hash=f"sha256:{digest(f'sl-{name}').hex()}", **{"running": 99, "waiting": 99, **fields})


def of(name: str) -> dict[str, str]:
    return {"x-api-key": f"sl-{name}"}


async def test_a_second_key_is_served_after_one_of_the_first_however_many_that_has_in_line() -> None:
    """B33: ten of one key, then one of another."""
    async with fronted(queue=64, keys=(key("a"), key("b"))) as front, AsyncExitStack() as stack:
        front.stub.default = held(1)
        await stack.enter_async_context(front.calling(ask("first"), headers=of("a")))
        await front.stub.until(lambda state: state.held == 1)
        for number in range(10):
            await stack.enter_async_context(front.streaming(ask(f"a{number}"), headers=of("a")))
        mine = await stack.enter_async_context(front.streaming(ask("b"), headers=of("b")))
        assert await first_place(mine) <= 2


async def test_without_keys_the_order_is_that_of_arrival() -> None:
    async with fronted(queue=64) as front, AsyncExitStack() as stack:
        await occupied(front, stack)
        streams = [
            await stack.enter_async_context(
                front.streaming(ask(f"{number}"), headers={"x-claude-code-session-id": f"s{number % 2}"})
            )
            for number in range(5)
        ]
        assert [await first_place(stream) for stream in streams] == [1, 2, 3, 4, 5]


async def test_who_has_as_many_in_line_as_it_may_is_told_429_and_when_to_come_again() -> None:
    async with fronted(keys=(key("a", waiting=1), key("b"))) as front, AsyncExitStack() as stack:
        front.stub.play(held(1))
        await stack.enter_async_context(front.calling(ask("first"), headers=of("a")))
        await front.stub.until(lambda state: state.held == 1)
        await stack.enter_async_context(front.streaming(ask("second"), headers=of("a")))
        refused = await front.fetch(ask("third"), headers=of("a"))
        assert refused.status == 429
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert front.outcomes == ["refused_limit"]
        await stack.enter_async_context(front.streaming(ask("of another key"), headers=of("b")))


async def test_who_has_as_many_running_as_it_may_waits_while_a_slot_is_free_for_others() -> None:
    async with fronted(slots=2, keys=(key("a", running=1), key("b"))) as front, AsyncExitStack() as stack:
        front.stub.play(held(1))
        await stack.enter_async_context(front.calling(ask("first"), headers=of("a")))
        await front.stub.until(lambda state: state.held == 1)
        mine = await stack.enter_async_context(front.streaming(ask("second"), headers=of("a")))
        assert await first_place(mine) == 1
        assert check((await front.fetch(ask("of another key"), path=MESSAGES, headers=of("b"))).body).complete


async def test_batch_waits_while_somebody_waits_in_front_of_a_screen() -> None:
    keys = (key("a"), key("night", priority=Priority.BATCH))
    async with fronted(keys=keys) as front, AsyncExitStack() as stack:
        front.stub.play(held(1))
        await stack.enter_async_context(front.calling(ask("first"), headers=of("a")))
        await front.stub.until(lambda state: state.held == 1)
        batch = await stack.enter_async_context(front.streaming(ask("batch"), headers=of("night")))
        assert await first_place(batch) == 1
        mine = await stack.enter_async_context(front.streaming(ask("mine"), headers=of("a")))
        assert await first_place(mine) == 1
