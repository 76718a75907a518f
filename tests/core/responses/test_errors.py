"""What clients act upon when a response fails."""

from __future__ import annotations

import pytest

from slotline.core.errors import QueueTimeout, SlotlineError, Stalled, UpstreamStatus
from slotline.core.responses.errors import code


def too_long() -> UpstreamStatus:
    error = UpstreamStatus(400, "prompt is too long: 9 tokens > 8 maximum")
    error.overflow = "the request exceeds the available context size"
    return error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Stalled("…"), "server_error"),
        (QueueTimeout("…"), "server_error"),
        (UpstreamStatus(500, "…"), "server_error"),
        (UpstreamStatus(429, "slow down"), "rate_limit_exceeded"),
        (UpstreamStatus(400, "bad"), "invalid_prompt"),
        (too_long(), "context_length_exceeded"),
    ],
)
def test_a_request_that_was_wrong_is_told_from_one_that_may_be_sent_again(error: SlotlineError, word: str) -> None:
    assert code(error) == word
