"""A reload: upstreams come, change, move and go, under those who wait and run. The whole gateway before stubs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from fakes.checker import check
from fakes.gateway import Front, Stream, fronted
from fakes.product import ask
from slotline.config import ConfigError, ModelConfig, UpstreamConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.standard import held, ok

QUICK = Limits(poll=0.05)


def stub(**more: Any) -> Stub:
    return Stub(tokens=3, **{"slots": 1, **more})


def upstream(name: str, at: Stub, **more: Any) -> UpstreamConfig:
    return UpstreamConfig(**{"name": name, "url": at.url, "slots": at.slots, "limits": QUICK, **more})


async def change(front: Front, **more: Any) -> None:
    """The same configuration but for `more`, within the second that a removed upstream has to be quick."""
    async with asyncio.timeout(1):
        await front.gateway.reload(msgspec.structs.replace(front.gateway.config, **more))


async def changed(front: Front, **more: Any) -> None:
    """The one upstream of `fronted`, changed."""
    (box,) = front.gateway.config.upstreams
    await change(front, upstreams=(msgspec.structs.replace(box, **more),))


def running(front: Front) -> int:
    return sum(passage.granted is not None for passage in front.relay.passages)


@asynccontextmanager
async def crowd(front: Front, count: int, model: str = "stub") -> AsyncIterator[list[Stream]]:
    """Streams that wait, in their order; each has read its first place."""
    async with AsyncExitStack() as stack:
        streams = []
        for number in range(count):
            stream = await stack.enter_async_context(front.streaming(ask(f"{number}", model=model)))
            assert place(await stream.next()) == number + 1
            streams.append(stream)
        yield streams


def place(piece: bytes) -> int:
    (seen,) = check(piece, whole=False).places
    return int(seen["position"])


@asynccontextmanager
async def working(front: Front, at: Stub, model: str = "stub") -> AsyncIterator[Stream]:
    """A stream that runs at `at`, and goes on when the stub is told so."""
    before = at.state.held
    at.play(held(4, before=1))
    async with front.streaming(ask("first", model=model)) as stream:
        await stream.until(b"token-0")
        await at.until(lambda state: state.held == before + 1)
        yield stream


async def ends_well(stream: Stream) -> None:
    assert check(await stream.rest()).complete


# ---- changed ---------------------------------------------------------------------------------------------------------


async def test_who_waits_keeps_its_place_and_who_runs_runs_on() -> None:
    async with fronted() as front, working(front, front.stub) as first, crowd(front, 2) as (second, third):
        await changed(front, queue=2, queue_wait=9.0, limits=Limits(poll=0.1, busy_wait=5.0), pin_slots=False)
        assert (await front.fetch()).status == 529, "the new queue holds for who comes"
        front.stub.release()
        await ends_well(first)
        assert place(await third.next()) == 1
        await ends_well(second)
        await ends_well(third)


async def test_more_slots_are_granted_at_once_and_fewer_are_reached_by_attrition() -> None:
    async with fronted(stub=stub(slots=2)) as front, working(front, front.stub) as first, crowd(front, 1) as (second,):
        await changed(front, slots=2)
        await ends_well(second)
        await changed(front, slots=1)
        async with crowd(front, 1) as (third,):
            front.stub.release()
            await ends_well(first)
            await ends_well(third)
        assert front.stub.state.max_running == 2


async def test_slots_that_the_upstream_reports_are_taken_from_now_on() -> None:
    async with fronted(stub=stub(slots=3)) as front, working(front, front.stub):
        await changed(front, slots=None)
        async with working(front, front.stub) as second, working(front, front.stub) as third:
            front.stub.release()
            await ends_well(second)
            await ends_well(third)


async def test_another_key_is_shown_to_the_upstream_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD_KEY", "old")
    monkeypatch.setenv("NEW_KEY", "new")
    async with fronted(api_key_env="OLD_KEY") as front:
        await front.fetch()
        await changed(front, api_key_env="NEW_KEY")
        await front.fetch()
        assert [each.header("authorization") for each in front.stub.requests] == ["Bearer old", "Bearer new"]
        await front.gateway._fleet.upstreams["box"].look()
        asked = {name.lower(): value for name, value in front.stub.calls[-1].headers}
        assert asked["authorization"] == "Bearer new"


async def test_a_secret_that_is_not_there_changes_nothing() -> None:
    async with fronted() as front, stub() as other:
        before = front.gateway.config
        with pytest.raises(ConfigError, match="NO_SUCH_KEY is not set"):
            await change(front, upstreams=(upstream("other", other, api_key_env="NO_SUCH_KEY"),))
        assert front.gateway.config is before
        assert not other.hits
        await front.serves()


async def test_another_kind_is_asked_in_its_own_way() -> None:
    async with fronted(kind=Kind.OPENAI) as front:
        client = front.gateway._fleet.upstreams["box"]
        assert (client.traits.kind, client.sighting.slots) == (Kind.OPENAI, None)
        await changed(front, kind=None)
        await front.until(lambda: client.sighting.slots == 1)
        assert client.traits.kind is Kind.LLAMA_CPP


# ---- new and removed -------------------------------------------------------------------------------------------------


async def test_a_new_upstream_serves_and_its_models_are_on_offer() -> None:
    async with fronted() as front, stub(models=("big",)) as other:
        await change(front, upstreams=(*front.gateway.config.upstreams, upstream("other", other)))
        assert b'"big"' in (await front.get("/v1/models")).body
        assert (await front.fetch(ask(model="big", stream=False))).status == 200
        assert len(other.requests) == 1


async def test_a_new_one_relieves_those_who_come_and_those_who_wait_keep_their_line() -> None:
    both = ModelConfig(name="stub", upstreams=("box", "other"), target="stub")
    async with fronted() as front, stub() as other, working(front, front.stub), crowd(front, 1) as (waits,):
        await change(front, upstreams=(*front.gateway.config.upstreams, upstream("other", other)), models=(both,))
        await ends_well(await _opened(front))
        front.stub.release()
        await ends_well(waits)
        assert (len(front.stub.requests), len(other.requests)) == (2, 1)


async def _opened(front: Front) -> Stream:
    async with front.streaming() as stream:
        await stream.rest()
    return stream


async def test_a_new_one_that_says_nothing_holds_nothing_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        mute = UpstreamConfig(name="mute", url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        async with fronted() as front:
            await change(front, upstreams=(*front.gateway.config.upstreams, mute))
            await front.serves()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_who_waits_for_a_removed_one_is_told_so_at_once_and_who_runs_there_runs_on(*, stream: bool) -> None:
    async with fronted() as front, stub() as other, working(front, front.stub) as first:
        async with front.calling(ask(stream=stream)) as waits:
            await front.until(lambda: len(front.relay.passages) == 2)
            async with asyncio.timeout(1):
                await change(front, upstreams=(upstream("other", other),))
                answer = await waits.answer()
        error = check(answer.body).error if stream else answer.json()["error"]
        assert error is not None
        assert error["type"] == "overloaded_error"
        assert "taken out of the configuration" in error["message"]
        assert answer.status == (200 if stream else 503)
        assert [left.name for left in front.gateway._fleet.leaving] == ["box"]
        front.stub.release()
        await ends_well(first)
        assert front.outcomes == ["upstream_error", "completed"]
        assert not front.gateway._fleet.leaving
        assert not front.log.faults


async def test_the_client_of_a_removed_one_is_closed_after_the_last_that_ran_there() -> None:
    async with fronted() as front, stub() as other, working(front, front.stub) as first:
        client = front.gateway._fleet.upstreams["box"]
        await change(front, upstreams=(upstream("other", other),))
        assert not client._session.closed
        front.stub.release()
        await ends_well(first)
        await front.until(lambda: client._session.closed)


async def test_a_removed_one_whose_slot_drains_is_kept_until_that_is_idle() -> None:
    async with fronted(stub=stub(abort_lag=0.2)) as front, stub() as other:
        async with working(front, front.stub) as first:
            client = front.gateway._fleet.upstreams["box"]
            await change(front, upstreams=(upstream("other", other),))
            first.caller.reset()
        await front.until(lambda: bool(client.tenancy.draining))
        await front.until(lambda: client._session.closed)
        assert front.stub.state.draining == 0


async def test_who_may_be_served_elsewhere_waits_on_in_its_place() -> None:
    both = ModelConfig(name="stub", upstreams=("box", "other"), target="stub")
    async with stub() as other:
        first = upstream("other", other)
        async with (
            fronted(before=(first,), models=(both,)) as front,
            working(front, other) as there,
            working(front, front.stub) as here,
            crowd(front, 2) as (second, third),
        ):
            one = msgspec.structs.replace(both, upstreams=("box",))
            await change(front, upstreams=front.gateway.config.upstreams[1:], models=(one,))
            other.release()
            await ends_well(there)
            assert front.waiting == 2, "the slot there is nobody's any more"
            front.stub.release()
            await ends_well(here)
            await ends_well(second)
            await ends_well(third)
            assert len(other.requests) == 1


async def test_a_model_found_just_before_its_upstream_went_is_a_typed_error() -> None:
    async with fronted() as front, stub(models=("big",)) as other:
        model = await front.gateway._roster.resolve("stub")
        await change(front, upstreams=(upstream("other", other),))
        ports = front.gateway._ports
        for ask_of in (ports.catalogue.traits, ports.catalogue.client_write):
            with pytest.raises(Exception, match="taken out of the configuration"):
                ask_of(model)
        answer = await front.fetch(ask(stream=False))
        assert answer.status == 404
        assert "the models are: big" in answer.json()["error"]["message"]


async def test_who_was_granted_a_slot_in_this_very_moment_still_has_it() -> None:
    async with stub(models=("big",)) as other:
        first = upstream("other", other)
        async with (
            fronted(stub=stub(slots=2), before=(first,)) as front,
            working(front, front.stub) as runs,
            crowd(front, 1) as (waits,),
        ):
            front.gateway._gate.resize("box", 2)
            await change(front, upstreams=(first,))
            await ends_well(waits)
            front.stub.release()
            await ends_well(runs)


# ---- moved -----------------------------------------------------------------------------------------------------------


async def test_at_another_address_those_who_wait_are_served_there_while_the_old_answers_end() -> None:
    """An upstream may move because its old box hangs: what hangs there takes no slot of the new one."""
    async with (
        fronted() as front,
        stub() as new,
        working(front, front.stub) as first,
        crowd(front, 2) as (second, third),
    ):
        new.play(held(4, before=1))
        await changed(front, url=new.url)
        await second.until(b"token-0")
        assert place(await third.next()) == 1
        front.stub.release()
        await ends_well(first)
        await front.until(lambda: running(front) == 1)
        assert front.waiting == 1, "the one slot of the new box is taken"
        new.release()
        await ends_well(second)
        await ends_well(third)
        assert (len(front.stub.requests), len(new.requests), new.state.max_running) == (1, 2, 1)
        assert not front.gateway._fleet.leaving


async def test_back_at_the_old_address_what_still_runs_there_counts_again() -> None:
    async with fronted() as front, stub() as new, working(front, front.stub) as first:
        old, url = front.gateway._fleet.upstreams["box"], front.stub.url
        await changed(front, url=new.url)
        await changed(front, url=url)
        assert front.gateway._fleet.upstreams["box"] is old
        async with crowd(front, 1) as (second,):
            front.stub.release()
            await ends_well(first)
            await ends_well(second)
        assert (front.stub.state.max_in_flight, len(new.requests)) == (1, 0)


async def test_removed_and_there_again_it_is_the_same_upstream() -> None:
    async with fronted() as front, stub() as other, working(front, front.stub) as first:
        box, old = front.gateway.config.upstreams, front.gateway._fleet.upstreams["box"]
        await change(front, upstreams=(upstream("other", other),))
        await change(front, upstreams=box)
        assert front.gateway._fleet.upstreams == {"box": old}
        async with crowd(front, 1) as (second,):
            front.stub.release()
            await ends_well(first)
            await ends_well(second)
        assert front.stub.state.max_in_flight == 1
        await front.serves()


async def test_a_storm_of_reloads_leaves_every_slot_usable_and_nothing_behind() -> None:
    async with fronted(stub=stub(slots=2), slots=2, queue=64) as front, stub(slots=2) as new:
        urls = (new.url, front.stub.url)
        front.stub.default = new.default = ok(3, gap=0.002)
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(front.fetch(ask(f"{n}"))) for n in range(30)]
            for turn in range(10):
                await changed(front, url=urls[turn % 2], slots=1 + turn % 2, queue=64 - turn)
        assert all(check(call.result().body).complete for call in calls)
        await front.until(lambda: not front.gateway._fleet.leaving)
        room = front.gateway._gate.lines.room("box")
        assert (room.slots, room.running) == (2, {})
        assert max(front.stub.state.max_in_flight, new.state.max_in_flight) <= 2
        assert not front.log.faults
