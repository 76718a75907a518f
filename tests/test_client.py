"""The library, against the scripted server: a line for each slot, the events of a chat, and its ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

import slotline
from slotline import (
    Busy,
    Client,
    Completed,
    Completion,
    Event,
    Invalid,
    Limits,
    Queued,
    Reasoning,
    StreamClosedEarly,
    Text,
    ThinkingCapped,
    ThinkingOverrun,
    ToolCall,
    Unreachable,
    UpstreamStatus,
    Waiting,
)
from slotline.stub import Stub
from slotline.stub.standard import (
    die,
    endless_thinking,
    error,
    hang,
    head_then_silence,
    held,
    swallowed,
    thinking,
    tool_call,
)
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find

HI = [{"role": "user", "content": "hi"}]
QUICK = Limits(poll=0.05, thinking_cap=3, thinking_overrun=2, idle_grace=0.3)


@asynccontextmanager
async def pair(slots: int = 2, queue: int = 2) -> AsyncIterator[tuple[Stub, Client]]:
    """A server and a client of it."""
    async with (
        Stub(slots=slots, tokens=2) as stub,
        Client(stub.url, kind="llama.cpp", slots=slots, queue=queue, limits=QUICK) as client,
    ):
        yield stub, client


async def events(client: Client, slot: int | None = None, **parameters: Any) -> list[Event]:
    return [event async for event in client.chat(HI, slot=slot, **parameters)]


async def test_a_chat_is_text_and_its_completion() -> None:
    async with pair() as (_, client):
        seen = await events(client, max_tokens=8)
    assert seen[:2] == [Text("token-0"), Text(" token-1")]
    assert isinstance(seen[2], Completed)
    whole = seen[2].completion
    assert (whole.text, whole.finish, whole.completion_tokens) == ("token-0 token-1", "stop", 2)
    assert whole.prompt_tokens > 0


async def test_what_the_user_asks_is_sent_as_it_is() -> None:
    async with pair() as (stub, client):
        await events(client, max_tokens=8, top_k=5)
        body = stub.requests[0].body
    assert (body["messages"], body["max_tokens"], body["top_k"], body["model"]) == (HI, 8, 5, "stub")


async def test_a_chat_that_asks_for_a_slot_gets_that_slot() -> None:
    async with pair() as (stub, client):
        for slot in (1, 0, 1):
            await events(client, slot=slot)
        assert [request.body["id_slot"] for request in stub.requests] == [1, 0, 1]


async def test_a_slot_that_does_not_exist_is_refused() -> None:
    async with pair() as (stub, client):
        with pytest.raises(Invalid, match="slot: expected a number from 0 to 1, got 2"):
            await events(client, slot=2)
        assert stub.requests == ()


async def test_a_chat_for_a_busy_slot_waits_for_it_and_counts_down() -> None:
    """Each slot has its own line: the other one, free all the time, serves nobody who asked for this one."""
    async with pair() as (stub, client):
        stub.play(held(1), held(1))
        async with asyncio.TaskGroup() as tasks:
            chats = [tasks.create_task(events(client, slot=0)) for _ in range(3)]
            await stub.until(lambda state: state.held == 1)
            stub.release()
            await stub.until(lambda state: state.held == 1 and state.done == 1)
            stub.release()
        queued = [[event.ahead for event in chat.result() if isinstance(event, Queued)] for chat in chats]
    assert queued == [[], [0], [1, 0]]
    assert {request.slot for request in stub.requests} == {0}


async def test_a_chat_for_any_slot_takes_the_first_that_is_free() -> None:
    async with pair() as (stub, client):
        stub.play(held(1))
        async with asyncio.TaskGroup() as tasks:
            busy = tasks.create_task(events(client, slot=0))
            await stub.until(lambda state: state.held == 1)
            free = await events(client)
            stub.release()
        assert not any(isinstance(event, Queued) for event in free)
        assert busy.result()
        assert [request.slot for request in stub.requests] == [0, 1]


async def test_the_line_of_a_slot_is_bounded() -> None:
    async with pair(queue=1) as (stub, client):
        stub.play(held(1))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(events(client, slot=0))
            await stub.until(lambda state: state.held == 1)
            second = tasks.create_task(events(client, slot=0))
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="at most queue = 1 may"):
                await events(client, slot=0)
            stub.release()
        assert second.result()


async def test_silence_before_the_first_token_is_told_with_its_meaning() -> None:
    async with pair() as (stub, client):
        stub.play(hang())
        async with aclosing(client.chat(HI)) as chat:
            assert await anext(chat) == Waiting(slot_busy=True)
        stub.play(swallowed())
        async with aclosing(client.chat(HI)) as chat:
            assert await anext(chat) == Waiting(slot_busy=False)


async def test_leaving_the_loop_ends_the_chat_at_the_server() -> None:
    async with pair() as (stub, client):
        stub.play(head_then_silence())
        async with aclosing(client.chat(HI)) as chat:
            asking = asyncio.ensure_future(anext(chat))
            await stub.until(lambda state: state.running == 1)
            asking.cancel()
            await asyncio.wait([asking])
        await stub.until(lambda state: state.running == 0 and state.aborted == 1)
        assert await events(client, slot=0)


async def test_reasoning_and_tool_calls_are_events_of_their_own() -> None:
    async with pair() as (stub, client):
        stub.play(thinking(2, 1), tool_call("lookup", '{"query":"slots"}'))
        first, second = await events(client), await events(client)
    assert first[:3] == [Reasoning("thought-0"), Reasoning(" thought-1"), Text("token-0")]
    call = ToolCall("call_0", "lookup", '{"query":"slots"}')
    assert second[0] == call
    assert isinstance(second[1], Completed)
    assert second[1].completion.tool_calls == (call,)
    assert second[1].completion.finish == "tool_calls"


async def test_too_much_thinking_is_capped_and_told() -> None:
    async with pair() as (stub, client):
        stub.play(endless_thinking(gap=0.005))
        seen = await events(client)
    assert ThinkingCapped(3) in seen
    kinds = [type(event) for event in seen]
    assert kinds.index(ThinkingCapped) < kinds.index(Text)
    assert isinstance(seen[-1], Completed)
    assert seen[-1].completion.text


async def test_the_errors_are_those_of_the_one_tree() -> None:
    async with pair() as (stub, client):
        stub.play(die(1), error(400, "no such thing"), endless_thinking(gap=0.005, heeds_control=False))
        with pytest.raises(StreamClosedEarly):
            await events(client)
        with pytest.raises(UpstreamStatus, match="no such thing") as refused:
            await events(client)
        assert (refused.value.status, refused.value.body) == (400, "no such thing")
        with pytest.raises(ThinkingOverrun):
            await events(client)
        assert await events(client, slot=0), "the slot is there again"


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with Client("http://127.0.0.1:9", limits=QUICK) as client:
        with pytest.raises(Unreachable):
            await events(client)


async def test_an_error_of_the_block_arrives_as_it_is() -> None:
    with pytest.raises(Unreachable):
        async with Client("http://127.0.0.1:9", limits=QUICK) as client:
            await events(client)


async def test_a_chat_that_was_left_without_being_closed_ends_with_the_client() -> None:
    async with Stub(slots=1, tokens=2) as stub:
        stub.play(hang())
        async with Client(stub.url, slots=1, limits=QUICK) as client:
            chat = client.chat(HI)
            assert await anext(chat) == Waiting(slot_busy=True)
        await stub.until(lambda state: state.running == 0)
        await chat.aclose()


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("http://127.0.0.1:9", {"kind": "llama"}),
        ("http://127.0.0.1:9", {"slots": 0}),
        ("http://127.0.0.1:9", {"queue": -1}),
        ("127.0.0.1:9", {}),
    ],
)
def test_what_cannot_be_is_refused_and_named(url: str, wrong: dict[str, Any]) -> None:
    name = next(iter(wrong), "url")
    with pytest.raises(ValueError, match=name):
        Client(url, **wrong)


@pytest.mark.parametrize("name", slotline.__all__)
def test_everything_public_is_there_when_it_is_asked_for(name: str) -> None:
    thing = getattr(slotline, name)
    assert name in {"Event", getattr(thing, "__name__", None)}


def test_what_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gateway'"):
        slotline.Gateway  # noqa: B018


def test_a_completion_is_a_value() -> None:
    one, other = (Completion("a", "", (), "stop", 1, 0, 1) for _ in range(2))
    assert one == other


@pytest.mark.engine
async def test_a_real_model_chats() -> None:
    """The library in front of the real llama.cpp server, without a gateway."""
    said: list[str] = []
    path, alias = find("smollm2", default_cache(), said.append)
    async with Engine(EngineSpec(path, alias), said.append) as engine:
        await engine.ready()
        async with Client(engine.url, kind="llama.cpp", slots=2) as client:
            seen = await events(client, slot=1, max_tokens=6)
    assert isinstance(seen[-1], Completed)
    assert 0 < seen[-1].completion.completion_tokens <= 6
    assert seen[-1].completion.text == "".join(event.text for event in seen if isinstance(event, Text))
