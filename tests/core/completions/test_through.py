"""Which of the upstream's chunks reach the client, when, and in what form."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from slotline.core.completions.through import Through, unpacked


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    same = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    return msgspec.json.encode({**same, "choices": [choice], **more})


ROLE = chunk({"role": "assistant", "content": None})
USAGE = msgspec.json.encode({"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
PROGRESS = chunk({"role": "assistant", "content": None}, prompt_progress={"total": 9, "processed": 3})


def through(*, usage: bool = False, progress: bool = False, roles: bool = True) -> Through:
    return Through(usage=usage, progress=progress, roles=roles)


def taken(way: Through, *events: bytes) -> list[bytes]:
    """All that reaches the client of an answer that ends well."""
    out = [payload for event in events for payload in way.take(event, event, began=False)]
    return out + way.rest()


def test_chunks_pass_as_they_came() -> None:
    odd = b' { "choices" : [ {"index":0, "delta":{"content":"\xc3\xa9\\u00e9\\/"}} ] , "x":1.50} '
    events = [ROLE, odd, chunk({"content": "two"}, logprobs={"content": []}), chunk({}, "stop", timings={"n": 1})]
    assert taken(through(), *events) == events


def test_a_chunk_of_usage_alone_comes_only_if_it_was_asked_for() -> None:
    assert taken(through(), ROLE, USAGE) == [ROLE]
    assert taken(through(usage=True), ROLE, USAGE) == [ROLE, USAGE]


def test_usage_beside_an_answer_and_chunks_without_either_pass() -> None:
    both = chunk({"content": "x"}, usage={"prompt_tokens": 1})
    preamble = msgspec.json.encode({"choices": [], "prompt_filter_results": []})
    assert taken(through(), preamble, ROLE, both) == [preamble, ROLE, both]


def test_progress_alone_comes_only_if_it_was_asked_for() -> None:
    assert taken(through(), PROGRESS, ROLE) == [ROLE]
    assert taken(through(progress=True), PROGRESS, ROLE) == [PROGRESS, ROLE]


def test_progress_beside_an_answer_passes() -> None:
    both = chunk({"role": "assistant", "content": "x"}, prompt_progress={"total": 9, "processed": 9})
    assert taken(through(), both) == [both]


@pytest.mark.parametrize("data", [b"[DONE]", b"not json", b"5", b'{"type":"ping"}', b'{"choices":null}'])
def test_what_is_no_chunk_of_an_answer_does_not_pass(data: bytes) -> None:
    assert taken(through(), ROLE, data) == [ROLE]


def test_from_the_finish_reason_on_chunks_are_held_until_the_end_is_known_to_be_one() -> None:
    way = through(usage=True)
    last = chunk({"content": "x"}, "stop")
    assert [way.take(event, event, began=True) for event in (ROLE, last, USAGE)] == [[ROLE], [], []]
    assert way.finished
    assert way.rest() == [last, USAGE]
    assert way.rest() == []


def test_an_end_that_turned_out_to_be_none_is_forgotten() -> None:
    way = through()
    last = chunk({}, "length")
    assert way.take(last, last, began=True) == []
    way.drop()
    assert not way.finished
    assert way.rest() == []


def test_an_answer_that_does_not_say_who_speaks_is_told_so_first() -> None:
    said = chunk({"content": "x"})
    first, *rest = taken(through(), said, said)
    assert unpacked(first) == {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}],
    }
    assert rest == [said, said]
    assert taken(through(roles=False), said) == [said]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\xffb"}}]}', "a\ufffdb"),
        (b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\tb"}}]}', "a\tb"),
        (b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\\ud800b"}}]}', "a?b"),
        (b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"ab"},"logprob":NaN}]}', "ab"),
        (b'{"choices":[{"index":0,\n"delta":{"role":"assistant","content":"ab"}}]}', "ab"),
    ],
)
def test_what_a_client_could_not_read_is_mended(data: bytes, text: str) -> None:
    (payload,) = taken(through(), data)
    assert b"\n" not in payload
    assert msgspec.json.decode(payload)["choices"][0]["delta"]["content"] == text


def test_a_field_of_an_unexpected_type_is_the_clients_business() -> None:
    data = (
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":[{"type":"text","text":"x"}]}}],"created":"now"}'
    )
    assert taken(through(), data) == [data]


# ---- an answer in one piece ------------------------------------------------------------------------------------------

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WHOLE = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [CALL]}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


@pytest.mark.parametrize("usage", [True, False])
def test_an_answer_in_one_piece_becomes_the_chunks_of_a_stream(*, usage: bool) -> None:
    made = [unpacked(payload) for payload in taken(through(usage=usage), msgspec.json.encode(WHOLE))]
    assert made[0] == {
        "id": "c",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": "hi", "tool_calls": [{**CALL, "index": 0}]},
                "finish_reason": "stop",
            }
        ],
    }
    cost = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": WHOLE["usage"]}
    assert made[1:] == ([cost] if usage else [])


def test_a_summary_behind_an_answer_is_not_the_answer_again() -> None:
    way = through()
    data = msgspec.json.encode(WHOLE)
    assert way.take(data, data, began=True) == []
    assert way.finished


# ---- what is remembered ----------------------------------------------------------------------------------------------


def test_what_the_client_knows_already_is_remembered() -> None:
    way = through()
    assert (way.speaks, way.key, way.calls) == (False, None, [])
    calls = [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": ""}}]
    more = [{"index": 0, "function": {"arguments": "{}"}}]
    events = [
        chunk({"role": "assistant", "reasoning": "x"}),
        chunk({"tool_calls": calls}),
        chunk({"tool_calls": more}),
        chunk({"tool_calls": [{"index": 1, "function": {"name": "g"}}]}, system_fingerprint="fp", x=1),
    ]
    taken(way, *events)
    assert (way.speaks, way.key, way.calls) == (True, "reasoning", ["call_1", ""])
    assert way.common() == {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "system_fingerprint": "fp",
    }


def test_a_number_out_of_range_is_no_reason_to_lose_a_payload() -> None:
    assert unpacked(b'{"id":"c","x":1e999}')["id"] == "c"
