"""`/api`: who holds what since when, why each waits, and the end of a request by an operator's hand."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from aiohttp import web

from fakes.checker import check
from fakes.gateway import Front, Stream, fronted
from fakes.product import Caller, ask
from slotline.config import KeyConfig, ModelConfig, UpstreamConfig
from slotline.core.history import History, Hour
from slotline.core.keys import digest
from slotline.core.limits import Limits
from slotline.core.report import Gateway, Line, Request, SlotState, State
from slotline.stub import Stub
from slotline.stub.script import Head, Hold, Progress, Reasoning, Script, Text
from slotline.stub.standard import error, hang, held, ok
from slotline.surface.operators import Board, Pace, mount
from slotline.surface.ports import Ports

PROMPT, ANSWER = "a-marker-in-the-prompt", "token-0"
ALICE, BOB = "sl-a-marker-of-alice", "sl-a-marker-of-bob"
TOKEN, VARIABLE = "a-marker-of-the-operator", "A_TESTS_OPERATOR"
UNKNOWN = "req_000000000000000000000000"
THINKS = Script((Head(), Progress(6100, 8123), Hold(), Reasoning("a"), Reasoning("b"), Hold(), Text("c"), Hold()))


def key(name: str, secret: str, **more: Any) -> KeyConfig:
    return KeyConfig(name=name, hash=f"sha256:{digest(secret).hex()}", **more)


def shown(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


KEYS = (key("alice", ALICE), key("bob", BOB))
FAR = {"x-forwarded-for": "192.0.2.1"}  # asks through a proxy on this machine, and so is no operator


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, TOKEN)
    return TOKEN


async def state(front: Front, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await front.get("/api/state", headers=headers)
    assert answer.status == 200
    told: dict[str, Any] = answer.json()
    return told


async def requests(front: Front, phase: str | None = None) -> list[dict[str, Any]]:
    told = await state(front)
    return [each for each in told["requests"] if phase in {None, each["phase"]}]


async def until(front: Front, phase: str, count: int = 1) -> list[dict[str, Any]]:
    """Those in a phase, once there are `count`."""
    async with asyncio.timeout(5):
        while len(found := await requests(front, phase)) != count:
            pass
    return found


@asynccontextmanager
async def crowded(front: Front, **more: Any) -> AsyncIterator[tuple[Stream, Caller]]:
    """One answer that has begun and stands still, and one request in line."""
    front.stub.play(held(5, before=2))
    async with front.streaming(ask(PROMPT), **more) as running:
        await running.until(b"token-1")
        async with front.calling(ask(PROMPT), **more) as waiting:
            await front.until(lambda: front.waiting == 1)
            yield running, waiting


# ---- the state -------------------------------------------------------------------------------------------------------


async def test_an_idle_gateway_tells_its_upstreams_and_free_slots() -> None:
    async with fronted(slots=2) as front:
        told = await state(front)
    assert told["requests"] == told["lines"] == []
    assert set(told["gateway"]) == {"version", "started", "uptime_ms", "draining"}
    (box,) = told["upstreams"]
    assert (box["name"], box["kind"], box["state"], box["models"]) == ("box", "llama.cpp", "up", ["stub"])
    assert [slot["index"] for slot in box["slots"]["each"]] == [0, 1]
    assert (box["slots"]["total"], box["slots"]["free"], box["running"], box["waiting"]) == (2, 2, 0, 0)
    assert (box["queue"], told["gateway"]["draining"]) == (8, False)


async def test_who_runs_and_who_waits_is_told_with_slot_place_and_times() -> None:
    async with fronted() as front, crowded(front) as (running, _):
        told = await state(front)
        (box,) = told["upstreams"]
        assert told["lines"] == [{"upstreams": ["box"], "length": 1}]
        assert (box["running"], box["waiting"], box["slots"]["free"]) == (1, 1, 0)
        runs, waits = told["requests"]
        assert runs["id"] == running.answer.headers["request-id"]
        assert (runs["phase"], runs["upstream"], runs["pieces"], runs["thought"]) == ("answering", "box", 2, 0)
        assert runs["bytes"] == len(running.answer.body)
        assert 0 <= runs["last_client_write_ms_ago"] <= runs["running_ms"] < 5000
        assert 0 <= runs["last_upstream_byte_ms_ago"] <= runs["running_ms"]
        assert runs["prompt"]["processed"] == runs["prompt"]["total"] > 0
        (slot,) = box["slots"]["each"]
        assert (slot["index"], slot["state"], slot["request_id"]) == (0, "answering", runs["id"])
        assert (slot["pieces"], slot["prompt"]) == (2, runs["prompt"])
        assert (waits["phase"], waits["upstream"], waits["running_ms"]) == ("waiting", None, None)
        assert (waits["position"], waits["queue_length"], waits["estimated_wait_ms"]) == (1, 1, None)
        assert (waits["surface"], waits["stream"], waits["class"]) == ("messages", True, "interactive")
        assert runs["upstreams"] == waits["upstreams"] == ["box"]
        assert waits["cause"].startswith("1 slot is held, for ")
        assert waits["cause"] in waits["why"]
        assert waits["why"].startswith("waits for 0.")
        assert " at place 1 of 1 for box: 1 slot is held, for " in waits["why"]


async def test_places_are_those_of_this_moment() -> None:
    """Also those further back, who have not been told yet, and the estimate is a new one each time."""
    async with fronted() as front:
        await front.fetch()
        async with crowded(front), front.calling(), front.calling(), front.calling(), front.calling():
            waits = await until(front, "waiting", 5)
    assert [(each["position"], each["queue_length"]) for each in waits] == [(n, 5) for n in range(1, 6)]
    assert all(each["estimated_wait_ms"] is not None for each in waits)


async def test_a_request_is_followed_through_its_phases() -> None:
    async with fronted() as front:
        front.stub.play(THINKS)
        async with front.calling() as caller:
            (reads,) = await until(front, "prefill")
            while reads["prompt"] is None:
                (reads,) = await until(front, "prefill")
            assert reads["prompt"] == {"processed": 6100, "total": 8123}
            assert reads["why"].endswith("reading the prompt, 6100 of 8123 tokens")
            front.stub.release()
            (thinks,) = await until(front, "thinking")
            front.stub.release()
            (answers,) = await until(front, "answering")
            assert answers["why"].endswith("answering, 3 pieces")
            assert (answers["pieces"], answers["thought"]) == (3, 2)
            assert thinks["why"].split(": ")[1] in {"thinking, 1 piece", "thinking, 2 pieces"}
            caller.reset()
        await front.settled()


async def test_of_one_that_thinks_it_is_told_when_that_is_ended() -> None:
    """By the upstream's cap, or by the request's own budget where that is smaller."""
    own = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
    async with fronted(limits=Limits(poll=0.05, thinking_cap=4000)) as front:
        for more, cap in (({}, 4000), (own, 1024)):
            front.stub.play(THINKS)
            async with front.calling({**ask(), **more}) as caller:
                await until(front, "prefill")
                await front.stub.until(lambda state: state.running == 1)
                while front.stub.release() == 0:
                    await front.get("/healthz")
                (thinks,) = await until(front, "thinking")
                (slot,) = (await state(front))["upstreams"][0]["slots"]["each"]
                assert thinks["thinking_cap"] == slot["thinking_cap"] == cap
                caller.reset()
            await front.settled()


async def test_a_gateway_that_drains_tells_so() -> None:
    async with fronted() as front, crowded(front) as (running, waiting), asyncio.TaskGroup() as tasks:
        tasks.create_task(front.relay.drain(10.0))
        await waiting.answer()
        assert (await state(front))["gateway"]["draining"] is True
        front.stub.release()
        await running.rest()


async def test_an_upstream_that_says_nothing_is_told_with_what_that_means() -> None:
    async with fronted() as front:
        front.stub.play(hang())
        async with front.calling():
            (runs,) = await until(front, "prefill")
            while "busy" not in runs["why"]:
                (runs,) = await until(front, "prefill")
            assert runs["why"].startswith("runs on box slot 0 for ")
            assert runs["why"].endswith("nothing has come back yet, and the upstream is busy, as far as it shows")
            assert runs["last_upstream_byte_ms_ago"] is None


async def test_a_slot_whose_request_was_ended_drains_and_is_nobodys() -> None:
    async with fronted(stub=Stub(slots=1, abort_lag=1.0)) as front:
        front.stub.play(held(5, before=1))
        async with front.streaming() as stream:
            await stream.until(b"token-0")
        while (slots := (await state(front))["upstreams"][0]["slots"])["draining"] == 0:
            pass
        (slot,) = slots["each"]
        assert (slot["index"], slot["state"], slot["request_id"]) == (0, "draining", None)
        assert slot["held_ms"] >= 0
        async with front.calling():
            (waits,) = await until(front, "waiting")
            assert "1 of them for a request that left and may still be worked on" in waits["why"]


async def test_an_upstream_out_of_order_is_told_so_and_so_is_who_waits_for_it() -> None:
    async with fronted() as front:
        await front.stub.stop()
        for _ in range(3):
            assert (await front.fetch()).status == 502
        async with front.calling():
            (waits,) = await until(front, "waiting")
            assert "box is out of order for " in waits["why"]
            (box,) = (await state(front))["upstreams"]
        assert box["out_of_order_ms"] >= 0
        assert (box["slots"]["down"], box["slots"]["each"][0]["state"]) == (1, SlotState.DOWN)


async def test_who_is_kept_by_a_limit_of_its_own_key_is_told_so() -> None:
    limited = key("alice", ALICE, running=1)
    async with fronted(slots=2, keys=(limited,)) as front, crowded(front, headers=shown(ALICE)):
        (waits,) = await requests(front, "waiting")
    assert "its key has 1 running, which is all that it may have" in waits["why"]


async def test_who_waits_for_any_of_two_upstreams_has_both_named() -> None:
    model = ModelConfig(name="either", upstreams=("box", "other"), target="stub", aliases=())
    async with Stub(slots=1) as other:
        before = UpstreamConfig(name="other", url=other.url, slots=1, limits=Limits(poll=0.05))
        async with fronted(before=(before,), models=(model,)) as front:
            front.stub.play(hang(), hang())
            other.play(hang(), hang())
            async with front.calling(ask(model="either")), front.calling(ask(model="either")):
                await until(front, "prefill", 2)
                async with front.calling(ask(model="either")):
                    (waits,) = await until(front, "waiting")
                    lines = (await state(front))["lines"]
    assert " for box or other: 2 slots are held, the longest for " in waits["why"]
    assert lines == [{"upstreams": ["box", "other"], "length": 1}]


async def test_nothing_that_was_said_and_no_key_is_anywhere_in_it(token: str) -> None:
    """Neither of those who run and wait, nor of those who have ended, whatever the upstream said about them."""
    seen = b""
    async with fronted(keys=KEYS, admin=VARIABLE) as front:
        async with crowded(front, headers=shown(ALICE)) as (_, waiting):
            seen += (await front.get("/api/state", headers=shown(token))).body
            identities = [each["id"] for each in (await state(front, shown(token)))["requests"]]
            waiting.reset()
            await front.until(lambda: front.waiting == 0)
        front.stub.play(error(400, f"the upstream cannot read {PROMPT}"))
        failed = await front.fetch(ask(PROMPT), headers=shown(ALICE))
        assert PROMPT.encode() in failed.body
        await front.until(lambda: len(front.outcomes) == 3)
        for identity in (*identities, failed.headers["request-id"]):
            told = await front.get(f"/api/requests/{identity}", headers=shown(token))
            assert told.json()["phase"] == "ended"
            seen += told.body
    assert b'"alice"' in seen
    for marker in (PROMPT, ANSWER, "marker", ALICE, *(each.hash.removeprefix("sha256:") for each in KEYS)):
        assert marker.encode() not in seen, marker


# ---- who may see it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "state"), ("GET", "events"), ("GET", "history"), ("DELETE", f"requests/{UNKNOWN}")]
)
async def test_what_is_the_operators_wants_the_token_also_of_those_who_have_a_key(
    method: str, path: str, token: str
) -> None:
    async with fronted(keys=KEYS, admin=VARIABLE) as front:
        for headers in ({}, shown(ALICE), shown(f"{token}x")):
            assert (await front.get(f"/api/{path}", method, headers)).status == 401
    async with fronted(keys=KEYS) as front:
        for headers in (FAR, {**FAR, **shown(ALICE)}):
            assert (await front.get(f"/api/{path}", method, headers)).status == 403


async def test_a_caller_sees_its_own_request_and_no_other() -> None:
    """Another one's looks as one that does not exist, whether it runs, waits, or has ended."""
    async with fronted(keys=KEYS) as front:
        async with crowded(front, headers=shown(ALICE)) as (running, waiting):
            runs, waits = await requests(front)
            paths = [f"/api/requests/{each['id']}" for each in (runs, waits)]
            for path in paths:
                own = await front.get(path, headers={**FAR, **shown(ALICE)})
                assert (own.status, own.json()["key"]) == (200, "alice")
            await hidden(front, paths)
            waiting.reset()
            front.stub.release()
            await running.rest()
        await front.settled()
        for path in paths:
            own = await front.get(path, headers={**FAR, **shown(ALICE)})
            assert own.json()["phase"] == "ended"
        await hidden(front, paths)


