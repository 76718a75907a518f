"""Slots as they are: the cap on thinking, slots that drain, other people's use, servers that fail and come back.

The whole gateway before the stub, on real sockets. Nothing waits for a time to pass: what a test waits for is seen at
the stub, in the gateway's log, or in what a client gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from fakes.bare import crowded, unused_port
from fakes.checker import CheckedStream, check
from fakes.gateway import Exit, Front, Stream, fronted, leave
from fakes.product import Answered, ask, calling
from slotline.config import ModelConfig, UpstreamConfig
from slotline.core.kind import Kind
from slotline.core.limits import Limits, ThinkingEnd
from slotline.stub import Script, Side, Stub
from slotline.stub.script import Done, Finish, Reasoning, Repeat, Role, Sleep, Text, Tokens
from slotline.stub.standard import die, endless_thinking, hang, head_then_silence, held, ok, swallowed, thinking
from slotline.upstream.client import UpstreamClient

CONTROL = "/v1/chat/completions/control"
CAPPED = Limits(poll=0.05, thinking_cap=5, thinking_overrun=5)
LOOP = endless_thinking(gap=0.005)
streams = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def blocks(answer: Answered, *, stream: bool) -> list[dict[str, Any]]:
    """The content of a good answer, which is the same in both forms."""
    assert answer.status == 200, answer.body
    if stream:
        seen = check(answer.body)
        assert seen.complete, seen.error
        return seen.blocks
    content: list[dict[str, Any]] = answer.json()["content"]
    return content


def overran(answer: Answered, *, stream: bool) -> str:
    """The message of an answer that ended because its reasoning could not be ended."""
    if stream:
        seen = check(answer.body)
        assert not seen.complete
        error = seen.error
    else:
        assert answer.status == 502
        error = answer.json()["error"]
    assert error is not None
    assert error["type"] == "api_error"
    message: str = error["message"]
    assert message.startswith("thinking: ")
    return message


def words(blocks: list[dict[str, Any]], kind: str) -> list[str]:
    """What was said in the blocks of one kind."""
    key = {"thinking": "thinking", "text": "text"}[kind]
    return " ".join(block[key] for block in blocks if block["type"] == kind).split()


def controls(stub: Stub) -> list[Any]:
    """What was ordered at the control endpoint."""
    return [msgspec.json.decode(call.body) for call in stub.calls if call.path == CONTROL]


def upstream(front: Front, name: str = "box") -> UpstreamClient:
    """The gateway's own end of an upstream."""
    found = front.relay._upstreams[name]
    assert isinstance(found, UpstreamClient)
    return found


def questions(stub: Stub) -> list[str]:
    """What the requests that arrived at the stub were about, in order."""
    return [received.body["messages"][-1]["content"] for received in stub.requests]


async def places(stream: Stream, *wanted: int) -> None:
    """Reads on until the client was told these places, one after the other."""
    while [place["position"] for place in check(stream.answer.body, whole=False).places] != list(wanted):
        await stream.next()


# ---- the cap on thinking ---------------------------------------------------------------------------------------------


@streams
async def test_thinking_that_passes_the_cap_is_ended_by_one_order_and_the_text_follows(*, stream: bool) -> None:
    async with fronted(limits=CAPPED) as front:
        front.stub.play(LOOP)
        found = blocks(await front.fetch(ask(stream=stream)), stream=stream)
        assert [block["type"] for block in found] == ["thinking", "text"]
        thought = words(found, "thinking")
        assert thought == [f"thought-{number}" for number in range(len(thought))]
        assert len(thought) > 5
        assert words(found, "text") == ["token-0", "token-1", "token-2"]
        (received,) = front.stub.requests
        (order,) = controls(front.stub)
        assert (order["id"], order["action"]) == (received.id, "reasoning_end")
        assert (received.body["thinking_budget_tokens"], received.body["reasoning_control"]) == (5, True)
        assert front.outcomes == ["completed"]
        assert "'thinking_capped': 5" in front.log.text


