"""The gauges: read when they are asked for, so that what is gone is gone from them."""

from __future__ import annotations

from collections.abc import Sequence

from fakes.numbers import Numbers
from slotline.core.kind import Kind
from slotline.core.models import Model
from slotline.core.report import Line, Slots, Upstream
from slotline.observe.gauges import Gauges
from slotline.observe.metrics import Metrics

BOTH = frozenset({"box", "attic"})


def upstream(name: str, slots: Slots, *, state: str = "up", out_of_order: int | None = None) -> Upstream:
    return Upstream(name, Kind.VLLM, state, "", out_of_order, (), slots, running=slots.busy, waiting=0, queue=8)


class Rooms:
    """What the gateway looks like."""

    def __init__(self) -> None:
        self.upstreams: Sequence[Upstream] = [
            upstream("box", Slots(8, free=1, busy=4, draining=2, down=1)),
            upstream("attic", Slots(2, free=0, busy=0, draining=0, down=2), state="loading"),
        ]
        self.lines: Sequence[Line] = [Line(["attic", "box"], 3)]
        self.models: Sequence[Model] = [Model("m", BOTH, "m"), Model("n", frozenset({"box"}), "n")]

    async def told(self) -> Numbers:
        metrics = Metrics(lambda: self.models)
        metrics.add(Gauges("1.2.3", lambda: (self.upstreams, self.lines), lambda: self.models))
        body, content_type = await metrics.exposition("")
        return Numbers.read(body.decode(), content_type)


async def test_slots_are_told_by_what_they_do() -> None:
    seen = await Rooms().told()
    states = {state: seen.sum("slotline_slots", upstream="box", state=state) for state in ("free", "busy", "draining")}
    assert states == {"free": 1, "busy": 4, "draining": 2}
    assert seen.sum("slotline_slots", upstream="box") == 8
    assert seen.sum("slotline_slots", upstream="attic", state="down") == 2
    assert seen.sum("slotline_running", upstream="box") == 4


async def test_a_line_has_the_names_of_those_it_waits_for_and_is_there_while_it_is_empty() -> None:
    rooms = Rooms()
    assert {each["line"] for each in (await rooms.told()).series("slotline_waiting")} == {"attic+box", "box"}
    assert (await rooms.told()).sum("slotline_waiting", line="attic+box") == 3
    rooms.lines = []
    assert (await rooms.told()).sum("slotline_waiting", line="attic+box") == 0


async def test_an_upstream_is_up_when_it_answers_and_is_sent_requests() -> None:
    rooms = Rooms()
    assert (await rooms.told()).sum("slotline_upstream_up", upstream="box") == 1
    assert (await rooms.told()).sum("slotline_upstream_up", upstream="attic") == 0
    rooms.upstreams = [upstream("box", Slots(1, 0, 0, 0, 1), out_of_order=1500)]
    seen = await rooms.told()
    assert seen.sum("slotline_upstream_up", upstream="box") == 0
    assert seen.series("slotline_upstream_up") == [{"upstream": "box"}]


async def test_what_is_taken_out_of_the_configuration_is_gone() -> None:
    rooms = Rooms()
    rooms.upstreams, rooms.lines, rooms.models = rooms.upstreams[:1], [], [Model("m", BOTH, "m")]
    seen = await rooms.told()
    for name in ("slotline_slots", "slotline_running", "slotline_upstream_up"):
        assert {each["upstream"] for each in seen.series(name)} == {"box"}
    assert [each["line"] for each in seen.series("slotline_waiting")] == ["box"]


async def test_the_version_is_a_label() -> None:
    assert (await Rooms().told()).series("slotline_build_info") == [{"version": "1.2.3"}]
