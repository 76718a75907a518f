"""Chat stream → Messages stream. Every stream that comes out is read by the strict checker.

`run` gives the chunks to the translation as a server's body: whole, and one byte at a time; and folds the events into
a whole answer too, which must say the same. Streams as the servers send them are cut in two
at every byte besides.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.checker import CheckedStream, check
from slotline.core import sse
from slotline.core.anthropic import errors, events
from slotline.core.anthropic.answer import Answer
from slotline.core.anthropic.stream import MessageStream
from slotline.core.errors import Protocol, SlotlineError, StreamClosedEarly, UpstreamStatus
from slotline.core.record import Tokens

DONE = "[DONE]"


def machine(**options: Any) -> MessageStream:
    numbers = itertools.count(1)
    fixed = {"message_id": "msg_1", "model": "m", "tool_id": lambda: f"toolu_{next(numbers)}"}
    return MessageStream(**{**fixed, **options})


def say(content: str | None = None, *, finish: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    """One ordinary chunk."""
    fields = {"content": content, **delta} if content is not None else delta
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}
    return chunk if usage is None else {**chunk, "usage": usage}


def call(
    index: int | None = 0, name: str | None = None, arguments: Any = None, identity: str | None = None
) -> dict[str, Any]:
    """One fragment of a tool call, with the keys that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": identity, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def tools(*fragments: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return say(tool_calls=list(fragments), finish=finish)


def body(chunks: Iterable[Any], end: str = "\n") -> bytes:
    """Chunks as a server sends them. A string is sent as it is."""
    texts = (chunk if isinstance(chunk, str) else json.dumps(chunk, ensure_ascii=False) for chunk in chunks)
    return "".join(f"data: {text}{end}{end}" for text in texts).encode()


def deliver(pieces: Iterable[bytes], **options: Any) -> tuple[bytes, Answer, MessageStream]:
    """The pieces of an upstream's body → what the client's stream gets, an error at its end included."""
    parser, stream, answer = sse.Parser(1 << 20), machine(**options), Answer()
    made: list[events.Event] = []
    raw = b""
    try:
        for event in itertools.chain.from_iterable(parser.feed(piece) for piece in pieces):
            made += stream.feed(event.data)
        for event in parser.close():
            made += stream.feed(event.data)
        made += stream.end()
    except SlotlineError as error:
        raw = errors.event(error, "req_1")
    for translated in made:
        answer.add(translated)
    return b"".join(map(events.encode, made)) + raw, answer, stream


def run(*chunks: Any, **options: Any) -> CheckedStream:
    whole = body(chunks)
    raw, answer, stream = deliver([whole], **options)
    assert deliver((whole[at : at + 1] for at in range(len(whole))), **options)[0] == raw
    checked = check(raw)
    assert stream.done == checked.complete == answer.complete
    if checked.complete:
        assert json.loads(answer.encode()) == checked.message
    return checked


def kinds(checked: CheckedStream) -> list[str]:
    return [block["type"] for block in checked.blocks]


def inputs(checked: CheckedStream) -> list[tuple[str, Any]]:
    return [(tool["name"], tool["input"]) for tool in checked.tools]


# ---- streams as servers send them ------------------------------------------------------------------------------------

LLAMA_CPP_ID = '"created":1795973363,"id":"chatcmpl-UulG4KjsLU8Pq6X7Swndnr7OPPtIo6AN","model":"smol"'
LLAMA_CPP_FIRST = '{"choices":[{"finish_reason":null,"index":0,"delta":'
LLAMA_CPP_LAST = "}]," + LLAMA_CPP_ID + ',"system_fingerprint":"b0-unknown","object":"chat.completion.chunk"'
LLAMA_CPP = [
    LLAMA_CPP_FIRST
    + '{"role":"assistant","content":null}'
    + LLAMA_CPP_LAST
    + ',"prompt_progress":{"total":41,"cache":0,"processed":41,"time_ms":787}}',
    *(
        LLAMA_CPP_FIRST + delta + LLAMA_CPP_LAST + "}"
        for delta in (
            '{"role":"assistant","content":null}',
            '{"reasoning_content":"\\nThe"}',
            '{"reasoning_content":" user"}',
            '{"content":"👩"}',
            '{"content":"🏼\u2028"}',
            '{"tool_calls":[{"index":0,"id":"zVY7","type":"function","function":{"name":"get_weather","arguments":"{"}}]}',
            '{"tool_calls":[{"index":0,"function":{"arguments":"\\"city\\":\\"Paris\\"}"}}]}',
        )
    ),
    '{"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}' + LLAMA_CPP_LAST + "}",
    '{"choices":[],'
    + LLAMA_CPP_ID
    + ',"object":"chat.completion.chunk","usage":{"completion_tokens":24,"prompt_tokens":41,"total_tokens":65,'
    + '"prompt_tokens_details":{"cached_tokens":11}},"timings":{"cache_n":0,"prompt_n":41,"prompt_ms":788.011}}',
    DONE,
]
VLLM = [
    (
        '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{'
        '"role":"assistant","content":"","reasoning_content":null},"logprobs":null,"finish_reason":null}],'
        '"prompt_token_ids":null}'
    ),
    '{"id":"c","choices":[{"index":0,"delta":{"reasoning":"hm","reasoning_content":"hm"},"finish_reason":null}]}',
    '{"id":"c","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null,"token_ids":null}]}',
    '{"id":"c","choices":[{"index":0,"delta":{"content":" there"},"finish_reason":"stop","stop_reason":"END"}]}',
    '{"id":"c","choices":[],"usage":{"prompt_tokens":30,"total_tokens":37,"completion_tokens":7}}',
    DONE,
]
SGLANG = [
    '{"id":"s","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}',
    *(
        '{"id":"s","choices":[{"index":0,"delta":{"role":null,"content":"'
        + text
        + '","reasoning_content":null,"tool_calls":null},"finish_reason":null,"matched_stop":null}],"usage":null}'
        for text in ("Hello", " there")
    ),
    '{"id":"s","choices":[{"index":0,"delta":{"content":null},"finish_reason":"stop","matched_stop":"END"}]}',
    (
        '{"id":"s","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,"reasoning_tokens":0,'
        '"prompt_tokens_details":null}}'
    ),
    DONE,
]
OLLAMA = [
    '{"id":"o","choices":[{"index":0,"delta":{"role":"assistant","content":"Let me look."},"finish_reason":null}]}',
    (
        '{"id":"o","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_a","index":0,'
        '"type":"function","function":{"name":"f","arguments":"{\\"x\\":1}"}},{"id":"call_b","index":1,'
        '"type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]}'
    ),
    '{"id":"o","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"tool_calls"}]}',
    '{"id":"o","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17}}',
    DONE,
]
RECORDED = {"llama.cpp": LLAMA_CPP, "vllm": VLLM, "sglang": SGLANG, "ollama": OLLAMA}


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("server", RECORDED)
def test_a_servers_stream_gives_the_same_however_the_network_cuts_it(server: str, line_end: str) -> None:
    """Edge cases 80, 81."""
    whole = body(RECORDED[server], line_end)
    expected = deliver([whole])[0]
    assert check(expected).complete
    for at in range(1, len(whole)):
        assert deliver([whole[:at], whole[at:]])[0] == expected, at


