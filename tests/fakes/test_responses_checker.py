"""The checker of Responses streams finds what is wrong: a checker that lets things pass would be worth nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fakes.chunks import call, say
from fakes.responding import answer, dialect, fed
from fakes.responses_checker import check, check_whole

TOOLS = [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]
RAW = fed(
    dialect(tools=TOOLS),
    answer(
        say(reasoning_content="hm"),
        say("one"),
        say(" two"),
        say(tool_calls=[call(0, "f", '{"a":1}', "a"), call(1, "g", '{"input":"x"}', "b")]),
    ),
)
FAILED = fed(dialect(), [say("one"), {"error": {"message": "x"}}])
FRAMES = RAW.split(b"\n\n")[:-1]

Change = Callable[[dict[str, Any]], None]


def joined(frames: list[bytes]) -> bytes:
    """The frames as one body, counted anew, so that the count alone gives nothing away."""
    out = b""
    for number, frame in enumerate(frames):
        name, data = frame.split(b"\ndata: ")
        out += name + b"\ndata: " + json.dumps({**json.loads(data), "sequence_number": number}).encode() + b"\n\n"
    return out


def changed(raw: bytes, name: str, change: Change) -> bytes:
    """`raw` with the data of every event `name` changed."""
    frames = []
    for frame in raw.split(b"\n\n")[:-1]:
        head, data = frame.split(b"\ndata: ")
        fields = json.loads(data)
        if fields["type"] == name:
            change(fields)
        frames.append(head + b"\ndata: " + json.dumps(fields).encode())
    return b"".join(frame + b"\n\n" for frame in frames)


def test_a_legal_stream_is_legal() -> None:
    seen = check(RAW)
    assert (seen.reasoning, seen.text, len(seen.calls)) == ("hm", "one two", 2)
    assert check(joined(FRAMES)).items == seen.items
    assert check_whole(seen.response or {}) == seen.response
    assert check(FAILED).error == {"message": "x", "type": "server_error", "param": None, "code": None}


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_no_event_may_be_missing(number: int) -> None:
    """Except the second: a response may be in progress from its creation on, but then it has to say so."""
    with pytest.raises(AssertionError):
        check(joined(FRAMES[:number] + FRAMES[number + 1 :]))


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_no_event_may_come_twice(number: int) -> None:
    if b"response.in_progress" in FRAMES[number]:
        return  # which is a sign of life
    with pytest.raises(AssertionError):
        check(joined(FRAMES[: number + 1] + FRAMES[number:]))


@pytest.mark.parametrize("number", range(len(FRAMES) - 1))
def test_no_two_events_may_change_places(number: int) -> None:
    frames = [*FRAMES]
    frames[number : number + 2] = frames[number + 1], frames[number]
    with pytest.raises(AssertionError):
        check(joined(frames))


def test_a_stream_has_to_end_and_nothing_may_follow() -> None:
    with pytest.raises(AssertionError, match="no end"):
        check(joined(FRAMES[:-1]))
    with pytest.raises(AssertionError, match="follows the end"):
        check(RAW + b": keep-alive\n\n")
    with pytest.raises(AssertionError, match="follows the end"):
        check(FAILED + FAILED)


def test_a_failure_has_two_events() -> None:
    frames = FAILED.split(b"\n\n")[:-1]
    for wrong in (frames[:-1], [*frames[:-2], frames[-1]], [*frames[:-2], frames[-1], frames[-2]]):
        with pytest.raises(AssertionError):
            check(joined(wrong))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("response.created", lambda data: data.update(extra=1)),
        ("response.created", lambda data: data.update(sequence_number=1)),
        ("response.created", lambda data: data["response"].pop("usage")),
        ("response.created", lambda data: data["response"].update(status="completed")),
        ("response.created", lambda data: data["response"].update(store=True)),
        ("response.created", lambda data: data["response"].update(id="x")),
        ("response.in_progress", lambda data: data["response"].update(model="another")),
        ("response.in_progress", lambda data: data["response"].update(output=[{}])),
        ("response.completed", lambda data: data["response"].update(id="resp_2")),
        ("response.completed", lambda data: data["response"]["output"].pop()),
        ("response.completed", lambda data: data["response"]["usage"].update(total_tokens=0)),
        ("response.completed", lambda data: data["response"].update(usage=None)),
        ("response.completed", lambda data: data["response"].update(status="incomplete")),
        ("response.completed", lambda data: data["response"].update(completed_at=None)),
        ("response.output_item.added", lambda data: data.update(output_index=7)),
        ("response.output_item.added", lambda data: data["item"].update(id="msg_9")),
        ("response.output_item.added", lambda data: data["item"].update(status="completed")),
        ("response.output_item.added", lambda data: data["item"].update(type="hologram")),
        ("response.output_item.done", lambda data: data["item"].update(status="in_progress")),
        ("response.output_text.delta", lambda data: data.update(delta="")),
        ("response.output_text.delta", lambda data: data.update(item_id="msg_9")),
        ("response.output_text.delta", lambda data: data.update(content_index=1)),
        ("response.output_text.done", lambda data: data.update(text="three")),
        ("response.content_part.added", lambda data: data["part"].update(text="x")),
        ("response.content_part.done", lambda data: data["part"].update(text="x")),
        ("response.reasoning_text.done", lambda data: data.pop("text")),
        ("response.function_call_arguments.done", lambda data: data.update(arguments="{}")),
        ("response.custom_tool_call_input.delta", lambda data: data.update(delta="y")),
    ],
)
def test_what_is_wrong_in_an_event_is_found(name: str, change: Change) -> None:
    assert changed(RAW, name, lambda _: None) != changed(RAW, name, change), "nothing was changed"
    with pytest.raises(AssertionError):
        check(changed(RAW, name, change))


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"type":"response.created"}\n\n',
        b"event: queue\ndata: {}\n\n",
        b'event: queue\ndata: {"type":"queue"}\n\n',
        b": queue position=x\n\n",
        b": queue position=5 length=2 wait_ms=unknown\n\n",
    ],
)
def test_a_frame_that_does_not_belong_here_is_found(frame: bytes) -> None:
    with pytest.raises(AssertionError):
        check(frame, whole=False)


def test_a_place_in_line_is_read_and_comes_before_the_answer() -> None:
    place = b": queue position=2 length=3 wait_ms=unknown\n\n"
    assert check(place + RAW).places == [(2, 3)]
    with pytest.raises(AssertionError, match="after the answer began"):
        check(joined(FRAMES[:2]) + place, whole=False)
