"""vLLM: gauges of what runs and waits, and its tokenizer."""

from __future__ import annotations

import msgspec
import pytest

from fakes.asking import asking, plain, recorded, silence_means
from fakes.bare import unused_port
from fakes.upstream import chat
from slotline.core.kind import Kind
from slotline.core.liveness import State
from slotline.core.reading import Reading
from slotline.stub import Side
from slotline.upstream.kinds import vllm
from slotline.upstream.kinds.facts import Facts, Listing

OK = Side(body="")


def metrics(running: float, waiting: float | None = None) -> Side:
    lines = [f'vllm:num_requests_running{{engine="0"}} {running}']
    lines += [] if waiting is None else [f'vllm:num_requests_waiting{{engine="0"}} {waiting}']
    return Side(body="\n".join(lines))


async def test_what_runs_and_what_waits_is_at_work_on_every_engine() -> None:
    async with plain({"/health": OK, "/metrics": recorded("vllm-metrics.txt")}) as stub, asking(stub.url) as ask:
        assert await vllm.reading(ask) == Reading(running=6)


@pytest.mark.parametrize(
    ("side", "answering", "means"),
    [
        (metrics(0), 0, State.IDLE),
        (metrics(1), 0, State.BUSY),
        (metrics(0, 1), 0, State.BUSY),
        (metrics(2, 0), 2, State.IDLE),
        (metrics(2, 1), 2, State.BUSY),
        (Side(status=404), 0, State.BUSY),
        (Side(status=401), 0, State.BUSY),
        (Side(body="<html>"), 0, State.BUSY),
        (Side(body="vllm:num_requests_waiting 0"), 0, State.BUSY),
        (Side(body="vllm:num_requests_running NaN"), 0, State.BUSY),
        (Side(hang=True), 0, State.BUSY),
    ],
)
async def test_a_request_is_lost_only_where_the_gauges_leave_no_room_for_it(
    side: Side, answering: int, means: State
) -> None:
    async with plain({"/health": OK, "/metrics": side}) as stub:
        assert await silence_means(Kind.VLLM, stub.url, answering=answering, limit=0.1) is means


async def test_a_dead_engine_is_restarting_and_not_asked_further() -> None:
    async with plain({"/health": Side(status=503, body=""), "/metrics": metrics(0)}) as stub:
        assert await silence_means(Kind.VLLM, stub.url) is State.LOADING
        assert not stub.hits["/metrics"]


async def test_nobody_there_is_loading() -> None:
    assert await silence_means(Kind.VLLM, f"http://127.0.0.1:{unused_port()}") is State.LOADING


async def test_the_context_is_that_of_the_model_which_adapters_share() -> None:
    listing = msgspec.json.decode(recorded("vllm-models.json").body or "", type=Listing)
    async with asking(f"http://127.0.0.1:{unused_port()}") as ask:
        assert await vllm.facts(ask, listing) == Facts(slots=None, context=32768, vision=None)


async def test_a_prompt_is_counted_by_its_own_template_and_tokenizer() -> None:
    counted = Side(body='{"count":3,"max_model_len":32768,"tokens":[1,2,3],"token_strs":null}')
    async with plain({"/tokenize": counted}) as stub, asking(stub.url) as ask:
        body = chat(tools=[])
        assert await vllm.SERVER.count(ask, body) == 3
        (asked,) = [seen for seen in stub.calls if seen.path == "/tokenize"]
        assert asked.body == body


@pytest.mark.parametrize(
    "side", [Side(status=404), Side(status=400, body='{"count":3}'), Side(body='{"count":"3"}'), Side(hang=True)]
)
async def test_where_that_fails_there_is_no_count(side: Side) -> None:
    async with plain({"/tokenize": side}) as stub, asking(stub.url, 0.1) as ask:
        assert await vllm.SERVER.count(ask, chat()) is None
    async with asking(f"http://127.0.0.1:{unused_port()}") as ask:
        assert await vllm.SERVER.count(ask, chat()) is None