def test_a_stream_of_llama_cpp() -> None:
    checked = run(*LLAMA_CPP, input_tokens=50)
    assert kinds(checked) == ["thinking", "text", "tool_use"]
    assert checked.thinking == "\nThe user"
    assert checked.text == "👩🏼\u2028"
    assert checked.tools[0] == {"type": "tool_use", "id": "zVY7", "name": "get_weather", "input": {"city": "Paris"}}
    assert checked.stop_reason == "tool_use"
    assert (checked.usage["input_tokens"], checked.usage["cache_read_input_tokens"]) == (30, 11)


@pytest.mark.parametrize("chunks", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_the_stop_string_that_was_met_is_told(chunks: list[str]) -> None:
    """B80. Edge case 39, the answer's half: vLLM's `stop_reason` and SGLang's `matched_stop`."""
    checked = run(*chunks, stop_sequences=["END"])
    assert checked.message is not None
    assert (checked.stop_reason, checked.message["stop_sequence"]) == ("stop_sequence", "END")
    assert run(*chunks, stop_sequences=["other"]).stop_reason == "end_turn"
    assert run(*chunks).stop_reason == "end_turn"
    assert checked.text == "Hello there"


def test_a_stream_of_ollama() -> None:
    checked = run(*OLLAMA)
    assert kinds(checked) == ["text", "tool_use", "tool_use"]
    assert inputs(checked) == [("f", {"x": 1}), ("g", {})]
    assert [tool["id"] for tool in checked.tools] == ["call_a", "call_b"]


# ---- whole answers: cases 43 to 50 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("eos", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "end_turn"),
        ("function_call", "end_turn"),
        ("content_filter", "refusal"),
        ("refusal", "refusal"),
        ("something new", "end_turn"),
    ],
)
def test_a_finish_reason_becomes_anthropics_word(finish: str, reason: str) -> None:
    """Edge case 43, and 45: `tool_calls` without a call is an ordinary end."""
    assert run(say("hi"), say(finish=finish), DONE).stop_reason == reason


def test_an_unknown_finish_reason_is_noted() -> None:
    stream = machine()
    stream.feed(json.dumps(say("hi", finish="new")).encode())
    stream.end()
    assert stream.notes == ["finish_reason 'new' is not known and was taken for an ordinary end"]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", None, "something new"])
def test_an_answer_with_a_call_ends_in_tool_use_whatever_the_upstream_says(finish: str | None) -> None:
    """B79. Edge case 44: an `end_turn` here would stop an agent before it does the tool, without a word."""
    checked = run(say("let me"), tools(call(0, "f", "{}", "c")), say(finish=finish), DONE)
    assert (checked.stop_reason, inputs(checked)) == ("tool_use", [("f", {})])


def test_an_empty_list_of_calls_is_no_call() -> None:
    """Edge case 45."""
    assert run(say("hi", tool_calls=[]), say(finish="tool_calls", tool_calls=[]), DONE).stop_reason == "end_turn"


def test_an_answer_without_anything_has_one_empty_text_block() -> None:
    """Edge case 46."""
    checked = run(say(role="assistant"), say(finish="stop"), DONE)
    assert checked.blocks == [{"type": "text", "text": ""}]
    assert checked.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        (None, {}),
        ("null", {}),
        ("  ", {}),
        ({"x": [1, "é"]}, {"x": [1, "é"]}),
        ('{"x": 1}', {"x": 1}),
        (' {"x": 1}\n', {"x": 1}),
        ('"{}"', {}),
        ('"{\\"x\\": 1}"', {"x": 1}),
        ('"{bad"', {}),
        ('"just text"', {}),
        ('{"x": "line\none"}', {"x": "line\none"}),
        ("{bad", {}),
        ("{'x': 1}", {}),
        ('{"x": 1}}', {}),
        ("[1]", {}),
        ('["line\none"]', {}),
        ("7", {}),
        ('{"x": NaN}', {}),
        ([1], {}),
    ],
)
def test_arguments_become_an_object_whatever_they_are(arguments: Any, expected: Any) -> None:
    """Edge cases 47, 68, 69."""
    checked = run(tools(call(0, "f", arguments, "c")), say(finish="tool_calls"), DONE)
    assert inputs(checked) == [("f", expected)]
    assert checked.stop_reason == "tool_use"


def test_arguments_that_are_no_object_are_noted() -> None:
    """Edge case 47."""
    stream = machine()
    stream.feed(json.dumps(tools(call(0, "f", "{bad"), finish="tool_calls")).encode())
    stream.feed(b"[DONE]")
    assert stream.notes == ["the arguments of a tool call are no JSON object; the call went out with {}"]


def test_missing_and_repeated_ids_become_ids_of_our_own() -> None:
    """Edge case 48; an id that can be told apart is passed on unchanged."""
    fragments = [
        call(0, "f", "{}", "functions.f:0"),
        call(1, "f", "{}", "functions.f:0"),
        call(2, "f", "{}"),
        call(3, "f", "{}", ""),
    ]
    checked = run(tools(*fragments), say(finish="tool_calls"), DONE)
    assert [tool["id"] for tool in checked.tools] == ["functions.f:0", "toolu_1", "toolu_2", "toolu_3"]