@pytest.mark.parametrize(("cap", "budget"), [(5, 1000), (1000, 5), (0, 5)])
@streams
async def test_the_smaller_of_cap_and_budget_holds(cap: int, budget: int, *, stream: bool) -> None:
    async with fronted(limits=Limits(poll=0.05, thinking_cap=cap)) as front:
        front.stub.play(LOOP)
        asked = ask(stream=stream, thinking={"type": "enabled", "budget_tokens": budget})
        assert blocks(await front.fetch(asked), stream=stream)
        assert front.stub.requests[0].body["thinking_budget_tokens"] == 5
        assert len(controls(front.stub)) == 1
        assert "'thinking_capped': 5" in front.log.text


REFUSALS = {
    "not found": Side(body='{"success":false,"message":"no active completion for this id"}'),
    "unknown route": Side(status=404, body='{"error":{"message":"no such route"}}'),
    "nonsense": Side(body="<html>", content_type="text/html"),
    "late": Side(hang=True),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@streams
async def test_a_server_that_does_not_take_the_order_is_an_overrun(refusal: str, *, stream: bool) -> None:
    limits = Limits(poll=0.05, connect=0.3, thinking_cap=5)
    async with fronted(limits=limits) as front:
        front.stub.play(LOOP)
        front.stub.sides[CONTROL] = REFUSALS[refusal]
        message = overran(await front.fetch(ask(stream=stream)), stream=stream)
        assert "thinking_cap = 5" in message
        await front.settled()
        assert (front.stub.state.aborted, front.stub.hits[CONTROL]) == (1, 1)
        assert front.outcomes == ["thinking_overrun"]
        await front.serves()


@streams
async def test_a_server_that_takes_the_order_and_goes_on_is_cut_off_after_the_overrun(*, stream: bool) -> None:
    async with fronted(limits=CAPPED) as front:
        front.stub.play(endless_thinking(gap=0.005, heeds_control=False))
        message = overran(await front.fetch(ask(stream=stream)), stream=stream)
        assert "thinking_cap = 5" in message
        assert "thinking_overrun = 5" in message
        await front.settled()
        assert (front.stub.state.aborted, len(controls(front.stub))) == (1, 1)
        assert front.stub.requests[0].tokens > 10
        assert front.outcomes == ["thinking_overrun"]
        await front.serves()


@streams
async def test_the_budget_is_named_where_it_is_the_bound(*, stream: bool) -> None:
    async with fronted(limits=Limits(poll=0.05, thinking_overrun=5)) as front:
        front.stub.play(endless_thinking(gap=0.005, heeds_control=False))
        asked = ask(stream=stream, thinking={"type": "enabled", "budget_tokens": 7})
        assert "budget_tokens = 7" in overran(await front.fetch(asked), stream=stream)


@streams
async def test_without_a_cap_and_within_it_nobody_is_told_to_stop(*, stream: bool) -> None:
    for cap, thoughts in ((0, 300), (30, 30)):
        async with fronted(limits=Limits(poll=0.05, thinking_cap=cap)) as front:
            front.stub.play(thinking(thoughts, 2))
            found = blocks(await front.fetch(ask(stream=stream)), stream=stream)
            assert (len(words(found, "thinking")), len(words(found, "text"))) == (thoughts, 2)
            assert controls(front.stub) == []


@streams
async def test_a_tag_that_leaks_after_the_end_of_the_reasoning_does_not_reach_the_client(*, stream: bool) -> None:
    """Cut over chunks, and in one piece."""
    async with fronted(limits=CAPPED) as front:
        for leak in ([Text("</th"), Text("ink>"), Text("Answer")], [Text("</think>\n\nAnswer")]):
            front.stub.play(Script((Role(), Tokens(None, 0.005, "reasoning"), *leak, Finish(), Done())))
            found = blocks(await front.fetch(ask(stream=stream)), stream=stream)
            assert words(found, "text") == ["Answer"]


@streams
async def test_a_server_without_any_control_is_an_overrun_and_its_slot_is_free(*, stream: bool) -> None:
    """Also where the reasoning is one sentence for ever, with a tag in it that means nothing there."""
    sentence = Script((Role(), Repeat((Reasoning("I need to check. </think>"), Sleep(0.005)))))
    async with fronted(stub=Stub(slots=1, kind=Kind.OPENAI), kind=Kind.OPENAI, limits=CAPPED) as front:
        front.stub.play(sentence)
        assert "thinking_cap = 5" in overran(await front.fetch(ask(stream=stream)), stream=stream)
        await front.settled()
        assert (front.stub.state.aborted, front.stub.state.received) == (1, 1)
        await front.serves()


@asynccontextmanager
async def switchable(end: ThinkingEnd = ThinkingEnd.ASK_AGAIN, *, slots: int = 1) -> AsyncIterator[Front]:
    """Before a server that can be asked not to think, and not be told to stop; it has more slots than are used."""
    limits = Limits(poll=0.05, thinking_cap=5, thinking_overrun=5, thinking_end=end)
    stub = Stub(slots=slots, kind=Kind.OPENAI)
    async with fronted(stub=stub, kind=Kind.VLLM, limits=limits) as front:
        yield front


@streams
async def test_a_server_that_cannot_be_told_is_asked_again_without_thinking(*, stream: bool) -> None:
    async with switchable() as front:
        front.stub.play(LOOP, ok(3))
        found = blocks(await front.fetch(ask(stream=stream, thinking={"type": "adaptive"})), stream=stream)
        assert [block["type"] for block in found] == ["thinking", "text"]
        assert words(found, "text") == ["token-0", "token-1", "token-2"]
        first, second = front.stub.requests
        assert first.body["chat_template_kwargs"] == {"enable_thinking": True}
        assert second.body == {**first.body, "chat_template_kwargs": {"enable_thinking": False}}
        assert front.stub.state.max_running == 1
        assert front.outcomes == ["completed"]
        assert front.stub.hits[CONTROL] == 0


async def test_who_is_asked_again_does_not_queue_again() -> None:
    """The slot stays with the request: who waits for it is not let in between, and nobody is told a new place."""
    async with switchable() as front:
        front.stub.play(LOOP, held(3), ok(3))
        async with front.streaming(ask("first")) as first:
            await first.until(b"thinking_delta")
            async with front.streaming(ask("second")) as second:
                await places(second, 1)
                await front.stub.until(lambda state: state.held == 1)
                assert questions(front.stub) == ["first", "first"]
                front.stub.release()
                assert check(await first.rest()).complete
                seen = check(await second.rest())
                assert (seen.complete, len(seen.places)) == (True, 1)
        assert questions(front.stub) == ["first", "first", "second"]
        assert front.stub.state.max_running == 1
        assert front.outcomes == ["completed", "completed"]


@streams
async def test_a_server_that_thinks_all_the_same_is_an_overrun(*, stream: bool) -> None:
    async with switchable() as front:
        front.stub.play(LOOP, LOOP)
        overran(await front.fetch(ask(stream=stream)), stream=stream)
        await front.settled()
        assert (front.stub.state.received, front.stub.state.aborted) == (2, 2)
        await front.serves()


@streams
async def test_where_it_is_so_configured_it_is_an_error_and_nobody_is_asked_again(*, stream: bool) -> None:
    async with switchable(ThinkingEnd.ERROR) as front:
        front.stub.play(LOOP)
        message = overran(await front.fetch(ask(stream=stream)), stream=stream)
        assert "thinking_cap = 5" in message
        assert "thinking_end" in message
        await front.settled()
        assert (front.stub.state.received, front.stub.state.aborted) == (1, 1)


@streams
async def test_thinking_that_has_ended_by_itself_is_not_asked_for_again(*, stream: bool) -> None:
    """Reasoning and text that are read together: it is past the cap, and the text is there already."""
    async with switchable() as front:
        said = (Role(), Tokens(8, 0.0, "reasoning"), Tokens(2), Sleep(0.05), Tokens(1), Sleep(0.05), Finish(), Done())
        front.stub.play(Script(said, write_size=1 << 16))
        found = blocks(await front.fetch(ask(stream=stream)), stream=stream)
        assert (len(words(found, "thinking")), words(found, "text")) == (8, ["token-0", "token-1", "token-2"])
        assert front.stub.state.received == 1


@pytest.mark.parametrize(
    "said",
    [
        (Tokens(4, 0.0, "reasoning"), Tokens(3)),
        (Tokens(4, 0.0, "reasoning", "reasoning"), Tokens(3)),
        (Text("<think>thought-0 thought-1"), Text(" thought-2 thought-3</think>"), Tokens(3)),
    ],
    ids=["reasoning_content", "reasoning", "tags"],
)
async def test_however_a_server_spells_its_thinking_both_forms_of_an_answer_have_the_same_blocks(said: Any) -> None:
    async with fronted(stub=Stub(slots=1, kind=Kind.OPENAI), kind=Kind.OPENAI) as front:
        front.stub.default = Script((Role(), *said, Finish(), Done()))
        streamed, whole = [blocks(await front.fetch(ask(stream=form)), stream=form) for form in (True, False)]
        assert streamed == whole
        assert [block["type"] for block in whole] == ["thinking", "text"]
        assert words(whole, "thinking") == [f"thought-{number}" for number in range(4)]
        assert words(whole, "text") == [f"token-{number}" for number in range(3)]


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_tokens"), ("stop", "end_turn")])
async def test_an_answer_that_is_nothing_but_thinking_is_told_as_such(finish: str, reason: str) -> None:
    async with fronted() as front:
        front.stub.play(Script((Role(), Tokens(50, 0.0, "reasoning"), Finish(finish), Done())))
        seen = check((await front.fetch()).body)
        assert (seen.stop_reason, len(seen.thinking.split()), seen.text) == (reason, 50, "")
        assert "the answer is empty: all that came was reasoning" in front.log.text


# ---- slots that drain ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [head_then_silence(), held(9, before=2)], ids=["prefill", "mid-stream"])
@pytest.mark.parametrize("pin_slots", [True, False], ids=["pinned", "free"])
async def test_the_next_one_starts_when_the_server_has_stopped_working(script: Script, *, pin_slots: bool) -> None:
    async with fronted(stub=Stub(slots=1, abort_lag=0.5), pin_slots=pin_slots) as front:
        front.stub.play(script, ok(3))
        async with front.calling(ask("first")) as first:
            await front.stub.until(lambda state: state.running == 1)
            async with front.streaming(ask("second")) as second:
                await places(second, 1)
                leave(first, Exit.RST)
                await front.stub.until(lambda state: state.draining == 1)
                assert check(await second.rest()).complete
        stub = front.stub.state
        assert (stub.received, stub.max_in_flight, stub.max_waiting) == (2, 1, 0)
        one, two = front.stub.requests
        assert one.ended is not None
        assert 0.5 <= two.started - one.ended < 1.5


async def test_a_server_that_never_stops_is_waited_for_no_longer_than_drain() -> None:
    limits = Limits(poll=0.05, drain=0.4)
    async with fronted(stub=Stub(slots=1, abort_lag=1.5), limits=limits) as front:
        front.stub.play(held(3), ok(3))
        async with front.calling(ask("first")) as first:
            await front.stub.until(lambda state: state.held == 1)
            async with front.streaming(ask("second")) as second:
                await places(second, 1)
                leave(first, Exit.FIN)
                assert check(await second.rest()).complete
        one, two = front.stub.requests
        assert one.ended is not None
        assert 0.4 <= two.started - one.ended < 1.2
        assert front.stub.state.max_running == 1


async def test_a_server_that_does_not_answer_is_waited_for_no_longer_than_drain() -> None:
    async with fronted(limits=Limits(poll=0.05, drain=0.4)) as front:
        front.stub.play(held(3), ok(3))
        async with front.calling(ask("first")) as first:
            await front.stub.until(lambda state: state.held == 1)
            front.stub.sides["/slots"] = Side(hang=True)
            async with front.streaming(ask("second")) as second:
                await places(second, 1)
                leave(first, Exit.FIN)
                assert check(await second.rest()).complete
        one, two = front.stub.requests
        assert one.ended is not None
        assert 0.4 <= two.started - one.ended < 1.2


@pytest.mark.parametrize("kind", [Kind.OPENAI, Kind.LLAMA_CPP])
async def test_on_a_server_that_shows_no_slots_the_next_one_starts_at_once(kind: Kind) -> None:
    async with fronted(stub=Stub(slots=2, abort_lag=30.0, has_slots=False, kind=kind), kind=kind) as front:
        front.stub.play(held(3), ok(3))
        async with front.calling(ask("first")) as first:
            await front.stub.until(lambda state: state.held == 1)
            async with front.streaming(ask("second")) as second:
                await places(second, 1)
                leave(first, Exit.FIN)
                if kind is Kind.LLAMA_CPP:  # it is sent to the slot that the other one had
                    await front.stub.until(lambda state: state.received == 2)
                else:
                    assert check(await second.rest()).complete
        one, two = front.stub.requests
        assert one.ended is not None
        assert two.started - one.ended < 0.5


async def test_an_upstream_that_was_cut_off_is_asked_only_until_it_is_idle() -> None:
    async with fronted(stub=Stub(slots=1, abort_lag=0.2)) as front:
        front.stub.play(held(3))
        async with front.calling() as caller:
            await front.stub.until(lambda state: state.held == 1)
            before = front.stub.hits["/slots"]
            leave(caller, Exit.RST)
            await front.until(lambda: not upstream(front).tenancy.seated)
        asked = front.stub.hits["/slots"]
        assert 2 <= asked - before <= 5
        await front.serves()
        assert front.stub.hits["/slots"] == asked


# ---- somebody else ---------------------------------------------------------------------------------------------------


def free(front: Front) -> int:
    """How many slots the gate may give out."""
    gate: Any = front.relay._gate
    slots: int = gate.lines.room("box").slots
    return slots


@asynccontextmanager
async def outsider(front: Front) -> AsyncIterator[None]:
    """Somebody who uses the server without the gateway, until the block ends."""
    front.stub.by_model["private"] = held(3)
    body = {"model": "private", "stream": True, "messages": [{"role": "user", "content": "mine"}]}
    before = front.stub.state.held
    async with calling(front.stub.url, "/v1/chat/completions", body) as caller:
        await front.stub.until(lambda state: state.held == before + 1)
        yield
        caller.reset()


@pytest.mark.parametrize("pin_slots", [True, False], ids=["pinned", "free"])
async def test_somebody_elses_use_lowers_the_cap_while_it_lasts(*, pin_slots: bool) -> None:
    async with fronted(slots=3, pin_slots=pin_slots) as front:
        front.stub.play(hang(), held(3))
        async with front.calling(ask("silent")), front.streaming(ask("running")):  # the first is why it is asked
            await front.stub.until(lambda state: (state.running, state.held) == (2, 1))
            async with outsider(front):
                await front.until(lambda: free(front) == 2)
                async with front.streaming(ask("waits")) as waits:
                    await places(waits, 1)
                    assert front.stub.state.waiting == 0
            async with front.streaming(ask("later")) as later:
                await front.until(lambda: free(front) == 3)
                assert check(await later.rest()).complete
        assert front.stub.state.max_waiting == 0


async def test_somebody_elses_use_of_a_server_that_does_nothing_for_us_is_seen_too() -> None:
    async with fronted() as front:
        async with outsider(front):
            await front.until(lambda: free(front) == 0, timeout=8)
            async with front.streaming(ask("waits")) as waits:
                await places(waits, 1)
                assert front.stub.state.received == 1
                front.stub.release()
                async with asyncio.timeout(8):
                    assert check(await waits.rest()).complete
        assert free(front) == 1
        assert front.stub.state.max_in_flight == 1


# ---- servers that fail -----------------------------------------------------------------------------------------------


async def test_clients_that_leave_say_nothing_about_the_server_and_answers_that_break_off_do() -> None:
    async with fronted() as front:
        front.stub.default = held(9, before=1)
        for _ in range(20):
            async with front.streaming() as stream:
                await stream.until(b"text_delta")
                leave(stream.caller, Exit.RST)
            await front.until(lambda: not front.relay.passages and not upstream(front).tenancy.seated)
        assert free(front) == 1
        assert not upstream(front).tenancy.out_of_order

        front.stub.default = die(2)
        for number in range(3):
            assert not upstream(front).tenancy.out_of_order, number
            seen = check((await front.fetch()).body)
            assert seen.error is not None
            await front.until(lambda: not upstream(front).tenancy.seated)
        assert upstream(front).tenancy.out_of_order
        assert front.outcomes == ["client_left_running"] * 20 + ["upstream_died"] * 3

        received = front.stub.state.received
        front.stub.default = ok(3)
        async with front.streaming() as waits:
            await places(waits, 1)
            assert front.stub.state.received == received
            async with asyncio.timeout(8):
                assert check(await waits.rest()).complete
        assert not upstream(front).tenancy.out_of_order
        assert free(front) == 1
        await front.serves()


async def test_a_server_that_swallows_a_request_is_left_alone_until_it_has_been_seen_well() -> None:
    async with fronted(limits=Limits(poll=0.05, idle_grace=0.2)) as front:
        front.stub.play(swallowed(), ok(3))
        answer = await front.fetch(ask("swallowed", stream=False))
        assert (answer.status, answer.json()["error"]["type"]) == (504, "timeout_error")
        assert "idle_grace" in answer.json()["error"]["message"]
        assert upstream(front).tenancy.out_of_order
        async with front.streaming(ask("next")) as waits:
            await places(waits, 1)
            assert questions(front.stub) == ["swallowed"]
            async with asyncio.timeout(8):
                assert check(await waits.rest()).complete


@streams
async def test_a_server_that_is_too_busy_to_answer_questions_is_neither_dead_nor_sent_anything_else(
    *, stream: bool
) -> None:
    async with fronted(limits=Limits(poll=0.02, connect=0.05, idle_grace=0.2, load_wait=0.2)) as front:
        front.stub.play(held(3), ok(3))
        async with front.calling(ask("long", stream=stream)) as long:
            await front.stub.until(lambda state: state.held == 1)
            for route in ("/slots", "/health", "/props"):
                front.stub.sides[route] = Side(hang=True)
            async with front.streaming(ask("next")) as waits:
                await places(waits, 1)
                asked = front.stub.hits["/health"]
                if stream:
                    await front.until(lambda: front.stub.hits["/health"] >= asked)
                front.stub.release()
                async with asyncio.timeout(5):
                    assert blocks(await long.answer(), stream=stream)
                    assert check(await waits.rest()).complete
        assert questions(front.stub) == ["long", "next"]
        assert front.stub.state.max_in_flight == 1


def elsewhere(url: str, connect: float = 1.0) -> UpstreamConfig:
    return UpstreamConfig(name="other", url=url, slots=1, limits=Limits(connect=connect, poll=0.05))


BOTH = (ModelConfig(name="stub", upstreams=("other", "box"), target="stub"),)


@streams
async def test_a_request_that_one_server_does_not_take_is_served_by_the_other(*, stream: bool) -> None:
    nobody = elsewhere(f"http://127.0.0.1:{unused_port()}")
    async with fronted(before=(nobody,), models=BOTH) as front:
        assert words(blocks(await front.fetch(ask(stream=stream)), stream=stream), "text")
        assert front.stub.state.received == 1
        assert front.outcomes == ["completed"]


async def test_it_is_tried_once_elsewhere_and_not_for_ever() -> None:
    nobody = elsewhere(f"http://127.0.0.1:{unused_port()}")
    async with fronted(before=(nobody,), models=BOTH, url=f"http://127.0.0.1:{unused_port()}") as front:
        answer = await front.fetch(ask(stream=False))
        assert answer.status == 502
        assert "cannot be reached" in answer.json()["error"]["message"]
        await front.settled()
        assert front.outcomes == ["upstream_error"]


async def test_it_keeps_its_place_before_those_who_came_while_it_was_tried() -> None:
    with crowded() as full:
        async with fronted(before=(elsewhere(full.url, connect=0.5),), models=BOTH) as front:
            front.stub.play(held(3), ok(3), ok(3))
            async with front.streaming(ask("first")) as first:
                await front.stub.until(lambda state: state.held == 1, timeout=5)
                async with front.calling(ask("second")) as tried:
                    await front.until(lambda: len(front.relay.passages) == 2)
                    async with front.streaming(ask("third")) as third:
                        await places(third, 1)  # the second has a slot, at the server that does not answer
                        answer = await tried.head()
                        second = Stream(tried, answer)
                        await places(second, 1)
                        front.stub.release()
                        assert check(await second.rest()).complete
                        assert check(await third.rest()).complete
                assert check(await first.rest()).complete
        assert questions(front.stub) == ["first", "second", "third"]


async def test_nothing_is_tried_elsewhere_once_a_word_of_it_has_come() -> None:
    async with Stub(slots=1) as other, fronted(before=(elsewhere(other.url),), models=BOTH) as front:
        other.play(die(2))
        seen = check((await front.fetch()).body)
        assert (seen.text, seen.complete) == ("token-0 token-1", False)
        assert front.stub.state.received == 0


async def test_those_who_wait_in_line_ride_out_a_restart() -> None:
    async with fronted() as front:
        front.stub.play(held(9, before=1), ok(3), ok(3))
        async with front.streaming(ask("first")) as first, asyncio.TaskGroup() as tasks:
            await first.until(b"text_delta")
            waiting = [tasks.create_task(front.fetch(ask(f"{number}", stream=number == 0))) for number in range(2)]
            await front.until(lambda: front.waiting == 2)
            await front.stub.stop()
            seen: CheckedStream = check(await first.rest())
            assert seen.error is not None
            assert seen.error["type"] == "api_error"
            await front.until(lambda: front.outcomes == ["upstream_died"])
            await front.until(lambda: front.waiting < 2)  # one of them has met nobody there
            await front.stub.start()
        assert blocks(waiting[0].result(), stream=True)
        assert blocks(waiting[1].result(), stream=False)
        assert front.outcomes == ["upstream_died", "completed", "completed"]


# ---- which slot, and how many ----------------------------------------------------------------------------------------


def turns(name: str, count: int) -> dict[str, object]:
    """A conversation at its turn number `count`."""
    said = [{"role": "user", "content": f"{name}, question 0 {'x' * 200}"}]
    for number in range(1, count):
        said += [
            {"role": "assistant", "content": "token-0 token-1 token-2"},
            {"role": "user", "content": f"{name}, question {number}"},
        ]
    return {**ask(), "system": "You are brief.", "messages": said}


async def test_two_conversations_in_turn_return_each_to_its_slot_and_find_their_prompt_there() -> None:
    async with fronted(slots=2) as front:
        cached = []
        for turn in range(1, 4):
            for name in ("one", "two"):
                seen = check((await front.fetch(turns(name, turn))).body)
                cached.append(seen.usage["cache_read_input_tokens"])
        assert [received.body["id_slot"] for received in front.stub.requests] == [0, 1] * 3
        assert [received.slot for received in front.stub.requests] == [0, 1] * 3
        assert cached[:2] == [0, 0]
        assert all(tokens > 50 for tokens in cached[2:])


async def test_a_conversation_whose_slot_is_taken_goes_elsewhere_and_nobody_waits_for_it() -> None:
    async with fronted(slots=2) as front:
        await front.fetch(turns("one", 1))
        front.stub.play(held(3), ok(3))
        async with front.streaming(turns("one", 2)):
            await front.stub.until(lambda state: state.held == 1)
            assert check((await front.fetch(turns("one", 2))).body).complete
        assert [received.slot for received in front.stub.requests] == [0, 0, 1]
        assert front.stub.state.max_waiting == 0


async def test_without_pins_the_server_chooses() -> None:
    async with fronted(slots=2, pin_slots=False) as front:
        for turn in (1, 2):
            await front.fetch(turns("one", turn))
        assert all("id_slot" not in received.body for received in front.stub.requests)


@pytest.mark.parametrize(("slots", "has", "run"), [(None, 3, 3), (8, 3, 3), (2, 3, 2)], ids=["auto", "more", "fewer"])
async def test_as_many_run_as_are_configured_and_as_the_server_has(slots: int | None, has: int, run: int) -> None:
    async with fronted(slots=slots, stub=Stub(slots=has)) as front:
        front.stub.default = held(3)
        async with asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(front.fetch()) for _ in range(run + 1)]
            await front.stub.until(lambda state: state.held == run)
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
            await front.stub.until(lambda state: state.held == 1)
            front.stub.release()
        assert all(check(answer.result().body).complete for answer in answers)
        assert (front.stub.state.max_running, front.stub.state.max_waiting) == (run, 0)
