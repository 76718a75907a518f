"""What each kind of server sends, and the message that comes of it.

The streams lie in `tests/fixtures/<kind>-<what>.sse`; where they come from is said there. Each is read whole, cut in
two at every byte, and one byte at a time, and the strict checker reads what comes out.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes.checker import CheckedStream, check
from slotline.core import sse
from slotline.core.anthropic import errors, events
from slotline.core.anthropic.answer import Answer
from slotline.core.anthropic.stream import MessageStream
from slotline.core.errors import SlotlineError, StreamClosedEarly, UpstreamStatus
from slotline.core.openai.errors import explain

FIXTURES = Path(__file__).parents[2] / "fixtures"
Json = dict[str, Any]


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def thinking(thought: str) -> Json:
    return {"type": "thinking", "thinking": thought}


def call(name: str, given: Json, identity: str | None = None) -> Json:
    found = {"type": "tool_use", "name": name, "input": given}
    return found if identity is None else {**found, "id": identity}


def usage(prompt: int, answer: int, cached: int = 0) -> Json:
    return {"input_tokens": prompt, "output_tokens": answer, "cache_read_input_tokens": cached}


@dataclass(frozen=True)
class Expected:
    """`error` and `says` where the stream is no whole answer; `content` is then what came before."""

    content: list[Json]
    stop: str | None = None
    usage: Json = field(default_factory=dict)
    sequence: str | None = None
    error: type[SlotlineError] | None = None
    says: str = ""


WEATHER, CLOCK = call("weather", {"city": "Oslo"}), call("clock", {})
BEFORE = [text("The wea")]

STREAMS: dict[str, Expected] = {
    "llama.cpp-text": Expected([text("Hello")], "end_turn", usage(33, 2)),
    "llama.cpp-length": Expected([text("Hello! I")], "max_tokens", usage(1, 3, 32)),
    "llama.cpp-reasoning": Expected([thinking("\nThe code is"), text("The code is\n\n")], "max_tokens", usage(15, 14)),
    "llama.cpp-tools": Expected([WEATHER, CLOCK], "tool_use", usage(138, 31, 24)),
    "llama.cpp-error": Expected(BEFORE, error=UpstreamStatus, says="Compute error."),
    "llama.cpp-error-2024": Expected(BEFORE, error=UpstreamStatus, says="Compute error."),
    "ollama-text": Expected([text("Hello there.")], "end_turn", usage(12, 4)),
    "ollama-reasoning": Expected([thinking("The user greets."), text("Hello.")], "end_turn", usage(12, 8)),
    "ollama-tools": Expected([WEATHER, CLOCK], "tool_use", usage(150, 20)),
    "ollama-swallowed-error": Expected(BEFORE, error=StreamClosedEarly, says="closed the stream before"),
    "vllm-text": Expected([text("Grüße 👋🏽")], "end_turn", usage(1, 3, 32)),
    "vllm-reasoning": Expected(
        [thinking("The user greets."), text("\n\nHello.")], "stop_sequence", usage(15, 9), sequence="END"
    ),
    "vllm-tools": Expected([WEATHER, CLOCK], "tool_use", usage(162, 31)),
    "vllm-error": Expected(BEFORE, error=UpstreamStatus, says="EngineCore encountered an issue."),
    "sglang-text": Expected([text("One, two")], "stop_sequence", usage(10, 4, 10), sequence="three"),
    "sglang-reasoning": Expected([thinking("The user greets."), text("Hello.")], "end_turn", usage(8, 9, 8)),
    "sglang-tools": Expected([text("I look."), WEATHER], "tool_use", usage(81, 24, 81)),
    "sglang-error": Expected(BEFORE, error=UpstreamStatus, says="Out of memory."),
    "sglang-abort": Expected(BEFORE, error=StreamClosedEarly, says="gave the answer up"),
    "openai-text": Expected([text("Hello there.")], "end_turn", usage(19, 10)),
    "openai-reasoning": Expected([thinking("The user greets."), text("Hello.")], "end_turn", usage(0, 0)),
    "openai-tools": Expected([WEATHER, CLOCK], "tool_use", usage(0, 0)),
    "openai-refusal": Expected([text("I cannot help with that.")], "refusal", usage(0, 0)),
    "openai-error": Expected(BEFORE, error=UpstreamStatus, says="The server had an error while processing"),
}


def body(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


def deliver(pieces: Iterable[bytes]) -> tuple[bytes, Answer, SlotlineError | None]:
    """The pieces of a server's body → what the client's stream gets, and the error at its end."""
    numbers = itertools.count(1)
    parser, answer, made = sse.Parser(1 << 20), Answer(), []
    stream = MessageStream(
        message_id="msg_1", model="m", tool_id=lambda: f"toolu_{next(numbers)}", stop_sequences=("END", "three")
    )
    failure: SlotlineError | None = None

    def read(found: Iterable[sse.Event]) -> None:
        for event in found:
            if event.name == "error":  # as the client of the upstream does
                raise explain(500, event.data, "application/json")
            made.extend(stream.feed(event.data))

    try:
        for piece in pieces:
            read(parser.feed(piece))
        read(parser.close())
        made.extend(stream.end())
    except SlotlineError as error:
        failure = error
    for translated in made:
        answer.add(translated)
    end = b"" if failure is None else errors.event(failure, "req_1")
    return b"".join(map(events.encode, made)) + end, answer, failure


def plain(block: Json) -> Json:
    """A block without its signature and, where a test does not care, without its id."""
    return {key: value for key, value in block.items() if key not in {"signature", "id"}}


def test_every_stream_there_is_has_its_expectation() -> None:
    assert sorted(STREAMS) == sorted(path.stem for path in FIXTURES.glob("*.sse"))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_becomes_the_message_that_it_means(name: str) -> None:
    expected = STREAMS[name]
    raw, answer, failure = deliver([body(name)])
    checked = check(raw)
    assert [plain(block) for block in checked.blocks] == expected.content
    if expected.error is None:
        assert failure is None
        message = json.loads(answer.encode())
        assert message == checked.message
        assert (message["stop_reason"], message["stop_sequence"]) == (expected.stop, expected.sequence)
        assert message["usage"].items() >= expected.usage.items()
    else:
        assert type(failure) is expected.error
        assert expected.says in str(failure)
        assert not answer.complete


@pytest.mark.parametrize("name", STREAMS)
def test_where_the_network_cuts_it_makes_no_difference(name: str) -> None:
    whole = body(name)
    raw, _, _ = deliver([whole])
    assert deliver(whole[at : at + 1] for at in range(len(whole)))[0] == raw
    for at in range(len(whole) + 1):
        assert deliver([whole[:at], whole[at:]])[0] == raw


@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_without_its_end_is_never_taken_for_a_whole_one(name: str) -> None:
    """Cut off anywhere before the finish reason, the stream is an upstream that died."""
    whole = body(name)
    finishes = [
        at for reason in (b'"stop"', b'"length"', b'"tool_calls"', b'"abort"') if (at := _finish(whole, reason))
    ]
    for at in range(min(finishes, default=len(whole))):
        assert isinstance(deliver([whole[:at]])[2], SlotlineError)


def _finish(whole: bytes, reason: bytes) -> int:
    return whole.find(b'"finish_reason":' + reason) + 1


def test_ids_of_calls_are_those_of_the_server() -> None:
    assert ids("vllm-tools") == ["chatcmpl-tool-1a", "functions.clock:1"]
    assert ids("ollama-tools") == ["call_ab12cd34", "call_ef56gh78"]


def ids(name: str) -> list[str]:
    checked: CheckedStream = check(deliver([body(name)])[0])
    return [tool["id"] for tool in checked.tools]


def test_tokens_of_reasoning_are_told_where_the_server_counts_them() -> None:
    for name, tokens in (("sglang-reasoning", 5), ("openai-text", 7)):
        message = check(deliver([body(name)])[0]).message
        assert message is not None
        assert message["usage"]["output_tokens_details"] == {"thinking_tokens": tokens}


REFUSALS: list[Json] = json.loads((FIXTURES / "refusals.json").read_bytes())


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal["from"])
def test_a_refusal_before_the_stream_keeps_the_servers_words(refusal: Json) -> None:
    """But for overflows, pages of HTML and our own credentials; see `core.openai.errors`."""
    page = "text/html" if refusal["body"].startswith("<") else "application/json"
    error = explain(refusal["status"], refusal["body"].encode(), page)
    assert (error.status, str(error)) == (refusal["gives"], refusal["says"])
    assert error.upstream_status == refusal["status"]
