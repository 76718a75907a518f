"""The name that was probably meant."""

from __future__ import annotations

import pytest

from slotline.config.nearest import nearest

KNOWN = ("slots", "queue", "queue_wait", "llama.cpp", "api_key_env")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("slotz", "slots"),
        ("SLOTS", "slots"),
        ("queue_wai", "queue_wait"),
        ("llamacpp", "llama.cpp"),
        ("colour", None),
        ("", None),
    ],
)
def test_the_most_alike_is_found_whatever_its_case_and_nothing_is_made_up(word: str, meant: str | None) -> None:
    assert nearest(word, KNOWN) == meant
