"""What the real engine sent, recorded: read whole, cut in two at every byte, and one byte at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from fakes.checker import CheckedStream
from fakes.chunks import Heard, machine
from slotline.core import sse

FOLDER = Path(__file__).parents[2] / "fixtures" / "llama.cpp"

STREAMS = {
    # name: the kinds of the blocks, and why the answer ends
    "text": (["text"], "end_turn"),
    "unicode": (["text"], None),
    "progress": (["text"], "max_tokens"),
    "length": (["text"], "max_tokens"),
    "stop": (["text"], "end_turn"),
    "logprobs": (["text"], "max_tokens"),
    "json": (["text"], "end_turn"),
    "thinking": (["thinking", "text"], None),
    "thinking-length": (["thinking"], "max_tokens"),
    "tools": (["tool_use"], "tool_use"),
    "tools-cut": (["tool_use"], "max_tokens"),
}
COUNTED = re.compile(rb'"completion_tokens":(\d+),"prompt_tokens":(\d+),.*?"cached_tokens":(\d+)')


def body(name: str) -> bytes:
    return (FOLDER / f"{name}.sse").read_bytes()


def read(pieces: Iterable[bytes]) -> list[sse.Event]:
    parser = sse.Parser(1 << 20)
    return [*(event for piece in pieces for event in parser.feed(piece)), *parser.close()]


def listen(pieces: Iterable[bytes]) -> Heard:
    listener = Heard(machine(stop_sequences=["3"]))
    for event in read(pieces):
        listener.feed(event.data)
    listener.end()
    return listener


def seen(name: str) -> CheckedStream:
    return listen([body(name)]).checked()


def test_every_recording_has_its_expectation() -> None:
    assert {path.stem for path in FOLDER.glob("*.sse")} == set(STREAMS)


@pytest.mark.parametrize("name", STREAMS)
def test_a_recording_becomes_the_message_that_it_means(name: str) -> None:
    kinds, reason = STREAMS[name]
    checked = seen(name)
    assert checked.complete
    assert [block["type"] for block in checked.blocks] == kinds
    assert reason is None or checked.stop_reason == reason
    counted = COUNTED.search(body(name))
    assert counted is not None
    answer, prompt, cached = map(int, counted.groups())
    usage = checked.usage
    assert (usage["output_tokens"], usage["input_tokens"], usage["cache_read_input_tokens"]) == (
        answer,
        prompt - cached,
        cached,
    )


@pytest.mark.parametrize("name", STREAMS)
def test_every_word_of_a_recording_comes_out(name: str) -> None:
    deltas = [
        choice["delta"]
        for line in body(name).splitlines()
        if line.startswith(b"data: {")
        for choice in json.loads(line[6:])["choices"]
    ]
    calls = [call["function"].get("arguments", "") for delta in deltas for call in delta.get("tool_calls", ())]
    checked = seen(name)
    assert checked.text == "".join(delta.get("content") or "" for delta in deltas)
    assert checked.thinking == "".join(delta.get("reasoning_content") or "" for delta in deltas)
    if name == "tools":
        assert checked.tools[0]["input"] == json.loads("".join(calls))


@pytest.mark.parametrize("name", STREAMS)
def test_where_the_network_cuts_a_recording_makes_no_difference(name: str) -> None:
    """Case 80, B53. What is translated are events: where these are the same, the message is."""
    whole = body(name)
    assert listen(whole[at : at + 1] for at in range(len(whole))).made == listen([whole]).made
    events = read([whole])
    for at in range(len(whole) + 1):
        assert read([whole[:at], whole[at:]]) == events


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_a_recording_with_other_line_ends_is_the_same(line_end: bytes) -> None:
    """Case 81, B54: also with every `\\r\\n` cut in two."""
    for name in STREAMS:
        made = listen([body(name)]).made
        other = body(name).replace(b"\n", line_end)
        assert listen([other]).made == made
        assert listen(re.split(rb"(?<=\r)", other)).made == made
