"""Small questions to a server: their answers, their limits, and what is said when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
import msgspec
import pytest

from fakes.bare import Bare, Line, bare, unused_port, whole
from slotline.stub import Side, Stub
from slotline.upstream.address import Address
from slotline.upstream.asker import FAILURES, Asker, Told, payload, read_at_most, reason


class Shape(msgspec.Struct):
    n: int


@asynccontextmanager
async def asker(url: str, limit: float = 10.0) -> AsyncIterator[Asker]:
    address = Address.parse(url)
    async with aiohttp.ClientSession(connector=address.connector()) as session:
        yield Asker(session, address, limit)


# ---- answers ---------------------------------------------------------------------------------------------------------


async def test_an_answer_is_a_status_and_a_body() -> None:
    async with Stub() as stub, asker(stub.url) as ask:
        assert await ask.get("/health") == Told(200, b'{"status":"ok"}')
        assert (await ask.get("/nowhere")).status == 404
        assert (await ask.post("/tokenize", b'{"content":"four"}')).status == 200


async def test_a_redirection_is_an_answer_and_is_not_followed() -> None:
    async def talk(line: Line, server: Bare) -> None:
        head, _ = await line.request()
        server.notes.append(head.split()[1])
        await line.say(b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")

    async with bare(talk) as server, asker(server.url) as ask:
        assert (await ask.get("/here")).status == 302
        assert server.notes == [b"/here"]


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (Told(200, b'{"n":1,"more":[]}'), Shape(1)),
        (Told(500, b'{"n":1}'), None),
        (Told(404, b'{"n":1}'), None),
        (Told(200, b'{"n":"1"}'), None),
        (Told(200, b"[1]"), None),
        (Told(200, b""), None),
        (Told(200, b"<html>"), None),
        (Told(200, b'{"n":1'), None),
        (Told(200, b'{"more":' + b"[" * 100_000), None),
    ],
)
def test_only_a_good_answer_of_the_expected_shape_is_read(told: Told, read: Shape | None) -> None:
    assert told.read(Shape) == read


async def test_a_body_is_read_up_to_its_bound_and_up_to_where_it_broke() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 500)

    async with bare(talk) as server, aiohttp.ClientSession() as session:
        for limit, size in ((1, 1), (499, 499), (500, 500), (501, 500), (10_000, 500)):
            async with session.get(server.url) as response:
                assert len(await read_at_most(response, limit)) == size


async def test_a_body_is_read_for_as_long_as_it_may_take() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 500)
        await line.gone()

    async with bare(talk) as server, aiohttp.ClientSession() as session, session.get(server.url) as response:
        assert len(await read_at_most(response, 1000, within=0.05)) == 500


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [Side(hang=True), Side(delay=30)])
async def test_a_question_that_takes_too_long_is_a_timeout(side: Side) -> None:
    async with Stub() as stub, asker(stub.url, 0.05) as ask:
        stub.sides["/slots"] = side
        with pytest.raises(TimeoutError):
            await ask.get("/slots")


async def test_and_so_is_one_whose_answer_does_not_end() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            await line.say(b"x")
            await asyncio.sleep(0.001)

    async with bare(talk) as server, asker(server.url, 0.05) as ask:
        with pytest.raises(TimeoutError):
            await ask.get("/slots")


async def test_a_question_may_be_cancelled() -> None:
    async with Stub() as stub, asker(stub.url) as ask:
        stub.sides["/slots"] = Side(hang=True)
        task = asyncio.create_task(ask.get("/slots"))
        await stub.until(lambda _: stub.hits["/slots"] == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_every_question_has_a_connection_of_its_own() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(whole(b"{}"))
        await line.gone()

    async with bare(talk) as server, asker(server.url) as ask:
        for _ in range(3):
            await ask.get("/health")
        assert server.connections == 3


@pytest.mark.parametrize("size", [0, 1, 1 << 18, 3 << 20])
async def test_a_question_of_any_size_arrives_whole(size: int) -> None:
    async def talk(line: Line, server: Bare) -> None:
        server.notes.append((await line.request())[1])
        await line.say(whole(b"{}"))

    body = b"x" * size
    async with bare(talk) as server, asker(server.url) as ask:
        await ask.post("/tokenize", body)
        assert server.notes == [body]
    assert isinstance(payload(body), BytesIO) is (size >= 1 << 18)


# ---- failures --------------------------------------------------------------------------------------------------------


async def failure(url: str) -> Exception:
    async with asker(url, 5) as ask:
        with pytest.raises(FAILURES) as caught:
            await ask.get("/health")
    assert isinstance(caught.value, Exception)
    return caught.value


async def test_what_went_wrong_is_said_without_any_address() -> None:
    port = unused_port()
    assert reason(await failure(f"http://127.0.0.1:{port}")) == "connection refused"
    assert reason(await failure("unix:/nowhere/at.all")) == "no such file or directory"
    assert reason(await failure("http://nobody.invalid")) == "its name cannot be resolved"


async def test_a_connection_that_breaks_says_how() -> None:
    async def ends(line: Line, server: Bare) -> None:
        await line.request()

    async def breaks(line: Line, server: Bare) -> None:
        await line.request()
        line.reset()

    async with bare(ends) as server:
        assert reason(await failure(server.url)) == "it closed the connection without an answer"
    async with bare(breaks) as server:
        assert reason(await failure(server.url)) == "connection reset by peer"


async def test_a_failure_of_tls_says_so() -> None:
    async def plain(line: Line, server: Bare) -> None:
        await line.say(b"HTTP/1.1 200 OK\r\n\r\n")
        await line.gone()

    async with bare(plain, "https") as server:
        assert reason(await failure(server.url)).startswith("TLS failed: ")


def test_any_other_failure_is_named() -> None:
    assert reason(aiohttp.ClientPayloadError("http://10.0.0.1:8081 is in here")) == "ClientPayloadError"
    assert reason(OSError()) == "OSError"


async def test_a_question_after_the_end_is_one_that_nobody_answers() -> None:
    async with Stub() as stub, asker(stub.url) as ask:
        await ask._session.close()
        with pytest.raises(FAILURES):
            await ask.get("/health")
        assert not stub.hits
