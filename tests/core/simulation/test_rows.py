"""The fields of one line, and what is said of those that cannot be read."""

from __future__ import annotations

import pytest

from slotline.core.simulation.rows import Row, TraceError


def row(**fields: object) -> Row:
    return Row("log.csv", 7, fields)


@pytest.mark.parametrize(("value", "number"), [("3.5", 3.5), (3, 3.0), ("0", 0.0), (1e3, 1000.0)])
def test_numbers_are_numbers_or_text_of_them(value: object, number: float) -> None:
    assert row(x=value).number("x") == number


@pytest.mark.parametrize("value", ["", "abc", "-1", -0.5, None, True, "nan", "inf", float("inf"), [], 10**400])
def test_what_is_no_number_of_0_or_more_is_refused(value: object) -> None:
    with pytest.raises(TraceError, match=r"log\.csv, line 7: x = .*: a number of 0 or more is needed"):
        row(x=value).number("x")


def test_counts_are_whole() -> None:
    assert row(x="12.0").count("x") == 12
    with pytest.raises(TraceError, match=r"x = '12\.5': a whole number is needed"):
        row(x="12.5").count("x")


@pytest.mark.parametrize(
    "value",
    ["2023-11-16 18:15:46.6805900", "2023-11-16T18:15:46.680590+00:00", "2023-11-16T20:15:46.680590+0200"],
)
def test_moments_are_those_of_iso_8601_and_without_a_zone_in_utc(value: str) -> None:
    assert row(at=value).moment("at") == pytest.approx(1_700_158_546.68059, abs=1e-5)


@pytest.mark.parametrize("value", ["yesterday", 12, None, ""])
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(TraceError, match="a date and time is needed"):
        row(at=value).moment("at")


def test_text_may_be_a_number_and_may_be_missing() -> None:
    assert (row(key="alice").text("key"), row(key=12).text("key"), row().text("key")) == ("alice", "12", "")
    with pytest.raises(TraceError, match=r"key = \['a'\]: text is needed"):
        row(key=["a"]).text("key")


def test_a_field_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(TraceError, match=r"^log\.csv, line 7: there is no field x$"):
        row(y=1).number("x")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(TraceError) as caught:
        row(x="9x" * 500).number("x")
    assert len(str(caught.value)) < 150
    assert (caught.value.file, caught.value.line, caught.value.field) == ("log.csv", 7, "x")


def test_null_and_empty_text_are_nothing() -> None:
    values: list[object] = [None, "", 0, "a", []]
    assert [row(x=value).has("x") for value in values] == [False, False, True, True, True]
    assert not row().has("x")
