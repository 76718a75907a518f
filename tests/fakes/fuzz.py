"""Whatever a server may send, and more: what Hypothesis draws from."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from fakes.chunks import DONE, Heard, Json, call, cut, machine, say

FORCED, AGAIN, BEAT = object(), object(), object()  # what the gateway does, between two chunks

_NOISE = st.sampled_from(
    ["", " ", "\n", "<think>", "</think>", "<", "</th", "ink>", "é👩🏽", "\u2028", "\ud83d", "\x00"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
_ANY_JSON = _JSON | st.sampled_from([10**30, float("inf"), -1e999])  # Python writes the words Infinity and NaN
_ARGUMENTS = st.sampled_from(
    ["", "{}", '{"x":1}', '{"x"', ":1}", "{bad", "null", '"{}"', '{"x":"\n', '\\ud83d"}', '"{\\"x\\"', "[1]", "1e999"]
)
_USAGES = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": st.none() | st.integers(-5, 50) | st.just(10**30),
        "completion_tokens": st.integers(-5, 50) | st.just("7"),
        "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": st.integers(-5, 60)}),
        "completion_tokens_details": st.none() | st.fixed_dictionaries({"reasoning_tokens": st.integers(-5, 60)}),
    },
)
FINISHES = st.sampled_from([None] * 9 + ["", "stop", "length", "tool_calls", "content_filter", "abort", "error", "new"])
_FRAGMENTS = st.builds(
    call,
    index=st.sampled_from([None, 0, 0, 1, 2, -1]),
    name=st.sampled_from([None, "f", "g", ""]),
    arguments=st.none() | _ARGUMENTS | st.dictionaries(st.text(max_size=2), _ANY_JSON, max_size=2),
    identity=st.sampled_from([None, "a", "b", ""]),
)


@st.composite
def chunks(draw: st.DrawFn) -> Json:
    """One chunk. Where a text has a `#`, a test may put a word that it will know again."""
    wording = st.tuples(_NOISE, st.sampled_from(["", "#"]), _NOISE).map("".join)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "role": st.just("assistant"),
        "content": wording,
        "reasoning_content": wording,
        "reasoning": wording,
        "tool_calls": st.lists(_FRAGMENTS, max_size=3),
        "refusal": wording,
        "function_call": st.fixed_dictionaries({"name": st.just("h"), "arguments": _ARGUMENTS}),
    }
    return say(**draw(st.fixed_dictionaries({}, optional=optional)), finish=draw(FINISHES), usage=draw(_USAGES))


@st.composite
def spoiled(draw: st.DrawFn) -> Json:
    """A chunk one value of which is something else."""
    chunk = json.loads(json.dumps(draw(chunks())))
    places = list(_places(chunk))
    where, key = draw(st.sampled_from(places))
    where[key] = draw(_ANY_JSON)
    return chunk if isinstance(chunk, dict) else {}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


JUNK = st.sampled_from(
    [
        {"choices": []},
        {"choices": None},
        {"error": "broken"},
        {"error": {"message": "", "code": 400}},
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        {"object": "error", "message": "flat", "code": 40},
        {"prompt_progress": {"total": 3}},
        "nonsense",
        "[1]",
        "",
        "{",
        b"\xff\xfe",
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
        {"choices": [{"index": 1, "delta": {"content": "of another answer"}}]},
        {"choices": [{"message": {"content": "a whole answer"}}]},
    ]
)
STEPS = st.lists(
    st.one_of(chunks(), chunks(), chunks(), spoiled(), JUNK, st.sampled_from([DONE, BEAT, BEAT, FORCED, AGAIN])),
    max_size=14,
)


def told(steps: list[Any], **options: Any) -> Heard:
    """What the client gets for the steps, and then the end of the body."""
    listener = Heard(machine(**options))
    for step in steps:
        if step is FORCED:
            listener.stream.forced()
        elif step is AGAIN:
            listener.stream.again()
        elif step is BEAT:
            listener.beat()
        else:
            listener.feed(step)
    listener.end()
    return listener


# ---- calls that are known --------------------------------------------------------------------------------------------

_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["f", "get_weather", "mcp__x__y"]),
        st.dictionaries(st.text(max_size=3), _JSON, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def _in_turn(draw: st.DrawFn, calls: list[list[Json]]) -> Iterator[Json]:
    """The fragments of all calls, shuffled, those of one call in their order."""
    left = [list(fragments) for fragments in calls]
    while any(left):
        yield draw(st.sampled_from([fragments for fragments in left if fragments])).pop(0)


@st.composite
def told_calls(draw: st.DrawFn) -> tuple[list[tuple[str, str, Json]], list[Json]]:
    """Calls with their ids, and the fragments in which a server tells of them."""
    calls = [(f"call_{number}", name, given) for number, (name, given) in enumerate(draw(_CALLS))]
    way = draw(st.sampled_from(["index", "index, in turn", "all 0", "ids only", "ids once", "whole", "objects"]))
    told: list[list[Json]] = []
    for number, (identity, name, given) in enumerate(calls):
        index = {"index": number, "index, in turn": number, "whole": number, "objects": None}.get(way)
        index = 0 if way == "all 0" else index
        if way == "objects":
            told.append([call(index, name, given, identity)])
            continue
        text = json.dumps(given, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        if draw(st.integers(0, 9)) == 0:
            text = json.dumps(text)  # an object inside a string
        edges = [] if way == "whole" else draw(st.lists(st.integers(0, 200), max_size=5))
        pieces = cut(text, edges)
        repeats = way == "ids only" or draw(st.booleans())
        apart = way != "whole" and draw(st.booleans())  # the name comes in a chunk of its own
        fragments = [call(index, name, "", identity)] if apart else []
        for place, piece in enumerate(pieces):
            first = place == 0 and not apart
            fragments.append(
                call(index, name if first or repeats else None, piece, identity if first or repeats else None)
            )
        told.append(fragments)
    if way == "index, in turn":
        return calls, list(_in_turn(draw, told))
    return calls, list(itertools.chain.from_iterable(told))