def test_usage_is_translated() -> None:
    """Edge case 49: Anthropic's input leaves out what came from the cache."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert run(say("hi", finish="stop"), {"choices": [], "usage": usage}, DONE).usage == {
        "input_tokens": 60,
        "output_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 3},
    }


def test_more_cached_than_prompted_is_no_negative_number() -> None:
    """Edge case 49."""
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 40}}
    assert run(say("hi", finish="stop", usage=usage), DONE).usage["input_tokens"] == 0


def test_usage_is_there_also_when_the_upstream_gives_none() -> None:
    """B82. Edge cases 49, 55."""
    assert run(say("hi", finish="stop"), DONE).usage == {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    assert (
        run(say("hi", finish="stop", usage={"completion_tokens": None}), DONE, input_tokens=9).usage["input_tokens"]
        == 9
    )


@pytest.mark.parametrize(
    ("chunks", "tokens"),
    [
        ([], Tokens()),
        ([say("hi"), say("ho")], Tokens(output=2, reasoning=0)),
        ([say(reasoning="a"), say("hi")], Tokens(output=2, reasoning=1)),
        ([say("hi", usage={"prompt_tokens": 100, "completion_tokens": 7})], Tokens(100, None, 7, 0)),
        ([say("hi", usage={"prompt_tokens": 5}), say("ho", usage={"prompt_tokens": 9})], Tokens(9, None, 2, 0)),
        ([say("hi", usage={"prompt_tokens": -5})], Tokens(0, None, 1, 0)),
        ([{"prompt_progress": {"total": 90, "cache": 20, "processed": 50}}], Tokens(50, 20)),
        (
            [
                {"prompt_progress": {"total": 90, "cache": 20, "processed": 90}},
                say(reasoning="a"),
                say("hi", usage={"prompt_tokens": 91, "completion_tokens": 1}),
            ],
            Tokens(91, 20, 1, 1),
        ),
        (
            [
                say(
                    "hi",
                    usage={
                        "prompt_tokens": 100,
                        "completion_tokens": 70,
                        "prompt_tokens_details": {"cached_tokens": 40},
                        "completion_tokens_details": {"reasoning_tokens": 3},
                    },
                )
            ],
            Tokens(100, 40, 70, 3),
        ),
    ],
)
def test_what_an_answer_cost_is_the_upstreams_count_and_else_what_came(chunks: list[Any], tokens: Tokens) -> None:
    """Never the estimate that clients are told while nobody has counted."""
    one = machine(input_tokens=1234)
    for chunk in chunks:
        one.feed(json.dumps(chunk).encode())
    assert one.tokens == tokens


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_both_spellings_of_reasoning_give_one_signed_thinking_block(key: str) -> None:
    """Edge case 50."""
    checked = run(say(**{key: "h"}), say(**{key: "m"}), say("hi"), say(finish="stop"), DONE)
    assert checked.blocks == [
        {"type": "thinking", "thinking": "hm", "signature": events.SIGNATURE},
        {"type": "text", "text": "hi"},
    ]


@pytest.mark.parametrize("ending", [[], [DONE]])
def test_a_whole_answer_in_one_object_goes_the_same_way(ending: list[str]) -> None:
    """For upstreams that answer a streamed request with one JSON object; its end is in itself."""
    message = {
        "role": "assistant",
        "content": "hi",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    for finish in ("tool_calls", None):
        checked = run({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}, *ending)
        assert kinds(checked) == ["thinking", "text", "tool_use"]
        assert checked.stop_reason == "tool_use"
        assert checked.usage["output_tokens"] == 4


def test_a_last_chunk_that_repeats_the_whole_message_adds_nothing() -> None:
    last = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}
    assert run(say("hi"), last, DONE).text == "hi"


# ---- streaming: cases 51 to 76 ---------------------------------------------------------------------------------------


def test_the_plain_stream() -> None:
    """B65. Edge case 51."""
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    checked = run(
        say(role="assistant"), say(""), say("hi"), say(""), say(finish="stop"), {"choices": [], "usage": usage}, DONE
    )
    assert checked.names == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert checked.usage["output_tokens"] == 1


def test_repeated_roles_start_one_message_and_no_block() -> None:
    """B65. Edge case 52."""
    stream = machine()
    made = [event for _ in range(5) for event in stream.feed(json.dumps(say("", role="assistant")).encode())]
    assert made == [events.MessageStart("msg_1", "m", events.Usage())]
    assert stream.started
    assert not stream.done
    assert repr(stream) == "<MessageStream msg_1 OPEN index=0 finish=None>"


def test_progress_is_kept_and_starts_nothing() -> None:
    """Progress frames and true statuses are possible only until the message has started."""
    stream = machine()
    chunk = {**say(role="assistant"), "prompt_progress": {"total": 41, "cache": 1, "processed": 20}}
    assert stream.feed(json.dumps(chunk).encode()) == []
    assert not stream.started
    assert stream.progress is not None
    assert (stream.progress.total, stream.progress.cache, stream.progress.processed) == (41, 1, 20)
    assert len(stream.feed(json.dumps(say("hi")).encode())) == 3


def test_text_in_the_chunk_with_the_finish_reason_is_not_lost() -> None:
    """Edge case 53."""
    assert run(say("a"), say("b", finish="stop"), DONE).text == "ab"


def test_usage_on_the_last_chunk_is_told() -> None:
    """Edge case 54."""
    usage = {"prompt_tokens": 30, "completion_tokens": 7}
    assert run(say("a", finish="stop"), {"choices": [], "usage": usage}, DONE).usage["output_tokens"] == 7


def test_of_a_usage_on_every_chunk_the_last_counts() -> None:
    chunks = [say("a", usage={"prompt_tokens": 30, "completion_tokens": n}) for n in range(1, 4)]
    checked = run(*chunks, say(finish="stop"), DONE, input_tokens=99)
    assert checked.usage["output_tokens"] == 3
    assert checked.frames[0].data["message"]["usage"]["input_tokens"] == 30


def test_the_first_event_estimates_the_input() -> None:
    """B81."""
    checked = run(say("a", finish="stop"), {"choices": [], "usage": {"prompt_tokens": 30}}, DONE, input_tokens=28)
    assert checked.frames[0].data["message"]["usage"]["input_tokens"] == 28
    assert checked.usage["input_tokens"] == 30


def test_reasoning_text_and_calls_are_blocks_in_their_order() -> None:
    """B73. Edge case 56: that the signature comes just before the stop, the checker sees."""
    checked = run(say(reasoning="hm"), say("hi"), tools(call(0, "f", "{}", "c")), say(finish="tool_calls"), DONE)
    assert kinds(checked) == ["thinking", "text", "tool_use"]


def test_reasoning_and_text_in_one_delta() -> None:
    checked = run(say("hi", reasoning_content="hm"), say(finish="stop"), DONE)
    assert kinds(checked) == ["thinking", "text"]


def test_reasoning_after_text_opens_a_block_of_its_own() -> None:
    """B73. Edge case 57."""
    checked = run(say("a"), say(reasoning="hm"), say("b"), say(reasoning="hm"), say(finish="stop"), DONE)
    assert kinds(checked) == ["text", "thinking", "text", "thinking"]


def test_reasoning_that_the_limit_cut_is_closed() -> None:
    """Edge case 58."""
    checked = run(say(reasoning="hm"), say(finish="length"), DONE)
    assert (kinds(checked), checked.stop_reason) == (["thinking"], "max_tokens")


def test_equal_reasoning_under_both_keys_is_told_once() -> None:
    """Edge case 59."""
    checked = run(
        say(reasoning="hm", reasoning_content="hm"),
        say(reasoning="a", reasoning_content="b"),
        say("x", finish="stop"),
        DONE,
    )
    assert checked.thinking == "hmba"


def test_fragments_of_a_call_become_one_block() -> None:
    """Edge cases 60, 64, 65: with and without repeated id and name."""
    parts = ['{"ci', 'ty": "P', 'aris"}']
    plain = [tools(call(0, "f", "", "c")), *(tools(call(0, arguments=part)) for part in parts)]
    repeated = [tools(call(0, "f", part, "c")) for part in ["", *parts]]
    named = [tools(call(0, "f", part)) for part in ["", *parts]]
    for chunks in (plain, repeated, named):
        assert inputs(run(*chunks, say(finish="tool_calls"), DONE)) == [("f", {"city": "Paris"})]


def test_a_name_may_come_after_the_id() -> None:
    checked = run(tools(call(0, identity="c")), tools(call(0, "f", "{}")), say(finish="tool_calls"), DONE)
    assert (inputs(checked), checked.tools[0]["id"]) == ([("f", {})], "c")


def test_a_whole_call_in_one_chunk_is_one_start_one_delta_one_stop() -> None:
    """B75. Edge case 61; also with the finish reason in the same chunk."""
    for chunks in (
        [tools(call(0, "f", '{"x":1}', "c")), say(finish="stop")],
        [tools(call(0, "f", '{"x":1}', "c"), finish="stop")],
    ):
        checked = run(*chunks, DONE)
        assert checked.names[1:4] == ["content_block_start", "content_block_delta", "content_block_stop"]
        assert inputs(checked) == [("f", {"x": 1})]


def test_two_calls_in_one_chunk() -> None:
    """Edge case 62."""
    checked = run(tools(call(0, "f", "{}", "a"), call(1, "g", "{}", "b")), say(finish="tool_calls"), DONE)
    assert [tool["id"] for tool in checked.tools] == ["a", "b"]


def test_fragments_of_two_calls_in_turn_become_two_blocks() -> None:
    """B74. Edge case 63."""
    checked = run(
        tools(call(0, "f", "", "a")),
        tools(call(1, "g", "", "b")),
        tools(call(0, arguments='{"x"')),
        tools(call(1, arguments='{"y"')),
        tools(call(0, arguments=":1}"), call(1, arguments=":2}")),
        say(finish="tool_calls"),
        DONE,
    )
    assert inputs(checked) == [("f", {"x": 1}), ("g", {"y": 2})]


@pytest.mark.parametrize("whole", [True, False])
def test_two_calls_at_index_0_with_ids_of_their_own_are_two(whole: bool) -> None:
    """B74. Edge case 66: whole calls, and calls in fragments of which only the first has the id."""
    first = [call(0, "f", '{"x":1}', "a")] if whole else [call(0, "f", "", "a"), call(0, arguments='{"x":1}')]
    second = [call(0, "f", '{"x":2}', "b")] if whole else [call(0, "f", "", "b"), call(0, arguments='{"x":2}')]
    checked = run(*(tools(fragment) for fragment in first + second), say(finish="tool_calls"), DONE)
    assert inputs(checked) == [("f", {"x": 1}), ("f", {"x": 2})]


def test_without_index_calls_are_told_apart_by_id() -> None:
    """B74. Edge case 67."""
    checked = run(
        tools(call(None, "f", "", "a"), call(None, "g", "", "b")),
        tools(call(None, None, '{"x":1}', "a")),
        tools(call(None, None, '{"y"', "b")),
        tools(call(None, None, ":2}")),
        say(finish="tool_calls"),
        DONE,
    )
    assert inputs(checked) == [("f", {"x": 1}), ("g", {"y": 2})]


@pytest.mark.parametrize("index", [None, 0])
def test_without_ids_calls_are_told_apart_by_the_ends_of_their_arguments(index: int | None) -> None:
    """Edge case 67, and servers that give every call index 0 and no id."""
    chunks = [tools(call(index, "f", '{"x":1}'), call(index, "f", '{"x":2}')), tools(call(index, "g", '{"y":3}'))]
    assert inputs(run(*chunks, say(finish="stop"), DONE)) == [("f", {"x": 1}), ("f", {"x": 2}), ("g", {"y": 3})]


def test_a_legacy_function_call_is_a_call() -> None:
    checked = run(
        say(function_call={"name": "f", "arguments": '{"x"'}),
        say(function_call={"arguments": ":1}"}),
        say(finish="function_call"),
        DONE,
    )
    assert (inputs(checked), checked.stop_reason) == ([("f", {"x": 1})], "tool_use")


def test_text_after_a_call_is_a_block_of_its_own() -> None:
    """Edge case 70."""
    chunks = [
        say("a"),
        tools(call(0, "f", "{}", "c")),
        say("b"),
        tools(call(1, "g", "{}", "d")),
        say(finish="stop"),
        DONE,
    ]
    assert kinds(run(*chunks)) == ["text", "tool_use", "text", "tool_use"]


def test_whitespace_after_a_call_is_dropped() -> None:
    """Edge case 70."""
    checked = run(tools(call(0, "f", "{}", "c")), say("\n\n"), say(" "), say(finish="stop"), DONE)
    assert kinds(checked) == ["tool_use"]


def test_whitespace_before_a_call_is_dropped() -> None:
    for chunks in ([say("\n\n")], [say(reasoning="hm"), say("\n"), say("\n")]):
        checked = run(*chunks, tools(call(0, "f", "{}", "c")), say(finish="tool_calls"), DONE)
        assert kinds(checked)[-1] == "tool_use"
        assert "text" not in kinds(checked)


def test_whitespace_before_text_is_kept_and_opens_no_block_of_its_own() -> None:
    checked = run(say(reasoning="hm"), say("\n"), say("\n"), say("hi"), say("\n"), say(finish="stop"), DONE)
    assert (kinds(checked), checked.text) == (["thinking", "text"], "\n\nhi\n")


def test_whitespace_alone_is_an_answer_of_its_own() -> None:
    assert run(say("\n"), say(" "), say(finish="stop"), DONE).text == "\n "


def test_text_in_the_middle_of_a_call_damages_neither() -> None:
    checked = run(
        tools(call(0, "f", '{"x"', "c")), say("hm"), tools(call(0, arguments=":1}")), say(finish="stop"), DONE
    )
    assert (kinds(checked), inputs(checked)) == (["text", "tool_use"], [("f", {"x": 1})])


def test_a_call_that_went_out_cannot_be_changed() -> None:
    checked = run(tools(call(0, "f", "{}", "c")), say("hm"), tools(call(0, arguments=":1}")), say(finish="stop"), DONE)
    assert checked.error is not None
    assert "continued a tool call" in checked.error["message"]


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop"])
def test_a_call_that_the_limit_cut_ends_in_max_tokens_whatever_the_upstream_says(finish: str) -> None:
    """B78. Edge case 71. That no cut input is sold as a call, the checker sees."""
    for half in ('{"path": "/a', "{", '{"a": tr', '{"a": -', '{"a": "\\u00'):
        checked = run(tools(call(0, "f", "", "c")), tools(call(0, arguments=half)), say(finish=finish), DONE)
        assert (checked.stop_reason, kinds(checked)) == ("max_tokens", ["tool_use"]), half
    half = '"{\\"a\\"'
    assert run(tools(call(0, "f", half, "c")), say(finish=finish), DONE).stop_reason == "max_tokens"


def test_a_whole_call_before_a_cut_one_keeps_its_input() -> None:
    checked = run(tools(call(0, "f", '{"x":1}', "c"), call(1, "g", '{"y', "d")), say(finish="length"), DONE)
    assert (inputs(checked), checked.stop_reason) == ([("f", {"x": 1}), ("g", {})], "max_tokens")


def test_done_without_a_finish_reason_ends_an_answer() -> None:
    """B67. Edge case 72."""
    assert run(say("hi"), DONE).stop_reason == "end_turn"
    assert run(tools(call(0, "f", "{}", "c")), DONE).stop_reason == "tool_use"
    assert run(say("hi", finish=""), DONE).stop_reason == "end_turn"


def test_a_finish_reason_without_done_ends_an_answer() -> None:
    """B67."""
    assert run(say("hi"), say(finish="stop")).stop_reason == "end_turn"


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [say(role="assistant")],
        [say("hi")],
        [say(reasoning="hm")],
        [say("<think>hm")],
        [tools(call(0, "f", '{"x":1}', "c"))],
        [tools(call(0, "f", '{"x"', "c"))],
        [say("hi"), say("")],
        ['{"choices":[{"delta":{"content":"x'],
    ],
)
def test_a_body_that_ends_without_an_end_is_an_upstream_that_died(chunks: list[Any]) -> None:
    """B67. Edge case 73: also inside a call, of which then nothing has gone out."""
    checked = run(*chunks)
    assert checked.error is not None
    assert checked.error["type"] == "api_error"
    assert checked.tools == []
    assert not checked.complete


@pytest.mark.parametrize(
    "chunks",
    [
        [DONE],
        [say(role="assistant"), DONE],
        [say("hi"), "nonsense", DONE],
        [say("hi"), "<html>502</html>", DONE],
        [tools(call(0, "f", '{"x"', "c")), DONE],
    ],
)
def test_done_does_not_end_what_is_missing_or_damaged(chunks: list[Any]) -> None:
    """Edge case 74."""
    checked = run(*chunks)
    assert checked.error is not None
    assert "without" in checked.error["message"]


@pytest.mark.parametrize(
    "before", [[], [say("hi")], [say(reasoning="hm")], [tools(call(0, "f", "{", "c"))], [say("x", finish="stop")]]
)
@pytest.mark.parametrize("after", [[], [DONE], [say("more"), DONE]])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"error": {"code": 500, "message": "out of memory", "type": "server_error"}}, "out of memory"),
        ({"error": "out of memory"}, "out of memory"),
        ({"object": "error", "message": "out of memory", "code": 500}, "out of memory"),
        ({**say("text"), "error": {"message": "out of memory"}}, "out of memory"),
    ],
)
def test_an_error_in_the_stream_ends_it_as_an_error(
    before: list[Any], after: list[Any], error: Any, message: str
) -> None:
    """B63. Edge cases 75, 76: first, in the middle, with `[DONE]` behind it, and in every spelling."""
    checked = run(*before, error, *after)
    assert checked.error == {"type": "api_error", "message": message}


def test_an_error_field_of_old_llama_cpp_ends_the_stream_as_an_error() -> None:
    """B63."""
    raw = deliver(
        [body([say("hi")]) + b'error: {"code":503,"message":"slot gone","type":"unavailable_error"}\n\n' + body([DONE])]
    )[0]
    assert check(raw).error == {"type": "overloaded_error", "message": "slot gone"}


def test_an_error_keeps_its_status_until_the_message_has_started() -> None:
    """Edge case 77, the stream's half."""
    stream = machine()
    with pytest.raises(UpstreamStatus, match="too long") as caught:
        stream.feed(b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}')
    assert (caught.value.status, caught.value.anthropic_type) == (400, "invalid_request_error")
    assert not stream.started


