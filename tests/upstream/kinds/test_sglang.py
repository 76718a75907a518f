"""SGLang: gauges that leave out whose prompt is being read, and what it tells of itself."""

from __future__ import annotations

import time

import msgspec
import pytest

from fakes.asking import asking, plain, recorded, silence_means
from fakes.bare import unused_port
from fakes.upstream import chat, limits
from slotline.core.kind import Kind
from slotline.core.liveness import State
from slotline.core.reading import Reading
from slotline.stub import Side
from slotline.upstream.client import UpstreamClient
from slotline.upstream.kinds import sglang
from slotline.upstream.kinds.facts import Facts, Listing
from slotline.upstream.tenancy import Tenancy

LISTING = msgspec.json.decode(recorded("sglang-models.json").body or "", type=Listing)
INFO, MODEL = recorded("sglang-server-info.json"), recorded("sglang-model-info.json")


def metrics(running: float, queued: float | None = None, **held: float) -> Side:
    lines = [f'sglang:num_running_reqs{{tp_rank="0"}} {running}']
    lines += [] if queued is None else [f'sglang:num_queue_reqs{{tp_rank="0"}} {queued}']
    lines += [f'sglang:{name}{{tp_rank="0"}} {value}' for name, value in held.items()]
    return Side(body="\n".join(lines))


async def test_what_runs_and_what_waits_is_at_work_and_one_whose_prompt_is_read_may_be() -> None:
    async with plain({"/metrics": recorded("sglang-metrics.txt")}) as stub, asking(stub.url) as ask:
        assert await sglang.reading(ask) == Reading(running=4)


@pytest.mark.parametrize(
    ("side", "answering", "means"),
    [
        (metrics(0, 0), 0, State.IDLE),
        (metrics(0, 0, num_used_tokens=0, token_usage=0.0), 0, State.IDLE),
        (metrics(0, 0, num_used_tokens=8192), 0, State.BUSY),
        (metrics(0, 0, kv_used_tokens=8192), 0, State.BUSY),
        (metrics(0, 0, token_usage=0.4), 0, State.BUSY),
        (metrics(1, 0), 0, State.BUSY),
        (metrics(0, 1), 0, State.BUSY),
        (metrics(2, 0, num_used_tokens=9000), 2, State.BUSY),
        (metrics(2, 0), 2, State.IDLE),
        (Side(status=404), 0, State.BUSY),
        (Side(body="sglang:num_queue_reqs 0"), 0, State.BUSY),
        (Side(status=503), 0, State.LOADING),
        (Side(hang=True), 0, State.BUSY),
    ],
)
async def test_a_request_is_lost_only_where_nothing_runs_waits_or_holds_tokens(
    side: Side, answering: int, means: State
) -> None:
    async with plain({"/metrics": side}) as stub:
        assert await silence_means(Kind.SGLANG, stub.url, answering=answering, limit=0.1) is means
        assert set(stub.hits) == {"/metrics"}  # its health costs a token


async def test_nobody_there_is_loading() -> None:
    assert await silence_means(Kind.SGLANG, f"http://127.0.0.1:{unused_port()}") is State.LOADING


@pytest.mark.parametrize(("info", "model"), [("/server_info", "/model_info"), ("/get_server_info", "/get_model_info")])
async def test_it_tells_its_slots_of_all_ranks_its_context_and_whether_it_sees(info: str, model: str) -> None:
    async with plain({info: INFO, model: MODEL}) as stub, asking(stub.url) as ask:
        assert await sglang.facts(ask, LISTING) == Facts(slots=256, context=40960, vision=True)


@pytest.mark.parametrize(
    ("info", "slots"),
    [
        (Side(body='{"max_running_requests":48}'), 48),
        (Side(body='{"max_running_requests":48,"internal_states":[{}]}'), 48),
        (Side(body='{"max_running_requests":null,"internal_states":[{"effective_max_running_requests_per_dp":7}]}'), 7),
        (Side(body='{"internal_states":7}'), None),
        (Side(body="<html>"), None),
        (Side(status=401), None),
        (Side(status=404), None),
    ],
)
async def test_what_it_does_not_tell_is_not_known(info: Side, slots: int | None) -> None:
    async with plain({"/server_info": info}) as stub, asking(stub.url) as ask:
        assert await sglang.facts(ask, LISTING) == Facts(slots, 40960, None)


@pytest.mark.parametrize("path", ["/server_info", "/model_info"])
async def test_a_scheduler_that_is_in_a_long_batch_cannot_be_asked(path: str) -> None:
    """Which says nothing about the slots that it told of before."""
    sides = {"/server_info": INFO, "/model_info": MODEL, path: Side(hang=True)}
    async with plain(sides) as stub, asking(stub.url, 0.1) as ask:
        assert await sglang.facts(ask, LISTING) is None


async def test_its_slots_are_counted_and_not_chosen_among() -> None:
    """It tells how many there are, and shows none of them."""
    sides = {"/v1/models": recorded("sglang-models.json"), "/server_info": INFO, "/model_info": MODEL}
    tenancy = Tenancy(None, pins=True, drain=9.0, clock=time.monotonic)
    async with plain(sides) as stub, UpstreamClient("box", stub.url, limits(), tenancy=tenancy) as upstream:
        await upstream.look()
        assert (upstream.traits.kind, tenancy.slots) == (Kind.SGLANG, 256)
        with upstream.seat((1, 2), lambda: lambda: None) as seat:
            assert seat.slot is None
        assert not tenancy.draining


async def test_builds_whose_tokenizer_takes_a_chat_count_its_tokens() -> None:
    counted = Side(body='{"tokens":[1,2,3],"count":3,"max_model_len":40960}')
    async with plain({"/tokenize": counted}) as stub, asking(stub.url) as ask:
        assert await sglang.SERVER.count(ask, chat()) == 3


async def test_builds_whose_tokenizer_takes_only_text_do_not() -> None:
    refusal = Side(status=400, body='{"object":"error","message":"prompt: Field required","code":400}')
    async with plain({"/tokenize": refusal}) as stub, asking(stub.url) as ask:
        assert await sglang.SERVER.count(ask, chat()) is None
