"""Anything at all, in any order: the client gets a legal stream, or a failure behind the legal beginning of one."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fakes.chunks import DONE, Json, say
from fakes.fuzz import AGAIN, BEAT, FORCED, STEPS, told_calls
from fakes.responding import answer, dialect, fed
from fakes.responses_checker import check, check_whole
from slotline.core.errors import SlotlineError
from slotline.core.responses.dialect import ResponsesDialect

TOOLS = [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]
WISHES = st.fixed_dictionaries(
    {"parallel_tool_calls": st.booleans(), "tools": st.sampled_from([[], TOOLS])},
    optional={
        "reasoning": st.just({"summary": "auto"}),
        "include": st.just(["reasoning.encrypted_content"]),
    },
)


def played(call: ResponsesDialect, steps: list[Any]) -> tuple[bytes, bool]:
    """What the client gets for the steps and the end of the body, and whether it failed."""
    out, waited = b"", 0.0
    try:
        for step in steps:
            if step is FORCED:
                call.forced()
            elif step is AGAIN:
                call.again()
            elif step is BEAT:
                waited += 300.0
                out += call.keep_alive(waited)
            else:
                raw = step if isinstance(step, bytes) else step.encode() if isinstance(step, str) else _json(step)
                out += call.feed(raw)
        return out + call.end(), False
    except SlotlineError as error:
        return out + call.error_event(error), True


def _json(step: Json) -> bytes:
    """As Python writes it: with the words Infinity and NaN, and with halves of surrogate pairs."""
    return json.dumps(step).encode()


@given(steps=STEPS, wishes=WISHES)
def test_whatever_comes_in_any_order_is_a_legal_stream_or_a_failure(steps: list[Any], wishes: Json) -> None:
    """Anything but an error of ours would come out of here as an exception."""
    raw, failed = played(dialect(**wishes), steps)
    seen = check(raw)
    assert (seen.error is not None) == failed
    if not wishes["parallel_tool_calls"] and wishes["tools"]:
        assert len(seen.calls) <= 1


@given(steps=STEPS, wishes=WISHES)
def test_a_whole_answer_is_what_a_stream_would_have_ended_with(steps: list[Any], wishes: Json) -> None:
    quiet = [step for step in steps if step is not BEAT]
    raw, failed = played(dialect(**wishes), quiet)
    call = dialect(**wishes, stream=False)
    _, too = played(call, quiet)
    assert too == failed
    if not failed:
        assert check_whole(msgspec.json.decode(call.whole())) == check(raw).response


@given(told=told_calls())
def test_calls_come_out_as_they_were_made_however_a_server_tells_them(told: Any) -> None:
    calls, chunks = told
    seen = check(fed(dialect(), answer(*(say(tool_calls=[each]) for each in chunks), finish="tool_calls")))
    made = [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in seen.calls]
    assert sorted(made, key=itemgetter(0)) == calls
    assert seen.complete


def test_the_fuzzer_reaches_the_end_of_an_answer() -> None:
    """Not every run of it may be a failure."""
    raw, failed = played(dialect(), [say("x", finish="stop"), BEAT, DONE])
    assert not failed
    assert check(raw).complete
