"""The events as frames, and as the official client's types read them."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from fakes.chunks import call, say
from fakes.responding import answer, dialect, fed, heard
from fakes.responses_checker import KEYS, check
from slotline.core.responses import events

OFFICIAL: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOOLS = [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]
ASKED: list[dict[str, Any]] = [{}, {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}]
EVERYTHING = [
    say(reasoning_content="hm"),
    say("one"),
    say(tool_calls=[call(0, "f", "{}", "a"), call(1, "g", '{"input":"x"}', "b")]),
]


def test_a_frame_has_its_name_twice_and_ends_with_an_empty_line() -> None:
    frame = events.encode(events.TextDelta(sequence_number=4, item_id="msg_1", output_index=0, delta='a"\n'))
    assert frame == (
        b"event: response.output_text.delta\n"
        b'data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,'
        b'"content_index":0,"delta":"a\\"\\n","logprobs":[]}\n\n'
    )


@pytest.mark.parametrize("fields", ASKED)
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_every_event_is_what_the_official_client_is_written_for(fields: dict[str, Any], finish: str) -> None:
    seen = heard(answer(*EVERYTHING, finish=finish), tools=TOOLS, **fields)
    for frame in seen.frames:
        read = OFFICIAL.validate_python(frame.data)
        assert read.type == frame.name
        assert type(read).__name__ != "dict"
    assert Response.model_validate(seen.response).output_text == "one"


def test_a_failure_is_what_the_official_client_is_written_for() -> None:
    seen = heard([say("one"), {"error": {"message": "Compute error."}}])
    for frame in seen.frames:
        assert OFFICIAL.validate_python(frame.data).type == frame.name


def test_a_sign_of_life_is_what_the_official_client_is_written_for() -> None:
    seen = check(dialect(beat_after=1).keep_alive(2.0), whole=False)
    for frame in seen.frames:
        assert OFFICIAL.validate_python(frame.data).type == frame.name


def test_a_whole_answer_is_what_the_official_client_is_written_for() -> None:
    call_ = dialect(stream=False, tools=TOOLS)
    fed(call_, answer(*EVERYTHING))
    assert Response.model_validate_json(call_.whole()).status == "completed"


def test_every_event_that_there_is_is_tried_here() -> None:
    tried = set(heard([say("one"), {"error": {"message": "x"}}]).names)
    tried |= set(check(dialect(beat_after=1).keep_alive(2.0), whole=False).names)
    for fields in ASKED:
        for finish in ("stop", "length"):
            tried |= set(heard(answer(*EVERYTHING, finish=finish), tools=TOOLS, **fields).names)
    assert tried == set(KEYS)
