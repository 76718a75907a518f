"""One request, as others may see it and end it."""

from __future__ import annotations

import asyncio

import pytest

from fakes.parts import Dialect, Journal, Reply
from slotline.core.errors import Cancelled, SlotlineError
from slotline.core.keys import Caller, Key, Priority, digest
from slotline.core.party import NOBODY, Party
from slotline.passage import Call, Passage


def call(caller: Caller) -> Call:
    return Call("req_1", "alias", Dialect(), frozenset({"box"}), "target", 7, caller=caller)


def test_a_caller_is_to_the_line_its_key_with_all_that_this_may_have() -> None:
    key = Key("alice", digest("a key"), 2, Priority.BATCH, 4, 16)
    assert call(Caller(key, "talk")).party == Party("alice", "talk", 2, batch=True, running=4, waiting=16)


def test_a_caller_without_a_key_is_nobody_but_for_its_flow() -> None:
    assert call(Caller()).party == NOBODY
    assert call(Caller(None, "talk")).party == Party(flow="talk")


async def test_whoever_stops_a_request_says_why_and_the_first_one_is_heard() -> None:
    verdicts: list[SlotlineError | None] = []

    async def run() -> None:
        passage = Passage(call(Caller()), Reply(Journal()), 0.0)
        passage.stop(Cancelled("first"))
        passage.stop(Cancelled("second"))
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            verdicts.append(passage.verdict())

    await asyncio.create_task(run())
    assert [str(verdict) for verdict in verdicts] == ["first"]


async def test_a_client_that_leaves_one_that_is_stopped_has_left() -> None:
    verdicts: list[SlotlineError | None] = []

    async def run() -> None:
        passage = Passage(call(Caller()), Reply(Journal()), 0.0)
        passage.stop(Cancelled("by an operator"))
        task.cancel()
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            verdicts.append(passage.verdict())
            raise

    task = asyncio.create_task(run())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert verdicts == [None]


async def test_one_that_has_its_outcome_cannot_be_stopped_any_more() -> None:
    passage = Passage(call(Caller()), Reply(Journal()), 0.0)
    passage.close()
    passage.stop(Cancelled("too late"))
    assert passage.ending
    assert passage.verdict() is None
