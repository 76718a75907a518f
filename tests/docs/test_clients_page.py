"""`docs/clients.md` says what was seen when the clients were tried, and nothing that was not."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from clients.page import GATEWAY, PAGE, rendered
from clients.results import RESULTS, Row, merged, read, wanted, write
from clients.table import CLIENTS
from docs.pages import page

ROWS = read(RESULTS)


def test_the_page_is_what_the_results_give() -> None:
    """`make test-clients` writes both; a change by hand, of the page or of the table, is found here."""
    assert PAGE.read_text() == rendered(ROWS)


def test_every_case_of_the_table_was_tried() -> None:
    """A client that is new in the table, or asked in a new way, has not been seen yet."""
    assert [row.place for row in ROWS] == wanted()


def test_what_went_wrong_is_said() -> None:
    """A row that is not right takes the yes from its client, and is listed."""
    wrong = [msgspec.structs.replace(row, right=False, error="a shame") for row in ROWS]
    text = rendered(wrong)
    assert "| yes |" not in text.partition("## What failed")[0]
    assert text.count("a shame") == len(ROWS)


def test_every_client_has_its_version_and_what_to_set() -> None:
    """A base URL for each, and the versions of the packages that were run."""
    each = page("docs/clients.md")
    for row in ROWS:
        assert all(f"{name} {version}" in each.text for name, version in row.versions.items())
    sections = re.split(r"^### (.*)$", each.text, flags=re.MULTILINE)
    settings = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert set(settings) == {client.title for client in CLIENTS}
    for text in settings.values():
        assert GATEWAY in text
        assert not re.search(r"\b(BASE|MODEL)\b", text)


def test_a_newer_row_takes_the_place_of_the_older_one(tmp_path: Path) -> None:
    """And what the table does not have any more is dropped."""
    newer = msgspec.structs.replace(ROWS[1], date="2999-01-01")
    foreign = msgspec.structs.replace(ROWS[0], client="gone/newest/messages")
    both = merged([*ROWS, foreign], [newer])
    assert both == [ROWS[0], newer, *ROWS[2:]]
    write(both, tmp_path / "results.json")
    assert read(tmp_path / "results.json") == both


def test_a_row_names_its_case_once() -> None:
    """Otherwise one would hide another."""
    places = [row.place for row in ROWS]
    assert len(set(places)) == len(places)
    assert all(isinstance(row, Row) for row in ROWS)