@pytest.mark.parametrize(
    ("finish", "error"),
    [
        ("abort", StreamClosedEarly),
        ("cancelled", StreamClosedEarly),
        ("error", UpstreamStatus),
        ("load", UpstreamStatus),
        ("unload", UpstreamStatus),
    ],
)
def test_a_finish_reason_that_means_failure_is_one(finish: str, error: type[SlotlineError]) -> None:
    stream = machine()
    with pytest.raises(error, match=finish):
        stream.feed(json.dumps(say("hi", finish=finish)).encode())
    with pytest.raises(error, match=finish):
        stream.end()


def test_after_a_failure_nothing_but_the_same_failure_comes() -> None:
    stream = machine()
    with pytest.raises(UpstreamStatus) as first:
        stream.feed(b'{"error":"x"}')
    again: list[Callable[[], object]] = [lambda: stream.feed(b"[DONE]"), stream.end, stream.heartbeat]
    for step in again:
        with pytest.raises(UpstreamStatus) as caught:
            step()
        assert caught.value is first.value
    assert not stream.done


def test_after_the_end_nothing_comes() -> None:
    """B93."""
    stream = machine()
    stream.feed(json.dumps(say("hi", finish="stop")).encode())
    assert isinstance(stream.feed(b" [DONE] ")[-1], events.MessageStop)
    assert stream.done
    assert stream.feed(json.dumps(say("more")).encode()) == []
    assert stream.feed(b'{"error":"late"}') == []
    assert stream.end() == []


