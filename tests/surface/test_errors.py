"""How requests end badly: every row of the interface's table of ends, before the stream is open and in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from aiohttp import web

from fakes.checker import check
from fakes.gateway import PATIENT, Front, fronted
from fakes.parts import Dialect, Upstream
from fakes.product import Answered, ask, fetch
from slotline.core.errors import Busy, Invalid, SlotlineError
from slotline.core.limits import Limits
from slotline.gate.local import LocalGate
from slotline.gate.usher import Berth
from slotline.passage import Call
from slotline.relay import Relay
from slotline.stub.script import Close, Comment, Error, ErrorForm, Hang, Head, Raw, Repeat, Script, Sleep, Text
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
from slotline.surface.errors import REQUEST_ID, errors
from slotline.surface.reply import HttpReply

SHORT = 0.25  # seconds of the limit that a test is about
OPENED = msgspec.structs.replace(PATIENT, grace=0.02)  # the stream is open before anything goes wrong


def limits(**which: float) -> Limits:
    return Limits(**{"poll": 0.03, **which})  # type: ignore[arg-type] # max_event is a whole number, and never given


def described(answer: Answered) -> dict[str, Any]:
    """`error` of an error answer, whose shape is right."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert body["type"] == "error"
    assert set(body) == {"type", "error", "request_id"}
    assert set(body["error"]) == {"type", "message"}
    assert body["request_id"] == answer.headers["request-id"]
    assert body["request_id"].startswith("req_")
    error: dict[str, Any] = body["error"]
    return error


# ---- what an upstream does, or does not do ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One way in which an upstream fails, before its first word."""

    name: str
    script: Script
    status: int
    type: str
    outcome: str
    says: str
    limits: Limits = limits()  # noqa: RUF009 - frozen


ROWS = [
    Row("busy_wait", hang(), 504, "timeout_error", "wait_timeout", "busy_wait = 0.25 s", limits(busy_wait=SHORT)),
    Row(
        "busy_wait after the head",
        head_then_silence(),
        504,
        "timeout_error",
        "wait_timeout",
        "busy_wait = 0.25 s",
        limits(busy_wait=SHORT),
    ),
    Row(
        "busy_wait with signs of life",
        Script((Head(), Repeat((Comment(), Sleep(0.02))))),
        504,
        "timeout_error",
        "wait_timeout",
        "busy_wait = 0.25 s",
        limits(busy_wait=SHORT),
    ),
    Row("idle_grace", swallowed(), 504, "timeout_error", "stalled", "idle for idle_grace", limits(idle_grace=SHORT)),
    Row("closed before the head", reset(), 502, "api_error", "upstream_error", "box"),
    Row("closed after the head", Script((Head(), Close())), 502, "api_error", "upstream_died", "closed the stream"),
    Row("reset after the head", Script((Head(), *reset(0).steps[-1:])), 502, "api_error", "upstream_died", "closed"),
    Row("400", error(400, "own words"), 400, "invalid_request_error", "upstream_error", "own words"),
    Row("401", error(401, "own words"), 502, "api_error", "upstream_error", "the gateway's own credentials"),
    Row("403", error(403, "own words"), 502, "api_error", "upstream_error", "the gateway's own credentials"),
    Row("404", error(404, "own words"), 404, "not_found_error", "upstream_error", "own words"),
    Row("413", error(413, "own words"), 413, "request_too_large", "upstream_error", "own words"),
    Row("422", error(422, "own words"), 400, "invalid_request_error", "upstream_error", "own words"),
    Row("429", error(429, "own words"), 429, "rate_limit_error", "upstream_error", "own words"),
    Row("500", error(500, "own words"), 500, "api_error", "upstream_error", "own words"),
    Row("502", error(502, "own words"), 502, "api_error", "upstream_error", "own words"),
    Row("503", error(503, "own words"), 503, "overloaded_error", "upstream_error", "own words"),
    Row("504", error(504, "own words"), 504, "timeout_error", "upstream_error", "own words"),
    Row("529", error(529, "own words"), 529, "overloaded_error", "upstream_error", "own words"),
    Row("a page", html(502), 502, "api_error", "upstream_error", "a page of HTML"),
    Row("no words", status(500), 500, "api_error", "upstream_error", "status 500"),
    Row(
        "no stream",
        Script((Head(content_type="text/html"), Raw(b"<html></html>"))),
        502,
        "api_error",
        "upstream_error",
        "text/html",
    ),
    Row("nonsense", Script((Head(), Raw(b"data: {\n\ndata: {\n\n"))), 502, "api_error", "upstream_error", ""),
    Row("an error under 200", Script((Head(), Error())), 500, "api_error", "upstream_error", "Compute error."),
    Row(
        "a redirect",
        status(302, headers={"Location": "http://internal/secret", "Set-Cookie": "a=b"}),
        502,
        "api_error",
        "upstream_error",
        "status 302",
    ),
    Row(
        "a huge event",
        Script((Head(), Text("x" * 70_000), Hang())),
        502,
        "api_error",
        "upstream_error",
        "65536",
        Limits(max_event=65536, poll=0.05),
    ),
]

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


