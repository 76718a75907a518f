"""Durations for people."""

from __future__ import annotations

import pytest

from slotline.cli.simulated import seconds


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (200.0, "3m 20s"),
        (3599.7, "1h 00m"),
        (7500.0, "2h 05m"),
    ],
)
def test_a_duration_has_two_units_at_most(value: float, shown: str) -> None:
    assert seconds(value) == shown