def test_one_unreadable_event_is_left_out_and_noted_the_second_is_a_failure() -> None:
    checked = run(say("a"), "nonsense", say("b"), " ", "", say(finish="stop"), DONE)
    assert checked.text == "ab"
    stream = machine()
    assert stream.feed(b"nonsense") == []
    assert stream.notes == ["an upstream event that is no JSON object was left out"]
    with pytest.raises(Protocol, match="no JSON object"):
        stream.feed(b"[1]")


def test_unknown_and_other_chunks_add_nothing() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}}]}
    checked = run({"choices": []}, {"x": 1}, other, say("a"), {"choices": None}, say(finish="stop"), DONE)
    assert checked.text == "a"


def test_text_that_comes_after_the_finish_reason_is_not_lost() -> None:
    assert run(say("a", finish="stop"), say("b"), DONE).text == "ab"


def test_a_refusal_is_text_and_a_reason() -> None:
    checked = run(say(refusal="I "), say(refusal="can't."), say(finish="stop"), DONE)
    assert (checked.text, checked.stop_reason) == ("I can't.", "refusal")
    assert checked.message is not None
    assert checked.message["stop_details"] == {"type": "refusal", "category": None, "explanation": "I can't."}


# ---- tools -----------------------------------------------------------------------------------------------------------


