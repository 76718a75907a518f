"""The frames that tell how far the upstream is before the first token."""

from __future__ import annotations

import pytest

from fakes.checker import check
from slotline.core.progress_frames import Stage, asked_for, frame


def test_prefill_is_told_in_tokens() -> None:
    raw = frame(Stage.PREFILL, 6100, 8123)
    assert raw == b'event: progress\ndata: {"type":"progress","stage":"prefill","processed":6100,"total":8123}\n\n'
    assert check(raw, whole=False).progress == [
        {"type": "progress", "stage": "prefill", "processed": 6100, "total": 8123}
    ]


def test_nobody_knows_how_far_a_load_is() -> None:
    assert frame(Stage.LOADING) == (
        b'event: progress\ndata: {"type":"progress","stage":"loading","processed":null,"total":null}\n\n'
    )


@pytest.mark.parametrize(("header", "asked"), [("1", True), (" 1 ", True), ("0", False), ("", False), (None, False)])
def test_they_come_only_to_those_who_ask(header: str | None, *, asked: bool) -> None:
    assert asked_for(header) is asked
