"""The record of a request that has ended: what can be said of it from the moments that it came to."""

from __future__ import annotations

import pytest

from slotline.core.errors import Outcome, Stalled
from slotline.core.record import IN_LINE, SURFACES, Record


def record(**more: object) -> Record:
    return Record(id="req_1", surface="messages", model="m", outcome=Outcome.COMPLETED, ended=9.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("moments", "waited", "first", "ran"),
    [
        ({}, None, None, None),  # refused before the line
        ({"arrived": 1.0}, 8.0, None, None),  # it never had a slot
        ({"arrived": 1.0, "granted": 3.0}, 2.0, None, 6.0),
        ({"arrived": 1.0, "granted": 3.0, "began": 5.0}, 2.0, 4.0, 6.0),
    ],
)
def test_times_are_there_as_far_as_it_came(
    moments: dict[str, float], waited: float | None, first: float | None, ran: float | None
) -> None:
    found = record(**moments)
    assert (found.waited, found.first_token, found.ran) == (waited, first, ran)


def test_of_an_error_at_most_500_characters_are_kept() -> None:
    assert record(error=Stalled("x" * 1000)).fault == "x" * 500
    assert record().fault is None


def test_every_surface_that_has_a_line_is_a_surface() -> None:
    assert set(IN_LINE) < set(SURFACES)
