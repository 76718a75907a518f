"""`docs/api.md` has every field that is told, and no other."""

from __future__ import annotations

import re

import msgspec
import pytest

from docs.pages import page
from slotline.core.history import Hour, Looks, Minutes
from slotline.core.report import Gateway, Line, Phase, Request, Slot, Slots, SlotState, State, Upstream

PAGE = page("docs/api.md")


def tables() -> list[list[dict[str, str]]]:
    """The tables of fields, in the order of the page."""
    found = []
    rest = PAGE.prose
    head = "| field | is |\n| --- | --- |\n"
    while head in rest:
        _, _, rest = rest.partition(head)
        lines = rest.split("\n\n", 1)[0].splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split(" | ", 1)] for line in lines]
        found.append([{"field": name.strip("` "), "is": text} for name, text in cells])
    return found


@pytest.mark.parametrize(("place", "told"), list(enumerate([Gateway, Upstream, Slots, Slot, Line, Request])))
def test_a_table_has_the_fields_of_its_object(place: int, told: type[msgspec.Struct]) -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(told)]
    rows = [row["field"] for row in tables()[place]]
    assert sorted(rows) == sorted(fields)


def test_the_parts_of_the_state_are_those_of_the_example() -> None:
    (example,) = PAGE.code("json")
    assert re.findall(r'"(\w+)":', example) == [field.name for field in msgspec.structs.fields(State)]


@pytest.mark.parametrize(("place", "field", "values"), [(3, "state", SlotState), (5, "phase", Phase)])
def test_every_value_of_a_state_is_named(place: int, field: str, values: type[Phase | SlotState]) -> None:
    (row,) = [row["is"] for row in tables()[place] if row["field"] == field]
    for value in values:
        assert f"`{value}`" in row


@pytest.mark.parametrize(("name", "told"), [("minutes", Minutes), ("looks", Looks)])
def test_the_lists_of_the_last_hour_are_those_of_the_page(name: str, told: type[msgspec.Struct]) -> None:
    rows = PAGE.table(f"of `{name}`", "is")
    assert [row[f"of `{name}`"] for row in rows] == [field.name for field in msgspec.structs.fields(told)]


def test_the_parts_of_the_last_hour_are_those_of_the_example() -> None:
    (example,) = [block for block in PAGE.code("") if "minutes" in block]
    assert re.findall(r'"(\w+)":', example) == [field.name for field in msgspec.structs.fields(Hour)]
