"""The estimate of a prompt's length: never 0, never smaller for more, and near enough to act on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.request import parse_count
from slotline.core.anthropic.tokens import PER_IMAGE, PER_PDF, estimate

DATA_URL = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image", "source": {"type": "url", "url": DATA_URL}}


def count(content: Any, **fields: Any) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": content}]} | fields
    return estimate(parse_count(json.dumps(body).encode()))


def test_the_shortest_request_is_not_free() -> None:
    assert count("a") >= 1


@given(st.text(min_size=1, max_size=200), st.text(max_size=200))
def test_more_words_never_cost_less(first: str, more: str) -> None:
    assert count(first + more) >= count(first)


def test_prose_is_estimated_a_little_high() -> None:
    prose = "The quick brown fox jumps over the lazy dog, and nobody is surprised. " * 100
    assert 1500 < count(prose) < 2200  # common vocabularies make about 1600 of it


def test_a_chinese_character_is_about_a_token() -> None:
    assert 800 < count("中" * 1000) < 1100


def test_everything_that_reaches_the_model_counts() -> None:
    plain = count("hi")
    tool = {"name": "w", "description": "d" * 350, "input_schema": {"type": "object"}}
    assert count("hi", system="s" * 350) >= plain + 100
    assert count("hi", tools=[tool]) >= plain + 100
    assert (
        count([{"type": "text", "text": "hi"}, {"type": "tool_result", "tool_use_id": "t", "content": "r" * 350}])
        >= plain + 100
    )
    turn = [
        {"type": "thinking", "thinking": "h" * 350},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"q": "a" * 350}},
    ]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": turn},
        {"role": "user", "content": "x"},
    ]
    assert count("", messages=messages) >= plain + 200


def test_an_image_has_a_fixed_price_wherever_it_stands() -> None:
    alone = count([IMAGE])
    assert alone >= PER_IMAGE
    inside = count([{"type": "tool_result", "tool_use_id": "t", "content": [IMAGE, IMAGE]}])
    assert inside - alone == PER_IMAGE


def test_a_pdf_that_is_not_opened_has_a_fixed_price_wherever_it_stands() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    pdf = {"type": "document", "source": source}
    assert PER_PDF <= count([pdf]) < PER_PDF + 100
    assert count([pdf, {"type": "tool_result", "tool_use_id": "t", "content": [pdf]}]) >= 2 * PER_PDF


def test_the_attribution_line_is_not_counted_as_it_is_not_sent() -> None:
    line = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332; cch=12345;"}
    assert count("hi", system=[line]) == count("hi")
