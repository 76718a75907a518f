"""How errors look on OpenAI's surfaces, and which codes programs find in them."""

from __future__ import annotations

import msgspec
import pytest

from slotline.core.errors import Busy, Invalid, NotFound, SlotlineError, Stalled, Unauthenticated, UpstreamStatus
from slotline.core.models import unknown
from slotline.core.openai.errors import explain
from slotline.core.openai.refusal import body, described, event


def test_a_body_is_openais_error_object_and_the_requests_identity() -> None:
    assert msgspec.json.decode(body(Invalid("n: expected 1, got 2"), "req_1")) == {
        "error": {"message": "n: expected 1, got 2", "type": "invalid_request_error", "param": None, "code": None},
        "request_id": "req_1",
    }


def test_an_event_is_the_body_as_one_frame_without_a_name() -> None:
    error = Stalled("waiting\nfor ever")
    frame = event(error, "req_1")
    assert frame == b"data: " + body(error, "req_1") + b"\n\n"
    assert frame.count(b"\n") == 2


@pytest.mark.parametrize(
    ("error", "type_", "code"),
    [
        (unknown("gpt-9", ()), "invalid_request_error", "model_not_found"),
        (NotFound("GET /v1/files: there is no such route"), "invalid_request_error", None),
        (Unauthenticated("a key is needed"), "invalid_request_error", "invalid_api_key"),
        (Busy("the line is full"), "server_error", None),
        (UpstreamStatus(404, "no such adapter"), "invalid_request_error", None),
        (SlotlineError("a mistake"), "server_error", None),
    ],
)
def test_a_code_is_there_where_clients_look_for_it(error: SlotlineError, type_: str, code: str | None) -> None:
    made = described(error)
    assert (made["type"], made["code"]) == (type_, code)


def test_a_prompt_that_is_too_long_is_said_in_the_upstreams_words_under_the_code_that_clients_know() -> None:
    words = "the request exceeds the available context size (9 tokens > 8)"
    told = {
        "error": {"code": 400, "message": words, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}
    }
    made = described(explain(400, msgspec.json.encode(told), "application/json"))
    assert (made["message"], made["code"], made["type"]) == (words, "context_length_exceeded", "invalid_request_error")
