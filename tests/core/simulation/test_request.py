"""For how long a request holds a slot."""

from __future__ import annotations

import pytest

from slotline.core.simulation.request import Rates, Request

RATES = Rates(prefill=1000.0, decode=50.0)


def test_tokens_take_as_long_as_the_rates_say() -> None:
    assert RATES.times(Request(0.0, prompt=2000, output=100)) == (2.0, 2.0)


def test_what_the_server_still_has_of_a_prompt_is_not_read() -> None:
    assert Rates(1000.0, 50.0, cached=0.75).times(Request(0.0, prompt=2000, output=100)) == (0.5, 2.0)


def test_a_measured_time_counts_whatever_the_rates_say_and_is_divided_as_they_say() -> None:
    assert RATES.times(Request(0.0, prompt=1000, output=150, held=8.0)) == (2.0, 6.0)


def test_without_tokens_a_measured_time_is_all_answer() -> None:
    assert RATES.times(Request(0.0, held=8.0)) == (0.0, 8.0)


def test_a_faster_server_is_faster_in_all_of_it_and_than_what_was_measured() -> None:
    rates = Rates(1000.0, 50.0, faster=2.0)
    assert rates.times(Request(0.0, prompt=2000, output=100)) == (1.0, 1.0)
    assert rates.times(Request(0.0, held=8.0)) == (0.0, 4.0)


@pytest.mark.parametrize("request_", [Request(0.0), Request(0.0, held=0.0)])
def test_nothing_is_served_in_no_time(request_: Request) -> None:
    assert sum(RATES.times(request_)) == pytest.approx(0.001)
