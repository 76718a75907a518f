"""One outcome for every request below `/v1`, counted once, whichever way it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fakes.gateway import Exit, Front, fronted, leave
from fakes.numbers import numbers
from fakes.product import ask
from slotline.config import KeyConfig, ModelConfig, ServerConfig
from slotline.core.errors import Outcome
from slotline.core.keys import digest
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.standard import die, endless_thinking, error, hang, ok, stall, swallowed
from slotline.surface.outcomes import surface_of

SHORT = 0.2
SECRET = "sl-a-secret-of-alice"
HELD = ask("held", model="held")  # what takes the only slot and keeps it


def key(**more: Any) -> KeyConfig:
    return KeyConfig(name="alice", hash=f"sha256:{digest(SECRET).hex()}", **more)


SHOWN = {"x-api-key": SECRET}


@dataclass(frozen=True)
class Scene:
    """`play` makes one request to Messages end in one way; `front`: what is special about the gateway."""

    play: Callable[[Front], Awaitable[object]]
    front: dict[str, Any] = field(default_factory=dict)


def limits(**more: float) -> dict[str, Any]:
    return {"limits": Limits(poll=0.05, **more)}  # type: ignore[arg-type]


async def answered(front: Front) -> None:
    assert (await front.fetch()).status == 200


async def failed(front: Front) -> None:
    assert (await front.fetch(ask(stream=False))).status >= 400


async def failed_in_stream(front: Front) -> None:
    assert b"event: error" in (await front.fetch()).body


def upstream(script: Any, then: Callable[[Front], Awaitable[object]] = failed) -> Callable[[Front], Awaitable[object]]:
    """The upstream does as `script` says, and what the client gets is what `then` expects."""

    async def play(front: Front) -> None:
        front.stub.play(script)
        await then(front)

    return play


async def leaves_waiting(front: Front) -> None:
    async with front.calling(HELD):
        await front.stub.until(lambda state: state.running == 1)
        async with front.streaming() as stream:
            await stream.next()
            leave(stream.caller, Exit.FIN)
            await front.until(lambda: "client_left_waiting" in front.outcomes)


async def leaves_running(front: Front) -> None:
    front.stub.play(stall(2))
    async with front.streaming() as stream:
        await stream.until(b"token-1")
        leave(stream.caller, Exit.FIN)
        await front.until(lambda: "client_left_running" in front.outcomes)


async def finds_no_place(front: Front) -> None:
    async with front.calling(HELD):
        await front.stub.until(lambda state: state.running == 1)
        assert (await front.fetch()).status == 529


async def may_not_wait(front: Front) -> None:
    async with front.calling(HELD, headers=SHOWN):
        await front.stub.until(lambda state: state.running == 1)
        assert (await front.fetch(headers=SHOWN)).status == 429


async def waits_too_long(front: Front) -> None:
    async with front.calling(HELD):
        await front.stub.until(lambda state: state.running == 1)
        await failed(front)


async def loads_for_ever(front: Front) -> None:
    front.stub.start_loading()
    await failed(front)


async def shuts_down(front: Front) -> None:
    await front.relay.drain(0)
    await failed(front)


SCENES: dict[Outcome, list[Scene]] = {
    Outcome.COMPLETED: [Scene(answered), Scene(upstream(ok(3), answered))],
    Outcome.CLIENT_LEFT_WAITING: [Scene(leaves_waiting)],
    Outcome.CLIENT_LEFT_RUNNING: [Scene(leaves_running)],
    Outcome.REFUSED_FULL: [Scene(finds_no_place, {"queue": 0})],
    Outcome.REFUSED_LIMIT: [Scene(may_not_wait, {"keys": (key(waiting=0),)})],
    Outcome.WAIT_TIMEOUT: [
        Scene(waits_too_long, {"queue_wait": SHORT}),
        Scene(upstream(hang()), limits(busy_wait=SHORT)),
    ],
    Outcome.LOAD_TIMEOUT: [Scene(loads_for_ever, limits(load_wait=SHORT))],
    Outcome.STALLED: [
        Scene(upstream(swallowed()), limits(idle_grace=SHORT)),
        Scene(upstream(stall(2), failed_in_stream), limits(liveness=SHORT)),
    ],
    Outcome.UPSTREAM_DIED: [Scene(upstream(die(2), failed_in_stream))],
    Outcome.UPSTREAM_ERROR: [
        Scene(upstream(error(500))),
        Scene(upstream(error(401))),
        Scene(
            failed,
            {"url": "http://127.0.0.1:1", "models": (ModelConfig(name="stub", upstreams=("box",), target="stub"),)},
        ),
    ],
    Outcome.THINKING_OVERRUN: [
        Scene(upstream(endless_thinking(gap=0.001, heeds_control=False)), limits(thinking_cap=5, thinking_overrun=5))
    ],
    Outcome.SHUTDOWN: [Scene(shuts_down)],
}


@pytest.mark.parametrize(
    ("outcome", "scene"),
    [(outcome, scene) for outcome, scenes in SCENES.items() for scene in scenes],
    ids=[f"{outcome}-{n}" for outcome, scenes in SCENES.items() for n in range(len(scenes))],
)
async def test_a_request_that_comes_to_the_line_is_counted_once_under_its_outcome(
    outcome: Outcome, scene: Scene
) -> None:
    stub = Stub(slots=1, tokens=3, models=("stub", "held"))
    stub.by_model["held"] = hang()
    async with fronted(stub=stub, **scene.front) as front:
        await scene.play(front)
        await front.until(lambda: not front.relay.passages)
        counted = (await numbers(front)).outcomes
        assert {name: n for name, n in counted.items() if name[1] == "stub"} == {("messages", "stub", outcome): 1}
        assert sum(counted.values()) == len(front.outcomes)  # some scenes have another, which holds the slot


def test_every_outcome_has_a_scene() -> None:
    assert set(SCENES) | {Outcome.INVALID} == set(Outcome)


# ---- what is refused, or answered, before the line -------------------------------------------------------------------

Ask = Callable[[Front], Awaitable[object]]


async def body_never_comes(front: Front) -> None:
    async with front.calling(b"") as caller:
        await caller.answer()
        caller.writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: test\r\ncontent-length: 1000\r\n\r\n{")
        await caller.writer.drain()
        await front.get("/healthz")
        leave(caller, Exit.FIN)
        await front.settled()


REFUSED: dict[str, tuple[Ask, tuple[str, str]]] = {
    "no JSON": (lambda front: front.fetch(b"{"), ("messages", "")),
    "no model": (lambda front: front.fetch({"messages": []}, "/v1/chat/completions"), ("chat/completions", "")),
    "an unknown model": (lambda front: front.fetch(ask(model="nope")), ("messages", "")),
    "an unknown model to count for": (
        lambda front: front.fetch(ask(model="nope"), "/v1/messages/count_tokens"),
        ("messages/count_tokens", ""),
    ),
    "another method": (lambda front: front.get("/llm/v1/messages"), ("messages", "")),
    "no such route": (lambda front: front.fetch(ask(), "/v1/nowhere"), ("", "")),
    "an unknown model to look at": (lambda front: front.get("/v1/models/nope"), ("models", "")),
    "a body that is too large": (lambda front: front.fetch(b"x" * 5000), ("messages", "")),
    "a compressed body": (lambda front: front.fetch(headers={"content-encoding": "gzip"}), ("messages", "")),
    "a value out of range": (
        lambda front: front.fetch({"model": "stub", "input": "hi", "max_output_tokens": -1}, "/v1/responses"),
        ("responses", ""),
    ),
}


@pytest.mark.parametrize("way", REFUSED)
async def test_what_is_refused_before_the_line_is_invalid_once(way: str) -> None:
    play, (surface, model) = REFUSED[way]
    async with fronted(server=ServerConfig(port=0, max_body=4096)) as front:
        await play(front)
        assert (await numbers(front)).outcomes == {(surface, model, "invalid"): 1}
        assert front.outcomes == []  # it has a line of its own in the log
        assert [record.getMessage() for record in front.log.records if "fields" in record.__dict__].count(
            "request refused"
        ) == 1


@pytest.mark.parametrize("path", ["/v1/messages", "/llm/v1/chat/completions", "/v1/models", "/v1/nowhere"])
async def test_without_a_key_a_request_is_invalid(path: str) -> None:
    async with fronted(keys=(key(),)) as front:
        assert (await front.fetch(ask(), path)).status == 401
        assert [(model, outcome) for _, model, outcome in (await numbers(front)).outcomes] == [("", "invalid")]


async def test_a_model_that_a_key_may_not_use_is_named_because_it_is_the_catalogues() -> None:
    async with fronted(keys=(key(models=("other",)),)) as front:
        assert (await front.fetch(headers=SHOWN)).status == 403
        assert (await numbers(front)).outcomes == {("messages", "stub", "invalid"): 1}


async def test_a_body_that_never_comes_is_a_client_that_left() -> None:
    async with fronted() as front:
        await body_never_comes(front)
        outcomes = (await numbers(front)).outcomes
    assert outcomes.pop(("messages", "", "client_left_waiting")) == 1
    assert outcomes == {("messages", "", "invalid"): 1}  # the empty body before it


async def test_where_nobody_can_say_which_models_there_are_that_is_the_upstreams_fault() -> None:
    async with fronted(url="http://127.0.0.1:1") as front:
        assert (await front.fetch()).status == 502
        assert (await numbers(front)).outcomes == {("messages", "", "upstream_error"): 1}


async def test_what_needs_no_slot_is_completed_and_takes_no_time_of_the_line() -> None:
    async with fronted() as front:
        assert (await front.get("/v1/models")).status == 200
        assert (await front.get("/llm/v1/models/stub")).status == 200
        assert (await front.fetch(ask(), "/v1/messages/count_tokens")).status == 200
        seen = await numbers(front)
        assert seen.outcomes == {("models", "", "completed"): 2, ("messages/count_tokens", "stub", "completed"): 1}
        assert seen.sum("slotline_request_seconds_count") == 0
        assert front.outcomes == []


async def test_a_burst_of_all_kinds_is_counted_to_the_last_request() -> None:
    async with fronted(slots=2, queue=64) as front:
        asked = [front.fetch(ask(str(n), stream=bool(n % 2))) for n in range(8)]
        asked += [front.fetch(ask(model="nope")) for _ in range(4)]
        asked += [front.fetch(b"{", "/v1/responses") for _ in range(3)]
        await asyncio.gather(*asked)
        assert (await numbers(front)).outcomes == {
            ("messages", "stub", "completed"): 8,
            ("messages", "", "invalid"): 4,
            ("responses", "", "invalid"): 3,
        }


@pytest.mark.parametrize(
    ("path", "surface"),
    [
        ("/v1/messages", "messages"),
        ("/llm/v1/messages", "messages"),
        ("/llm/v1/messages/count_tokens", "messages/count_tokens"),
        ("/v1/models/a/b", "models"),
        ("/v1", ""),
        ("/v1/messages/", ""),
        ("/v1/v1/messages", ""),
        ("/other/v1/messages", None),
        ("/v10/messages", None),
        ("/healthz", None),
        ("/", None),
    ],
)
def test_a_path_has_a_surface_if_it_is_below_v1_of_a_mount(path: str, surface: str | None) -> None:
    assert surface_of(path, "/llm") == surface
