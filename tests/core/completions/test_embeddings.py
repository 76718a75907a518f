"""A call for embeddings: through the line, unchanged."""

from __future__ import annotations

import pytest

from slotline.core.completions.embeddings import EmbeddingsDialect
from slotline.core.errors import Invalid, Protocol, StreamClosedEarly, UpstreamStatus
from slotline.core.kind import Kind, Terms, Traits
from slotline.core.queue_frames import QueueForm

BODY = b'{"model":"alias","input": "hello","encoding_format":"base64","user":"ada"}'
ANSWER = b'{"object":"list", "data":[{"object":"embedding","index":0,"embedding":[0.10,-2]}],"model":"m","usage":{}}'


def dialect(raw: bytes = BODY) -> EmbeddingsDialect:
    return EmbeddingsDialect(raw, request_id="req_1", form=QueueForm.COMMENT)


def test_the_answer_is_the_upstreams_byte_for_byte() -> None:
    call = dialect()
    assert (call.done, call.pieces) == (False, 0)
    assert call.feed(ANSWER) == b""
    assert (call.done, call.pieces) == (True, 1)
    assert call.feed(b"something else") == call.end() == b""
    assert call.whole() == ANSWER


def test_it_is_no_stream_no_conversation_and_no_reasoning() -> None:
    call = dialect()
    call.forced()
    call.again()
    assert (call.stream, call.route, call.model, call.user) == (False, "/v1/embeddings", "alias", "ada")
    assert (call.thought, call.thinking_budget, call.completion, list(call.notes)) == (0, None, None, [])
    assert call.chain() == ()


@pytest.mark.parametrize("kind", list(Kind))
def test_no_server_gets_more_than_the_client_sent(kind: Kind) -> None:
    sent = dialect().body("target", Traits(kind), Terms(slot=1, thinking_cap=5))
    assert sent == b'{"model":"target","input":"hello","encoding_format":"base64","user":"ada"}'


def test_a_body_without_a_model_is_refused() -> None:
    with pytest.raises(Invalid, match="model: a required field"):
        dialect(b'{"input":"x"}')


def test_an_error_in_place_of_the_answer_is_one() -> None:
    with pytest.raises(UpstreamStatus, match="no embeddings here") as failed:
        dialect().feed(b'{"error":{"code":501,"message":"no embeddings here","type":"not_supported_error"}}')
    assert failed.value.status == 501


def test_half_an_answer_is_none() -> None:
    with pytest.raises(Protocol):
        dialect().feed(ANSWER[:40])
    with pytest.raises(StreamClosedEarly):
        dialect().end()
    with pytest.raises(RuntimeError):
        dialect().whole()
