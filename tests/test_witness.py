"""What becomes of a request is told once to each who wants to know, as plain values."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakes.parts import Dialect, Journal, Reply
from slotline.core.errors import Outcome, Stalled
from slotline.core.record import Moment
from slotline.observe.metrics import Metrics
from slotline.observe.observer import Observer
from slotline.overview import Recent
from slotline.passage import Call, Passage
from slotline.witness import Witness


class Stand:
    """A witness, and those whom it tells."""

    def __init__(self) -> None:
        self.metrics = Metrics(list)
        self.recent = Recent(lambda: 100.0)
        self.witness = Witness(self.recent, Observer(self.metrics, None), self.metrics)

    async def sum(self, name: str) -> float:
        """Of all samples of this name."""
        text, _ = await self.metrics.exposition("text/plain")
        families = text_string_to_metric_families(text.decode())
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def passage(**more: object) -> Passage:
    call = Call("req_1", "alias", Dialect(), frozenset({"box"}), "target", 7, surface="messages", name="model")
    made = Passage(call, Reply(Journal()), 90.0, _task=None)
    for name, value in more.items():
        setattr(made, name, value)
    return made


async def test_an_end_is_remembered_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    stand = Stand()
    stand.witness.ended(passage(granted=94.0), Outcome.STALLED, Stalled("liveness = 1 s"))
    told = stand.recent.request("req_1")
    assert told is not None
    assert told.outcome is Outcome.STALLED
    assert await stand.sum("slotline_requests_total") == 1
    assert [record.getMessage() for record in caplog.records] == ["request ended"]


async def test_what_is_noted_again_and_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    call = Call("req_1", "alias", Dialect(notes=["odd", "odder", *["odd"] * 1000]), frozenset(), "target", 7)
    Stand().witness.ended(passage(granted=94.0, call=call), Outcome.COMPLETED, None)
    assert [record.__dict__["fields"]["notes"] for record in caplog.records] == ["odd; odder"]


@pytest.mark.parametrize(
    ("moment", "more", "name", "value"),
    [
        (Moment.GRANTED, {"granted": 94.0}, "slotline_wait_seconds_sum", 4.0),
        (Moment.GRANTED, {"granted": 94.0, "retried": True}, "slotline_wait_seconds_count", 0.0),
        (Moment.SENT, {"idle": 0.5}, "slotline_slot_idle_seconds_sum", 0.5),
        (Moment.SENT, {"idle": None}, "slotline_slot_idle_seconds_count", 0.0),
        (Moment.BEGAN, {"began": 97.0}, "slotline_first_token_seconds_sum", 7.0),
    ],
)
async def test_what_is_counted_before_the_end_is_counted_when_it_happens(
    moment: Moment, more: dict[str, object], name: str, value: float
) -> None:
    stand = Stand()
    stand.witness.noted(passage(**more), moment)
    assert await stand.sum(name) == value