async def is_over(front: Front, row: Row) -> None:
    await front.settled()
    (end,) = front.log.ends
    assert end.outcome == row.outcome
    await front.serves()
    assert front.log.faults == []


@rows
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_upstream_that_fails_before_its_first_word_is_a_status(row: Row, stream: bool) -> None:
    """Cases 77, 78, 79."""
    async with fronted(limits=row.limits) as front:
        front.stub.play(row.script)
        answer = await front.fetch(ask(stream=stream))
        error = described(answer)
        assert (answer.status, error["type"]) == (row.status, row.type)
        assert row.says in error["message"]
        assert "internal" not in str(answer)
        assert not {"location", "set-cookie"} & set(answer.headers)
        await is_over(front, row)
        assert front.log.ends[0].request_id == answer.headers["request-id"]


@pytest.mark.parametrize("row", [row for row in ROWS if row.limits.busy_wait == SHORT], ids=lambda row: row.name)
async def test_an_upstream_that_fails_in_a_stream_that_the_grace_has_opened_is_its_last_event(row: Row) -> None:
    """Cases 77, 78, 79, B63."""
    async with fronted(limits=row.limits, server=OPENED) as front:
        front.stub.play(row.script)
        answer = await front.fetch()
        assert answer.status == 200
        seen = check(answer.body)
        assert seen.names == ["error"]
        assert seen.error is not None
        assert seen.error["type"] == row.type
        assert row.says in seen.error["message"]
        assert seen.frames[-1].data["request_id"] == answer.headers["request-id"]
        await is_over(front, row)


@dataclass(frozen=True)
class Break:
    """One way in which an answer breaks off after its third token."""

    name: str
    script: Script
    status: int
    type: str
    outcome: str
    says: str = ""
    limits: Limits = limits()  # noqa: RUF009 - frozen


BREAKS = [
    Break("a clean end", die(3), 502, "api_error", "upstream_died", "before the answer had ended"),
    Break("a cut", cut(3), 502, "api_error", "upstream_died", "before the answer had ended"),
    Break("a reset", reset(3), 502, "api_error", "upstream_died", "before the answer had ended"),
    Break("silence", stall(3), 504, "timeout_error", "stalled", "liveness = 0.25 s", limits(liveness=SHORT)),
    Break(
        "only signs of life",
        Script((*stall(3).steps[:-1], Repeat((Comment(), Sleep(0.02))))),
        504,
        "timeout_error",
        "stalled",
        "only signs of life and no token",
        limits(liveness=SHORT),
    ),
    *[
        Break(f"an error, {form}", mid_stream_error(3, form, done=True), 500, "api_error", "upstream_error")
        for form in ErrorForm
        if form is not ErrorForm.HTML
    ],
]

breaks = pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.name)


