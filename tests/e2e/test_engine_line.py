"""The line before the real engine: two slots, and more callers than that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fakes.checker import check, drop_queue_frames
from fakes.product import Program, ask, fetch

pytestmark = pytest.mark.engine


async def test_a_third_caller_sees_its_place_and_all_get_whole_answers(engine_gateway: Program) -> None:
    """Three streams on two slots of the real llama.cpp server."""
    body = ask("Tell me a story about a line.", model="smollm2", max_tokens=24)
    answers = await asyncio.gather(*(fetch(engine_gateway.url, "/llm/v1/messages", body) for _ in range(3)))
    streams = [check(answer.body) for answer in answers]
    assert all(stream.complete and stream.text for stream in streams)
    assert sorted(len(stream.places) for stream in streams) == [0, 0, 1]
    waited = next(stream for stream in streams if stream.places)
    assert waited.places[0]["position"] == 1
    for answer, stream in zip(answers, streams, strict=True):
        assert check(drop_queue_frames(answer.body)).message == stream.message


async def test_who_wants_to_know_is_told_how_far_the_prompt_is_read(engine_gateway: Program) -> None:
    """`x-slotline-progress: 1`: prefill, in tokens, before `message_start`, and only for those who ask."""
    body = ask("word " * 400, model="smollm2", max_tokens=2)
    told = check((await fetch(engine_gateway.url, "/v1/messages", body, {"x-slotline-progress": "1"})).body)
    assert told.progress
    last = told.progress[-1]
    assert last["stage"] == "prefill"
    assert last["processed"] == last["total"] == told.usage["input_tokens"] + told.usage["cache_read_input_tokens"]
    assert check((await fetch(engine_gateway.url, "/v1/messages", body)).body).progress == []


async def test_a_whole_answer_and_a_stream_say_the_same(engine_gateway: Program) -> None:
    """Greedy, so that the model says the same thing twice."""
    more: Any = {"model": "smollm2", "max_tokens": 12, "temperature": 0.0, "top_k": 1}
    streamed = check((await fetch(engine_gateway.url, "/v1/messages", ask("Name a colour.", **more))).body)
    whole = (await fetch(engine_gateway.url, "/v1/messages", ask("Name a colour.", stream=False, **more))).json()
    assert whole["content"] == [{"type": "text", "text": streamed.text}]
    assert whole["stop_reason"] == streamed.stop_reason
