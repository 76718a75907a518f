"""Durations and sizes: one spelling each, others refused with the right one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.config import parse_duration, parse_size, show_duration, show_size
from slotline.config.error import BadValue


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("250ms", 0.25), ("10s", 10.0), ("5m", 300.0), ("1h", 3600.0), ("1.5s", 1.5), ("0s", 0.0), ("0.5h", 1800.0)],
)
def test_a_duration_is_a_number_and_a_unit(written: str, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ("32MiB", 33554432),
        ("1GiB", 1073741824),
        ("4096", 4096),
        (4096, 4096),
        ("64KiB", 65536),
        ("7B", 7),
        ("1.5KiB", 1536),
    ],
)
def test_a_size_is_a_number_and_a_unit_of_1024_or_bytes(written: object, bytes_: int) -> None:
    assert parse_size(written) == bytes_


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (30, '"30s"'),
        (1.5, '"1.5s"'),
        ("30", '"30s"'),
        ("5 m", '"5m"'),
        ("5min", '"5m"'),
        ("10 seconds", '"10s"'),
        ("10S", '"10s"'),
        ("2 hours", '"2h"'),
        ("250 msec", '"250ms"'),
    ],
)
def test_another_spelling_of_a_duration_is_refused_with_the_right_one(written: object, meant: str) -> None:
    with pytest.raises(BadValue, match='"250ms", "10s", "5m" or "1h"') as refused:
        parse_duration(written)
    assert refused.value.nearest == meant
    parse_duration(meant.strip('"'))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("32MB", '"32MiB"'),
        ("32M", '"32MiB"'),
        ("32 MiB", '"32MiB"'),
        ("1g", '"1GiB"'),
        ("64kib", '"64KiB"'),
        ("12 bytes", '"12B"'),
        (" 4096", '"4096"'),
    ],
)
def test_another_spelling_of_a_size_is_refused_with_the_right_one(written: object, meant: str) -> None:
    with pytest.raises(BadValue, match="as in") as refused:
        parse_size(written)
    assert refused.value.nearest == meant
    parse_size(meant.strip('"'))


@pytest.mark.parametrize("written", ["", "s", "-5s", "soon", "5x", "1e3s", "1h30m", "٣s", True, None, [], {}, 10**400])
def test_what_is_no_duration_is_refused_without_a_guess(written: object) -> None:
    with pytest.raises(BadValue) as refused:
        parse_duration(written)
    assert refused.value.nearest is None


@pytest.mark.parametrize("written", ["", "MiB", "-1", "big", "5x", "0.3B", True, 1.5, None, [], "9999999999GiB"])
def test_what_is_no_size_is_refused_without_a_guess(written: object) -> None:
    with pytest.raises(BadValue) as refused:
        parse_size(written)
    assert refused.value.nearest is None


def test_a_duration_of_more_than_a_year_is_refused() -> None:
    assert parse_duration("8784h") == 366 * 24 * 3600
    with pytest.raises(BadValue, match="year"):
        parse_duration("8785h")


@given(st.integers(0, 366 * 24 * 3600 * 1000))
def test_a_duration_that_is_shown_reads_as_itself(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(show_duration(seconds)) == seconds


@given(st.integers(0, 2**62))
def test_a_size_that_is_shown_reads_as_itself(count: int) -> None:
    assert parse_size(show_size(count)) == count


@pytest.mark.parametrize(("seconds", "shown"), [(1800.0, "30m"), (90.0, "90s"), (0.25, "250ms"), (0.0, "0s")])
def test_a_duration_is_shown_in_the_largest_unit_that_divides_it(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown


def test_a_duration_finer_than_a_millisecond_is_shown_exactly() -> None:
    assert show_duration(0.0000025) == "0.0000025s"


@pytest.mark.parametrize(("count", "shown"), [(4194304, "4MiB"), (1536, "1536B"), (0, "0B"), (2**30, "1GiB")])
def test_a_size_is_shown_in_the_largest_unit_that_divides_it(count: int, shown: str) -> None:
    assert show_size(count) == shown
