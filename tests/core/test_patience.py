"""What a client says about its own patience: a number of seconds, or nothing that can be one."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from slotline.core.patience import longest_wait

TOTAL, GAP = "x-stainless-timeout", "x-stainless-read-timeout"


@pytest.mark.parametrize(("text", "seconds"), [("600", 600.0), ("0.5", 0.5), (" 300 ", 300.0)])
def test_its_time_out_is_how_long_it_waits(text: str, seconds: float) -> None:
    assert longest_wait({TOTAL: text}) == seconds


@pytest.mark.parametrize(
    "text", ["NOT_GIVEN", "", "-1", "0", "nan", "inf", "-inf", "1e300", "9" * 5000, "10m", "0x10", "None", "6;7"]
)
def test_what_is_no_time_is_ignored(text: str) -> None:
    assert longest_wait({TOTAL: text}) is None
    assert longest_wait({TOTAL: text, GAP: "30"}) == 30.0
    assert longest_wait({GAP: text}) is None


def test_of_two_times_the_first_header_counts() -> None:
    assert longest_wait({GAP: "30", TOTAL: "600"}) == 600.0


def test_who_says_nothing_waits_for_ever() -> None:
    assert longest_wait({}) is None


def test_the_case_of_a_name_is_no_matter() -> None:
    assert longest_wait(CIMultiDict({"X-Stainless-Timeout": "7"})) == 7.0
