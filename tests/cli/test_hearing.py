"""A stream as a client hears it: whole, cut at every byte, one byte at a time; and everything that cannot be true."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slotline.cli.hearing import (
    Begun,
    Collected,
    Done,
    Failed,
    Fault,
    Heard,
    Progress,
    Queued,
    Reading,
    Text,
    Thinking,
    Untrue,
    Usage,
    refused,
    whole,
)
from slotline.core.anthropic import events as sent
from slotline.core.line import Place
from slotline.core.progress_frames import Stage
from slotline.core.progress_frames import frame as progress
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told
from slotline.core.queue_frames import frame as place
from slotline.core.sse import encode

QUEUE = place(QueueForm.EVENT, Told(Place(2, 3), None))
NEXT = place(QueueForm.EVENT, Told(Place(1, 2), 1.5))
LOADING = progress(Stage.LOADING)
PREFILL = progress(Stage.PREFILL, 5, 9)
START = sent.encode(sent.MessageStart("msg_1", "m", sent.Usage(9)))
BLOCK = sent.encode(sent.TextStart(1))
DELTA = sent.encode(sent.TextDelta(1, "Grüße, 世界\n"))
USED = sent.encode(sent.MessageDelta("end_turn", None, sent.Usage(7, 12, cache_read_input_tokens=2)))
STOP = sent.encode(sent.MessageStop())
PING = sent.encode(sent.Ping())
ERROR = encode("error", b'{"type":"error","error":{"type":"overloaded_error","message":"the gateway is ending"}}')
_THOUGHT: tuple[sent.Event, ...] = (
    sent.ThinkingStart(0),
    sent.ThinkingDelta(0, ""),
    sent.ThinkingDelta(0, "Hm."),
    sent.SignatureDelta(0),
    sent.BlockStop(0),
)
THOUGHT = b"".join(sent.encode(event) for event in _THOUGHT)
ANSWER = START + PING + THOUGHT + BLOCK + DELTA + sent.encode(sent.BlockStop(1)) + USED + STOP
STREAM = QUEUE + KEEP_ALIVE + NEXT + LOADING + PREFILL + ANSWER
HEARD: list[Heard] = [
    Queued(2, 3, None),
    Queued(1, 2, 1.5),
    Progress("loading", None, None),
    Progress("prefill", 5, 9),
    Begun(),
    Thinking("Hm."),
    Text("Grüße, 世界\n"),
    Usage(prompt=7, cached=2, answer=12),
    Done("end_turn"),
]


def heard(*pieces: bytes) -> list[Heard]:
    """All that is heard of a body that came in these pieces, and ended."""
    reading = Reading()
    return [*(each for piece in pieces for each in reading.feed(piece)), *reading.end()]


def untrue(stream: bytes) -> list[str]:
    return [each.message for each in heard(stream) if isinstance(each, Untrue)]


def test_a_whole_stream_is_heard_in_order() -> None:
    assert heard(STREAM) == HEARD


def test_it_does_not_depend_on_where_the_network_cuts() -> None:
    for cut in range(len(STREAM)):
        assert heard(STREAM[:cut], STREAM[cut:]) == HEARD, cut


def test_it_comes_one_byte_at_a_time() -> None:
    assert heard(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == HEARD


def test_an_error_is_the_last_word() -> None:
    assert heard(QUEUE + ERROR) == [
        Queued(2, 3, None),
        Failed(Fault.ERROR, "overloaded_error", "the gateway is ending"),
    ]


@pytest.mark.parametrize(
    ("stream", "where"),
    [
        (b"", "in line"),
        (QUEUE, "in line"),
        (QUEUE + PREFILL, "after the slot was granted"),
        (START + BLOCK + DELTA, "after message_start"),
        (START + USED, "after message_delta"),
    ],
)
def test_a_stream_without_an_end_broke_off(stream: bytes, where: str) -> None:
    last = heard(stream)[-1]
    assert last == Failed(Fault.ENDLESS, "endless", f"broke off {where}: the stream has no end")


def test_a_lost_connection_is_no_failure_once_the_answer_is_whole() -> None:
    done, cut = Reading(), Reading()
    done.feed(STREAM)
    cut.feed(QUEUE)
    assert done.broken("reset") == []
    assert cut.broken("reset") == [Failed(Fault.BROKEN, "broken", "the connection broke off in line: reset")]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (START + QUEUE + USED + STOP, ["queue came after message_start"]),
        (PREFILL + QUEUE + ANSWER, ["queue came after the slot was granted"]),
        (START + PREFILL + USED + STOP, ["progress came after message_start"]),
        (ERROR + QUEUE, ["queue came after the end"]),
        (ERROR + STOP, ["message_stop came after the end"]),
        (ANSWER + PING, ["ping came after the end"]),
        (ANSWER + ERROR, ["error came after the end"]),
        (ANSWER + ANSWER[: len(START)], ["message_start came after the end"]),
        (DELTA + ANSWER, ["content_block_delta came in line"]),
        (START + STOP + USED + STOP, ["message_stop came after message_start"]),
        (encode("queue", b'{"position":3,"queue_length":2}') + ANSWER, ["place 3 of 2 was told"]),
        (encode("queue", b'{"position":0,"queue_length":2}') + ANSWER, ["place 0 of 2 was told"]),
        (encode("tomorrow", b'{"type":"tomorrow"}') + ANSWER + KEEP_ALIVE, []),
    ],
)
def test_what_cannot_be_true_is_noticed(stream: bytes, expected: Sequence[str]) -> None:
    assert untrue(stream) == expected


@pytest.mark.parametrize("nonsense", [encode("queue", b"[1]"), encode("queue", b"{"), b"<html>\n\n"])
def test_what_cannot_be_read_ends_it_and_what_came_before_counts(nonsense: bytes) -> None:
    stream = QUEUE + nonsense + NEXT
    for cut in range(len(stream)):
        reading = Reading()
        first = reading.feed(stream[:cut])
        said = [*first, *([] if reading.strange else reading.feed(stream[cut:]))]
        said += [] if reading.strange else reading.end()
        assert [type(each) for each in said] == [Queued, Failed], cut
        assert isinstance(said[-1], Failed)
        assert said[-1].fault is Fault.STRANGE


def test_an_answer_in_one_piece_is_heard_as_if_it_had_been_streamed() -> None:
    body = (
        b'{"type":"message","content":[{"type":"thinking","thinking":"Hm.","signature":"x"},{"type":"text","text":"Hi"},'
        b'{"type":"tool_use","id":"t","name":"n","input":{}}],"stop_reason":"max_tokens",'
        b'"usage":{"input_tokens":7,"output_tokens":12,"cache_read_input_tokens":2}}'
    )
    collected = Collected(whole)
    assert collected.feed(body[:20]) == collected.feed(body[20:]) == []
    assert collected.end() == [Begun(), Thinking("Hm."), Text("Hi"), Usage(7, 2, 12), Done("max_tokens")]
    assert collected.broken("reset") == [Failed(Fault.BROKEN, "broken", "the connection broke off: reset")]
    (strange,) = whole(b'{"hello":1}')
    assert isinstance(strange, Failed)
    assert strange.fault is Fault.STRANGE


def test_a_refusal_is_told_in_the_gateways_words_or_as_a_strangers() -> None:
    body = b'{"type":"error","error":{"type":"not_found_error","message":"no such model"},"request_id":"req_1"}'
    assert refused(404, body) == Failed(Fault.REFUSED, "not_found_error", "no such model", 404)
    for stranger in (b"<html>", b"{}", b"", b'{"error":"words"}'):
        failed = refused(502, stranger)
        assert (failed.fault, failed.status) == (Fault.STRANGE, 502)
        assert failed.message == "what answers there is no Slotline gateway (status 502)"
