"""How errors look on the Messages surface."""

from __future__ import annotations

import json

import pytest

from slotline.core import errors as tree
from slotline.core.anthropic.errors import body, event
from slotline.core.openai.errors import explain


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (tree.Invalid("max_tokens: missing"), "invalid_request_error"),
        (tree.Unauthenticated("no key"), "authentication_error"),
        (tree.NotFound("no model"), "not_found_error"),
        (tree.TooLarge("too large"), "request_too_large"),
        (tree.Busy("full", retry_after=3), "overloaded_error"),
        (tree.Stalled("liveness: 60 s"), "timeout_error"),
        (tree.StreamClosedEarly("closed"), "api_error"),
    ],
)
def test_every_error_has_one_envelope(error: tree.SlotlineError, kind: str) -> None:
    assert json.loads(body(error, "req_1")) == {
        "type": "error",
        "error": {"type": kind, "message": str(error)},
        "request_id": "req_1",
    }


def test_in_a_stream_it_is_one_named_event_on_one_line() -> None:
    error = tree.Protocol('two\nlines\r\n, "quotes" and \u2028')
    frame = event(error, "req_1")
    name, data, *rest = frame.decode().split("\n")
    assert name == "event: error"
    assert rest == ["", ""]
    assert data.startswith("data: {")
    assert "\r" not in data
    assert data.removeprefix("data: ").encode() == body(error, "req_1")
    assert json.loads(data.removeprefix("data: "))["error"]["message"] == str(error)


def test_77_an_overflow_of_the_context_reads_as_clients_expect_in_both_forms() -> None:
    """Case 77."""
    said = {
        "error": {"code": 400, "message": "x", "type": "exceed_context_size_error", "n_prompt_tokens": 20, "n_ctx": 16}
    }
    error = explain(400, json.dumps(said).encode(), "application/json")
    assert error.status == 400
    for form in (body(error, "r"), event(error, "r").removeprefix(b"event: error\ndata: ")):
        told = json.loads(form)["error"]
        assert told == {"type": "invalid_request_error", "message": "prompt is too long: 20 tokens > 16 maximum"}


@pytest.mark.parametrize(
    ("status", "ours", "kind"),
    [
        (401, 502, "api_error"),
        (403, 502, "api_error"),
        (502, 502, "api_error"),
        (503, 503, "overloaded_error"),
        (500, 500, "api_error"),
        (404, 404, "not_found_error"),
        (429, 429, "rate_limit_error"),
        (422, 400, "invalid_request_error"),
        (302, 502, "api_error"),
    ],
)
def test_78_79_an_upstreams_status_has_a_type_of_this_dialect(status: int, ours: int, kind: str) -> None:
    """Cases 78 and 79."""
    error = explain(status, b'{"error":{"message":"x","type":"BadRequestError"}}', "application/json")
    assert error.status == ours
    assert json.loads(body(error, "r"))["error"]["type"] == kind
