"""`GET /metrics`: what an operator's Prometheus reads, in every state that the gateway can be in."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fakes.gateway import Front, fronted
from fakes.numbers import OPEN, Numbers, numbers
from fakes.product import Caller, ask
from slotline.config import KeyConfig, ModelConfig, UpstreamConfig
from slotline.core.keys import digest
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.script import Done, Finish, Head, Hold, Reasoning, Script, Sleep, Text, Usage
from slotline.stub.standard import endless_thinking, hang, held, ok

CHAT = "/v1/chat/completions"


async def until(front: Front, name: str, value: float, **labels: str) -> Numbers:
    """The scrape in which the series add up to `value`."""
    async with asyncio.timeout(5):
        while (seen := await numbers(front)).sum(name, **labels) != value:
            pass
    return seen


async def test_it_is_open_also_where_there_are_keys_and_names_none_of_them() -> None:
    secret = KeyConfig(name="a-marker-of-a-name", hash=f"sha256:{digest('sl-a-marker').hex()}")
    async with fronted(keys=(secret,)) as front:
        await front.fetch(ask("a-marker-in-a-prompt"), headers={"x-api-key": "sl-a-marker"})
        answer = await front.get("/metrics", headers={"x-forwarded-for": "192.0.2.1"})
    assert answer.status == 200
    assert b"marker" not in answer.body
    assert b'outcome="completed"' in answer.body


@pytest.mark.parametrize("accept", ["", OPEN, "text/plain;version=1.0.0"])
async def test_every_form_is_valid_and_of_the_type_that_it_says(accept: str) -> None:
    async with fronted() as front:
        await front.fetch()
        seen = await numbers(front, accept)
        assert seen.outcomes == {("messages", "stub", "completed"): 1}
        assert seen.sum("slotline_upstream_up", upstream="box") == 1
        assert seen.series("slotline_build_info")


async def test_who_runs_waits_and_drains_is_read_when_it_is_asked_for() -> None:
    async with fronted(slots=2) as front:
        front.stub.default = hang()
        async with front.calling(ask("1")) as leaves, front.calling(ask("2")):
            await front.stub.until(lambda state: state.running == 2)
            async with front.streaming(ask("3")) as waiting:
                await waiting.next()
                seen = await numbers(front)
                assert seen.sum("slotline_running", upstream="box") == 2
                assert seen.sum("slotline_waiting", line="box") == 1
                assert seen.sum("slotline_slots", state="busy") == 2
                assert seen.sum("slotline_slots", state="free") == 0
            await until(front, "slotline_waiting", 0)
            leaves.reset()
            await until(front, "slotline_running", 1)
        await until(front, "slotline_running", 0)


async def test_a_slot_that_drains_is_told_as_such() -> None:
    async with fronted(stub=Stub(slots=1, abort_lag=0.5)) as front:
        front.stub.play(hang())
        async with front.calling() as caller:
            await front.stub.until(lambda state: state.running == 1)
            caller.reset()
            seen = await until(front, "slotline_slots", 1, state="draining")
            assert seen.sum("slotline_slots", upstream="box") == 1


async def test_an_upstream_that_is_away_is_down_and_so_are_its_slots() -> None:
    gone = ModelConfig(name="stub", upstreams=("box",), target="stub")
    async with fronted(url="http://127.0.0.1:1", models=(gone,), slots=2) as front:
        for _ in range(3):
            await front.fetch(ask(stream=False))
        seen = await until(front, "slotline_slots", 2, state="down")
        assert seen.sum("slotline_upstream_up", upstream="box") == 0
        assert seen.series("slotline_upstream_up")


async def test_waits_first_tokens_and_durations_begin_with_the_arrival() -> None:
    async with fronted() as front:
        front.stub.default = Script((Head(), Sleep(0.2), Text("a"), Sleep(0.2), Finish(), Usage(), Done()))
        await asyncio.gather(front.fetch(ask("1")), front.fetch(ask("2")))
        seen = await numbers(front)
    assert 0.4 < seen.sum("slotline_wait_seconds_sum") < 0.8
    assert 0.8 < seen.sum("slotline_first_token_seconds_sum") < 1.6
    assert 1.2 < seen.sum("slotline_request_seconds_sum") < 2.4
    for name in ("wait", "first_token", "request"):
        assert seen.sum(f"slotline_{name}_seconds_count", surface="messages", model="stub") == 2


async def test_a_wait_and_a_first_token_are_told_at_once_and_not_when_the_answer_ends() -> None:
    """Answers take minutes; who looks at a jam wants to see it now."""
    async with fronted() as front:
        front.stub.play(held(3, before=1))
        async with front.streaming() as stream:
            await stream.until(b"token-0")
            seen = await numbers(front)
            assert seen.sum("slotline_wait_seconds_count") == 1
            assert seen.sum("slotline_first_token_seconds_count") == 1
            assert seen.sum("slotline_request_seconds_count") == 0
            front.stub.release()
            await stream.rest()


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_comes_in_one_piece_has_a_first_token(*, stream: bool) -> None:
    async with fronted() as front:
        front.stub.play(ok(1))
        await front.fetch(ask(stream=stream))
        assert (await numbers(front)).sum("slotline_first_token_seconds_count") == 1


async def test_embeddings_are_counted_like_everything_else() -> None:
    async with fronted() as front:
        assert (await front.fetch({"model": "stub", "input": "hi"}, "/v1/embeddings")).status == 200
        seen = await numbers(front)
    assert seen.outcomes == {("embeddings", "stub", "completed"): 1}
    assert seen.sum("slotline_tokens_total", model="stub", direction="input") > 0
    assert seen.sum("slotline_tokens_total", direction="output") == 0


@pytest.mark.parametrize("path", ["/v1/messages", CHAT, "/v1/responses", "/v1/completions"])
async def test_tokens_are_the_upstreams_own_count_on_every_surface(path: str) -> None:
    plain: dict[str, Any] = {"/v1/responses": {"input": "hi"}, "/v1/completions": {"prompt": "hi"}}
    body = {"model": "stub", **plain[path]} if path in plain else ask(stream=False)
    answer = (Text("a"), Finish(), Usage(prompt=100, completion=7, cached=60), Done())
    thinks = () if path == "/v1/completions" else (Reasoning("x"), Reasoning("y"))
    async with fronted() as front:
        front.stub.play(Script((Head(), *thinks, *answer)))
        assert (await front.fetch(body, path)).status == 200
        seen = await numbers(front)
    told = {way: seen.sum("slotline_tokens_total", direction=way) for way in ("input", "cached", "output", "reasoning")}
    assert told == {"input": 100, "cached": 60, "output": 7, "reasoning": len(thinks)}


async def test_of_an_answer_that_broke_off_what_came_is_counted() -> None:
    async with fronted() as front:
        front.stub.play(held(9, before=4))
        async with front.streaming() as stream:
            await stream.until(b"token-3")
        await front.until(lambda: not front.relay.passages)
        assert (await numbers(front)).sum("slotline_tokens_total", direction="output") == 4


async def test_thinking_that_is_capped_is_counted() -> None:
    async with fronted(limits=Limits(poll=0.05, thinking_cap=5)) as front:
        front.stub.play(endless_thinking(gap=0.001))
        assert (await front.fetch()).status == 200
        assert (await numbers(front)).sum("slotline_thinking_capped_total", model="stub") == 1


async def test_a_slot_that_is_handed_on_is_idle_for_a_moment_and_only_that_is_counted() -> None:
    """Who finds a free slot, or waits for one that works, leaves nothing idle."""
    async with fronted() as front:
        await front.fetch()
        assert (await numbers(front)).sum("slotline_slot_idle_seconds_count") == 0
        front.stub.default = Script((Head(), Text("a"), Sleep(0.2), Finish(), Done()))
        await asyncio.gather(*(front.fetch(ask(str(n))) for n in range(4)))
        seen = await numbers(front)
    assert seen.sum("slotline_slot_idle_seconds_count") == 3
    assert 0 < seen.sum("slotline_slot_idle_seconds_sum") < 0.3


async def test_a_model_counts_under_its_own_name_whatever_its_clients_call_it() -> None:
    model = ModelConfig(name="reasoning", upstreams=("box",), target="stub", aliases=("claude-*", "gpt"))
    async with fronted(models=(model,)) as front:
        for name in ("reasoning", "claude-opus-9", "gpt"):
            assert (await front.fetch(ask(model=name))).status == 200
        assert (await numbers(front)).outcomes == {("messages", "reasoning", "completed"): 3}


async def test_invented_names_of_routes_and_models_make_no_series() -> None:
    """A thousand of them: see `tests/observe/test_metrics.py`."""
    model = ModelConfig(name="m", upstreams=("box",), target="stub", aliases=("claude-*",))
    async with fronted(models=(model,)) as front:
        await front.fetch(ask(model="claude-0"))
        before = {tuple(sorted(each.items())) for each in (await numbers(front)).series("slotline_requests_total")}
        caller = await Caller.connect(front.url)
        for number in range(100):
            await caller.send("POST", f"/v1/invented-{number}", {"model": f"invented-{number}"})
            assert (await caller.answer()).status == 404
        for number in range(50):
            await caller.send("POST", CHAT, ask(model=f"invented-{number}"))
            assert (await caller.answer()).status == 404
        for number in range(10):
            await caller.send("POST", "/v1/messages", ask(model=f"claude-{number}"))
            assert (await caller.answer()).status == 200
        await caller.close()
        seen = await numbers(front)
        assert {tuple(sorted(each.items())) for each in seen.series("slotline_requests_total")} == before
        assert seen.outcomes == {
            ("messages", "m", "completed"): 11,
            ("", "", "invalid"): 100,
            ("chat/completions", "", "invalid"): 50,
        }


async def test_what_a_reload_takes_out_is_gone_from_the_gauges_and_stays_in_the_counters() -> None:
    async with Stub(slots=2, models=("other",)) as second:
        attic = UpstreamConfig(name="attic", url=second.url, slots=2, queue=4, limits=Limits(poll=0.05))
        async with fronted(before=(attic,)) as front:
            assert (await front.fetch(ask(model="other"))).status == 200
            seen = await numbers(front)
            assert {each["upstream"] for each in seen.series("slotline_upstream_up")} == {"attic", "box"}
            assert {each["line"] for each in seen.series("slotline_waiting")} == {"attic", "box"}

            config = front.gateway.config
            await front.gateway.reload(msgspec.structs.replace(config, upstreams=config.upstreams[1:]))
            seen = await numbers(front)
            for name in ("slotline_upstream_up", "slotline_running", "slotline_slots"):
                assert {each["upstream"] for each in seen.series(name)} == {"box"}
            assert {each["line"] for each in seen.series("slotline_waiting")} == {"box"}
            assert seen.outcomes == {("messages", "other", "completed"): 1}


async def test_a_line_before_several_upstreams_has_all_their_names_in_order() -> None:
    async with Stub(slots=1) as second:
        attic = UpstreamConfig(name="attic", url=second.url, slots=1, queue=4, limits=Limits(poll=0.05))
        async with fronted(before=(attic,)) as front:
            for stub in (front.stub, second):
                stub.play(Script((Hold(),)))
            async with front.calling(ask("1")), front.calling(ask("2")), front.streaming(ask("3")) as waits:
                await waits.next()
                seen = await numbers(front)
                assert seen.sum("slotline_waiting", line="attic+box") == 1


async def test_while_the_gateway_drains_it_still_answers() -> None:
    async with fronted() as front:
        front.stub.play(held(3, before=1))
        async with front.streaming() as stream:
            await stream.until(b"token-0")
            drain = asyncio.ensure_future(front.relay.drain(30))
            await front.until(lambda: front.relay.closing)
            assert (await numbers(front)).sum("slotline_running") == 1
            front.stub.release()
            await stream.rest()
            await drain