async def hidden(front: Front, paths: list[str]) -> None:
    unknown = await front.get(f"/api/requests/{UNKNOWN}", headers=FAR)
    assert unknown.status == 404
    for path in paths:
        for headers in (FAR, {**FAR, **shown(BOB)}, {**FAR, **shown("sl-nobodys")}):
            other = await front.get(path, headers=headers)
            assert (other.status, other.json()["error"]) == (404, unknown.json()["error"])


async def test_what_a_caller_is_told_names_nobody_else() -> None:
    async with fronted(keys=KEYS) as front:
        front.stub.play(held(5, before=1))
        async with front.streaming(headers=shown(BOB)) as running:
            await running.until(b"token-0")
            async with front.calling(headers=shown(ALICE)):
                (waits,) = await until(front, "waiting")
                own = await front.get(f"/api/requests/{waits['id']}", headers={**FAR, **shown(ALICE)})
    assert own.json()["position"] == 1
    assert b"bob" not in own.body
    assert running.answer.headers["request-id"].encode() not in own.body


async def test_without_keys_whoever_knows_the_id_sees_that_request() -> None:
    async with fronted() as front, crowded(front):
        (waits,) = await requests(front, "waiting")
        assert (await front.get(f"/api/requests/{waits['id']}", headers=FAR)).json()["position"] == 1
        assert (await front.get("/api/state", headers=FAR)).status == 403