def test_a_request_that_allows_one_call_gets_the_first() -> None:
    """Edge case 34, the answer's half."""
    chunks = [tools(call(0, "f", "{}", "a"), call(1, "g", '{"y', "b")), say(finish="tool_calls"), DONE]
    checked = run(*chunks, parallel_tools=False)
    assert (inputs(checked), checked.stop_reason) == ([("f", {})], "tool_use")
    assert deliver([body(chunks)], parallel_tools=False)[2].notes == [
        "a further tool call was left out: the request allows one"
    ]


def test_a_changed_tool_name_is_restored() -> None:
    """B93. Edge case 36, the answer's half."""
    long = "mcp.server/" + "x" * 117
    checked = run(
        tools(call(0, "t1", "{}", "a"), call(1, "other", "{}", "b")), say(finish="stop"), DONE, tool_names={"t1": long}
    )
    assert [tool["name"] for tool in checked.tools] == [long, "other"]


def test_a_call_without_a_name_is_left_out() -> None:
    """Edge case 45: `tool_calls` without a call that could be made is an ordinary end."""
    checked = run(tools(call(0, None, "{}", "a")), say(finish="tool_calls"), DONE)
    assert (checked.stop_reason, checked.blocks) == ("end_turn", [{"type": "text", "text": ""}])


# ---- tags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_tags_in_the_text_become_a_thinking_block(size: int) -> None:
    """The same blocks as with a reasoning parser, over any cuts of the text."""
    text = "\n<think>\nhm </thin k> </</think>\n\nhi <think>no</think>"
    chunks = [say(text[at : at + size]) for at in range(0, len(text), size)]
    checked = run(*chunks, say(finish="stop"), DONE)
    assert kinds(checked) == ["thinking", "text"]
    assert checked.thinking.lstrip() == "hm </thin k> </"
    assert checked.text == "hi <think>no</think>"


@pytest.mark.parametrize("size", [1, 5, 100])
def test_a_closing_tag_that_leaks_after_reasoning_is_removed(size: int) -> None:
    """Where the text begins, and anywhere behind it."""
    text = "\n</think>\n\nAns</think>wer </think>"
    chunks = [say(text[at : at + size]) for at in range(0, len(text), size)]
    checked = run(say(reasoning_content="hm"), *chunks, say(finish="stop"), DONE)
    assert (checked.thinking, checked.text) == ("hm", "Answer ")


def test_an_empty_pair_of_tags_is_no_block() -> None:
    assert kinds(run(say("<think>\n\n</think>\n\nhi"), say(finish="stop"), DONE)) == ["text"]


def test_tags_without_text_after_them_leave_the_thinking() -> None:
    for chunks in ([say("<think>hm")], [say("<think>h"), say("m</thi")], [say("<think>hm</think>\n")]):
        checked = run(*chunks, say(finish="length"), DONE)
        assert kinds(checked) == ["thinking"]
        assert checked.thinking.startswith("hm")


def test_what_only_began_like_a_tag_is_text() -> None:
    assert run(say("<"), say("th"), say("ree"), say(finish="stop"), DONE).text == "<three"
    assert run(say(" <thi"), say(finish="stop"), DONE).text == " <thi"
    assert kinds(run(say("<thi"), tools(call(0, "f", "{}", "c")), say(finish="stop"), DONE)) == ["text", "tool_use"]


# ---- asked again -----------------------------------------------------------------------------------------------------


