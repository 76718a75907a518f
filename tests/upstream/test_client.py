"""One upstream's answers: how each silence ends and with which words, and what counts as an answer at all."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from fakes.bare import SSE_END, SSE_HEAD, Bare, Line, bare, crowded, event, unused_port, whole
from fakes.upstream import chat, client, follow, limits, read, text, turned
from slotline.core.errors import LoadTimeout, Protocol, Stalled, Unreachable, UpstreamStatus, WaitTimeout
from slotline.core.kind import Kind, Traits
from slotline.stub import ErrorForm, Script, Side, Stub
from slotline.stub.script import Close, Comment, Cut, Done, Error, Hang, Head, Raw, Repeat, Role, Sleep, Step, Text
from slotline.stub.script import Tokens as Said
from slotline.stub.standard import (
    cut,
    die,
    error,
    hang,
    head_then_silence,
    held,
    html,
    mid_stream_error,
    ok,
    reset,
    stall,
    status,
    swallowed,
)
from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health

CHAT = "/v1/chat/completions"
MODEL_LOADS = Side(status=503, body='{"error":{"message":"Loading model","type":"unavailable_error","code":503}}')
MODEL_LOADS_AS_ONCE = Side(status=503, body='{"status":"loading model"}')


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_whole_answer_is_its_events_in_order() -> None:
    async with Stub(tokens=3) as stub, client(stub.url) as upstream:
        got = await read(upstream)
    assert text(got) == "token-0 token-1 token-2"
    assert got[-1] == b"[DONE]"


async def test_over_a_unix_socket_it_is_the_same(tmp_path: pytest.TempPathFactory) -> None:
    async with Stub(tokens=3, uds=tmp_path / "s") as stub, client(stub.url) as upstream:  # type: ignore[operator]
        assert text(await read(upstream)) == "token-0 token-1 token-2"


# ---- silence before the answer ---------------------------------------------------------------------------------------


async def test_a_busy_slot_that_says_nothing_has_busy_wait() -> None:
    async with Stub(default=hang()) as stub, client(stub.url, busy_wait=0.2, idle_grace=0.05) as upstream:
        with pytest.raises(WaitTimeout, match=r"first token.*busy.*busy_wait = 0\.2 s"):
            await read(upstream)
        assert stub.hits["/slots"] > 1


@pytest.mark.parametrize("script", [head_then_silence(), Script((Head(), Repeat((Comment(), Sleep(0.01)))))])
async def test_a_head_and_comments_do_not_prolong_busy_wait(script: Script) -> None:
    began = now()
    async with Stub(default=script) as stub, client(stub.url, busy_wait=0.2, liveness=0.05) as upstream:
        with pytest.raises(WaitTimeout, match=r"busy_wait = 0\.2 s"):
            await read(upstream)
    assert 0.2 <= now() - began < 2


async def test_a_long_silent_prefill_is_waited_for_whatever_the_other_limits_are() -> None:
    async with (
        Stub(default=head_then_silence(0.4)) as stub,
        client(stub.url, connect=0.1, idle_grace=0.1, load_wait=0.1, liveness=0.1) as upstream,
    ):
        assert b"[DONE]" in await read(upstream)


async def test_a_request_whose_slot_is_idle_was_swallowed_and_has_idle_grace() -> None:
    async with Stub(default=swallowed()) as stub, client(stub.url, idle_grace=0.2) as upstream:
        with pytest.raises(Stalled, match=r"first token.*swallowed.*idle_grace = 0\.2 s"):
            await read(upstream)


async def test_a_head_says_that_the_request_was_not_swallowed() -> None:
    script = Script((Sleep(0.15), Head(), Sleep(0.5), Said(1), Done()), takes_slot=False)
    async with Stub(default=script) as stub, client(stub.url, idle_grace=0.3) as upstream:
        assert text(await read(upstream)) == "token-0"
        assert stub.hits["/slots"] > 0


async def test_a_swallowed_request_is_told_from_one_beside_it_that_is_answered() -> None:
    async with Stub(slots=2) as stub, client(stub.url, idle_grace=0.2) as upstream:
        stub.play(held(3, before=1), swallowed())
        async with upstream.answer(chat()) as answer:
            await anext(answer)
            with pytest.raises(Stalled, match="idle_grace"):
                await read(upstream)
            stub.release()
            assert b"[DONE]" in await follow(answer)


async def test_the_time_in_one_meaning_is_not_counted_for_another() -> None:
    """Three silences of 0.15 s, each below its limit of 0.25 s, and no limit on all three together."""
    async with Stub(default=swallowed()) as stub, client(stub.url, idle_grace=0.25, load_wait=0.25) as upstream:
        began = now()
        turning = asyncio.create_task(_turns(stub))
        with pytest.raises(Stalled, match="idle_grace"):
            await read(upstream)
        await turning
    assert now() - began >= 0.15 * 2 + 0.25


async def _turns(stub: Stub) -> None:
    """Idle, loading, idle: the last meaning begins anew."""
    await stub.until(lambda s: s.running == 1)
    await asyncio.sleep(0.15)
    stub.sides["/health"] = MODEL_LOADS
    await asyncio.sleep(0.15)
    del stub.sides["/health"]


@pytest.mark.parametrize(
    "sides",
    [
        {"/slots": Side(hang=True)},
        {"/slots": Side(hang=True), "/health": Side(hang=True), "/props": Side(hang=True)},
        {"/slots": Side(status=501, body='{"error":{"code":501,"type":"not_supported_error"}}')},
        {"/slots": Side(status=404)},
        {"/slots": Side(status=401, body='{"error":{"code":401}}')},
        {"/slots": Side(status=503, body='{"error":{"code":503,"message":"no slot available"}}')},
        {"/slots": Side(body="<html>slots</html>", content_type="text/html")},
        {"/slots": Side(body='{"slots":[]}')},
        {"/slots": Side(body="[" * 100_000)},
        {"/slots": Side(body="")},
        {"/props": Side(status=404)},
        {"/health": Side(status=404)},
    ],
    ids=lambda sides: " ".join(f"{path}:{side.status or side.body or 'hangs'}"[:24] for path, side in sides.items()),
)
async def test_a_server_that_does_not_tell_of_its_slots_counts_as_busy(sides: dict[str, Side]) -> None:
    silent = hang() if "/slots" not in sides else swallowed()
    async with Stub(default=silent) as stub, client(stub.url, connect=0.05, busy_wait=0.3, idle_grace=0.1) as upstream:
        stub.sides.update(sides)
        with pytest.raises(WaitTimeout, match="busy_wait"):
            await read(upstream)
        assert sum(stub.hits[path] for path in sides) >= 1


@pytest.mark.parametrize("models", [None, Side(status=401), Side(hang=True)])
async def test_a_server_that_has_no_slots_to_show_counts_as_busy(models: Side | None) -> None:
    async with (
        Stub(kind=Kind.OPENAI, default=hang()) as stub,
        client(stub.url, kind=Kind.OPENAI, connect=0.05, busy_wait=0.2, idle_grace=0.05) as upstream,
    ):
        if models is not None:
            stub.sides["/v1/models"] = models
        with pytest.raises(WaitTimeout, match="busy_wait"):
            await read(upstream)


async def test_after_the_head_nothing_is_asked_any_more() -> None:
    script = Script((Sleep(0.1), Head(), Hang()))
    async with Stub(default=script) as stub, client(stub.url, busy_wait=0.4) as upstream:
        with pytest.raises(WaitTimeout):
            async with upstream.answer(chat()) as answer:
                asked = stub.hits["/health"]
                await follow(answer)
        assert 0 < asked <= stub.hits["/health"] <= asked + 1  # one question may have been on its way


async def test_a_server_that_sleeps_is_loading_and_is_not_woken_by_being_asked() -> None:
    async with Stub(default=swallowed(), sleeping=True) as stub, client(stub.url, load_wait=0.2) as upstream:
        with pytest.raises(LoadTimeout, match=r"load_wait = 0\.2 s"):
            await read(upstream)
        assert stub.hits["/props"] > 0
        assert stub.hits["/slots"] == 0
        assert stub.sleeping


# ---- loading and restarting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loads", [MODEL_LOADS, MODEL_LOADS_AS_ONCE])
async def test_a_server_that_says_it_is_loading_is_asked_again_until_it_answers(loads: Side) -> None:
    async with Stub(tokens=2) as stub, client(stub.url) as upstream:
        stub.sides[CHAT] = loads
        task = asyncio.create_task(read(upstream))
        await stub.until(lambda _: stub.hits[CHAT] == 3)
        del stub.sides[CHAT]
        assert text(await task) == "token-0 token-1"
        assert stub.hits[CHAT] == 4
        assert stub.state.received == 1


@pytest.mark.parametrize("loads", [MODEL_LOADS, MODEL_LOADS_AS_ONCE])
async def test_one_that_loads_for_too_long_has_load_wait(loads: Side) -> None:
    async with Stub() as stub, client(stub.url, load_wait=0.2) as upstream:
        stub.sides[CHAT] = loads
        with pytest.raises(LoadTimeout, match=r"load or restart.*load_wait = 0\.2 s"):
            await read(upstream)
        assert stub.hits[CHAT] >= 2


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.OPENAI])
async def test_load_wait_is_not_begun_anew_by_other_routes_that_answer_meanwhile(kind: Kind) -> None:
    """Some servers list their models, or are healthy, while the one that is asked for still loads."""
    async with Stub(kind=kind) as stub, client(stub.url, kind=kind, load_wait=0.3) as upstream:
        stub.sides[CHAT] = MODEL_LOADS
        began = now()
        with pytest.raises(LoadTimeout):
            await read(upstream)
        assert now() - began < 2


async def test_while_it_loads_only_the_request_itself_is_asked_again() -> None:
    async with Stub() as stub, client(stub.url, load_wait=0.3) as upstream:
        stub.sides[CHAT] = MODEL_LOADS
        with pytest.raises(LoadTimeout):
            await read(upstream)
        assert stub.hits["/slots"] == 0


@pytest.mark.parametrize("words", ["The server is overloaded, try again", "The request queue is full.", "download it"])
async def test_a_503_that_does_not_speak_of_loading_is_an_error_at_once(words: str) -> None:
    async with Stub(default=error(503, words)) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus, match=words) as caught:
            await read(upstream)
        assert caught.value.status == 503
        assert stub.hits[CHAT] == 1


async def test_one_that_goes_while_it_loads_is_waited_for_and_served_when_it_is_back() -> None:
    async with Stub(tokens=1) as stub, client(stub.url) as upstream:
        stub.start_loading()
        task = asyncio.create_task(read(upstream))
        await stub.until(lambda _: stub.hits[CHAT] == 2)
        await stub.stop()
        stub.finish_loading()
        for _ in range(3):  # it is tried in vain
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(stub.host, stub.port)
            await asyncio.sleep(upstream.limits.poll)
        await stub.start()
        assert text(await task) == "token-0"


async def test_one_that_said_it_loads_and_is_gone_has_load_wait_too() -> None:
    async with Stub() as stub, client(stub.url, load_wait=0.2) as upstream:
        stub.start_loading()
        task = asyncio.create_task(read(upstream))
        await stub.until(lambda _: stub.hits[CHAT] == 1)
        await stub.stop()
        with pytest.raises(LoadTimeout, match="load_wait"):
            await task


async def test_refused_on_a_later_poll_it_is_restarting_and_has_load_wait() -> None:
    async def talk(line: Line, server: Bare) -> None:
        head, _ = await line.request()
        if head.startswith(b"POST"):
            server.refuse()
            await line.gone()

    async with bare(talk) as server, client(server.url, load_wait=0.2) as upstream:
        with pytest.raises(LoadTimeout, match=r"restart.*load_wait = 0\.2 s"):
            await read(upstream)
        assert server.connections == 1


async def test_refused_polls_do_no_harm_to_an_answer_that_comes_after_all() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.request()
        server.refuse()
        await asyncio.sleep(0.15)
        await line.say(SSE_HEAD + event(b'{"choices":[]}') + SSE_END)

    async with bare(talk) as server, client(server.url, load_wait=1.0) as upstream:
        assert await read(upstream) == [b'{"choices":[]}', b"[DONE]"]


@pytest.mark.parametrize("loading_first", [False, True])
async def test_a_request_that_dies_with_the_server_is_not_sent_again(loading_first: bool) -> None:
    """It had been accepted: part of the work may have been done, and who knows what it did to the server."""

    async def talk(line: Line, server: Bare) -> None:
        head, _ = await line.request()
        if not head.startswith(b"POST"):
            return
        server.notes.append(head)
        if loading_first and len(server.notes) == 1:
            await line.say(whole(b'{"status":"loading model"}', "503 Service Unavailable"))
            head, _ = await line.request()
            server.notes.append(head)
        server.refuse()
        await asyncio.sleep(0.1)  # in which polls are refused, so that it seems to restart
        line.reset()

    async with bare(talk) as server, client(server.url) as upstream:
        with pytest.raises(Unreachable, match="did not answer: connection reset"):
            await read(upstream)
        assert len(server.notes) == 1 + loading_first


# ---- no connection ---------------------------------------------------------------------------------------------------


async def test_refused_on_the_request_itself_it_is_unreachable_at_once() -> None:
    port = unused_port()
    async with client(f"http://127.0.0.1:{port}") as upstream:
        began = now()
        with pytest.raises(Unreachable, match="box cannot be reached: connection refused") as caught:
            await read(upstream)
        assert now() - began < 1
    assert caught.value.status == 502
    assert str(port) not in str(caught.value)  # the client has no business with it


async def test_a_unix_socket_that_is_not_there_is_unreachable() -> None:
    async with client("unix:/nowhere/at.all") as upstream:
        with pytest.raises(Unreachable, match="cannot be reached: no such file"):
            await read(upstream)


async def test_a_name_that_nobody_knows_is_unreachable() -> None:
    async with client("http://nobody.invalid") as upstream:
        with pytest.raises(Unreachable, match="cannot be reached: its name cannot be resolved"):
            await read(upstream)


async def test_a_connection_that_hangs_has_connect() -> None:
    with crowded() as server:
        async with client(server.url, connect=0.1) as upstream:
            with pytest.raises(Unreachable, match=r"connecting to the upstream box.*connect = 0\.1 s"):
                await read(upstream)


async def test_a_handshake_that_hangs_has_connect_too() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.gone()

    async with bare(talk, "https") as server, client(server.url, connect=0.1) as upstream:
        with pytest.raises(Unreachable, match=r"connect = 0\.1 s"):
            await read(upstream)


async def test_one_that_speaks_no_tls_is_unreachable() -> None:
    async def talk(line: Line, server: Bare) -> None:
        await line.reader.read(1)
        await line.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with bare(talk, "https") as server, client(server.url) as upstream:
        with pytest.raises(Unreachable, match="cannot be reached: TLS failed"):
            await read(upstream)


async def test_one_that_closes_without_a_word_did_not_answer() -> None:
    async with Stub(default=Script((Cut(),))) as stub, client(stub.url) as upstream:
        with pytest.raises(Unreachable, match="did not answer: it closed the connection"):
            await read(upstream)
        assert stub.state.received == 1


async def test_one_that_resets_without_a_word_did_not_answer() -> None:
    async with Stub(default=reset()) as stub, client(stub.url) as upstream:
        with pytest.raises(Unreachable, match="did not answer: connection reset by peer"):
            await read(upstream)
        assert stub.state.received == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_no_protocol(nonsense: bytes) -> None:
    async with Stub(default=Script((Raw(nonsense), Close()))) as stub, client(stub.url) as upstream:
        with pytest.raises(Protocol, match="not HTTP") as caught:
            await read(upstream)
        assert stub.url not in str(caught.value)
        assert str(stub.port) not in str(caught.value)


# ---- silence within the answer ---------------------------------------------------------------------------------------


async def test_silence_between_tokens_has_liveness() -> None:
    got: list[bytes] = []
    async with Stub(default=stall(3)) as stub, client(stub.url, liveness=0.2) as upstream:
        with pytest.raises(Stalled, match=r"middle of the answer.*nothing more.*liveness = 0\.2 s"):
            async with upstream.answer(chat()) as answer:
                await follow(answer, got)
        await stub.until(lambda s: s.aborted == 1, 1)
    assert text(got) == "token-0 token-1 token-2"


async def test_comments_between_tokens_are_signs_of_life_and_no_tokens() -> None:
    script = Script((Head(), Role(), Said(1), Repeat((Comment(), Sleep(0.01)))))
    async with Stub(default=script) as stub, client(stub.url, liveness=0.2) as upstream:
        began = now()
        with pytest.raises(Stalled, match=r"only signs of life and no token.*liveness = 0\.2 s"):
            await read(upstream)
        assert now() - began < 2


async def test_chunks_that_hold_no_piece_of_the_answer_do_not_prolong_liveness() -> None:
    script = Script((Head(), Said(1), Repeat((Role(), Sleep(0.01)))))
    async with Stub(default=script) as stub, client(stub.url, liveness=0.2) as upstream:
        with pytest.raises(Stalled, match="signs of life"):
            await read(upstream)


async def test_comments_for_a_while_and_then_tokens_are_a_good_answer() -> None:
    script = Script((Head(), Said(1), Repeat((Comment(), Sleep(0.01)), 10), Said(1), Done()))
    async with Stub(default=script) as stub, client(stub.url, liveness=1.0) as upstream:
        assert text(await read(upstream)) == "token-0 token-1"


async def test_an_answer_that_flows_may_flow_for_longer_than_every_limit() -> None:
    short = 0.15
    async with (
        Stub(default=ok(20, gap=0.03)) as stub,
        client(stub.url, busy_wait=short, load_wait=short, idle_grace=short, liveness=short) as upstream,
    ):
        began = now()
        assert b"[DONE]" in await read(upstream)
        assert now() - began > 3 * short


async def test_what_the_caller_takes_for_itself_is_not_the_upstreams_silence() -> None:
    """The upstream is silent all the time, but for longer than `liveness` only while nobody listens."""
    loop = asyncio.get_running_loop()
    got: list[bytes] = []
    async with (
        Stub(default=held(2, before=1)) as stub,
        client(stub.url, liveness=0.2) as upstream,
        upstream.answer(chat()) as answer,
    ):
        async for batch in answer:
            got += batch
            answer.heard(sum(b'"content":"' in data for data in got))
            if stub.state.held:
                await asyncio.sleep(0.4)
                loop.call_later(0.1, stub.release)
    assert text(got) == "token-0 token-1"


async def test_after_a_slow_caller_the_upstream_has_liveness_and_not_for_ever() -> None:
    async with Stub(default=stall(1)) as stub, client(stub.url, liveness=0.2) as upstream:
        listened = 0.0
        with pytest.raises(Stalled):
            async with upstream.answer(chat()) as answer:
                async for batch in answer:
                    answer.heard(len(batch))
                    await asyncio.sleep(0.3)
                    listened = now()
        assert 0.1 < now() - listened < 2


# ---- what an answer is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [300 * 1024, 1024 * 1024])
async def test_large_events_pass(size: int) -> None:
    async with Stub(default=Script((Head(), Text("x" * size), Done()))) as stub, client(stub.url) as upstream:
        assert len(text(await read(upstream))) == size


async def test_an_event_of_more_than_max_event_is_no_protocol_and_the_connection_is_closed() -> None:
    script = Script((Head(), Text("x" * 200_000), Hang()))
    async with Stub(default=script) as stub, client(stub.url, max_event=100_000) as upstream:
        with pytest.raises(Protocol, match=r"max_event \(100000 bytes\)"):
            await read(upstream)
        await stub.until(lambda s: s.aborted == 1, 1)


async def test_an_event_without_an_end_is_noticed_while_it_grows() -> None:
    script = Script((Head(), Raw(b"data: "), Repeat((Raw(b"x" * 10_000),))))
    async with Stub(default=script) as stub, client(stub.url, max_event=100_000) as upstream:
        with pytest.raises(Protocol, match="max_event"):
            await read(upstream)
        await stub.until(lambda s: s.aborted == 1, 1)


async def test_json_in_place_of_a_stream_is_the_whole_answer() -> None:
    whole_answer = b'{"choices":[{"message":{"content":"hi"}}]}'
    script = Script(
        (Head(content_type="application/json; charset=utf-8"), Raw(whole_answer[:9]), Raw(whole_answer[9:]))
    )
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        assert await read(upstream) == [whole_answer]


async def test_an_answer_in_one_piece_may_be_longer_than_an_event() -> None:
    whole = b'"' + b"x" * 799_998 + b'"'
    async with Stub(default=status(200, whole)) as stub, client(stub.url, max_event=100_000) as upstream:
        assert await read(upstream) == [whole]


async def test_json_of_more_than_eight_times_max_event_is_no_protocol() -> None:
    script = status(200, b'"' + b"x" * 800_000 + b'"')
    async with Stub(default=script) as stub, client(stub.url, max_event=100_000) as upstream:
        with pytest.raises(Protocol, match="more than 8 times max_event = 800000 bytes"):
            await read(upstream)


async def test_json_that_does_not_end_has_busy_wait() -> None:
    script = Script((Head(content_type="application/json", length=100), Raw(b'{"choices"'), Hang()))
    async with Stub(default=script) as stub, client(stub.url, busy_wait=0.2) as upstream:
        with pytest.raises(WaitTimeout):
            await read(upstream)
        await stub.until(lambda s: s.aborted == 1, 1)


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/octet-stream"])
async def test_any_other_content_is_no_protocol(kind: str) -> None:
    script = Script((Head(content_type=kind), Raw(b"<html>hello</html>"), Hang()))
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        with pytest.raises(Protocol, match=f"answered with {kind}, not with a stream"):
            await read(upstream)
        await stub.until(lambda s: s.aborted == 1, 1)


async def test_a_content_type_is_read_as_http_wants_it() -> None:
    script = Script((Head(content_type="Text/Event-Stream;charset=UTF-8"), Said(1), Done()))
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        assert text(await read(upstream)) == "token-0"


@pytest.mark.parametrize("code", [204, 301, 302, 307, 308])
async def test_a_status_that_is_no_answer_is_no_protocol_and_nobody_is_followed(code: int) -> None:
    async with Stub() as elsewhere, Stub() as stub, client(stub.url) as upstream:
        stub.default = status(code, headers={"location": f"{elsewhere.url}{CHAT}"})
        with pytest.raises(Protocol, match=f"status {code}") as caught:
            await read(upstream)
        assert elsewhere.url not in str(caught.value)
        assert not elsewhere.hits


@pytest.mark.parametrize("answer", [die(5), cut(5), reset(5)])
async def test_an_answer_that_breaks_off_ends_and_the_dialect_judges(answer: Script) -> None:
    async with Stub(default=answer) as stub, client(stub.url) as upstream:
        got = await read(upstream)
    assert text(got) == "token-0 token-1 token-2 token-3 token-4"
    assert b"[DONE]" not in got


async def test_a_body_of_fewer_bytes_than_it_said_ends_there() -> None:
    script = Script((Head(length=1000), Said(2), Cut()))
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        assert text(await read(upstream)) == "token-0 token-1"


async def test_json_of_fewer_bytes_than_it_said_is_what_came() -> None:
    script = Script((Head(content_type="application/json", length=1000), Raw(b'{"choices":[{'), Cut()))
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        assert await read(upstream) == [b'{"choices":[{']


@pytest.mark.parametrize("answer", [cut(5), reset(5), Script((Head(), Said(5), Done(), Cut()))])
async def test_what_came_before_a_break_is_read_however_late(answer: Script) -> None:
    """A caller that writes to a slow client comes back when the connection has long been broken."""
    steps: list[Step] = [answer.steps[0], Said(1), Sleep(0.05), *answer.steps[1:]]
    got: list[bytes] = []
    async with (
        Stub(default=Script(tuple(steps))) as stub,
        client(stub.url) as upstream,
        upstream.answer(chat()) as answered,
    ):
        got += await anext(answered)
        await turned(lambda: answered._response.content.exception() is not None)
        await follow(answered, got)
    assert [f"token-{n}" in text(got) for n in range(6)] == [True] * 6


async def test_an_event_named_error_is_the_upstreams_own_error_after_all_that_came_before_it() -> None:
    for form in (ErrorForm.FIELD, ErrorForm.EVENT):
        got: list[bytes] = []
        async with Stub(default=mid_stream_error(3, form)) as stub, client(stub.url) as upstream:
            with pytest.raises(UpstreamStatus, match="Compute error") as caught:
                async with upstream.answer(chat()) as answer:
                    await follow(answer, got)
            assert caught.value.status == 500
        assert text(got) == "token-0 token-1 token-2"


async def test_an_error_that_was_read_in_one_piece_with_tokens_comes_after_them() -> None:
    script = Script((Head(), Said(3), Error(ErrorForm.EVENT)), write_size=100_000)
    got: list[bytes] = []
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus):
            async with upstream.answer(chat()) as answer:
                await follow(answer, got)
    assert text(got) == "token-0 token-1 token-2"


async def test_html_in_the_stream_is_no_protocol() -> None:
    async with Stub(default=mid_stream_error(3, ErrorForm.HTML)) as stub, client(stub.url) as upstream:
        with pytest.raises(Protocol, match="HTML"):
            await read(upstream)


# ---- an upstream's own errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "ours"), [(400, 400), (401, 502), (403, 502), (404, 404), (408, 504), (413, 413), (429, 429), (500, 500)]
)
async def test_its_errors_are_mapped_and_keep_their_text(code: int, ours: int) -> None:
    async with Stub(default=error(code, "the words of the upstream")) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus) as caught:
            await read(upstream)
    assert caught.value.status == ours
    assert caught.value.upstream_status == code
    assert ("the words of the upstream" in str(caught.value)) is (code not in {401, 403})


async def test_a_page_of_html_is_not_passed_on() -> None:
    async with Stub(default=html(502)) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus, match="a page of HTML") as caught:
            await read(upstream)
    assert "<" not in str(caught.value)


async def test_of_an_endless_text_64_kib_are_read_and_the_connection_is_closed() -> None:
    script = Script((Head(500, content_type="text/plain"), Repeat((Raw(b"why " * 1000),))), takes_slot=False)
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus) as caught:
            await read(upstream)
        assert 60_000 < len(str(caught.value).encode()) <= UpstreamStatus.MAX_BODY == 65536
        await stub.until(lambda s: s.aborted == 1, 1)


@pytest.mark.parametrize("rest", [Hang(), Repeat((Raw(b" "), Sleep(0.01)))])
async def test_a_text_that_does_not_end_has_connect_and_what_came_of_it_is_told(rest: Step) -> None:
    script = Script((Head(500, content_type="text/plain"), Raw(b"half a reason"), rest), takes_slot=False)
    async with Stub(default=script) as stub, client(stub.url, connect=0.2) as upstream:
        with pytest.raises(UpstreamStatus, match="half a reason"):
            await read(upstream)
        await stub.until(lambda s: s.aborted == 1, 1)


async def test_a_text_that_breaks_off_is_told_as_far_as_it_came() -> None:
    script = Script((Head(500, content_type="text/plain", length=1000), Raw(b"half a reason"), Cut()))
    async with Stub(default=script) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus, match="half a reason"):
            await read(upstream)


async def test_an_error_without_text_says_its_status() -> None:
    async with Stub(default=status(500)) as stub, client(stub.url) as upstream:
        with pytest.raises(UpstreamStatus, match="status 500"):
            await read(upstream)


# ---- what is known of it ---------------------------------------------------------------------------------------------


async def test_its_traits_are_those_seen_or_the_plainest() -> None:
    async with Stub(context=4096) as stub, client(stub.url, kind=None) as upstream:
        assert upstream.traits == Traits(Kind.OPENAI)
        await upstream.look()
        assert upstream.traits == Traits(Kind.LLAMA_CPP, 4096, vision=False)


async def test_the_kind_that_is_configured_holds_whatever_is_seen() -> None:
    async with Stub() as stub, client(stub.url, kind=Kind.VLLM) as upstream:
        await upstream.look()
        assert upstream.traits.kind is Kind.VLLM


@pytest.mark.parametrize("gone", [True, False])
async def test_what_it_told_of_itself_holds_while_it_is_away(gone: bool) -> None:
    async with Stub(context=4096, models=("a", "b")) as stub, client(stub.url, kind=None) as upstream:
        before = await upstream.look()
        if gone:
            await stub.stop()
        else:
            stub.start_loading()
        seen = await upstream.look()
        assert seen.state is (Health.DOWN if gone else Health.LOADING)
        assert seen.reason
        assert (seen.models, seen.slots, seen.context) == (("a", "b"), before.slots, 4096)
        assert upstream.traits.kind is Kind.LLAMA_CPP
        if gone:
            await stub.start()
        stub.finish_loading()
        stub.models = ("c",)
        assert (await upstream.look()).models == ("c",)
        assert upstream.sighting.reason == ""


async def test_only_llama_cpp_counts_tokens() -> None:
    async with Stub() as stub:
        async with client(stub.url) as upstream:
            usage = msgspec.json.decode((await read(upstream))[-2])["usage"]
            assert await upstream.count(chat()) == usage["prompt_tokens"]
        async with client(stub.url, kind=Kind.VLLM) as upstream:
            assert await upstream.count(chat()) is None


async def test_a_fault_in_the_watch_ends_the_client_instead_of_going_unseen() -> None:
    class Faulty(UpstreamClient):
        async def _reading(self) -> None:  # type: ignore[override]
            raise ZeroDivisionError

    async with Stub(default=hang()) as stub:
        with pytest.raises(ExceptionGroup) as caught:
            async with Faulty("box", stub.url, limits()) as upstream:
                await read(upstream)
        assert caught.group_contains(ZeroDivisionError)
        await stub.until(lambda s: s.aborted == 1, 1)
