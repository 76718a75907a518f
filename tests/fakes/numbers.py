"""What `GET /metrics` tells, read by the official parsers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families
from prometheus_client.samples import Sample

from fakes.gateway import Front

OPEN = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True)
class Numbers:
    """One scrape."""

    families: tuple[Metric, ...]

    @classmethod
    def read(cls, text: str, content_type: str = "text/plain") -> Numbers:
        """Raises ValueError for what the parser of that form does not accept."""
        parse = open_families if content_type.startswith("application/openmetrics-text") else plain_families
        return cls(tuple(parse(text)))

    @property
    def samples(self) -> Iterable[Sample]:
        return (sample for family in self.families for sample in family.samples)

    def sum(self, name: str, **labels: str) -> float:
        """Of all series of this name that have these labels."""
        return sum(
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        )

    def series(self, name: str, **labels: str) -> list[dict[str, str]]:
        """The labels of those series."""
        return [
            dict(sample.labels)
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    @property
    def outcomes(self) -> dict[tuple[str, str, str], int]:
        """How many requests ended how: surface, model, outcome → number, where it is not 0."""
        return {
            (sample.labels["surface"], sample.labels["model"], sample.labels["outcome"]): int(sample.value)
            for sample in self.samples
            if sample.name == "slotline_requests_total" and sample.value
        }


async def numbers(front: Front, accept: str = "") -> Numbers:
    """A scrape of `front`."""
    answer = await front.get("/metrics", headers={"accept": accept} if accept else None)
    assert answer.status == 200
    return Numbers.read(answer.body.decode(), answer.headers["content-type"])