def rerun(first: list[Any], second: list[Any], **options: Any) -> tuple[CheckedStream, MessageStream]:
    """An answer that was left, and the one that goes on in its place, in one stream."""
    stream, made = machine(**options), list[events.Event]()
    for chunk in first:
        made += stream.feed(json.dumps(chunk).encode())
    stream.again()
    for chunk in second:
        made += stream.feed(chunk.encode() if isinstance(chunk, str) else json.dumps(chunk).encode())
    made += stream.end()
    return check(b"".join(map(events.encode, made))), stream


ROLE = say(role="assistant")
SECOND = [ROLE, say("So"), say(" it is.", finish="stop"), DONE]


@pytest.mark.parametrize(
    "first",
    [
        [ROLE, say(reasoning_content="hm"), say(reasoning_content=" hm")],
        [ROLE, say(reasoning="hm"), say(reasoning=" hm")],
        [ROLE, say("<think>hm"), say(" hm")],
        [ROLE, say("<think>hm"), say(" hm</th")],
        [ROLE, say("<think>hm"), say(" hm"), say("<")],
    ],
    ids=["reasoning_content", "reasoning", "tags", "a closing tag that was cut", "what may be one"],
)
def test_text_after_a_second_question_follows_the_reasoning_of_the_first(first: list[Any]) -> None:
    checked, stream = rerun(first, SECOND)
    assert (kinds(checked), checked.text) == (["thinking", "text"], "So it is.")
    assert checked.thinking.startswith("hm hm")
    assert "</th" not in checked.thinking
    assert (stream.done, stream.thought, checked.stop_reason) == (True, 2, "end_turn")


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_closing_tag_at_the_beginning_of_the_second_answer_is_removed(size: int) -> None:
    tagged = "</think>\n\nSo"
    cut = [say(tagged[at : at + size]) for at in range(0, len(tagged), size)]
    checked, _ = rerun([ROLE, say(reasoning_content="hm")], [ROLE, *cut, say(finish="stop"), DONE])
    assert checked.text == "So"


def test_reasoning_goes_on_in_its_block_if_the_second_answer_reasons_all_the_same() -> None:
    checked, stream = rerun([ROLE, say(reasoning_content="a")], [ROLE, say(reasoning_content="b"), *SECOND])
    assert (kinds(checked), checked.thinking, stream.thought) == (["thinking", "text"], "ab", 2)


def test_a_call_that_was_only_begun_is_left_out() -> None:
    first = [ROLE, tools(call(0, "a", '{"x":', "id1")), say(reasoning_content="hm")]
    checked, _ = rerun(first, [ROLE, tools(call(0, "b", '{"y":1}', "id2"), finish="tool_calls"), DONE])
    assert inputs(checked) == [("b", {"y": 1})]


def test_the_end_and_the_counts_are_those_of_the_second_answer() -> None:
    first = [ROLE, say(reasoning_content="hm", finish="length", usage={"completion_tokens": 9})]
    with pytest.raises(StreamClosedEarly):
        rerun(first, [ROLE, say("So")])
    counts = {"prompt_tokens": 30, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 20}}
    checked, _ = rerun(first, [ROLE, say("So", finish="stop", usage=counts), DONE])
    assert (checked.stop_reason, checked.usage["output_tokens"], checked.usage["cache_read_input_tokens"]) == (
        "end_turn",
        2,
        20,
    )


def test_reasoning_without_text_in_either_answer_is_noted() -> None:
    checked, stream = rerun([ROLE, say(reasoning_content="hm")], [ROLE, say(finish="stop"), DONE])
    assert (kinds(checked), checked.text) == (["thinking"], "")
    assert stream.notes == ["the answer is empty: all that came was reasoning"]


# ---- heartbeat -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [{"reasoning": "hm"}, {"content": "hi"}, {"tool_calls": [call(0, "f", "{}", "c")]}])
def test_a_heartbeat_begins_a_thinking_block_that_the_answer_continues(first: dict[str, Any]) -> None:
    stream = machine()
    made = stream.heartbeat() + stream.heartbeat()
    assert stream.started
    made += stream.feed(json.dumps(say(role="assistant")).encode()) + stream.heartbeat()
    made += stream.feed(json.dumps(say(**first)).encode())
    made += stream.feed(json.dumps(say("hi", finish="stop")).encode()) + stream.end()
    checked = check(b"".join(map(events.encode, made)))
    assert kinds(checked)[0] == "thinking"
    assert kinds(checked).count("thinking") == 1


def test_a_heartbeat_in_text_is_an_empty_piece_of_it() -> None:
    stream = machine()
    made = stream.feed(json.dumps(say("hi")).encode())
    assert stream.heartbeat() == [events.TextDelta(0, "")]
    made += stream.heartbeat() + stream.feed(json.dumps(say(" there", finish="stop")).encode()) + stream.end()
    checked = check(b"".join(map(events.encode, made)), beats=True)
    assert (kinds(checked), checked.text) == (["text"], "hi there")


def beaten(*chunks: Any, at: Iterable[int], **options: Any) -> CheckedStream:
    """What comes of `chunks` and the end, with two beats before each chunk at one of the places `at`."""
    stream, made = machine(**options), []
    for place, chunk in enumerate(chunks):
        if place in set(at):
            made += stream.heartbeat() + stream.heartbeat()
        made += stream.feed(body([chunk]).removeprefix(b"data: ").strip())
    return check(b"".join(map(events.encode, made + stream.end())), beats=True)


LONG_CALL = [
    say("hi"),
    tools(call(0, "f", '{"x"', "c")),
    tools(call(0, None, ": [1")),
    tools(call(0, None, "]}")),
    say(finish="tool_calls"),
]


@pytest.mark.parametrize("at", [[2], [3], [2, 3], [2, 3, 4], [4], [1, 3]])
def test_while_a_call_is_gathered_one_block_beats_and_the_call_stays_whole(at: list[int]) -> None:
    checked = beaten(*LONG_CALL, at=at)
    assert kinds(checked) == ["text", "thinking", "tool_use"]
    assert (checked.text, checked.thinking, inputs(checked)) == ("hi", "", [("f", {"x": [1]})])
    assert checked.stop_reason == "tool_use"


@pytest.mark.parametrize("after", [say("then"), say(reasoning_content="then"), tools(call(1, "g", "{}", "d"))])
def test_what_follows_a_call_that_was_beaten_for_comes_behind_it(after: dict[str, Any]) -> None:
    chunks = [tools(call(0, "f", '{"x":1}', "c")), after, say(finish="stop")]
    without = run(*chunks)
    checked = beaten(*chunks, at=[1])
    assert checked.blocks[0]["type"] == "thinking"
    assert checked.blocks[1:] == without.blocks


