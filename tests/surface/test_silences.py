"""Every meaning that an upstream's silence can have, with and without recovery: what the client gets in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fakes.checker import check
from fakes.gateway import Front, fronted
from fakes.product import ask
from slotline.core.limits import Limits
from slotline.stub import Side, Stub
from slotline.stub.script import Done, Finish, Hold, Role, Script, Text, Usage
from slotline.stub.standard import hang, head_then_silence, ok, swallowed

MUTE = Script((Hold(), Role(), Text("at last"), Finish("stop"), Usage(), Done()))  # not even a head, until released
LIMITS = Limits(poll=0.03, busy_wait=0.5, load_wait=0.5, idle_grace=0.5, liveness=0.5)


@dataclass(frozen=True)
class Case:
    """`begin` makes the upstream fall silent, `recover` ends that; `limit` is what ends it otherwise."""

    begin: Callable[[Stub], None]
    recover: Callable[[Stub], object]
    limit: str
    status: int
    asked: str = "/health"  # the route that is asked meanwhile …
    times: int = 3  # … at least so often


def busy(stub: Stub) -> None:
    stub.play(MUTE)


def loading(stub: Stub) -> None:
    stub.start_loading()


def idle(stub: Stub) -> None:
    stub.play(swallowed())


def sleeping(stub: Stub) -> None:
    stub.sleeping = True
    stub.play(MUTE)


def refuses_slots(stub: Stub) -> None:
    stub.has_slots = False
    stub.play(MUTE)


def hanging_slots(stub: Stub) -> None:
    stub.sides["/slots"] = Side(hang=True)
    stub.play(MUTE)


CASES = {
    "busy": Case(busy, Stub.release, "busy_wait", 504),
    "loading": Case(loading, Stub.finish_loading, "load_wait", 503, "/v1/chat/completions"),
    "sleeping": Case(sleeping, Stub.release, "load_wait", 503),
    "refuses /slots": Case(refuses_slots, Stub.release, "busy_wait", 504),
    "/slots hangs": Case(hanging_slots, Stub.release, "busy_wait", 504, "/slots", 1),
}


async def silent(front: Front, case: Case) -> asyncio.Task[object]:
    """A request that is out and hears nothing, for a few polls."""
    case.begin(front.stub)
    task = asyncio.ensure_future(front.fetch(ask(stream=False)))
    before = front.stub.hits[case.asked]
    await front.stub.until(lambda _: front.stub.hits[case.asked] >= before + case.times)
    assert not task.done()
    return task


@pytest.mark.parametrize("name", CASES)
async def test_an_upstream_that_recovers_in_time_answers(name: str) -> None:
    case = CASES[name]
    async with fronted(limits=LIMITS) as front:
        task = await silent(front, case)
        case.recover(front.stub)
        answer = await task
        assert answer.status == 200  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CASES)
async def test_an_upstream_that_does_not_recover_ends_with_the_limit_of_its_state(name: str) -> None:
    case = CASES[name]
    async with fronted(limits=LIMITS) as front:
        answer = await (await silent(front, case))
        assert answer.status == case.status  # type: ignore[attr-defined]
        assert f"{case.limit} = 0.5 s" in answer.json()["error"]["message"]  # type: ignore[attr-defined]


async def test_a_wedged_upstream_is_told_apart_from_a_busy_one_and_taken_out() -> None:
    """B59. B105: healthy, idle, and silent; after a second one it swallowed nothing more is sent to it for a while."""
    patient = Limits(poll=0.03, idle_grace=0.5)
    async with fronted(limits=patient, slots=2) as front:
        front.stub.play(swallowed(), swallowed())
        for _ in range(2):
            answer = await front.fetch(ask(stream=False))
            assert answer.status == 504
            assert "idle_grace = 0.5 s" in answer.json()["error"]["message"]
        received = front.stub.state.received
        waiting = asyncio.ensure_future(front.fetch(ask()))
        await front.until(lambda: front.waiting == 1)
        assert front.stub.state.received == received
        assert check((await waiting).body).complete, "it recovers by itself"


async def test_a_stream_that_is_slow_but_never_silent_for_too_long_runs_as_long_as_it_likes() -> None:
    """B59. Ten times every limit, and no deadline."""
    quick = Limits(poll=0.03, busy_wait=0.2, load_wait=0.2, idle_grace=0.2, liveness=0.2)
    async with fronted(limits=quick) as front:
        front.stub.play(ok(30, gap=0.07))
        assert check((await front.fetch()).body).complete


async def test_once_the_head_is_there_nothing_is_asked_any_more() -> None:
    async with fronted(limits=LIMITS) as front:
        front.stub.play(head_then_silence(0.3, tokens=1))
        task = asyncio.ensure_future(front.fetch())
        await front.stub.until(lambda state: state.running == 1)
        asked = front.stub.hits["/slots"]
        await task
        assert front.stub.hits["/slots"] - asked <= 1  # one may have been on its way


async def test_a_server_without_slots_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    async with fronted(limits=LIMITS) as front:
        front.stub.has_slots = False
        front.stub.play(hang(), hang())
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await front.fetch(ask(stream=False))
    assert sum("does not show its slots" in record.getMessage() for record in caplog.records) == 1
