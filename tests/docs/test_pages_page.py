"""`docs/pages.md` shows the pages as they are: every sign of a slot, and pictures that are there."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT, page
from slotline.core.report import SlotState

PAGE = page("docs/pages.md")
PICTURES = re.findall(r"!\[([^\]]*)\]\((images/[^)]+)\)", PAGE.text)


def signs() -> dict[str, str]:
    """The dashboard's sign for each state of a slot."""
    text = (ROOT / "src/slotline/surface/static/dashboard/slots.js").read_text()
    block = text.partition("const SIGNS = {")[2].partition("}")[0]
    return dict(re.findall(r'(\w+): "(.)"', block))


def test_every_state_of_a_slot_has_a_sign_of_its_own() -> None:
    assert signs().keys() == set(SlotState)
    assert len(set(signs().values())) == len(SlotState)


def test_the_signs_are_those_of_the_page() -> None:
    shown = re.findall(r"^  \| (\S) \| ", PAGE.text, re.MULTILINE)
    assert sorted(shown) == sorted(signs().values())


@pytest.mark.parametrize(("words", "path"), PICTURES)
def test_a_picture_is_there_says_what_it_shows_and_is_small(words: str, path: str) -> None:
    assert len(words) > 20
    assert 5_000 < (ROOT / "docs" / path).stat().st_size < 150_000


def test_no_picture_lies_about() -> None:
    assert {path for _, path in PICTURES} == {f"images/{each.name}" for each in (ROOT / "docs/images").glob("*.png")}