@breaks
async def test_an_answer_that_breaks_off_ends_its_stream_with_an_error_after_all_that_came(broken: Break) -> None:
    """Cases 73, 75, B63, B67."""
    async with fronted(limits=broken.limits) as front:
        front.stub.play(broken.script)
        answer = await front.fetch()
        assert answer.status == 200
        seen = check(answer.body)
        assert seen.text == "token-0 token-1 token-2"
        assert not seen.complete
        assert seen.error is not None
        assert seen.error["type"] == broken.type
        assert broken.says in seen.error["message"]
        assert seen.frames[-1].data["request_id"] == answer.headers["request-id"]
        await front.settled()
        assert [end.outcome for end in front.log.ends] == [broken.outcome]
        await front.serves()


@breaks
async def test_an_answer_in_one_piece_that_breaks_off_is_a_status_and_not_half_an_answer(broken: Break) -> None:
    async with fronted(limits=broken.limits) as front:
        front.stub.play(broken.script)
        answer = await front.fetch(ask(stream=False))
        error = described(answer)
        assert (answer.status, error["type"]) == (broken.status, broken.type)
        assert broken.says in error["message"]
        assert b"token-" not in answer.body
        await front.settled()
        assert [end.outcome for end in front.log.ends] == [broken.outcome]
        await front.serves()