async def test_a_request_that_does_not_stream_can_be_asked_about() -> None:
    async with fronted() as front, crowded(front), front.calling(ask(stream=False)):
        (_, waits) = await until(front, "waiting", 2)
        told = (await front.get(f"/api/requests/{waits['id']}")).json()
        assert (told["stream"], told["position"], told["bytes"]) == (False, 2, 0)


# ---- those who have ended --------------------------------------------------------------------------------------------


async def test_how_a_request_ended_is_known_for_a_while() -> None:
    async with fronted() as front:
        answer = await front.fetch()
        path = f"/api/requests/{answer.headers['request-id']}"
        await front.until(lambda: not front.relay.passages)
        told = (await front.get(path)).json()
        assert (told["phase"], told["outcome"], told["pieces"]) == ("ended", "completed", 3)
        assert told["why"].startswith("ended 0.")
        assert told["last_upstream_byte_ms_ago"] is told["last_client_write_ms_ago"] is None
        assert told["ended_ms_ago"] >= 0


async def test_the_last_hour_is_told_in_numbers() -> None:
    async with fronted(queue=1) as front:
        assert (await front.fetch()).status == 200
        front.stub.play(error(500))
        assert (await front.fetch()).status == 500
        async with crowded(front):
            assert (await front.fetch()).status == 529
        await front.until(lambda: len(front.outcomes) == 5)
        told = (await front.get("/api/history")).json()
        async with asyncio.timeout(5):
            while told["looks"]["slots"] == [None]:
                told = (await front.get("/api/history")).json()
    minutes = told["minutes"]
    assert [minutes[each] for each in ("completed", "failed", "refused", "left")] == [[1], [1], [1], [2]]
    assert minutes["pieces"] == [3 + 0 + 0 + 2]
    assert minutes["wait_p50_ms"][0] <= minutes["wait_p95_ms"][0] < 5000
    assert told["looks"]["slots"] == [1]


