"""llama-server: what it shows of its slots, in the words of its builds, and the real one behind the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from fakes.bare import unused_port
from fakes.upstream import chat, client, follow, read, text
from slotline.core.errors import UpstreamStatus
from slotline.core.kind import Kind
from slotline.core.reading import Slot
from slotline.stub import Side, Stub
from slotline.stub.standard import endless_thinking, held, swallowed
from slotline.upstream.address import Address
from slotline.upstream.asker import Asker
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.kinds import llama_cpp
from slotline.upstream.model_file import default_cache, ensure
from slotline.upstream.probe import Health

CONTROL = "/v1/chat/completions/control"

# Bodies of `/slots`, shortened: of a server that has just started, of one at work (an idle slot tells of its last task;
# a prompt of 96 tokens, of which it knew 89, and 21 of the answer; then one of 1035 that it reads and knew 629 of), in
# the form that its documents show, and of a build of 2024.
FRESH = '[{"id":0,"n_ctx":8192,"speculative":false,"is_processing":false}]'
AT_WORK = """[
 {"id":0,"n_ctx":4096,"speculative":false,"is_processing":false,"id_task":28,"n_prompt_tokens":117,
  "n_prompt_tokens_processed":7,"n_prompt_tokens_cache":89,"params":{"n_predict":300,"seed":4294967295},
  "next_token":[{"has_next_token":true,"has_new_line":false,"n_remain":279,"n_decoded":21}]},
 {"id":1,"n_ctx":4096,"speculative":false,"is_processing":true,"id_task":56,"n_prompt_tokens":1035,
  "n_prompt_tokens_processed":200,"n_prompt_tokens_cache":629,"params":{"n_predict":3},
  "next_token":[{"has_next_token":true,"has_new_line":false,"n_remain":3,"n_decoded":0}]}]"""
AS_DOCUMENTED = """[{"id":0,"n_ctx":8192,"is_processing":true,"n_prompt_tokens":16,"n_prompt_tokens_processed":16,
  "next_token":{"has_next_token":true,"n_remain":-1,"n_decoded":3}}]"""
OF_2024 = '[{"id":0,"state":1,"n_ctx":4096,"prompt":"…","next_token":{"n_decoded":3}}]'


@asynccontextmanager
async def asking(url: str, limit: float = 10.0) -> AsyncIterator[Asker]:
    address = Address.parse(url)
    async with aiohttp.ClientSession(connector=address.connector()) as session:
        yield Asker(session, address, limit)


# ---- its slots -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "slots"),
    [
        ("[]", ()),
        (FRESH, (Slot(0, busy=False),)),
        (AT_WORK, (Slot(0, False, 96, 96, 21), Slot(1, True, 1035, 829, 0))),
        (AS_DOCUMENTED, (Slot(0, True, 16, 16, 3),)),
        ('[{"id":0,"is_processing":true,"next_token":[]}]', (Slot(0, busy=True),)),
        ('[{"id":0,"is_processing":true,"next_token":[{}]}]', (Slot(0, busy=True),)),
        (OF_2024, None),
        ('{"error":{"code":501,"type":"not_supported_error"}}', None),
        ("", None),
    ],
)
async def test_slots_are_read_in_every_form_they_are_known_in(body: str, slots: tuple[Slot, ...] | None) -> None:
    async with Stub() as stub, asking(stub.url) as ask:
        stub.sides["/slots"] = Side(body=body)
        reading = await llama_cpp.reading(ask)
    assert reading.slots == slots
    assert not reading.loading


async def test_slots_show_who_is_worked_on() -> None:
    async with Stub(slots=2, default=held(3, before=1)) as stub, asking(stub.url) as ask, client(stub.url) as upstream:
        assert (await llama_cpp.reading(ask)).busy == 0
        task = asyncio.create_task(read(upstream))
        await stub.until(lambda s: s.held == 1)
        reading = await llama_cpp.reading(ask)
        assert reading.slots is not None
        assert [slot.busy for slot in reading.slots] == [True, False]
        assert reading.slots[0].decoded == 1
        stub.release()
        await task
        assert (await llama_cpp.reading(ask)).busy == 0


@pytest.mark.parametrize("body", ['{"error":{"code":503,"message":"Loading model"}}', '{"status":"loading model"}', ""])
async def test_health_503_is_loading_and_nothing_else_is_asked(body: str) -> None:
    async with Stub() as stub, asking(stub.url) as ask:
        stub.sides["/health"] = Side(status=503, body=body)
        assert (await llama_cpp.reading(ask)).loading
        assert not stub.hits["/slots"]


async def test_a_sleeper_is_loading_and_is_not_woken() -> None:
    async with Stub(sleeping=True) as stub, asking(stub.url) as ask:
        assert (await llama_cpp.reading(ask)).loading
        assert stub.sleeping
        assert not stub.hits["/slots"]


async def test_nobody_there_is_restarting() -> None:
    async with asking(f"http://127.0.0.1:{unused_port()}") as ask:
        assert (await llama_cpp.reading(ask)).loading


@pytest.mark.parametrize("path", ["/health", "/props", "/slots"])
async def test_one_that_does_not_answer_in_time_is_in_a_long_batch(path: str) -> None:
    async with Stub() as stub, asking(stub.url, 0.05) as ask:
        stub.sides[path] = Side(hang=True)
        reading = await llama_cpp.reading(ask)
    assert not reading.loading
    assert reading.busy is None


@pytest.mark.parametrize("status", [401, 404, 501, 503])
async def test_one_that_does_not_show_its_slots_shows_nothing(status: int) -> None:
    async with Stub() as stub, asking(stub.url) as ask:
        stub.sides["/slots"] = Side(status=status, body=FRESH)
        reading = await llama_cpp.reading(ask)
    assert not reading.loading
    assert reading.busy is None


# ---- its tokenizer ---------------------------------------------------------------------------------------------------


async def test_a_prompt_is_counted_by_its_own_template_and_tokenizer() -> None:
    async with Stub(tokens=1) as stub, asking(stub.url) as ask, client(stub.url) as upstream:
        usage = msgspec.json.decode((await read(upstream))[-2])["usage"]
        assert await llama_cpp.count(ask, chat()) == usage["prompt_tokens"]
        assert not any(call.path == "/slots" for call in stub.calls)
    question = next(call for call in stub.calls if call.path == "/tokenize")
    asked = msgspec.json.decode(question.body)
    assert (asked["add_special"], asked["parse_special"]) == (True, True)  # as the server does with a chat
    assert "hello" in asked["content"]


@pytest.mark.parametrize(
    "sides",
    [
        {"/apply-template": Side(status=404)},
        {"/apply-template": Side(status=400, body='{"error":{"message":"no template"}}')},
        {"/apply-template": Side(body="{}")},
        {"/apply-template": Side(hang=True)},
        {"/tokenize": Side(status=404)},
        {"/tokenize": Side(body='{"tokens":3}')},
        {"/tokenize": Side(body='{"tokens":' + "[" * 100_000)},
        {"/tokenize": Side(hang=True)},
    ],
)
async def test_where_that_fails_there_is_no_count(sides: dict[str, Side]) -> None:
    async with Stub() as stub, asking(stub.url, 0.1) as ask:
        stub.sides.update(sides)
        assert await llama_cpp.count(ask, chat()) is None


async def test_where_nobody_is_there_is_no_count() -> None:
    async with asking(f"http://127.0.0.1:{unused_port()}") as ask:
        assert await llama_cpp.count(ask, chat()) is None


async def test_counting_takes_no_slot() -> None:
    async with Stub(slots=1, default=swallowed()) as stub, asking(stub.url) as ask:
        await llama_cpp.count(ask, chat())
        assert stub.state.received == 0


# ---- the end of its reasoning ----------------------------------------------------------------------------------------


async def test_reasoning_is_ended_by_the_completions_id() -> None:
    async with (
        Stub(default=endless_thinking(gap=0.01)) as stub,
        asking(stub.url) as ask,
        client(stub.url) as upstream,
        upstream.answer(chat(reasoning_control=True)) as answer,
    ):
        await anext(answer)
        assert await llama_cpp.end_reasoning(ask, stub.requests[0].id)
        assert text(await follow(answer)) == "token-0 token-1 token-2"
    (control,) = [call for call in stub.calls if call.path == CONTROL]
    assert msgspec.json.decode(control.body) == {"id": stub.requests[0].id, "action": "reasoning_end"}


async def test_a_refusal_to_end_it_is_told_by_the_body_not_by_the_status() -> None:
    async with Stub(default=endless_thinking(gap=0.01)) as stub, asking(stub.url) as ask, client(stub.url) as upstream:
        assert not await llama_cpp.end_reasoning(ask, "chatcmpl-unknown")
        async with upstream.answer(chat()) as answer:  # without reasoning_control
            await anext(answer)
            assert not await llama_cpp.end_reasoning(ask, stub.requests[0].id)


@pytest.mark.parametrize(
    "side", [Side(status=404), Side(status=400), Side(body="{}"), Side(body="<html>"), Side(hang=True)]
)
async def test_where_it_cannot_be_ended_that_is_no_error_here(side: Side) -> None:
    async with Stub() as stub, asking(stub.url, 0.1) as ask:
        stub.sides[CONTROL] = side
        assert not await llama_cpp.end_reasoning(ask, "chatcmpl-1")
    async with asking(f"http://127.0.0.1:{unused_port()}") as ask:
        assert not await llama_cpp.end_reasoning(ask, "chatcmpl-1")


# ---- the real one ----------------------------------------------------------------------------------------------------

pytestmark = [pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[str]:
    """The address of a real llama-server with two slots."""
    spec = EngineSpec(ensure(default_cache(), lambda _: None), "smollm2", slots=2, context=1024, threads=1)
    async with Engine(spec, lambda _: None) as made:
        await made.ready()
        yield made.url


patient = partial(client, busy_wait=100.0, liveness=100.0)
tell = partial(read, within=100.0)  # on a machine that has other things to do


def story(*, max_tokens: int, **fields: object) -> bytes:
    """A request whose answer is long unless `max_tokens` ends it."""
    messages = [{"role": "user", "content": "Write a long story about a lighthouse."}]
    return chat(model="smollm2", messages=messages, max_tokens=max_tokens, temperature=0, **fields)


@pytest.mark.engine
async def test_the_real_one_is_recognised_with_its_slots_and_its_context(engine: str) -> None:
    async with patient(engine, kind=None) as upstream:
        seen = await upstream.look()
    assert (seen.state, seen.kind, seen.models) == (Health.UP, Kind.LLAMA_CPP, ("smollm2",))
    assert (seen.slots, seen.context, seen.vision) == (2, 1024, False)


@pytest.mark.engine
async def test_the_real_one_answers_and_its_count_is_that_of_its_usage(engine: str) -> None:
    async with patient(engine) as upstream:
        got = await tell(upstream, story(max_tokens=8))
        counted = await upstream.count(story(max_tokens=8))
    assert got[-1] == b"[DONE]"
    assert text(got)
    usage = msgspec.json.decode(got[-2])["usage"]
    assert usage["completion_tokens"] == 8
    assert counted == usage["prompt_tokens"]


@pytest.mark.engine
async def test_the_real_one_shows_the_slot_that_works_and_frees_it_when_the_caller_leaves(engine: str) -> None:
    async with asking(engine) as ask, patient(engine) as upstream, asyncio.timeout(60):
        while (await llama_cpp.reading(ask)).busy:
            pass
        tokens = await upstream.count(story(max_tokens=900))
        async with upstream.answer(story(max_tokens=900, id_slot=1)) as answer:
            await anext(answer)
            reading = await llama_cpp.reading(ask)
            assert reading.slots is not None
            assert [slot.busy for slot in reading.slots] == [False, True]
            while not reading.slots or not reading.slots[1].decoded:
                reading = await llama_cpp.reading(ask)
                assert reading.slots
            assert reading.slots[1].prompt == reading.slots[1].prompt_done == tokens
        while (await llama_cpp.reading(ask)).busy:
            pass


@pytest.mark.engine
async def test_the_real_one_ends_no_reasoning_of_an_answer_it_does_not_know(engine: str) -> None:
    async with asking(engine) as ask:
        assert not await llama_cpp.end_reasoning(ask, "chatcmpl-unknown")


@pytest.mark.engine
async def test_the_real_one_keeps_a_third_request_silent_until_a_slot_is_free(engine: str) -> None:
    """Not even a head comes; the slots say that it was not swallowed."""
    async with patient(engine, idle_grace=0.3, poll=0.05) as upstream, asyncio.timeout(60):
        async with upstream.answer(story(max_tokens=900)) as first, upstream.answer(story(max_tokens=900)) as second:
            await anext(first)
            await anext(second)
            third = asyncio.create_task(tell(upstream, story(max_tokens=4)))
            await asyncio.sleep(0.2)
            assert not third.done()
        assert (await third)[-1] == b"[DONE]"


@pytest.mark.engine
async def test_the_real_one_refuses_in_its_own_words(engine: str) -> None:
    async with patient(engine) as upstream:
        with pytest.raises(UpstreamStatus) as caught:
            await tell(upstream, b'{"messages":7,"stream":true}')
        assert caught.value.status in {400, 500}
        assert caught.value.body
        long = chat(model="smollm2", messages=[{"role": "user", "content": "word " * 3000}])
        with pytest.raises(UpstreamStatus, match=r"prompt is too long: \d+ tokens > 1024 maximum") as caught:
            await tell(upstream, long)
        assert caught.value.status == 400


@pytest.mark.engine
async def test_the_real_one_keeps_its_connection_for_the_next_request(engine: str) -> None:
    async with patient(engine) as upstream:
        async with upstream.answer(story(max_tokens=2)) as answer:
            await follow(answer)
        pool = upstream._session.connector
        assert pool is not None
        (kept,) = pool._conns.values()
        assert len(kept) == 1
        await tell(upstream, story(max_tokens=2))
        assert sum(map(len, pool._conns.values())) == 1
