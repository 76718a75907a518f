"""Gauges in the Prometheus text: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.upstream.kinds.gauges import totals


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        ("g 3", {"g": 3}),
        ("g 3.0\n", {"g": 3}),
        ("g\t3", {"g": 3}),
        ("g{} 3", {"g": 3}),
        ("g{}3", {"g": 3}),
        ("g 3 1795976505000", {"g": 3}),
        ('g{a="b"} 3 -17', {"g": 3}),
        ('g{a="b",} 1e2\r', {"g": 100}),
        ("g +2", {"g": 2}),
        ('g{a="1"} 1\ng{a="2"} 2\nother 9', {"g": 3}),
        ('g{a="}"} 3', {"g": 3}),
        ('g{a="g 9"} 3', {"g": 3}),
        (r'g{a="\"} 9"} 3', {"g": 3}),
        (r'g{a="\\"} 3', {"g": 3}),
        ('g{a="line\u2028separator"} 3', {"g": 3}),
        ("# HELP g 7\n# TYPE g gauge\ng 0", {"g": 0}),
    ],
)
def test_a_gauge_is_the_sum_of_its_series_whatever_stands_in_their_labels(text: str, sums: dict[str, float]) -> None:
    assert totals(text, ("g",)) == sums


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gg 3",
        "g_total 3",
        "g:by_reason 3",
        "# g 3",
        "g",
        "g ",
        "g three",
        "g NaN",
        "g +Inf",
        'g{a="1"} 1\ng{a="2"} NaN',
        'g{a="1} 3',
        'g{a="1" 3',
        "<html>g 3</html>",
    ],
)
def test_a_gauge_that_is_not_there_or_is_no_number_has_no_value(text: str) -> None:
    assert totals(text, ("g",)) == {}


def test_only_the_gauges_asked_for_are_told_each_for_itself() -> None:
    assert totals("a 1\nb 2\nc 3\nb NaN", ("a", "b", "c")) == {"a": 1, "c": 3}


@given(st.text(), st.integers(0, 10**6))
def test_any_label_value_can_be_escaped(value: str, number: int) -> None:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    assert totals(f'g{{a="{escaped}"}} {number}\n', ("g",)) == {"g": number}


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    assert set(totals(text, ("g",))) <= {"g"}