# ---- ending one ------------------------------------------------------------------------------------------------------


async def test_an_operator_ends_one_that_waits_and_those_behind_it_move_up() -> None:
    async with fronted() as front, crowded(front) as (_, waiting), front.streaming() as behind:
        await behind.until(b'"position":2')
        first, _ = await until(front, "waiting", 2)
        ended = await front.get(f"/api/requests/{first['id']}", "DELETE")
        assert ended.status == 200
        assert (ended.json()["phase"], ended.json()["outcome"]) == ("ended", "shutdown")
        assert "an operator has ended this request" in ended.json()["why"]
        assert (await waiting.answer()).body.endswith(
            b'"message":"an operator has ended this request"},"request_id":"%b"}\n\n' % first["id"].encode()
        )
        await behind.until(b'"position":1')


async def test_an_operator_ends_one_that_runs_and_its_slot_goes_on_to_the_next() -> None:
    async with fronted() as front, crowded(front) as (running, waiting):
        front.stub.play(ok(3))
        identity = running.answer.headers["request-id"]
        ended = await front.get(f"/api/requests/{identity}", "DELETE")
        assert (ended.status, ended.json()["pieces"], ended.json()["upstream"]) == (200, 2, "box")
        assert b"event: error" in await running.rest()
        assert b"message_stop" not in running.answer.body
        assert check((await waiting.answer()).body).complete
        await front.settled()
        assert front.outcomes == ["shutdown", "completed"]


