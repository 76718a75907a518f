"""Reasoning that clients keep and send back without looking into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.responses.opaque import seal, unseal


@given(st.text())
def test_what_was_sealed_comes_back(text: str) -> None:
    assert unseal(seal(text)) == text


def test_it_does_not_show_its_text() -> None:
    assert "thought" not in seal("a thought")


@pytest.mark.parametrize(
    "sealed", ["", "gAAAAABof", "slotline-1.%", "slotline-1./w==", "slotline-1.YQ", "slotline-2.YQ=="]
)
def test_what_somebody_else_made_is_nothing(sealed: str) -> None:
    assert unseal(sealed) == ""
