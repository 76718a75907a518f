"""One call to the Messages API as the relay holds it: body, feed, ends, and the forms of what is said around it."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from fakes.checker import CheckedStream, check
from slotline.core.anthropic.attachments import NOTHING, Found
from slotline.core.anthropic.dialect import MessagesDialect
from slotline.core.anthropic.media import Text
from slotline.core.errors import Busy, Invalid, StreamClosedEarly, UpstreamStatus
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.line import Place
from slotline.core.queue_frames import QueueForm, Told

PLAIN = Traits(Kind.OPENAI)
TOLD = Told(Place(2, 4), 1.5)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def dialect(form: QueueForm = QueueForm.EVENT, *, found: Found = NOTHING, **fields: Any) -> MessagesDialect:
    """A call that asks for a stream, unless `fields` of its body say otherwise."""
    body = {"model": "alias", "max_tokens": 64, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    numbers = itertools.count()
    return MessagesDialect(
        msgspec.json.encode({**body, **fields}),
        version="2023-06-01",
        request_id="req_1",
        message_id="msg_1",
        tool_id=lambda: f"toolu_{next(numbers)}",
        form=form,
        found=found,
    )


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """The data of one upstream event."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return msgspec.json.encode({"id": "c", "object": "chat.completion.chunk", "choices": [choice], **more})


