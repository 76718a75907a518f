"""What goes over the wire to an upstream: which headers, on which connections, how often, within which limits."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from fakes.bare import SSE_END, SSE_HEAD, Bare, Line, bare, event, whole
from fakes.upstream import LONG, chat, client, follow, read, turned
from slotline.core.errors import Unreachable, UpstreamStatus
from slotline.stub import Script, Stub
from slotline.stub.script import Done, Head, Tokens
from slotline.stub.standard import hang
from slotline.upstream import client as module

ANSWER = SSE_HEAD + event(b'{"choices":[]}') + SSE_END


def path(head: bytes) -> bytes:
    return head.split()[1]


# ---- headers ---------------------------------------------------------------------------------------------------------


async def test_a_request_has_our_own_headers_and_no_others() -> None:
    async with Stub(tokens=1) as stub, client(stub.url) as upstream:
        body = chat()
        await read(upstream, body)
    (received,) = stub.requests
    assert received.raw == body
    assert dict(received.headers) == {
        "Host": f"{stub.host}:{stub.port}",
        "user-agent": "slotline",
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "Content-Length": str(len(body)),
    }


async def test_the_trace_that_a_request_is_a_part_of_goes_with_it_and_takes_the_place_of_nothing() -> None:
    trace = {"traceparent": "00-ab-cd-01", "accept": "x", "authorization": "y"}
    async with (
        Stub(tokens=1) as stub,
        client(stub.url, api_key="hunter2") as upstream,
        upstream.answer(chat(), headers=trace) as answer,
    ):
        await follow(answer)
    (received,) = stub.requests
    assert received.header("traceparent") == "00-ab-cd-01"
    assert received.header("accept") == "text/event-stream, application/json"
    assert received.header("authorization") == "Bearer hunter2"


async def test_a_question_has_our_own_headers_and_no_others() -> None:
    async with Stub() as stub, client(stub.url, kind=None) as upstream:
        await upstream.look()
        await upstream.count(chat())
    assert {call.path for call in stub.calls} == {"/health", "/props", "/v1/models", "/apply-template", "/tokenize"}
    for call in stub.calls:
        expected = {
            "Host": f"{stub.host}:{stub.port}",
            "user-agent": "slotline",
            "Accept": "*/*",
            "Connection": "close",
        }
        if call.method == "POST":
            expected |= {"content-type": "application/json", "Content-Length": str(len(call.body))}
        assert dict(call.headers) == expected


async def test_the_upstreams_key_goes_out_as_a_bearer_with_requests_and_questions() -> None:
    async with Stub(tokens=1) as stub, client(stub.url, kind=None, api_key="secret") as upstream:
        await upstream.look()
        await read(upstream)
    assert stub.requests[0].header("authorization") == "Bearer secret"
    assert all(("authorization", "Bearer secret") in call.headers for call in stub.calls)


async def test_cookies_are_not_kept() -> None:
    setting = Script((Head(headers={"Set-Cookie": "who=me; Path=/"}), Tokens(1), Done()))
    async with (
        Stub(default=setting) as stub,
        client(f"http://localhost:{stub.port}") as upstream,
    ):  # a name: those get them
        await read(upstream)
        await read(upstream)
        await upstream.look()
    headers = [received.headers for received in stub.requests] + [call.headers for call in stub.calls]
    assert not [name for each in headers for name, _ in each if name.lower() == "cookie"]


async def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Stub() as proxy, Stub(tokens=1) as stub:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with client(stub.url) as upstream:
            await read(upstream)
        assert not proxy.hits


# ---- connections -----------------------------------------------------------------------------------------------------


async def test_a_connection_is_used_again_when_its_answer_was_read_to_the_end() -> None:
    async def talk(line: Line, server: Bare) -> None:
        for _ in range(3):
            await line.request()
            await line.say(ANSWER)
        await line.gone()

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        for _ in range(3):
            await read(upstream)
        assert server.connections == 1


async def test_and_when_it_was_an_error_that_was_read_to_the_end() -> None:
    async def talk(line: Line, server: Bare) -> None:
        for _ in range(3):
            await line.request()
            await line.say(whole(b'{"error":"no"}', "500 Oh"))
        await line.gone()

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        for _ in range(3):
            with pytest.raises(UpstreamStatus):
                await read(upstream)
        assert server.connections == 1


async def test_a_connection_whose_answer_was_not_read_to_the_end_is_not_used_again() -> None:
    async with Stub(tokens=50, gap=0.01) as stub, client(stub.url) as upstream:
        async with upstream.answer(chat()) as answer:
            await anext(answer)
        await stub.until(lambda s: s.aborted == 1, 1)
        assert b"[DONE]" in await read(upstream)


async def test_questions_take_no_connection_that_is_kept_for_requests() -> None:
    requests: list[list[bytes]] = []

    async def talk(line: Line, server: Bare) -> None:
        requests.append([])
        while True:
            head, _ = await line.request()
            requests[line.number].append(path(head))
            await line.say(ANSWER if head.startswith(b"POST") else whole(b"{}"))

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        await read(upstream)
        await upstream.look()
        await read(upstream)
    assert requests[0] == [b"/v1/chat/completions"] * 2
    assert all(len(each) == 1 for each in requests[1:])


async def test_a_connection_that_was_closed_between_two_requests_costs_nothing() -> None:
    closed = asyncio.Event()

    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(ANSWER)
        line.writer.close()
        closed.set()

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        for _ in range(3):
            await read(upstream)
            await closed.wait()
            closed.clear()
        assert server.connections == 3


async def test_a_kept_connection_that_turns_out_closed_is_forgotten_and_the_request_sent_on_a_new_one() -> None:
    """The server closes it while the request is on its way: it ends without a byte, as soon as it is used."""

    async def talk(line: Line, server: Bare) -> None:
        _, body = await line.request()
        server.notes.append(body)
        await line.say(ANSWER)
        if line.number == 0:
            await line.reader.read(1)

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        await read(upstream, chat(n=1))
        assert b"[DONE]" in await read(upstream, chat(n=2))
        assert server.connections == 2
        assert server.notes == [chat(n=1), chat(n=2)]


async def test_all_kept_connections_may_turn_out_closed() -> None:
    served = 4
    together = asyncio.Barrier(served)

    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        if line.number < served:
            await together.wait()
        await line.say(ANSWER)
        await line.reader.read(1)

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        await asyncio.gather(*(read(upstream) for _ in range(served)))
        await read(upstream)
        assert server.connections == served + 1


async def test_a_new_connection_that_is_closed_without_an_answer_is_not_tried_again() -> None:
    async def talk(line: Line, server: Bare) -> None:
        server.notes.append((await line.request())[1])

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        with pytest.raises(Unreachable, match="closed the connection without an answer"):
            await read(upstream)
        assert len(server.notes) == 1


async def test_a_kept_connection_that_is_reset_had_the_request_which_is_not_sent_again() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(ANSWER)
        server.notes.append((await line.request())[1])
        line.reset()

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        await read(upstream)
        with pytest.raises(Unreachable, match="connection reset"):
            await read(upstream)
        assert server.connections == len(server.notes) == 1


async def test_a_kept_connection_that_is_closed_later_had_the_request_which_is_not_sent_again() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        await line.say(ANSWER)
        server.notes.append((await line.request())[1])
        await asyncio.sleep(module._STALE_WITHIN + 0.1)

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        await read(upstream)
        with pytest.raises(Unreachable, match="closed the connection without an answer"):
            await read(upstream)
        assert server.connections == len(server.notes) == 1


async def test_an_answer_that_began_is_never_asked_for_again() -> None:
    async def talk(line: Line, server: Bare) -> None:
        for _ in range(2):
            server.notes.append((await line.request())[1])
            await line.say(ANSWER if len(server.notes) == 1 else SSE_HEAD)

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        await read(upstream)
        assert await read(upstream) == []
        assert len(server.notes) == 2


async def test_a_server_that_stops_reading_a_long_request_is_left_at_once() -> None:
    """Closing such a connection would wait until what is left had been sent, and that may be for ever."""
    enough = asyncio.Event()

    async def talk(line: Line, server: Bare) -> None:
        await line.reader.readuntil(b"\r\n\r\n")
        line.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await line.say(SSE_HEAD + event(b'{"choices":[]}'))
        await enough.wait()

    async with bare(talk) as server, client(server.url, poll=LONG) as upstream:
        async with upstream.answer(chat(padding="x" * (16 << 20))) as answer:
            assert await anext(answer) == [b'{"choices":[]}']
            connection = answer._response.connection
            assert connection is not None
            assert connection.transport is not None
            unsent = connection.transport.get_write_buffer_size
            await turned(lambda: unsent() > 0)
            socket = connection.transport.get_extra_info("socket")
        await turned(lambda: socket.fileno() == -1)
        enough.set()


# ---- limits of the library -------------------------------------------------------------------------------------------


async def test_the_library_has_no_limit_of_its_own_but_that_of_connecting() -> None:
    async with client("http://127.0.0.1:1", connect=7.0) as upstream:
        for session in (upstream._session, upstream._questions):
            assert session.timeout == aiohttp.ClientTimeout(total=None, connect=7.0, sock_connect=7.0, sock_read=None)
            assert session.connector is not None
            assert session.connector.limit == session.connector.limit_per_host == 0


async def test_no_request_overrides_them() -> None:
    """What a request is given goes before what its session was given; only the names of those are looked at here."""
    async with Stub(default=hang()) as stub:
        seen: list[aiohttp.ClientTimeout] = []

        class Connector(aiohttp.TCPConnector):
            async def connect(self, req, traces, timeout):  # type: ignore[no-untyped-def]
                seen.append(timeout)
                return await super().connect(req, traces, timeout)

        async with client(stub.url, connect=7.0) as upstream:
            for session in (upstream._session, upstream._questions):
                assert session.connector is not None
                await session.connector.close()
                session._connector = Connector(force_close=session is upstream._questions)
            task = asyncio.create_task(read(upstream))
            await stub.until(lambda s: s.running == 1 and stub.hits["/slots"] > 0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len(seen) >= 4
        assert {timeout.total for timeout in seen} == {timeout.sock_read for timeout in seen} == {None}
        assert {timeout.connect for timeout in seen} == {7.0}


async def test_headers_of_a_few_kilobytes_pass() -> None:
    script = Script((Head(headers={"x-long": "y" * 4000}), Tokens(1), Done()))
    async with Stub(default=script) as stub, client(stub.url) as upstream, upstream.answer(chat()) as answer:
        assert b"[DONE]" in await follow(answer)
