"""Anything at all, in any order: the client gets a legal stream, or an error behind the legal beginning of one.

Four oracles: the strict checker; marks in the text, none of which may be lost, doubled, invented or out of order; the
same words cut elsewhere, which must come to the same; and calls that are known, told in every way that servers tell
calls.
"""

from __future__ import annotations

import itertools
import json
import re
from operator import itemgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.checker import CheckedStream
from fakes.chunks import DONE, Heard, Json, call, cut, heard, say
from fakes.fuzz import AGAIN, BEAT, FINISHES, FORCED, STEPS, chunks, told, told_calls
from slotline.core.anthropic import events

MARK = re.compile(r"[crq]\d+;")  # of content, reasoning, refusal


@given(steps=STEPS, parallel=st.booleans())
def test_whatever_comes_in_any_order_is_a_legal_stream_or_an_error(steps: list[Any], parallel: bool) -> None:
    """Case 95, B73, B74: also for chunks in which any value is anything, and whatever the gateway does in between.

    Anything but an error of ours would come out of here as an exception.
    """
    listener = told(steps, parallel_tools=parallel, stop_sequences=["x"])
    checked = listener.checked()
    assert checked.complete != (checked.error is not None)
    if not parallel:
        assert len(checked.tools) <= 1


def _marked(steps: list[Any]) -> tuple[list[Any], dict[str, list[str]]]:
    """The steps with a mark of its own at each `#`, and the marks of each source in their order."""
    numbers = itertools.count()
    marks: dict[str, list[str]] = {"c": [], "r": [], "q": []}

    def mark(text: str, source: str) -> str:
        if "#" not in text:
            return text
        marks[source].append(f"{source}{next(numbers)};")
        return text.replace("#", marks[source][-1])

    out: list[Any] = []
    for step in steps:
        if isinstance(step, dict):
            delta = step["choices"][0]["delta"]
            for key, source in (("content", "c"), ("reasoning_content", "r"), ("reasoning", "r"), ("refusal", "q")):
                if key in delta:
                    delta[key] = mark(delta[key], source)
        out.append(step)
    return out, marks


def _said(listener: Heard) -> list[str]:
    """The marks that went out, in their order."""
    texts = [
        event.text if isinstance(event, events.TextDelta) else event.thinking
        for event in listener.made
        if isinstance(event, (events.TextDelta, events.ThinkingDelta))
    ]
    return MARK.findall("".join(texts))


@given(
    steps=st.lists(st.one_of(chunks(), chunks(), st.sampled_from([BEAT, FORCED, AGAIN])), max_size=14), done=FINISHES
)
def test_no_word_is_lost_doubled_invented_or_out_of_order(steps: list[Any], done: str | None) -> None:
    """Reasoning stays thinking, and a refusal text. After an error, what went out is what had come before it."""
    marked, marks = _marked([*steps, say(finish=done), DONE])
    listener = told(marked)
    said, checked = _said(listener), listener.checked()
    for source in "crq":
        came, went = marks[source], [mark for mark in said if mark[0] == source]
        if source == "c" and AGAIN in steps and FORCED in steps:
            assert [mark for mark in came if mark in went] == went  # what was held back belonged to the answer before
        elif checked.complete:
            assert went == came
        else:
            assert went == came[: len(went)]
    assert not [mark for mark in MARK.findall(checked.text) if mark[0] == "r"]
    assert not [mark for mark in MARK.findall(checked.thinking) if mark[0] == "q"]


_TAGGED = st.lists(
    st.sampled_from(["<think>", "</think>", "<think", "</", "<", ">", "think", " ", "\n", "a", "b c", "é👩🏽"]),
    max_size=12,
).map("".join)


@given(
    content=_TAGGED,
    edges=st.lists(st.integers(0, 100), max_size=8),
    before=st.sampled_from([(), (say(reasoning_content="r"),), (BEAT,), (say(reasoning="r"), FORCED), (FORCED,)]),
)
def test_where_a_text_is_cut_makes_no_difference(content: str, edges: list[int], before: tuple[Any, ...]) -> None:
    """B53: tags, whitespace and characters of several bytes, split anywhere; with reasoning by another way before.

    And whatever is no tag comes out, in its order; of what tags are made of, no more is missing than whole tags.
    """
    end = (say(finish="stop"), DONE)
    whole = told([*before, say(content), *end]).checked()
    for pieces in (cut(content, edges), list(content)):
        assert told([*before, *map(say, pieces), *end]).checked().blocks == whole.blocks
    out = whole.thinking + whole.text
    beside = set("<think>/ \nr")  # the letters of tags, and of the reasoning that came before
    assert [letter for letter in out if letter not in beside] == [letter for letter in content if letter not in beside]
    assert 0 <= content.count("<") - out.count("<") <= content.count("<think>") + content.count("</think>")


@given(text=st.text(st.characters(exclude_characters="<"), max_size=40), edges=st.lists(st.integers(0, 40), max_size=5))
def test_text_without_tags_comes_out_to_the_letter(text: str, edges: list[int]) -> None:
    checked = heard([*map(say, cut(text, edges)), say(finish="stop"), DONE]).checked()
    assert checked.text == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert [block["type"] for block in checked.blocks] == ["text"]


# ---- calls that are known --------------------------------------------------------------------------------------------


@given(
    given_calls=told_calls(),
    together=st.booleans(),
    finish=st.sampled_from(["tool_calls", "stop", "function_call", None]),
    before=st.sampled_from([(), (say("let me"),), (say(reasoning="hm"),), (say("\n"),), (BEAT,)]),
)
def test_calls_come_out_as_they_were_made_however_a_server_tells_them(
    given_calls: tuple[list[tuple[str, str, Json]], list[Json]],
    together: bool,
    finish: str | None,
    before: tuple[Any, ...],
) -> None:
    """Cases 60 to 69, B74, B75, B79: by index, by id, all at index 0, in turn, whole, as objects, inside strings."""
    calls, fragments = given_calls
    told_chunks = [say(tool_calls=fragments)] if together else [say(tool_calls=[fragment]) for fragment in fragments]
    checked: CheckedStream = told([*before, *told_chunks, say(finish=finish), DONE]).checked()
    assert sorted(((tool["id"], tool["name"], tool["input"]) for tool in checked.tools), key=itemgetter(0)) == calls
    assert checked.stop_reason == "tool_use"


@settings(max_examples=50)
@given(given_calls=told_calls(), at=st.integers(0, 1000), finish=st.sampled_from(["length", "tool_calls", "stop"]))
def test_a_call_is_never_whole_before_its_last_brace(
    given_calls: tuple[list[tuple[str, str, Json]], list[Json]], at: int, finish: str
) -> None:
    """B78, case 71: cut anywhere inside the last call's arguments, the answer ran out of tokens, whatever is said."""
    calls, fragments = given_calls
    text = json.dumps({"": 0, **calls[-1][2]})
    last = call(9, "f", text[: 1 + at % (len(text) - 1)], "the last")
    told_chunks = [say(tool_calls=[fragment]) for fragment in [*fragments, last]]
    checked = heard([*told_chunks, say(finish=finish), DONE]).checked()
    assert checked.stop_reason == "max_tokens"
    assert sorted(tool["id"] for tool in checked.tools) == [*(made[0] for made in calls), "the last"]