ROLE = chunk({"role": "assistant", "content": None})
ANSWER = [ROLE, chunk({"content": "one"}), chunk({"content": " two"}), chunk({}, "stop")]
USAGE = msgspec.json.encode({"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
DONE = b"[DONE]"


def streamed(call: MessagesDialect, events: list[bytes]) -> CheckedStream:
    return check(b"".join(map(call.feed, events)))


def folded(call: MessagesDialect, events: list[bytes]) -> dict[str, Any]:
    assert b"".join(map(call.feed, events)) == b""
    message: dict[str, Any] = msgspec.json.decode(call.whole())
    return message


# ---- the request -----------------------------------------------------------------------------------------------------


def test_a_body_that_cannot_be_served_is_refused_as_the_call_is_made() -> None:
    with pytest.raises(Invalid, match="max_tokens"):
        dialect(max_tokens="x")


def test_the_call_knows_its_model_and_whether_it_streams() -> None:
    assert (dialect().model, dialect().stream, dialect(stream=False).stream) == ("alias", True, False)


@pytest.mark.parametrize("stream", [True, False])
def test_the_upstream_is_always_asked_for_a_stream_by_its_own_name_for_the_model(stream: bool) -> None:
    body = msgspec.json.decode(dialect(stream=stream).body("target", PLAIN))
    assert (body["model"], body["stream"]) == ("target", True)
    assert body["messages"] == [{"role": "user", "content": "hello"}]


def test_what_was_let_go_of_while_waiting_is_made_again() -> None:
    call = dialect()
    before = call.body("target", PLAIN)
    call.shelve()
    call.shelve()
    assert call.body("target", PLAIN) == before


PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}


def test_what_was_found_for_a_request_is_kept_while_it_waits() -> None:
    messages = [{"role": "user", "content": [PDF]}]
    (wanted,) = dialect(messages=messages).pending(PLAIN)
    call = dialect(found={wanted.what.at: Text("what it says")}, messages=messages)
    assert call.pending(PLAIN) == ()
    call.check(PLAIN)
    before = call.body("target", PLAIN)
    assert b"what it says" in before
    call.shelve()
    assert call.body("target", PLAIN) == before
    assert call.chain() == dialect(found={wanted.what.at: Text("what it says")}, messages=messages).chain()


def test_what_was_not_found_is_refused_before_anybody_waits() -> None:
    with pytest.raises(Invalid, match="PDF documents are not opened here"):
        dialect(messages=[{"role": "user", "content": [PDF]}]).check(PLAIN)


def test_a_body_is_made_for_the_server_that_is_to_read_it() -> None:
    call = dialect()
    for target, traits in (("a", PLAIN), ("b", PLAIN), ("b", Traits(Kind.LLAMA_CPP)), ("a", PLAIN)):
        assert call.body(target, traits) == dialect().body(target, traits)


def test_whether_a_server_sees_images_is_asked_of_that_server() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    call = dialect(messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert PIXEL.encode() in call.body("target", PLAIN)
    with pytest.raises(Invalid, match="image"):
        call.body("target", Traits(Kind.LLAMA_CPP, vision=False))


def image(**source: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image", "source": source}]}]


SEEN = {"type": "base64", "media_type": "image/png", "data": PIXEL}
LINKED = {"type": "url", "url": "https://example.com/a.png"}


@pytest.mark.parametrize(
    ("source", "traits"), [(SEEN, Traits(Kind.LLAMA_CPP, vision=False)), (LINKED, PLAIN)], ids=["blind", "url"]
)
def test_an_image_that_no_server_could_take_is_found_before_anybody_waits(
    source: dict[str, str], traits: Traits
) -> None:
    with pytest.raises(Invalid, match="image"):
        dialect(messages=image(**source)).check(traits)


@pytest.mark.parametrize("vision", [True, None])
def test_nothing_else_is_found_that_early(vision: bool | None) -> None:
    dialect(messages=image(**SEEN)).check(Traits(Kind.LLAMA_CPP, vision=vision))
    dialect().check(Traits(Kind.LLAMA_CPP, vision=False))


def test_what_the_gateway_asks_besides_reaches_the_body() -> None:
    terms = Terms(slot=1, thinking_cap=7)
    body = msgspec.json.decode(dialect().body("target", Traits(Kind.LLAMA_CPP), terms))
    assert (body["id_slot"], body["thinking_budget_tokens"], body["reasoning_control"]) == (1, 7, True)


@pytest.mark.parametrize(
    ("thinking", "budget"), [({"type": "enabled", "budget_tokens": 9}, 9), ({"type": "adaptive"}, None), (None, None)]
)
def test_the_clients_own_budget_is_known(thinking: Any, budget: int | None) -> None:
    assert dialect(thinking=thinking).thinking_budget == budget


def test_a_conversation_that_goes_on_keeps_its_chain_also_if_it_was_let_go_of() -> None:
    call = dialect()
    before = call.chain()
    call.shelve()
    assert call.chain() == before
    turns = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "?"},
    ]
    assert tuple(dialect(messages=turns).chain()[: len(before)]) == tuple(before)


# ---- the answer ------------------------------------------------------------------------------------------------------


def test_a_stream_is_made_event_by_event() -> None:
    call = dialect()
    seen = streamed(call, [*ANSWER, USAGE, DONE])
    assert call.done
    assert (seen.text, seen.stop_reason) == ("one two", "end_turn")
    assert seen.message is not None
    assert (seen.message["id"], seen.message["model"]) == ("msg_1", "alias")
    assert (seen.usage["input_tokens"], seen.usage["output_tokens"]) == (9, 2)


def test_a_whole_answer_is_folded_from_the_same_events() -> None:
    events = [*ANSWER, USAGE, DONE]
    assert folded(dialect(stream=False), events) == streamed(dialect(), events).message


def test_half_an_answer_is_never_whole() -> None:
    call = dialect(stream=False)
    for event in ANSWER:
        call.feed(event)
    assert not call.done
    with pytest.raises(ValueError, match="not complete"):
        call.whole()


def test_a_streamed_call_has_no_whole_answer() -> None:
    call = dialect()
    streamed(call, [*ANSWER, DONE])
    with pytest.raises(RuntimeError, match="streamed"):
        call.whole()


@pytest.mark.parametrize("stream", [True, False])
def test_only_pieces_of_the_answer_count_as_pieces(stream: bool) -> None:
    call = dialect(stream=stream)
    counts = []
    for event in [*ANSWER, USAGE, DONE]:
        call.feed(event)
        counts.append(call.pieces)
    assert counts == [0, 1, 2, 2, 2, 2]


REASONING = [ROLE, *[chunk({"reasoning_content": word}) for word in ("let", " me", " see")]]


def test_pieces_of_reasoning_are_counted_apart() -> None:
    call = dialect()
    counts = []
    for event in [*REASONING, *ANSWER]:
        call.feed(event)
        counts.append((call.thought, call.pieces))
    assert counts == [(0, 0), (1, 1), (2, 2), (3, 3), (3, 3), (3, 4), (3, 5), (3, 5)]


def test_the_answers_own_name_is_known_from_its_first_chunk_on_and_anew_when_it_is_asked_again() -> None:
    call = dialect()
    names = [call.completion]
    for event in (ROLE, chunk({"content": "x"}, None, id="later")):
        call.feed(event)
        names.append(call.completion)
    call.again()
    names.append(call.completion)
    call.feed(chunk({"content": "y"}, None, id="d"))
    assert [*names, call.completion] == [None, "c", "c", None, "d"]


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_is_asked_for_again_goes_on_where_it_was_left(stream: bool) -> None:
    call = dialect(stream=stream)
    out = b"".join(map(call.feed, REASONING))
    call.again()
    out += b"".join(map(call.feed, [*ANSWER, USAGE, DONE]))
    assert call.done
    message: Any = check(out).message if stream else msgspec.json.decode(call.whole())
    assert [(block["type"], block[block["type"]]) for block in message["content"]] == [
        ("thinking", "let me see"),
        ("text", "one two"),
    ]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("end_turn", 2)


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_ends_after_a_finish_reason_is_an_end(stream: bool) -> None:
    call = dialect(stream=stream)
    out = b"".join(map(call.feed, ANSWER)) + call.end()
    assert call.done
    assert check(out).complete if stream else msgspec.json.decode(call.whole())["stop_reason"] == "end_turn"


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_ends_without_one_is_an_upstream_that_died(stream: bool) -> None:
    call = dialect(stream=stream)
    for event in ANSWER[:-1]:
        call.feed(event)
    with pytest.raises(StreamClosedEarly):
        call.end()
    assert not call.done


def test_an_error_in_the_upstreams_stream_is_raised_and_never_written() -> None:
    call = dialect()
    out = b"".join(map(call.feed, ANSWER[:2]))
    with pytest.raises(UpstreamStatus, match="out of memory"):
        call.feed(b'{"error":{"code":500,"message":"out of memory","type":"server_error"}}')
    assert check(out, whole=False).error is None


def test_before_the_upstream_has_counted_the_prompt_its_length_is_an_estimate() -> None:
    (start,) = check(dialect().feed(ROLE), whole=False).frames
    longer = check(dialect(messages=[{"role": "user", "content": "hello " * 100}]).feed(ROLE), whole=False).frames[0]
    short, long = (frame.data["message"]["usage"]["input_tokens"] for frame in (start, longer))
    assert 0 < short < long


def test_a_stop_sequence_of_the_request_is_told() -> None:
    finish = {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}
    events = [*ANSWER[:3], msgspec.json.encode({"id": "c", "choices": [finish]}), DONE]
    message = streamed(dialect(stop_sequences=["END"]), events).message
    assert message is not None
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")


TOOLS = [{"name": "lookup", "input_schema": {"type": "object"}}]
CALLS = [
    ROLE,
    *[
        chunk({"tool_calls": [{"index": index, "function": {"name": "lookup", "arguments": f'{{"n":{index}}}'}}]})
        for index in range(2)
    ],
    chunk({}, "tool_calls"),
    DONE,
]


def test_calls_without_an_identity_get_one() -> None:
    seen = streamed(dialect(tools=TOOLS), CALLS)
    assert [(tool["id"], tool["input"]) for tool in seen.tools] == [("toolu_0", {"n": 0}), ("toolu_1", {"n": 1})]


def test_one_call_at_a_time_is_what_some_requests_want() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert [tool["input"] for tool in streamed(dialect(tools=TOOLS, tool_choice=choice), CALLS).tools] == [{"n": 0}]


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_warms_a_cache_has_an_answer_without_content(stream: bool) -> None:
    call, events = dialect(stream=stream, max_tokens=0), [*ANSWER, USAGE, DONE]
    message = streamed(call, events).message if stream else folded(call, events)
    assert message is not None
    assert (message["content"], message["stop_reason"], message["stop_sequence"]) == ([], "max_tokens", None)
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (9, 0)


# ---- around it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "names"), [(QueueForm.EVENT, ["queue"]), (QueueForm.PING, ["ping"]), (QueueForm.COMMENT, [])]
)
def test_a_place_is_told_in_the_form_of_the_call(form: QueueForm, names: list[str]) -> None:
    seen = check(dialect(form).place(TOLD), whole=False)
    assert seen.names == names
    assert seen.places == [{"position": 2, "queue_length": 4, "estimated_wait_ms": 1500}]


