"""One call to the Responses API, as the relay uses it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakes.chunks import call as called
from fakes.chunks import say
from fakes.responding import PLAIN, answer, dialect, fed
from fakes.responses_checker import check, check_whole
from slotline.core.errors import Busy, Invalid, StreamClosedEarly, UpstreamStatus
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.line import Place
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told

TOLD = Told(Place(2, 4), 1.5)
F = {"type": "function", "name": "f"}
CHUNKS = [say(reasoning_content="hm"), say("one"), say(tool_calls=[called(0, "f", '{"a":1}', "call_7")])]


def test_a_body_that_cannot_be_served_is_refused_as_the_call_is_made() -> None:
    with pytest.raises(Invalid, match="store"):
        dialect(store=True)


def test_the_call_knows_its_model_and_whether_it_streams() -> None:
    assert (dialect().model, dialect().stream, dialect(stream=False).stream) == ("stub", True, False)


@pytest.mark.parametrize("stream", [True, False])
def test_the_upstream_is_always_asked_for_a_stream_of_chat(stream: bool) -> None:
    call = dialect(stream=stream)
    body = msgspec.json.decode(call.body("target", PLAIN))
    assert (call.route, body["model"], body["stream"]) == ("/v1/chat/completions", "target", True)


def test_what_was_let_go_of_while_waiting_is_made_again() -> None:
    call = dialect(tools=[F])
    before, chain = call.body("target", PLAIN), call.chain()
    call.shelve()
    call.shelve()
    assert (call.body("target", PLAIN), call.chain()) == (before, chain)


def test_a_conversation_is_known_again_when_it_goes_on() -> None:
    user, said = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}
    first, then = dialect(input=[user]).chain(), dialect(input=[user, said, user]).chain()
    assert then[: len(first)] == first


def test_the_gateways_own_terms_go_upstream() -> None:
    body = msgspec.json.decode(dialect().body("target", Traits(Kind.LLAMA_CPP), Terms(slot=3, thinking_cap=50)))
    assert (body["id_slot"], body["thinking_budget_tokens"]) == (3, 50)
    silent = msgspec.json.decode(dialect().body("target", Traits(Kind.LLAMA_CPP), Terms(think=False)))
    assert silent["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("chunks", "finish"),
    [
        ([say("one")], "stop"),
        (CHUNKS, "tool_calls"),
        ([say("one")], "length"),
        ([say(tool_calls=[called(0, "f", '{"a"', "c")])], "length"),
        ([], "stop"),
        ([say("well")], "content_filter"),
    ],
)
def test_a_whole_answer_is_the_response_of_the_streams_last_event(chunks: list[Any], finish: str) -> None:
    streamed = check(fed(dialect(tools=[F]), answer(*chunks, finish=finish))).response
    call = dialect(tools=[F], stream=False)
    assert fed(call, answer(*chunks, finish=finish)) == b""
    assert check_whole(msgspec.json.decode(call.whole())) == streamed


def test_half_an_answer_is_never_sold_as_one() -> None:
    call = dialect(stream=False)
    call.feed(msgspec.json.encode(say("one")))
    with pytest.raises(ValueError, match="not complete"):
        call.whole()


def test_an_answer_that_breaks_off_is_an_error() -> None:
    call = dialect()
    call.feed(msgspec.json.encode(say("one")))
    with pytest.raises(StreamClosedEarly):
        call.end()


def test_what_is_heard_is_counted() -> None:
    call = dialect(tools=[F])
    fed(call, CHUNKS[:2])
    assert (call.pieces, call.thought, call.done) == (2, 1, False)


def test_a_second_answer_goes_on_where_the_first_was_left() -> None:
    call = dialect()
    out = b"".join(call.feed(msgspec.json.encode(chunk)) for chunk in [say(reasoning_content="hm")])
    call.again()
    seen = check(out + fed(call, answer(say("ok"))))
    assert [item["type"] for item in seen.items] == ["reasoning", "message"]


# ---- while it waits --------------------------------------------------------------------------------------------------


def test_a_place_in_line_is_told_in_the_form_that_was_chosen() -> None:
    assert dialect().place(TOLD) == b": queue position=2 length=4 wait_ms=1500\n\n"
    assert dialect(QueueForm.OFF).place(TOLD) == b""


def test_silence_is_broken_by_comments_and_now_and_then_by_an_event() -> None:
    """Codex ends a stream in which no event came for 300 s, and counts no comments."""
    call = dialect(beat_after=240)
    sent = {second: call.keep_alive(second) for second in range(10, 700, 10)}
    events = [second for second, data in sent.items() if data != KEEP_ALIVE]
    assert events == [240, 490]
    seen = check(b"".join(sent.values()), whole=False)
    assert seen.names == ["response.created", "response.queued", "response.queued"]


def test_an_answer_that_goes_on_needs_no_further_sign() -> None:
    call = dialect(beat_after=240)
    out = b""
    for second in range(10, 700, 10):
        out += call.feed(msgspec.json.encode(say("x")))
        assert call.keep_alive(second) == KEEP_ALIVE
    assert check(out, whole=False).text == ""


def test_a_silence_within_the_answer_is_broken_by_an_event_too() -> None:
    call = dialect(beat_after=240)
    out = call.feed(msgspec.json.encode(say("one")))
    out += b"".join(call.keep_alive(second) for second in range(10, 300, 10))
    out += fed(call, answer(say(" two")))
    seen = check(out)
    assert seen.text == "one two"
    assert seen.names.count("response.in_progress") == 2


@pytest.mark.parametrize("chunks", [answer(say("one")), [{"error": "broken"}]])
def test_nothing_follows_the_end(chunks: list[Any]) -> None:
    call = dialect(beat_after=240)
    fed(call, chunks)
    assert [call.keep_alive(second) for second in (10, 500, 1000)] == [b""] * 3


def test_it_is_looked_at_often_enough_for_a_client_that_gives_up_after_300_seconds() -> None:
    assert 240 + 2 * dialect().pulse < 300


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_an_error_before_the_stream_has_openais_shape() -> None:
    body = msgspec.json.decode(dialect().error_body(Busy("the line is full")))
    assert body["error"]["message"] == "the line is full"
    assert body["request_id"] == "req_1"


def test_a_prompt_that_is_too_long_is_told_by_the_word_that_clients_look_for() -> None:
    error = UpstreamStatus(400, "prompt is too long: 9 tokens > 8 maximum")
    error.overflow = "exceeds the available context size"
    seen = check(dialect().error_event(error))
    assert seen.error is not None
    assert seen.error["code"] == "context_length_exceeded"
    assert seen.response is not None
    assert seen.response["error"]["code"] == "context_length_exceeded"
