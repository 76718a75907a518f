"""How long the wait will be: nothing without a measurement, and exact where the model holds."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.estimate import Forecast, Pace

# ---- pace ------------------------------------------------------------------------------------------------------------


def test_without_a_measurement_there_is_no_mean() -> None:
    assert Pace().mean is None


def test_the_first_measurement_is_the_mean() -> None:
    pace = Pace()
    pace.add(12.0)
    assert pace.mean == 12.0


def test_each_further_measurement_moves_the_mean_a_fifth_of_the_way() -> None:
    pace = Pace()
    for held in (10.0, 20.0, 2.0):
        pace.add(held)
    assert pace.mean == pytest.approx(10.0)  # 10 → 12 → 10


def test_the_last_nine_measurements_make_up_about_seven_eighths_of_the_mean() -> None:
    pace = Pace()
    pace.add(0.0)
    for _ in range(9):
        pace.add(1.0)
    assert pace.mean == pytest.approx(7 / 8, abs=0.01)


def test_constant_measurements_leave_the_mean_where_it_is() -> None:
    pace = Pace()
    for _ in range(50):
        pace.add(7.0)
    assert pace.mean == 7.0


# ---- forecast --------------------------------------------------------------------------------------------------------


def test_without_a_mean_nothing_is_foretold() -> None:
    assert Forecast([1.0, 2.0], None).wait(1) is None


def test_where_nothing_runs_nothing_is_foretold() -> None:
    assert Forecast([], 10.0).wait(1) is None


def test_the_next_in_line_waits_for_the_rest_of_the_one_who_runs() -> None:
    assert Forecast([4.0], 10.0).wait(1) == 6.0


def test_each_place_further_back_waits_one_mean_longer_before_one_slot() -> None:
    forecast = Forecast([4.0], 10.0)
    assert [forecast.wait(position) for position in (1, 2, 3)] == [6.0, 16.0, 26.0]


def test_several_slots_take_turns_and_the_oldest_request_frees_the_first() -> None:
    forecast = Forecast([2.0, 9.0], 10.0)
    assert [forecast.wait(position) for position in (1, 2, 3, 4)] == [1.0, 8.0, 11.0, 18.0]


def test_a_request_that_outlasts_the_mean_is_expected_to_need_a_tenth_of_it_again() -> None:
    assert Forecast([95.0], 10.0).wait(1) == 1.0
    assert Forecast([9.5], 10.0).wait(1) == 0.5, "one that has not is expected to end when it was to"


@given(
    ages=st.lists(st.integers(0, 89), min_size=1, max_size=5),
    position=st.integers(1, 30),
)
def test_with_equal_service_times_the_forecast_is_what_happens(ages: list[int], position: int) -> None:
    """Every request takes 100 s, and a slot is granted on the moment it is free: played out, position by position."""
    ends = [100 - age for age in ages]
    heapq.heapify(ends)
    for _ in range(position - 1):
        heapq.heappush(ends, heapq.heappop(ends) + 100)
    assert Forecast([float(age) for age in ages], 100.0).wait(position) == ends[0]


@given(ages=st.lists(st.floats(0, 1e6), min_size=1, max_size=5), mean=st.floats(0, 1e6))
def test_no_place_is_promised_a_slot_before_the_place_in_front_of_it(ages: list[float], mean: float) -> None:
    forecast = Forecast(ages, mean)
    waits = [forecast.wait(position) or 0.0 for position in range(1, 20)]
    assert waits == sorted(waits)
    assert waits[0] >= 0.0
