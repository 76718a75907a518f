"""What a simulation counts, and the report of it."""

from __future__ import annotations

import pytest

from slotline.core.simulation.plan import Plan
from slotline.core.simulation.replay import simulate
from slotline.core.simulation.request import Request


def asked(
    at: float, held: float = 10.0, key: str = "", *, batch: bool = False, patience: float | None = None
) -> Request:
    return Request(at, key, held=held, batch=batch, patience=patience)


def test_the_target_counts_all_requests_and_not_only_those_that_were_served() -> None:
    """Of five one is served at once, one after 8 s, one after 17; one is refused, and one leaves."""
    several = [asked(0.0), asked(2.0), asked(3.0), asked(4.0), asked(11.0, patience=1.0)]
    report = simulate(several, Plan(slots=1, queue=2), target=8.0)
    assert (report.whole.served, report.whole.refused, report.whole.left) == (3, 1, 1)
    assert report.whole.within == pytest.approx(2 / 5)


def test_keys_and_classes_have_groups_of_their_own() -> None:
    several = [asked(0.0, 30.0, "a"), asked(0.0, 10.0, "b"), asked(0.0, 5.0, "b", batch=True)]
    report = simulate(several, Plan(slots=4))
    assert [(group.key, group.batch, group.slot_seconds) for group in report.keys] == [
        ("a", False, 30.0),
        ("b", False, 10.0),
        ("b", True, 5.0),
    ]
    assert [(group.batch, group.requests) for group in report.classes] == [(False, 2), (True, 1)]
    assert [group.share for group in report.keys] == pytest.approx([30 / 45, 10 / 45, 5 / 45])


def test_the_course_over_time_adds_up_to_what_happened() -> None:
    """By Little's law: who waits for ten seconds is one of those who wait, for ten seconds."""
    requests = [asked(float(number), 6.0, "ab"[number % 2]) for number in range(400)]
    report = simulate(requests, Plan(slots=4, queue=1_000))
    total = sum(number // 4 * 6.0 + number % 4 - number for number in range(400))  # each fourth ends 6 s after the last
    spans = [min(report.step, report.span - bucket.at) for bucket in report.series]
    busy = sum(bucket.busy * 4 * span for bucket, span in zip(report.series, spans, strict=True))
    waiting = sum(bucket.waiting * span for bucket, span in zip(report.series, spans, strict=True))
    assert busy == pytest.approx(report.whole.slot_seconds)
    assert sum(bucket.arrived for bucket in report.series) == 400
    assert waiting == pytest.approx(total)
    assert all(0 <= bucket.busy <= 1 + 1e-9 and bucket.waiting > -1e-6 for bucket in report.series)


def test_only_some_of_many_are_told_a_wait() -> None:
    """An estimate costs as much as all else together."""
    report = simulate([asked(float(number), 2.0) for number in range(40_000)], Plan(slots=1, queue=4))
    assert report.eta is not None
    assert report.eta.every == 2
    assert report.eta.told <= report.whole.served / 2