async def test_signs_of_life_keep_a_slow_prefill_from_nothing_and_harm_it_in_nothing() -> None:
    """B56, B59."""
    lively = Script((Head(), Repeat((Comment(), Sleep(0.02)), 10), *ok(3).steps[1:]))
    async with fronted() as front:
        front.stub.play(lively)
        assert check((await front.fetch()).body).complete


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_upstream_that_says_it_is_loading_is_asked_again_and_then_serves(stream: bool) -> None:
    async with fronted(limits=limits()) as front:
        front.stub.start_loading()
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(front.fetch(ask(stream=stream)))
            await front.until(lambda: front.stub.hits["/v1/chat/completions"] > 2)
            front.stub.finish_loading()
        assert asked.result().status == 200


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_upstream_that_loads_for_too_long_is_overloaded(stream: bool) -> None:
    async with fronted(limits=limits(load_wait=SHORT)) as front:
        front.stub.start_loading()
        answer = await front.fetch(ask(stream=stream))
        error = described(answer)
        assert (answer.status, error["type"]) == (503, "overloaded_error")
        assert "load_wait = 0.25 s" in error["message"]
        front.stub.finish_loading()
        await front.serves()
        assert front.outcomes == ["load_timeout", "completed"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_upstream_that_is_not_there_is_unreachable(stream: bool) -> None:
    """Case 78."""
    async with fronted() as front:
        await front.stub.stop()
        answer = await front.fetch(ask(stream=stream))
        error = described(answer)
        assert (answer.status, error["type"]) == (502, "api_error")
        assert "box" in error["message"]
        await front.stub.start()
        await front.serves()
        assert front.outcomes == ["upstream_error", "completed"]


async def test_one_failure_after_another_leaves_the_slot_free_each_time() -> None:
    async with fronted(limits=limits(busy_wait=SHORT)) as front:
        await front.stub.stop()
        seen = [(await front.fetch()).status]
        await front.stub.start()
        for script in (reset(), error(502), error(504), hang()):
            front.stub.play(script)
            seen.append((await front.fetch()).status)
            assert not front.relay.passages
        assert seen == [502, 502, 502, 504, 504]
        await front.serves()
        assert front.log.faults == []


async def test_the_text_of_an_upstreams_error_is_passed_on_up_to_a_limit() -> None:
    async with fronted() as front:
        front.stub.play(status(500, "x" * 200_000, content_type="text/plain"))
        answer = await front.fetch()
    assert len(described(answer)["message"]) == 65536


# ---- the line --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def crowded(front: Front, waiting: int) -> AsyncIterator[None]:
    """The slot is taken for ever, and so many wait."""
    front.stub.play(hang())
    async with front.calling():
        await front.stub.until(lambda state: state.running == 1)
        async with asyncio.TaskGroup() as tasks:
            waiters = [tasks.create_task(front.fetch(ask(stream=False))) for _ in range(waiting)]
            await front.until(lambda: front.waiting == waiting)
            yield
            for waiter in waiters:
                waiter.cancel()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_full_line_refuses_at_once_and_says_when_to_come_again(stream: bool) -> None:
    """Case 87."""
    async with fronted(queue=2) as front, crowded(front, 2):
        answer = await front.fetch(ask(stream=stream))
        error = described(answer)
        assert (answer.status, error["type"]) == (529, "overloaded_error")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "2 wait" in error["message"]
        assert front.outcomes == ["refused_full"]
        assert len(front.stub.requests) == 1


async def test_a_wait_longer_than_queue_wait_ends_as_an_event_in_a_stream_and_as_a_status_else() -> None:
    """Case 88."""
    async with fronted(queue_wait=SHORT) as front, crowded(front, 0):
        stream, quiet, whole = await asyncio.gather(
            front.fetch(), front.fetch(headers={"x-slotline-queue": "off"}), front.fetch(ask(stream=False))
        )
        seen = check(stream.body)
        assert seen.names[0] == "queue"
        assert set(seen.names[1:-1]) <= {"queue"}
        assert seen.error is not None
        assert seen.error["type"] == "overloaded_error"
        assert "queue_wait = 0.25 s" in seen.error["message"]
        for answer in (quiet, whole):
            assert (answer.status, described(answer)["type"]) == (529, "overloaded_error")
        assert front.outcomes == ["wait_timeout"] * 3
        assert len(front.stub.requests) == 1


# ---- shutting down ---------------------------------------------------------------------------------------------------


async def test_a_shutdown_refuses_who_waits_and_who_comes_and_lets_a_running_answer_end() -> None:
    async with fronted() as front:
        front.stub.play(held(3, before=1))
        async with front.streaming() as running, front.streaming() as queued, asyncio.TaskGroup() as tasks:
            await running.until(b"token-0")
            await queued.next()
            whole = tasks.create_task(front.fetch(ask(stream=False)))
            await front.until(lambda: front.waiting == 2)
            drain = tasks.create_task(front.relay.drain(30))

            seen = check(await queued.rest())
            assert seen.names == ["queue", "error"]
            assert seen.error is not None
            assert seen.error["type"] == "overloaded_error"
            for answer in (await whole, await front.fetch(), await front.fetch(ask(stream=False))):
                assert (answer.status, described(answer)["type"]) == (503, "overloaded_error")
                assert 1 <= int(answer.headers["retry-after"]) <= 60

            assert not drain.done()
            front.stub.release()
            assert check(await running.rest()).complete
            async with asyncio.timeout(1):
                await drain
        assert front.outcomes == ["shutdown"] * 4 + ["completed"]
        assert len(front.stub.requests) == 1
        assert front.log.faults == []


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_answer_that_outlives_the_drain_is_ended_with_an_error(stream: bool) -> None:
    async with fronted() as front:
        front.stub.play(stall(2))
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(front.fetch(ask(stream=stream)))
            await front.stub.until(lambda state: state.tokens == 2)
            async with asyncio.timeout(SHORT + 1):
                await front.relay.drain(SHORT)
        await front.stub.until(lambda state: state.aborted == 1, timeout=1)
        answer = asked.result()
        if stream:
            seen = check(answer.body)
            assert seen.text == "token-0 token-1"
            error = seen.error or {}
        else:
            error = described(answer)
            assert answer.status == 503
        assert error["type"] == "overloaded_error"
        assert "drain = 0.25 s" in error["message"]
        assert front.outcomes == ["shutdown"]
        assert front.log.faults == []


# ---- faults of the gateway itself ------------------------------------------------------------------------------------

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    """The address of a server whose every POST goes to `handler`, behind the boundary for errors."""

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[REQUEST_ID] = "req_1"
        return await handler(request)

    async def sign(_: web.Request, response: web.StreamResponse) -> None:
        response.headers["request-id"] = "req_1"

    app = web.Application(middlewares=[identify, errors], client_max_size=10)
    app.on_response_prepare.append(sign)
    app.router.add_post("/", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("before", [0, 2])
async def test_a_fault_in_a_translation_is_one_error_and_its_stack_is_in_the_log_alone(
    stream: bool, before: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 94."""
    time = asyncio.get_running_loop().time
    upstream, outcomes = Upstream([]), list[str]()
    gate = LocalGate({"box": Berth(1, 1)}, time)
    relay = Relay(gate, {"box": upstream}, time, lambda _, outcome, __: outcomes.append(outcome))

    async def handler(request: web.Request) -> web.StreamResponse:
        dialect = Dialect(stream=stream)
        reply = HttpReply(request, dialect, grace=30, keepalive=30, client_write=30)
        await relay.carry(Call("req_1", "model", dialect, frozenset({"box"}), "model", 1), reply)
        assert reply.response is not None
        return reply.response

    async with served(handler) as url:
        for _ in range(2):  # the second one gets the slot of the first
            upstream.says.put_nowait([*[b"a"] * before, b"bug"])
            answer = await fetch(url, "/", b"{}")
            opened = stream and before > 0
            assert answer.status == (200 if opened else 500)
            assert answer.body.startswith(b"<a>" * before if opened else b"the gateway made a mistake")
            assert answer.body.count(b"mistake") == 1
            assert b"secret" not in answer.body
            assert not relay.passages
    assert outcomes == ["upstream_error"] * 2
    faults = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.name for record in faults] == ["slotline.relay"] * 2
    assert all("a secret of the gateway" in str(record.exc_info) for record in faults)


async def test_a_fault_in_a_route_is_a_500_and_its_stack_is_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise KeyError("a secret of the gateway")

    async with served(handler) as url:
        answer = await fetch(url, "/", b"{}")
    error = described(answer)
    assert (answer.status, error["type"]) == (500, "api_error")
    assert "secret" not in error["message"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "req_1" in record.getMessage()
    assert "a secret of the gateway" in str(record.exc_info)


@pytest.mark.parametrize(
    ("raised", "status", "type_", "says"),
    [
        (Invalid("a field"), 400, "invalid_request_error", "a field"),
        (Busy("the line is full", retry_after=3), 529, "overloaded_error", "the line is full"),
        (SlotlineError("ours"), 500, "api_error", "ours"),
        (web.HTTPUnprocessableEntity(), 422, "invalid_request_error", "Unprocessable Entity"),
        (web.HTTPServiceUnavailable(), 503, "api_error", "Service Unavailable"),
    ],
)
async def test_what_a_route_raises_is_an_error_answer(raised: Exception, status: int, type_: str, says: str) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise raised

    async with served(handler) as url:
        answer = await fetch(url, "/", b"{}")
    assert (answer.status, described(answer)) == (status, {"type": type_, "message": says})
    assert answer.headers.get("retry-after") == ("3" if status == 529 else None)


async def test_the_librarys_own_errors_have_the_same_shape() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response()

    async with served(handler) as url:
        missing, wrong, large = (
            await fetch(url, "/nowhere", b"{}"),
            await fetch(url, "/", method="PUT"),
            await fetch(url, "/", b"x" * 11),
        )
        assert (await fetch(url, "/", b"x" * 10)).status == 200
    assert (missing.status, described(missing)["type"]) == (404, "not_found_error")
    assert (wrong.status, described(wrong)["type"]) == (405, "invalid_request_error")
    assert wrong.headers["allow"] == "POST"
    assert (large.status, described(large)["type"]) == (413, "request_too_large")
    assert "max_body = 10 bytes" in described(large)["message"]


async def test_a_redirect_is_not_an_error() -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/elsewhere")

    async with served(handler) as url:
        answer = await fetch(url, "/", b"{}")
    assert (answer.status, answer.headers["location"]) == (302, "/elsewhere")
