"""One call for a completion as the relay holds it: its streams, its whole answers, its ends, and what steering does."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.asking import FIXTURES
from slotline.core.anthropic.media import Image
from slotline.core.completions.dialect import ChatDialect, TextDialect
from slotline.core.completions.fold import Fold
from slotline.core.errors import Invalid, Protocol, StreamClosedEarly, UpstreamStatus
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.queue_frames import QueueForm
from slotline.core.sse import Parser

HELLO = {"role": "user", "content": "hello"}
SAME = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}
DONE = b"[DONE]"
PLAIN = Traits(Kind.OPENAI)


def chat(*, usage: bool = False, **fields: Any) -> ChatDialect:
    """A call that asks for a stream, unless `fields` of its body say otherwise."""
    body = {"model": "alias", "messages": [HELLO], "stream": True, "stream_options": {"include_usage": usage}}
    numbers = itertools.count()
    raw = msgspec.json.encode(body | fields)
    return ChatDialect(raw, request_id="req_1", form=QueueForm.COMMENT, tool_id=lambda: f"call_{next(numbers)}")


def text(*, usage: bool = False, **fields: Any) -> TextDialect:
    body = {"model": "alias", "prompt": "once", "stream": True, "stream_options": {"include_usage": usage}}
    return TextDialect(msgspec.json.encode(body | fields), request_id="req_1", form=QueueForm.COMMENT)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return msgspec.json.encode({**SAME, "choices": [choice], **more})


def piece(said: str, finish: str | None = None, **more: Any) -> bytes:
    """A chunk of a plain completion."""
    choice = {"index": 0, "text": said, "logprobs": None, "finish_reason": finish}
    return msgspec.json.encode({**SAME, "object": "text_completion", "choices": [choice], **more})


def framed(*payloads: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


def payloads(stream: bytes) -> list[bytes]:
    """The data of all events of a stream; it is legal, and ends with its mark."""
    parser = Parser(1 << 20)
    found = [event.data for event in parser.feed(stream) + parser.close()]
    assert found.pop() == DONE
    return found


def run(call: ChatDialect | TextDialect, events: Iterable[bytes]) -> bytes:
    """All that a client gets for an answer of these events, and its end if `[DONE]` was not among them."""
    return b"".join(map(call.feed, events)) + (b"" if call.done else call.end())


def whole(call: ChatDialect | TextDialect, events: Iterable[bytes]) -> dict[str, Any]:
    assert run(call, events) == b""
    answer: dict[str, Any] = msgspec.json.decode(call.whole())
    return answer


ROLE = chunk({"role": "assistant", "content": None})
ANSWER = [ROLE, chunk({"content": "one"}), chunk({"content": " two"}), chunk({}, "stop")]
USAGE = msgspec.json.encode({**SAME, "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})


# ---- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_is_the_upstreams_own_byte_for_byte(*, usage: bool) -> None:
    out = run(chat(usage=usage), [*ANSWER, USAGE, DONE])
    assert out == framed(*ANSWER, *([USAGE] if usage else []), DONE)


def test_each_chunk_is_there_as_soon_as_it_came() -> None:
    call = chat()
    assert [call.feed(event) for event in ANSWER[:3]] == [framed(event) for event in ANSWER[:3]]


def test_without_the_mark_of_the_end_one_is_added() -> None:
    assert run(chat(), ANSWER) == framed(*ANSWER, DONE)


def test_an_end_without_a_finish_reason_gets_one() -> None:
    out = payloads(run(chat(), [*ANSWER[:3], DONE]))
    assert out[:3] == ANSWER[:3]
    assert msgspec.json.decode(out[3]) == {**SAME, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def test_an_end_without_a_finish_reason_behind_a_call_says_so() -> None:
    call = {"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}
    out = payloads(run(chat(), [ROLE, chunk({"tool_calls": [call]}), DONE]))
    assert msgspec.json.decode(out[-1])["choices"][0]["finish_reason"] == "tool_calls"


def test_nothing_is_heard_after_the_end() -> None:
    call = chat()
    run(call, [*ANSWER, DONE])
    assert call.feed(ANSWER[1]) == call.feed(b"nonsense") == call.end() == b""
    with pytest.raises(RuntimeError):
        call.whole()


def test_progress_comes_to_those_who_asked_for_it_themselves() -> None:
    progress = chunk({"role": "assistant", "content": None}, prompt_progress={"total": 9, "processed": 3})
    assert run(chat(), [progress, *ANSWER, DONE]) == framed(*ANSWER, DONE)
    assert run(chat(return_progress=True), [progress, *ANSWER, DONE]) == framed(progress, *ANSWER, DONE)
    assert "prompt_progress" not in whole(chat(return_progress=True, stream=False), [progress, *ANSWER, DONE])


def recorded(name: str, cut: int) -> list[bytes]:
    """The data of the events in a fixture, read `cut` bytes at a time; 0: at once."""
    raw = (FIXTURES / name).read_bytes()
    parser = Parser(1 << 20)
    parts = [raw] if not cut else [raw[at : at + cut] for at in range(0, len(raw), cut)]
    events = [event for part in parts for event in parser.feed(part)]
    return [event.data for event in events + parser.close()]


WELL = sorted(
    path.name for path in FIXTURES.glob("*.sse") if not any(word in path.name for word in ("error", "abort", "swallow"))
)


@pytest.mark.parametrize("cut", [0, 1, 7])
@pytest.mark.parametrize("name", WELL)
def test_what_real_servers_send_passes_byte_for_byte_however_it_was_cut(name: str, cut: int) -> None:
    events = recorded(name, cut)
    kept = [event for event in events if b'"prompt_progress"' not in event and event != DONE]
    assert run(chat(usage=True), events) == framed(*kept, DONE)
    kept = [event for event in kept if b'"choices":[]' not in event]
    assert run(chat(), events) == framed(*kept, DONE)


# ---- whole answers ---------------------------------------------------------------------------------------------------


def test_a_whole_answer_is_the_same_chunks_folded() -> None:
    assert whole(chat(stream=False), [*ANSWER, USAGE, DONE]) == {
        **SAME,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    }


ONE_PIECE: dict[str, Any] = {
    **SAME,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "reasoning_content": "hm", "odd": [1]},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    "timings": {"x": 1.5},
}


def test_an_upstream_that_answers_in_one_piece_is_understood_by_both_kinds_of_client() -> None:
    data = msgspec.json.encode(ONE_PIECE)
    assert whole(chat(stream=False), [data]) == ONE_PIECE
    said, cost = map(msgspec.json.decode, payloads(run(chat(usage=True), [data])))
    assert said["choices"][0]["delta"] == ONE_PIECE["choices"][0]["message"]
    assert (said["choices"][0]["finish_reason"], said["object"]) == ("stop", "chat.completion.chunk")
    assert (cost["choices"], cost["usage"]) == ([], ONE_PIECE["usage"])
    assert len(payloads(run(chat(), [data]))) == 1


PIECE = st.text(max_size=6)
DELTA = st.one_of(
    st.builds(lambda t: {"content": t}, PIECE),
    st.builds(lambda t: {"reasoning_content": t}, PIECE),
    st.builds(lambda t, u: {"content": t, "novelty": u}, PIECE, PIECE),
    st.builds(
        lambda index, t: {
            "tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": "f", "arguments": t}}]
        },
        st.integers(0, 2),
        PIECE,
    ),
    st.just({}),
    st.just({"content": None, "list": [1, {"a": None}]}),
)
MORE = st.fixed_dictionaries(
    {}, optional={"usage": st.none() | st.just({"prompt_tokens": 1}), "novel": st.integers(), "note": PIECE}
)
CHUNKS = st.lists(st.builds(lambda delta, more: chunk(delta, **more), DELTA, MORE), max_size=12)
COMMENTED = st.sampled_from([[], [USAGE], [chunk({}, prompt_progress={"total": 1})]])


@given(CHUNKS, COMMENTED, st.sampled_from(["stop", "length", "tool_calls"]), st.booleans())
def test_the_stream_folded_is_the_whole_answer(
    events: list[bytes], more: list[bytes], finish: str, marked: bool
) -> None:
    """Of any sequence of chunks; and its text is all the text that there was."""
    said = [ROLE, *events, chunk({}, finish), *more, *([DONE] if marked else [])]
    fold = Fold("chat.completion")
    for payload in payloads(run(chat(usage=True), said)):
        fold.add(payload)
    answer = whole(chat(stream=False), said)
    assert msgspec.json.decode(fold.encode()) == answer
    deltas = [msgspec.json.decode(event)["choices"][0]["delta"] for event in events]
    (choice,) = answer["choices"]
    assert (choice["message"]["content"] or "") == "".join(delta.get("content") or "" for delta in deltas)
    assert choice["finish_reason"] == finish


# ---- ends that are none ----------------------------------------------------------------------------------------------

BROKEN: list[tuple[bytes, type[Exception], str]] = [
    (b'{"error":{"code":500,"message":"Compute error.","type":"server_error"}}', UpstreamStatus, "Compute error."),
    (b'{"error":"it broke"}', UpstreamStatus, "it broke"),
    (b'{"object":"error","message":"it broke","code":500}', UpstreamStatus, "it broke"),
    (chunk({}, "abort"), StreamClosedEarly, "gave the answer up"),
]


@pytest.mark.parametrize(("data", "kind", "says"), BROKEN)
@pytest.mark.parametrize("make", [chat, text])
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_in_the_stream_is_raised_and_never_passed_on(
    make: Any, data: bytes, kind: type[Exception], says: str, *, stream: bool
) -> None:
    call = make(stream=stream)
    if make is text:
        data = data.replace(b'"delta":{}', b'"text":""')
    call.feed(ANSWER[1] if make is chat else piece("one"))
    for _ in range(2):
        with pytest.raises(kind, match=says):
            call.feed(data)
    assert not call.done


def test_an_error_behind_the_finish_reason_leaves_no_good_end_behind() -> None:
    call = chat()
    assert b"".join(map(call.feed, ANSWER)) == framed(*ANSWER[:3])
    with pytest.raises(UpstreamStatus):
        call.feed(BROKEN[0][0])


@pytest.mark.parametrize("make", [chat, text])
def test_a_body_that_ends_in_the_middle_is_an_upstream_that_died(make: Any) -> None:
    call = make()
    call.feed(ANSWER[1] if make is chat else piece("one"))
    with pytest.raises(StreamClosedEarly):
        call.end()


@pytest.mark.parametrize("make", [chat, text])
def test_one_unreadable_event_is_left_out_and_the_second_is_too_many(make: Any) -> None:
    call = make()
    assert call.feed(b"<oops>") == b""
    assert len(call.notes) == 1
    with pytest.raises(Protocol):
        call.feed(b"<oops>")


# ---- the request -----------------------------------------------------------------------------------------------------


def test_what_is_counted_is_what_every_route_counts() -> None:
    call = chat()
    for event in (ROLE, chunk({"reasoning_content": "hm"}), chunk({"content": "so"}), chunk({})):
        call.feed(event)
    assert (call.pieces, call.thought, call.completion) == (2, 1, "c")
    assert (call.route, call.model, call.stream) == ("/v1/chat/completions", "alias", True)


def test_an_image_is_refused_where_the_model_has_no_eyes_and_goes_on_where_nobody_knows() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    call = chat(messages=[{"role": "user", "content": [image]}])
    blind = Traits(Kind.OPENAI, vision=False)
    for ask in (call.check, lambda traits: call.body("target", traits, Terms())):
        with pytest.raises(Invalid, match="the model 'alias' cannot see images"):
            ask(blind)
    for vision in (None, True):
        traits = Traits(Kind.OPENAI, vision=vision)
        call.check(traits)
        assert msgspec.json.decode(call.body("target", traits, Terms()))["messages"][0]["content"] == [image]
    chat().check(blind)


def test_what_has_to_be_fetched_is_known_and_what_was_found_stands_in_its_place() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    raw = msgspec.json.encode({"model": "alias", "messages": [{"role": "user", "content": [image]}], "stream": True})
    made = partial(ChatDialect, raw, request_id="req_1", form=QueueForm.COMMENT, tool_id=str)
    (wanted,) = made().pending(PLAIN)
    assert made().pending(Traits(Kind.OPENAI, vision=False)) == (wanted,)  # no address goes to anybody
    found = Image("data:image/png;base64,AAAA", wanted.what.at)
    body = made(found={wanted.what.at: found}).body("target", PLAIN, Terms())
    assert b"example.org" not in body
    assert msgspec.json.decode(body)["messages"][0]["content"][0]["image_url"] == {"url": found.url}
    assert chat().pending(PLAIN) == ()


def test_its_conversation_and_its_budget_are_those_of_its_body() -> None:
    call = chat(thinking_budget_tokens=9, user="ada")
    assert (len(call.chain()), call.thinking_budget, call.user) == (2, 9, "ada")


# ---- an answer that is steered ---------------------------------------------------------------------------------------

HM = chunk({"reasoning_content": "hm"})


def deltas(stream: bytes) -> list[Any]:
    """Of each chunk its delta, finish reason or usage."""
    found = []
    for payload in payloads(stream):
        made = msgspec.json.decode(payload)
        choice = made["choices"][0] if made["choices"] else None
        found.append(made["usage"] if choice is None else choice["finish_reason"] or choice["delta"])
    return found


def test_reasoning_that_was_ended_by_force_leaves_no_tag_in_the_text() -> None:
    call = chat(usage=True)
    out = call.feed(ROLE) + call.feed(HM)
    call.forced()
    rest = [chunk({"content": "and</thi"}), chunk({"content": "nk>\n\nSo it"}), chunk({"content": " is."})]
    out += run(call, [HM, *rest, chunk({}, "stop"), USAGE, DONE])
    assert deltas(out) == [
        {"role": "assistant", "content": None},
        {"reasoning_content": "hm"},
        {"reasoning_content": "hm"},
        {"reasoning_content": "and"},
        {"content": "So it"},
        {"content": " is."},
        "stop",
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    ]
    assert {msgspec.json.decode(payload)["id"] for payload in payloads(out)} == {"c"}


def test_an_answer_that_is_asked_for_again_goes_on_where_the_first_was_left() -> None:
    thought = chunk({"role": "assistant", "reasoning": "hm"})
    second = [event.replace(b'"id":"c"', b'"id":"d"') for event in (ROLE, chunk({"content": "So"}), chunk({}, "stop"))]
    events: list[bytes] = [*second, DONE]
    call, other = chat(), chat(stream=False)
    out = call.feed(thought)
    other.feed(thought)
    for each in (call, other):
        each.again()
        assert each.completion is None
    out += run(call, events)
    assert deltas(out) == [{"role": "assistant", "reasoning": "hm"}, {"content": "So"}, "stop"]
    assert {msgspec.json.decode(payload)["id"] for payload in payloads(out)} == {"c"}
    answer = whole(other, events)
    assert answer["choices"][0]["message"] == {"role": "assistant", "reasoning": "hm", "content": "So"}


def test_an_end_that_came_with_too_much_reasoning_is_not_the_end_of_the_answer() -> None:
    call = chat()
    out = b"".join(map(call.feed, [ROLE, HM, chunk({}, "length")]))
    call.again()
    out += run(call, [chunk({"content": "So"}), chunk({}, "stop"), DONE])
    assert deltas(out)[-2:] == [{"content": "So"}, "stop"]
    assert "length" not in deltas(out)


def test_reasoning_that_went_out_as_text_is_closed_before_the_text() -> None:
    call = chat()
    out = call.feed(ROLE) + call.feed(chunk({"content": "<think>hm"}))
    assert call.thought == 1
    call.again()
    out += run(call, [chunk({"content": "So"}), chunk({}, "stop"), DONE])
    said = "".join(delta.get("content") or "" for delta in deltas(out) if isinstance(delta, dict))
    assert said == "<think>hm</think>\n\nSo"


def test_calls_of_a_steered_answer_are_counted_behind_those_that_are_known() -> None:
    def call_of(index: int, identity: str) -> bytes:
        piece = {"index": index, "id": identity, "type": "function", "function": {"name": "f", "arguments": ""}}
        return chunk({"tool_calls": [piece]})

    call = chat()
    out = call.feed(ROLE) + call.feed(call_of(0, "a")) + call.feed(HM)
    call.forced()
    out += run(call, [call_of(1, "b"), chunk({}, "tool_calls"), DONE])
    calls = [piece for delta in deltas(out) if isinstance(delta, dict) for piece in delta.get("tool_calls", ())]
    assert [(each["index"], each["id"]) for each in calls] == [(0, "a"), (1, "b")]


# ---- plain completions -----------------------------------------------------------------------------------------------

STORY = [piece("upon"), piece(" a"), piece("", "stop")]


@pytest.mark.parametrize("usage", [True, False])
def test_a_plain_completion_passes_byte_for_byte_too(*, usage: bool) -> None:
    call = text(usage=usage)
    assert run(call, [*STORY, USAGE, DONE]) == framed(*STORY, *([USAGE] if usage else []), DONE)
    assert (call.pieces, call.route, call.stream) == (2, "/v1/completions", True)
    assert run(text(usage=usage), STORY) == framed(*STORY, DONE)


def test_a_plain_completion_without_a_finish_reason_gets_one_of_its_own_kind() -> None:
    out = payloads(run(text(), [*STORY[:2], DONE]))
    assert msgspec.json.decode(out[-1]) == msgspec.json.decode(piece("", "stop"))


def test_a_plain_completion_is_folded_too_and_understood_in_one_piece() -> None:
    answer = msgspec.json.decode(piece("upon a", "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}))
    assert whole(text(stream=False), [*STORY, USAGE, DONE]) == answer
    data = msgspec.json.encode(answer)
    assert whole(text(stream=False), [data]) == answer
    assert run(text(), [data]) == framed(data, DONE)


def test_in_a_plain_completion_nothing_counts_as_reasoning() -> None:
    call = text(thinking_budget_tokens=0)
    events = [piece("<think>hm"), piece(" hm</think>so", "stop"), DONE]
    assert run(call, events) == framed(*events)
    assert (call.thought, call.thinking_budget) == (0, None)
    assert call.pieces > 0
    assert call.completion == "c"


def test_a_plain_completion_has_a_conversation_and_takes_a_slot() -> None:
    call = text()
    assert len(call.chain()) == 2
    sent = msgspec.json.decode(call.body("target", Traits(Kind.LLAMA_CPP), Terms(slot=1)))
    assert (sent["prompt"], sent["id_slot"], sent["stream"]) == ("once", 1, True)
