"""What came out of a simulation. Times in seconds; None where there is nothing to measure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Waits(msgspec.Struct, frozen=True):
    """How long those waited who were served."""

    p50: float
    p90: float
    p99: float
    max: float


class Group(msgspec.Struct, frozen=True):
    """The requests of one key and class, of one class, or all of them."""

    key: str | None  # None: all keys
    batch: bool | None  # None: both classes
    requests: int
    served: int
    refused: int  # the line was full, or the key's limit was reached
    left: int  # gave up waiting, and did not come back
    waits: Waits | None
    within: float | None  # the share of all its requests that had a slot within the target
    slot_seconds: float
    share: float  # of the slot-seconds of all
    due: float | None  # slot-seconds, as against those it was due while slots were short; see `fairshare`


class Eta(msgspec.Struct, frozen=True):
    """The waits that were told at joining, against the true ones. A wait below a second counts as a second."""

    told: int  # how many were looked at
    every: int  # of those who waited, each so many-th was told a wait
    median: float  # of |told − true| / true
    p90: float
    ratio: float  # the median of told / true: below 1 most are told too little
    short: float  # the share of those told less than a tenth of the truth


class Bucket(msgspec.Struct, frozen=True):
    """One piece of time, of `Report.step` seconds."""

    at: float  # when it begins
    arrived: int
    waiting: float  # how many waited, on average
    busy: float  # the share of all slots that worked
    p50: float | None  # of the waits of those who came in it and were served
    p90: float | None


class Report(msgspec.Struct, frozen=True):
    """One trace, tried in one way."""

    slots: int
    upstreams: int
    policy: str
    span: float  # from the first request to the last end
    whole: Group
    classes: tuple[Group, ...]  # one for each class that there is
    keys: tuple[Group, ...]  # one for each key and class, by slot-seconds
    busy: dict[str, float]  # upstream → the share of its slots that worked, over the span
    longest_line: int
    fairness: float | None  # Jain's index of `due` over the keys
    eta: Eta | None
    step: float
    series: tuple[Bucket, ...]


def quantile(ascending: Sequence[float], share: float) -> float:
    """The least value that `share` of all do not exceed."""
    return ascending[max(0, -int(-share * len(ascending) // 1) - 1)]


def waits(measured: Sequence[float]) -> Waits | None:
    """Of any order."""
    if not measured:
        return None
    ascending = sorted(measured)
    return Waits(*(quantile(ascending, share) for share in (0.5, 0.9, 0.99, 1.0)))
