"""The reader of pages itself: what it overlooked, the tests of the documentation would not check."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import PAGES, Page, page


@pytest.fixture
def written(tmp_path: Path) -> Page:
    path = tmp_path / "page.md"
    path.write_text(
        "# The page: `serve`, and more\n\nSee [one](a.md#b) and `src/x.py`.\n\n"
        "| a | b |\n| --- | --- |\n| `x` | 1, `y` |\n\n"
        '```toml\nkey = "[no](link.md) `nor/span.py`"\n```\n\n```sh\nslotline serve\n```\n'
    )
    return Page(path)


def test_links_and_spans_are_those_of_the_prose(written: Page) -> None:
    assert written.links == ["a.md#b"]
    assert written.spans == ["serve", "src/x.py", "x", "y"]


def test_headings_become_anchors_as_on_github(written: Page) -> None:
    assert written.anchors == {"the-page-serve-and-more"}


def test_code_is_found_by_its_language(written: Page) -> None:
    assert written.code("sh") == ["slotline serve\n"]
    assert written.code("js") == []


def test_a_table_is_found_by_its_head(written: Page) -> None:
    assert written.table("a", "b") == [{"a": "x", "b": "1, `y`"}]
    with pytest.raises(AssertionError, match="no table"):
        written.table("a", "c")


def test_the_readme_and_the_decisions_are_among_the_pages() -> None:
    assert page("README.md").text.startswith("# Slotline")
    assert len([each for each in PAGES if each.path.parent.name == "decisions"]) >= 5
