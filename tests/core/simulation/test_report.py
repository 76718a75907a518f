"""Quantiles of waits."""

from __future__ import annotations

import pytest

from slotline.core.simulation.report import Waits, quantile, waits

TEN = [float(number) for number in range(1, 11)]


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 5.0), (0.9, 9.0), (0.91, 10.0), (0.99, 10.0), (1.0, 10.0), (0.01, 1.0)]
)
def test_a_quantile_is_the_least_value_that_so_many_do_not_exceed(share: float, value: float) -> None:
    assert quantile(TEN, share) == value


def test_of_one_every_quantile_is_that_one() -> None:
    assert waits([3.0]) == Waits(3.0, 3.0, 3.0, 3.0)


def test_waits_need_no_order() -> None:
    assert waits([*reversed(TEN)]) == Waits(5.0, 9.0, 10.0, 10.0)


def test_of_nobody_there_are_none() -> None:
    assert waits([]) is None
