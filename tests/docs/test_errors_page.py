"""`docs/errors.md` says what the tree of errors says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from docs.pages import page
from slotline.core.errors import Outcome, SlotlineError, UpstreamStatus
from slotline.core.limits import Limits
from slotline.core.liveness import Silence
from slotline.core.openai.errors import explain

PAGE = page("docs/errors.md")
CLASSES = {row["class"]: row for row in PAGE.table("class", "when", "status", "type", "outcome", "again?")}


def below(root: type[SlotlineError]) -> Iterator[type[SlotlineError]]:
    """`root` and all its subclasses in the tree itself; a class that another module adds for its own use is no end."""
    yield root
    for child in children(root):
        yield from below(child)


def children(kind: type[SlotlineError]) -> list[type[SlotlineError]]:
    return [child for child in kind.__subclasses__() if child.__module__ == SlotlineError.__module__]


TREE = list(below(SlotlineError))
GROUPS = [kind for kind in TREE if children(kind) and kind is not SlotlineError]


def test_every_class_has_a_row_and_every_row_a_class() -> None:
    assert set(CLASSES) == {kind.__name__ for kind in TREE if kind not in GROUPS}


def test_the_groups_are_named() -> None:
    assert {kind.__name__ for kind in GROUPS} <= set(PAGE.spans)


@pytest.mark.parametrize("kind", [kind for kind in TREE if kind not in GROUPS], ids=lambda kind: kind.__name__)
def test_a_row_says_status_type_and_outcome_of_its_class(kind: type[SlotlineError]) -> None:
    row = CLASSES[kind.__name__]
    assert row["outcome"] == kind.outcome
    if kind is not UpstreamStatus:
        assert (row["status"], row["type"]) == (str(kind.status), kind.anthropic_type)


@pytest.mark.parametrize("row", PAGE.table("upstream's status", "client's status", "type"), ids=lambda row: row["type"])
def test_a_row_says_what_becomes_of_an_upstreams_status(row: dict[str, str]) -> None:
    error = explain(int(row["upstream's status"]), b'{"error":{"message":"no"}}', "application/json")
    assert (str(error.status), error.anthropic_type) == (row["client's status"], row["type"])


def test_every_status_with_a_type_of_its_own_has_a_row() -> None:
    rows = {int(row["client's status"]) for row in PAGE.table("upstream's status", "client's status", "type")}
    assert set(UpstreamStatus._TYPES) <= rows


def test_any_other_status_becomes_what_the_page_says() -> None:
    rows = {int(row["upstream's status"]) for row in PAGE.table("upstream's status", "client's status", "type")}
    for status in set(range(400, 600)) - rows:
        error = explain(status, b"no", "text/plain")
        said = (400, "invalid_request_error") if status < 500 else (status, "api_error")
        assert (error.status, error.anthropic_type) == said, status


def test_the_bound_on_an_upstreams_text_is_the_true_one() -> None:
    assert f"{UpstreamStatus.MAX_BODY} bytes" in PAGE.text


def test_the_page_lists_every_outcome() -> None:
    assert [row["outcome"] for row in PAGE.table("outcome", "means")] == list(Outcome)


def test_the_message_that_the_page_quotes_is_one_that_a_client_reads() -> None:
    assert str(Silence(Limits(), now=0.0).overdue()) in " ".join(PAGE.text.split())