def test_a_call_that_wants_no_places_gets_nothing() -> None:
    assert dialect(QueueForm.OFF).place(TOLD) == b""


def test_a_stream_is_kept_alive_by_what_no_client_takes_for_an_event() -> None:
    seen = check(dialect().keep_alive(10.0), whole=False)
    assert seen.names == []
    assert len(seen.comments) == 1


def test_an_error_names_the_request_in_a_stream_and_in_a_body() -> None:
    error = Busy("the line is full")
    body = msgspec.json.decode(dialect().error_body(error))
    assert body == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "the line is full"},
        "request_id": "req_1",
    }
    seen = check(dialect().error_event(error))
    assert (seen.error, seen.frames[0].data) == (body["error"], body)


# ---- clients that count only parts of an answer ----------------------------------------------------------------------

OLD = "claude-cli/2.1.197 (external, cli)"


def old(*, beat_after: float = 240.0, **fields: Any) -> MessagesDialect:
    body = {"model": "alias", "max_tokens": 64, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    return MessagesDialect(
        msgspec.json.encode({**body, **fields}),
        version="2023-06-01",
        request_id="req_1",
        message_id="msg_1",
        tool_id=lambda: "toolu_1",
        form=QueueForm.EVENT,
        progress=True,
        user_agent=OLD,
        beat_after=beat_after,
    )


def test_an_old_client_gets_comments_at_first_then_the_beginning_of_the_answer_then_beats() -> None:
    call = old()
    assert call.pulse is not None
    assert dialect().pulse is None
    early = check(call.place(TOLD) + call.keep_alive(10.0) + call.keep_alive(239.9), whole=False)
    assert (early.names, len(early.comments)) == (["queue"], 2)
    late = call.keep_alive(240.0) + call.keep_alive(250.0)
    assert check(late, whole=False).names == ["message_start", "content_block_start", *["content_block_delta"] * 2]
    assert call.place(TOLD) == call.loading() == b""
    assert (call.pieces, call.thought, call.done) == (0, 0, False)
    seen = check(late + b"".join(map(call.feed, [*ANSWER, USAGE, DONE])))
    assert (seen.text, seen.thinking, seen.usage["input_tokens"]) == ("one two", "", 9)


def test_the_silence_of_an_answer_is_counted_from_its_last_part() -> None:
    call = old()
    out = b"".join(map(call.feed, REASONING))
    for waited in (250.0, 480.0):
        assert check(call.keep_alive(waited), whole=False).names == []
    out += call.keep_alive(490.0)
    seen = check(out, whole=False)
    assert seen.names[-1] == "content_block_delta"
    assert seen.thinking == "let me see"


def test_progress_that_is_told_is_no_part_of_the_answer() -> None:
    call = old()
    reading = {"prompt_progress": {"total": 100, "processed": 50, "cache": 0, "time_ms": 1}}
    assert check(call.feed(msgspec.json.encode({"id": "c", "choices": [], **reading})), whole=False).progress
    assert check(call.keep_alive(240.0), whole=False).names[0] == "message_start"


@pytest.mark.parametrize("ending", [DONE, b'{"error":{"code":500,"message":"no","type":"server_error"}}'])
def test_after_its_last_word_or_its_failure_nothing_of_an_answer_comes_any_more(ending: bytes) -> None:
    call = old()
    for event in [*ANSWER, ending]:
        try:
            call.feed(event)
        except UpstreamStatus:
            assert ending is not DONE
    for waited in (1000.0, 2000.0):
        assert check(call.keep_alive(waited), whole=False).names == []


def test_a_call_that_warms_a_cache_has_no_beats_for_it_has_no_blocks() -> None:
    call = old(max_tokens=0)
    assert call.pulse is None
    assert check(call.keep_alive(1000.0), whole=False).names == []


def test_an_error_after_the_beginning_is_the_last_event() -> None:
    call = old()
    seen = check(call.keep_alive(240.0) + call.error_event(Busy("the line is full")))
    assert seen.error == {"type": "overloaded_error", "message": "the line is full"}