async def test_one_that_does_not_stream_ends_with_a_status_after_which_no_client_asks_again() -> None:
    async with fronted() as front:
        front.stub.play(hang())
        async with front.calling(ask(stream=False), "/v1/chat/completions") as caller:
            (runs,) = await until(front, "prefill")
            assert runs["surface"] == "chat/completions"
            assert (await front.get(f"/api/requests/{runs['id']}", "DELETE")).status == 200
            answer = await caller.answer()
        assert (answer.status, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        await front.settled()
        await front.serves()


async def test_one_that_is_not_there_cannot_be_ended() -> None:
    async with fronted() as front:
        assert (await front.get(f"/api/requests/{UNKNOWN}", "DELETE")).status == 404
        done = (await front.fetch()).headers["request-id"]
        await front.until(lambda: not front.relay.passages)
        again = await front.get(f"/api/requests/{done}", "DELETE")
        assert (again.status, again.json()["error"]["message"]) == (404, "this request has ended already")
        assert front.outcomes == ["completed"]


async def test_of_two_who_end_the_same_request_both_are_told_that_it_ended() -> None:
    async with fronted() as front, crowded(front):
        (waits,) = await requests(front, "waiting")
        path = f"/api/requests/{waits['id']}"
        both = await asyncio.gather(front.get(path, "DELETE"), front.get(path, "DELETE"))
        assert {each.status for each in both} <= {200, 404}
        assert 200 in {each.status for each in both}
        await front.until(lambda: front.waiting == 0)
        assert front.outcomes == ["shutdown"]


# ---- the stream ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def watching(front: Front, headers: dict[str, str] | None = None) -> AsyncIterator[Stream]:
    caller = await Caller.connect(front.url)
    try:
        await caller.send("GET", "/api/events", headers=headers)
        answer = await caller.head()
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield Stream(caller, answer)
    finally:
        caller.reset()
        await caller.close()


async def seen(stream: Stream) -> dict[str, Any]:
    """The next state in a stream, which is the `data` of an event without a name."""
    piece = await stream.next()
    assert piece.startswith(b"data: {")
    assert piece.endswith(b"}\n\n")
    told: dict[str, Any] = msgspec.json.decode(piece[6:])
    return told


async def test_who_watches_gets_the_state_at_once_and_again_as_it_changes() -> None:
    async with fronted() as front, watching(front) as one, watching(front) as other:
        assert [(await seen(stream))["requests"] for stream in (one, other)] == [[], []]
        async with front.streaming() as stream:
            await stream.rest()
            identity = stream.answer.headers["request-id"]
            front.stub.play(hang())
            async with front.calling():
                for watcher in (one, other):
                    while not (requests := (await seen(watcher))["requests"]):
                        pass
                    assert requests[0]["id"] != identity
        for watcher in (one, other):
            while (await seen(watcher))["requests"]:
                pass


async def test_who_watches_does_not_keep_the_gateway_from_ending() -> None:
    """The stream goes on while answers end, and ends whole with the gateway."""
    loop = asyncio.get_running_loop()
    async with fronted() as front:
        caller = await Caller.connect(front.url)
        await caller.send("GET", "/api/events")
        watcher = Stream(caller, await caller.head())
        await seen(watcher)
        began = loop.time()
        await front.relay.drain(10.0)
        assert loop.time() - began < 1.0
        rest = asyncio.create_task(watcher.rest())
        await front.get("/healthz")
        assert not rest.done()
        closing = loop.time()
    assert loop.time() - closing < 0.9
    await rest
    await caller.close()
    assert front.log.faults == []


async def test_who_leaves_the_stream_leaves_nothing_behind() -> None:
    async with fronted() as front:
        async with watching(front) as watcher:
            await seen(watcher)
        await front.settled()
        assert front.log.faults == []


async def test_one_look_at_the_state_serves_all_who_watch() -> None:
    async with fronted() as front, watching(front) as one, watching(front) as other:
        assert (await seen(one))["gateway"] == (await seen(other))["gateway"]


@dataclass
class Still:
    """An overview in which nothing happens, of `length` lines. `looks`: how often it was asked."""

    length: int = 0
    looks: int = 0

    def state(self) -> State:
        self.looks += 1
        lines = [Line(["an upstream"], 1)] * self.length
        return State(Gateway("1", 0, self.looks), [], lines, [])

    def history(self) -> Hour:
        return History(0.0).told(0.0)

    def request(self, id: str) -> Request | None:  # noqa: A002 - as the protocol has it
        return None


@asynccontextmanager
async def mounted(overview: Still, pace: Pace) -> AsyncIterator[tuple[Stream, web.Server]]:
    """One who watches `overview`, and has read the head of the answer; and the server."""
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Ports))
    app = web.Application()
    mount(app, Ports(**{**nothing, "overview": overview}), pace)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        caller = await Caller.connect(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await caller.send("GET", "/api/events")
        assert runner.server is not None
        yield Stream(caller, await caller.head()), runner.server
        await caller.close()
    finally:
        await runner.cleanup()


async def test_where_nothing_changes_there_are_signs_of_life_alone() -> None:
    """That time goes on is no change."""
    overview = Still()
    async with mounted(overview, Pace(every=0.02, silence=0.1)) as (watcher, _):
        assert (await seen(watcher))["requests"] == []
        assert [await watcher.next() for _ in range(3)] == [b": keep-alive\n\n"] * 3
        assert overview.looks > 3
        overview.length = 1
        assert (await seen(watcher))["lines"] == [{"upstreams": ["an upstream"], "length": 1}]


async def test_a_state_that_takes_long_to_look_up_is_looked_up_less_often() -> None:
    """Nobody's stream may stand still for it most of the time."""
    now = 100.0

    class Slow(Still):
        def state(self) -> State:
            nonlocal now
            now += 0.3
            return super().state()

    overview = Slow()
    board = Board(overview, Pace(every=0.5), lambda: now)
    for _ in range(100):
        board.show()
        now += 0.1
    assert overview.looks == 2


async def test_who_watches_and_does_not_read_is_cut_off() -> None:
    overview = Still(length=300_000)  # more than what lies between the two ends can hold
    async with mounted(overview, Pace(every=0.02, write=0.1)) as (watcher, server):
        transport = watcher.caller.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        async with asyncio.timeout(5):
            while server.connections:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/api/state", "/api/events", "/api/history", f"/api/requests/{UNKNOWN}"])
async def test_other_methods_are_told_so(path: str) -> None:
    async with fronted() as front:
        assert (await front.get(path, "POST")).status == 405
