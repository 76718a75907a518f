"""The queue extension as a user meets it: the product and the stub as processes, and clients on plain sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fakes.checker import check, drop_queue_frames
from fakes.product import Answered, Caller, Program, ask, calling, fetch

HOLD = 3.0  # seconds for which the stub holds each request

CONFIG = """
[server]
port = 0

[[upstream]]
name = "busy"
url = "{busy}"
slots = 2

[[upstream]]
name = "idle"
url = "{idle}"
slots = 2

[[model]]
name = "contended"
upstream = "busy"
target = "stub"

[[model]]
name = "uncontended"
upstream = "idle"
target = "stub"
"""


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Program]:
    """The product before two stubs: one that holds each request for `HOLD`, one that answers at once."""
    async with (
        Program("stub", "--port", "0", "--slots", "2", "--hold", str(HOLD), "--tokens", "5", "--gap", "0") as busy,
        Program("stub", "--port", "0", "--slots", "2", "--tokens", "5", "--gap", "0") as idle,
    ):
        config = tmp_path / "slotline.toml"
        config.write_text(CONFIG.format(busy=busy.url, idle=idle.url))
        async with Program("serve", "--config", str(config)) as program:
            yield program


async def recorded(caller: Caller) -> Answered:
    answer = await caller.head()
    async for _ in caller.pieces(answer):
        pass
    return answer


async def test_a_fifth_caller_counts_down_from_three_and_is_answered(gateway: Program) -> None:
    """Cap 2, each request held: four in the background, then a fifth sees 3, 2, 1 and a standard stream."""
    time = asyncio.get_running_loop().time
    path, body = "/llm/v1/messages", ask(model="contended")
    async with asyncio.TaskGroup() as tasks:
        background = []
        for _ in range(4):
            background.append(tasks.create_task(fetch(gateway.url, path, body)))
            await asyncio.sleep(0.05)  # arrival order is what is tested
        began = time()
        async with calling(gateway.url, path, body) as fifth:
            answer = await fifth.head()
            pieces = fifth.pieces(answer)
            first = await anext(pieces)
            assert first.startswith(b"event: queue\n")
            assert time() - began < 1.0

            other = await fetch(gateway.url, path, ask(model="uncontended"))
            assert other.body.startswith(b"event: message_start\n")
            check(other.body)

            async for _ in pieces:
                pass
    seen = check(answer.body)
    assert [place["position"] for place in seen.places] == [3, 2, 1]
    assert seen.places[0]["queue_length"] == 3
    assert seen.complete
    assert seen.text == "token-0 token-1 token-2 token-3 token-4"
    assert seen.stop_reason == "end_turn"
    plain = check(drop_queue_frames(answer.body))
    assert plain.places == []
    assert plain.message == seen.message
    for task in background:
        check(task.result().body)


@pytest.mark.parametrize(
    ("path", "header", "opening"),
    [
        ("/llm/v1/messages", None, b'event: queue\ndata: {"type":"queue","position":1,'),
        ("/v1/messages", None, b'event: ping\ndata: {"type":"ping","queue":{"position":1,'),
        ("/v1/messages", "event", b'event: queue\ndata: {"type":"queue","position":1,'),
        ("/llm/v1/messages", "ping", b'event: ping\ndata: {"type":"ping","queue":{"position":1,'),
        ("/llm/v1/messages", "comment", b": queue position=1 length=1 wait_ms="),
    ],
)
async def test_each_mount_and_header_has_its_own_form(
    gateway: Program, path: str, header: str | None, opening: bytes
) -> None:
    """`/llm` tells by `event: queue`, the root by a ping; a request may choose another form for itself."""
    body = ask(model="contended")
    headers = {} if header is None else {"x-slotline-queue": header}
    async with (
        calling(gateway.url, path, body) as first,
        calling(gateway.url, path, body) as second,
        calling(gateway.url, path, body, headers) as waiting,
    ):
        answer = await waiting.head()
        assert (await anext(waiting.pieces(answer))).startswith(opening)
        first.reset()
        second.reset()
        async for _ in waiting.pieces(answer):
            pass
        check(answer.body)


async def test_a_caller_that_leaves_makes_room_for_those_behind_it(gateway: Program) -> None:
    """Whoever leaves the line is out of it at once; the next one is told, and what left never ran."""
    path, body = "/llm/v1/messages", ask(model="contended")
    async with (
        calling(gateway.url, path, body),
        calling(gateway.url, path, body),
        calling(gateway.url, path, body) as leaver,
        calling(gateway.url, path, body) as behind,
    ):
        told = await behind.head()
        pieces = behind.pieces(told)
        assert b'"position":2,' in await anext(pieces)
        leaver.reset()
        async with asyncio.timeout(1):
            assert b'"position":1,' in await anext(pieces)


async def test_a_call_that_does_not_stream_waits_and_is_answered(gateway: Program) -> None:
    """No frame, no early byte: it waits, then it has its answer and is told how long it waited."""
    path, body = "/llm/v1/messages", ask(model="contended")
    async with calling(gateway.url, path, body), calling(gateway.url, path, body):
        await asyncio.sleep(0.1)
        answer = await fetch(gateway.url, path, ask(model="contended", stream=False))
    assert answer.status == 200
    assert answer.json()["content"] == [{"type": "text", "text": "token-0 token-1 token-2 token-3 token-4"}]
    assert 1000 < int(answer.headers["x-slotline-wait-ms"]) < 1000 * HOLD + 2000
