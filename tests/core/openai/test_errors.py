"""What upstreams and the proxies in front of them say when they refuse."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import UpstreamStatus
from slotline.core.openai.errors import explain, overflow, readable

JSON = "application/json"
HTML = b"<html><head><title>502</title></head><body><center><h1>502</h1>nginx at 10.0.0.7</center></body></html>"
VLLM = "This model's maximum context length is {} tokens. However, "
VLLM_2026 = (
    "You passed {} input tokens and requested {} output tokens. However, the model's context length is only {} tokens."
)
SGLANG = "Requested token count exceeds the model's maximum context length of {} tokens."
NEUTRAL = "the upstream answered with a page of HTML instead of a message"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":{"code":500,"message":"Compute error.","type":"server_error"}}', "Compute error."),
        (b'{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}', "no"),
        (b'{"error":"model not found"}', "model not found"),
        (b'{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}', "bad"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"loc":["body","a"],"msg":"field required"},{"msg":"other"}]}', "field required; other"),
        (b'{"message":"no route"}', "no route"),
        (b'"just words"', "just words"),
        (b'{"status":"loading model"}', '{"status":"loading model"}'),
        (b'{"error":{"code":7}}', '{"code":7}'),
        (b'{"error":null,"message":"inner"}', "inner"),
        (b"[]", "[]"),
        (b"upstream connect error", "upstream connect error"),
        ("Größe überschritten 🚫".encode(), "Größe überschritten 🚫"),
        (b"", ""),
        (b" \n", ""),
    ],
)
def test_the_message_is_found_in_every_known_shape(body: bytes, text: str) -> None:
    assert readable(body, JSON) == text


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (HTML, "text/html"),
        (HTML, ""),
        (b"<!DOCTYPE html>\n<p>hi", "text/plain"),
        (json.dumps({"detail": HTML.decode()}).encode(), JSON),
        (b"<p>only a fragment</p>", "text/html; charset=utf-8"),
    ],
)
def test_78_html_is_never_passed_on(body: bytes, content_type: str) -> None:
    """Case 78."""
    assert readable(body, content_type) == NEUTRAL


def test_bytes_that_are_no_text_are_not_passed_on() -> None:
    assert (
        readable(bytes(range(256)) * 4, "application/octet-stream")
        == "the upstream answered with something that is not text"
    )


def test_a_long_message_is_cut_between_characters() -> None:
    text = readable(json.dumps({"error": {"message": "é" * 65536}}).encode(), JSON)
    assert len(text.encode()) == UpstreamStatus.MAX_BODY
    assert text == "é" * (UpstreamStatus.MAX_BODY // 2)
    odd = readable(b"x" + "é".encode() * 65536, "text/plain")
    assert len(odd.encode()) <= UpstreamStatus.MAX_BODY
    assert set(odd) <= {"x", "é", "\ufffd"}


def test_nesting_without_end_does_not_exhaust_the_stack() -> None:
    assert readable(b"[" * 200_000, JSON)


@given(st.binary(max_size=300), st.sampled_from([JSON, "text/plain", ""]))
def test_whatever_comes_is_words(body: bytes, content_type: str) -> None:
    text = readable(body, content_type)
    text.encode()
    assert "<html" not in text.lower()
    explain(500, body, content_type)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (  # llama.cpp refuses at the limit: what is allowed is one less
            "request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it",
            "prompt is too long: 4031 tokens > 2048 maximum",
        ),
        (
            "request (2048 tokens) exceeds the available context size (2048 tokens), try increasing it",
            "prompt is too long: 2048 tokens > 2047 maximum",
        ),
        (  # vLLM
            VLLM.format(8192) + "your messages resulted in 9000 tokens. Please reduce the length",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (
            VLLM.format(8192) + "your request has 9000 input tokens. Please reduce the length",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (
            VLLM.format(16384)
            + "you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please",
            "prompt is too long: 112946 tokens > 16384 maximum",
        ),
        (
            VLLM.format(262144)
            + "you requested 0 output tokens and your prompt contains at least 262145 input tokens, for",
            "prompt is too long: 262145 tokens > 262144 maximum",
        ),
        (
            VLLM_2026.format(2049, 0, 2048),
            "prompt is too long: 2049 tokens > 2048 maximum",
        ),
        (
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (  # SGLang
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (
            "Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens). Use a shorter input",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (  # Ollama has no numbers
            "the input length exceeds the context length",
            "prompt is too long: the input length exceeds the context length",
        ),
        (
            SGLANG.format(8192),
            "prompt is too long: " + SGLANG.format(8192),
        ),
    ],
)
def test_77_a_prompt_that_does_not_fit_is_said_in_the_words_that_clients_know(said: str, expected: str) -> None:
    """Case 77."""
    assert overflow(said) == expected


@pytest.mark.parametrize(
    "said",
    [
        VLLM.format(32768) + "you requested 34000 tokens (4000 in the messages, 30000 in the completion).",
        "'max_tokens' or 'max_completion_tokens' is too large: 30000. "
        + VLLM.format(32768).replace(". However, ", " and your request has 4000 input tokens (30000 > 32768 - 4000)."),
        VLLM.format(32768)
        + "you requested 30000 output tokens and your prompt contains at least 4000 input tokens, for a",
        VLLM_2026.format(4000, 30000, 32768),
        SGLANG.format(32768)
        + " You requested a total of 34000 tokens: 4000 tokens from the input messages and 30000 tokens"
        " for the completion. Please reduce the number of tokens",
    ],
)
def test_77_where_a_shorter_answer_would_fit_the_client_is_told_how_much(said: str) -> None:
    """Case 77 and contract 5.5: Claude Code then asks again with `max_tokens` = C - A - 1000."""
    assert overflow(said) == (
        "input length and `max_tokens` exceed context limit: 4000 + 30000 > 32768, "
        "decrease input length or `max_tokens` and try again"
    )


@pytest.mark.parametrize("said", ["", "Compute error.", "model not found", "rate limit: 100 tokens per minute"])
def test_other_words_stay_as_they_are(said: str) -> None:
    assert overflow(said) is None


def test_77_the_numbers_beside_llama_cpps_message_are_enough() -> None:
    """Case 77."""
    said = {
        "error": {
            "code": 400,
            "message": "the request does not fit",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 20000,
            "n_ctx": 16384,
        }
    }
    error = explain(400, json.dumps(said).encode(), JSON)
    assert (error.status, error.anthropic_type) == (400, "invalid_request_error")
    assert str(error) == "prompt is too long: 20000 tokens > 16384 maximum"


def test_77_an_overflow_is_the_clients_to_mend_whatever_status_it_came_with() -> None:
    """Case 77: Ollama answers with 500."""
    error = explain(500, b'{"error":"the input length exceeds the context length"}', JSON)
    assert (error.status, error.upstream_status, error.anthropic_type) == (400, 500, "invalid_request_error")


def test_78_a_server_that_loads_and_a_proxy_that_fails_keep_their_status() -> None:
    """Case 78."""
    loading = explain(503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', JSON)
    assert (loading.status, loading.anthropic_type, str(loading)) == (503, "overloaded_error", "Loading model")
    proxy = explain(502, HTML, "text/html")
    assert (proxy.status, proxy.anthropic_type, str(proxy)) == (502, "api_error", NEUTRAL)


@pytest.mark.parametrize("status", [401, 403])
def test_79_a_refusal_of_our_credentials_is_our_fault_and_quotes_none(status: int) -> None:
    """Case 79."""
    error = explain(status, b'{"error":{"message":"Incorrect API key provided: sk-MARKER"}}', JSON)
    assert (error.status, error.upstream_status, error.anthropic_type) == (502, status, "api_error")
    assert "MARKER" not in str(error)


@pytest.mark.parametrize(
    ("status", "ours"),
    [
        (400, 400),
        (404, 404),
        (413, 413),
        (429, 429),
        (405, 400),
        (409, 400),
        (422, 400),
        (408, 504),
        (500, 500),
        (501, 501),
    ],
)
def test_a_status_that_means_something_else_to_our_client_is_translated(status: int, ours: int) -> None:
    error = explain(status, b'{"error":"x"}', JSON)
    assert (error.status, error.upstream_status, str(error)) == (ours, status, "x")


def test_an_empty_body_still_says_what_happened() -> None:
    assert str(explain(500, b"", "")) == "the upstream answered with status 500"