def test_a_call_that_was_beaten_for_and_dies_leaves_no_call_behind() -> None:
    stream = machine()
    made = []
    for chunk in LONG_CALL[:-2]:
        made += stream.feed(json.dumps(chunk).encode()) + stream.heartbeat()
    with pytest.raises(StreamClosedEarly):
        stream.end()
    assert stream.over
    assert kinds(check(b"".join(map(events.encode, made)), whole=False, beats=True)) == ["text", "thinking"]


def test_whitespace_between_a_call_and_a_beat_and_text_is_dropped_as_it_is_without() -> None:
    chunks = [say("hi"), tools(call(0, "f", "{}", "c")), say(" \n"), say("then"), say(finish="stop")]
    assert [block.get("text") for block in beaten(*chunks, at=[2]).blocks] == ["hi", None, None, "then"]
    assert [block.get("text") for block in beaten(*chunks, at=[]).blocks] == ["hi", None, "then"]


def test_whitespace_before_a_beat_is_part_of_the_reasoning_that_follows() -> None:
    chunks = [say(reasoning_content="\n"), say(reasoning_content="hm"), say("hi", finish="stop")]
    assert beaten(*chunks, at=[1]).thinking == beaten(*chunks, at=[]).thinking == "\nhm"


def test_an_answer_that_is_asked_for_again_goes_on_after_the_beats() -> None:
    stream = machine()
    made = stream.heartbeat()
    for chunk in LONG_CALL[1:3]:
        made += stream.feed(json.dumps(chunk).encode()) + stream.heartbeat()
    stream.again()
    made += stream.heartbeat() + stream.feed(json.dumps(say("anew", finish="stop")).encode()) + stream.end()
    checked = check(b"".join(map(events.encode, made)))
    assert (kinds(checked)[-1], checked.text, checked.tools) == ("text", "anew", [])


def test_a_heartbeat_is_no_answer() -> None:
    stream = machine()
    stream.heartbeat()
    with pytest.raises(StreamClosedEarly, match="without an answer"):
        stream.feed(b"[DONE]")


# ---- anything at all -------------------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(["hi", " ", "\n", "<think>", "</think>", "</th", "<", "é👩\u2028", ""])
_ARGUMENTS = st.sampled_from(["", "{}", '{"x":1}', '{"x"', ":1}", "{bad", "null", '"{}"', None]) | st.just({"y": 2})
_CALLS = st.lists(
    st.builds(
        call,
        index=st.sampled_from([None, 0, 0, 1, 2]),
        name=st.sampled_from([None, "f", "g", ""]),
        arguments=_ARGUMENTS,
        identity=st.sampled_from([None, "a", "b", ""]),
    ),
    max_size=3,
)
_USAGES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": st.integers(-1, 50).map(abs),
        "completion_tokens": st.integers(0, 50),
        "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": st.integers(0, 60)}),
    },
)
_FINISHES = st.sampled_from([None] * 6 + ["", "stop", "length", "tool_calls", "content_filter", "abort", "new"])
_DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": st.none() | _TEXTS,
        "reasoning_content": st.none() | _TEXTS,
        "reasoning": st.none() | _TEXTS,
        "tool_calls": st.none() | _CALLS,
        "refusal": st.none() | _TEXTS,
        "function_call": st.none() | st.fixed_dictionaries({"name": st.just("h"), "arguments": _ARGUMENTS}),
    },
)
_CHUNKS = st.lists(
    st.tuples(_DELTAS, _FINISHES, _USAGES).map(lambda drawn: say(**drawn[0], finish=drawn[1], usage=drawn[2]))
    | st.sampled_from([{"choices": []}, {"error": "broken"}, "nonsense", DONE, {"prompt_progress": {"total": 3}}]),
    max_size=12,
)


@given(chunks=_CHUNKS, ending=st.sampled_from([[], [DONE], [say(finish="stop"), DONE]]), parallel=st.booleans())
def test_whatever_comes_the_client_gets_a_legal_stream(chunks: list[Any], ending: list[Any], parallel: bool) -> None:
    """The oracle is the checker, and the whole answer must say the same as the stream."""
    checked = run(*chunks, *ending, parallel_tools=parallel, stop_sequences=["x"])
    assert checked.complete != (checked.error is not None)
    if not parallel:
        assert len(checked.tools) <= 1


@given(chunks=_CHUNKS, at=st.sets(st.integers(0, 12)), parallel=st.booleans())
def test_beats_change_nothing_but_empty_blocks_of_thinking(chunks: list[Any], at: set[int], parallel: bool) -> None:
    """Wherever they fall: the same text, the same calls, the same end, and the same failure at the same place."""

    def told(beats: set[int]) -> tuple[CheckedStream, type[SlotlineError] | None]:
        stream, made = machine(parallel_tools=parallel), []
        failure = None
        try:
            for place, chunk in enumerate([*chunks, say(finish="stop"), DONE]):
                if place in beats:
                    made += stream.heartbeat()
                made += stream.feed(body([chunk]).removeprefix(b"data: ").strip())
            made += stream.end()
        except SlotlineError as error:
            failure = type(error)
        return check(b"".join(map(events.encode, made)), whole=failure is None, beats=True), failure

    def said(checked: CheckedStream) -> list[Any]:
        return [block for block in checked.blocks if block.get("thinking", "x").strip() and block.get("text", "x")]

    (plain, failed), (beaten, also) = told(set()), told(at)
    assert also is failed
    assert beaten.text == plain.text
    assert beaten.thinking.strip() == plain.thinking.strip()  # an open block takes whitespace that opens none
    assert inputs(beaten) == inputs(plain)
    assert beaten.stop_reason == plain.stop_reason
    assert [block["type"] for block in said(beaten)] == [block["type"] for block in said(plain)]


@given(text=st.text(max_size=40), cuts=st.lists(st.integers(1, 39), max_size=5))
def test_no_text_is_lost_or_changed(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:stop] for start, stop in itertools.pairwise(edges)]
    checked = run(say("a"), *(say(piece) for piece in pieces), say(finish="stop"), DONE)
    assert checked.text == "a" + text
