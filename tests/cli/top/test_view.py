"""A state as rows: who has which slot, how far and how fast, who waits, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from slotline.cli.top.table import Tone
from slotline.cli.top.view import Speeds, detail, rows, totals
from slotline.core.errors import Outcome
from slotline.core.keys import Priority
from slotline.core.kind import Kind
from slotline.core.report import Gateway, Line, Phase, Prompt, Request, Slot, Slots, SlotState, State, Upstream


def request(id: str, phase: Phase = Phase.WAITING, **more: Any) -> Request:  # noqa: A002 - it is the id
    told: dict[str, Any] = {
        "model": "qwen",
        "surface": "messages",
        "upstream": None if phase is Phase.WAITING else "box1",
        "upstreams": ["box1"],
        "why": "waits for 31 s",
        "waited_ms": 31_000,
        "running_ms": None if phase is Phase.WAITING else 4_000,
        "priority": Priority.INTERACTIVE,
        "stream": True,
        "pieces": 0,
        "thought": 0,
        "bytes": 0,
    }
    return Request(id=id, phase=phase, **{**told, **more})


def upstream(*slots: Slot, name: str = "box1", state: str = "up", waiting: int = 0, **more: Any) -> Upstream:
    busy = sum(slot.request_id is not None and slot.state is not SlotState.DRAINING for slot in slots)
    draining = sum(slot.state is SlotState.DRAINING for slot in slots)
    down = sum(slot.state in (SlotState.DOWN, SlotState.OUTSIDE) for slot in slots)
    counted = Slots(len(slots), len(slots) - busy - draining - down, busy, draining, down, slots)
    told: dict[str, Any] = {"reason": "", "out_of_order_ms": None, "models": ["qwen"], "running": busy, "queue": 64}
    return Upstream(name=name, kind=Kind.LLAMA_CPP, state=state, slots=counted, waiting=waiting, **{**told, **more})


def state(
    upstreams: Sequence[Upstream], requests: Sequence[Request] = (), *, lines: Sequence[Line] = (), at: float = 10.0
) -> State:
    return State(Gateway("0.1.0", 0, round(at * 1000)), upstreams, lines, requests)


def shown(told: State, width: int = 120, speeds: Speeds | None = None) -> list[str]:
    return [row.text for row in rows(told, speeds or Speeds(), width)]


READS = request("req_a", Phase.PREFILL, key="alice")
SAYS = request("req_b", Phase.ANSWERING, key="bob", pieces=60, thought=50)
BUSY = state(
    [
        upstream(
            Slot(0, SlotState.PREFILL, "req_a", 4_000, Prompt(6100, 8123)),
            Slot(1, SlotState.ANSWERING, "req_b", 43_000, None, 50, 60),
            Slot(2, SlotState.DRAINING, "req_gone", 800),
            Slot(3, SlotState.OUTSIDE),
            waiting=2,
        )
    ],
    [
        READS,
        SAYS,
        request("req_d", position=2, queue_length=2, waited_ms=900, cause="4 slots are held"),
        request("req_c", position=1, queue_length=2, estimated_wait_ms=12_400, cause="4 slots are held"),
    ],
)


def test_each_slot_has_a_row_and_each_who_waits_in_the_order_of_the_line() -> None:
    assert shown(BUSY) == [
        "box1 llama.cpp up · 2 of 4 slots busy · 1 draining · 1 down · 2 in line",
        "slot state     progress                held model    key   request",
        "   0 prefill   ███████░░░ 6100/8123   4.0 s qwen     alice req_a",
        "   1 answering 10 said, 50 thought     43 s qwen     bob   req_b",
        "   2 draining  its request has ended  0.8 s",
        "   3 outside   used by others",
        "",
        "line for box1 · 2 in line",
        "place model    waited expected why                  request",
        "    1 qwen       31 s     12 s 4 slots are held     req_c",
        "    2 qwen      0.9 s  unknown 4 slots are held     req_d",
    ]


@pytest.mark.parametrize("width", [120, 80, 60, 44, 37])
def test_it_fits_and_says_state_and_place_at_any_width(width: int) -> None:
    lines = shown(BUSY, width)
    assert all(len(line) <= width for line in lines)
    assert any(line.split()[:2] == ["0", "prefill"] for line in lines)
    assert any(line.split()[:2] == ["1", "qwen"] for line in lines)


def test_requests_can_be_chosen_and_free_slots_cannot() -> None:
    assert [row.request for row in rows(BUSY, Speeds(), 100) if row.request] == [
        *("req_a", "req_b", "req_gone"),
        *("req_c", "req_d"),
    ]


def test_a_gateway_at_rest_says_so() -> None:
    told = state([upstream(Slot(None, SlotState.FREE), name="box2")])
    assert shown(told) == [
        "box2 llama.cpp up · 0 of 1 slot busy",
        "slot state     progress",
        "   – free",
        "",
        "nobody is in line",
    ]
    assert totals(told, Speeds()) == "0 of 1 slot busy · nobody in line"


def test_lines_of_different_upstreams_stand_apart_and_classes_show_where_there_are_two() -> None:
    told = state(
        [upstream(Slot(0, SlotState.DOWN))],
        [
            request("req_1", position=1, queue_length=1, upstreams=["b", "a"]),
            request("req_2", position=1, queue_length=1, upstreams=["c"], priority=Priority.BATCH),
            request("req_3", upstreams=["a", "b"]),
        ],
    )
    lines = shown(told)[4:]
    assert [line.split()[:2] for line in lines if line] == [
        *(["line", "for"], ["place", "class"], ["1", "interactive"], ["–", "interactive"]),
        *(["line", "for"], ["place", "class"], ["1", "batch"]),
    ]
    assert (lines[0], lines[5]) == ("line for a or b · 2 in line", "line for c · 1 in line")


@pytest.mark.parametrize(
    ("length", "places", "words"),
    [
        (2, [1, 2], "2 in line"),
        (3, [1, 3], "3 in line, 1 of them at another gateway"),
        (4, [1, 3], "4 in line, 2 of them at other gateways"),
        (3, [1, 3, None], "4 in line, 1 of them at another gateway"),  # one is about to join the line
        (1, [], "1 in line, at another gateway"),
        (2, [], "2 in line, all at other gateways"),
    ],
)
def test_who_waits_at_other_gateways_of_a_cluster_is_counted_and_said(
    length: int, places: Sequence[int | None], words: str
) -> None:
    waits = [request(f"req_{number}", position=place) for number, place in enumerate(places)]
    told = state([upstream(Slot(0, SlotState.ELSEWHERE), waiting=length)], waits, lines=[Line(["box1"], length)])
    lines = shown(told)
    assert f"line for box1 · {words}" in lines
    assert len(lines) == lines.index(f"line for box1 · {words}") + 1 + (len(places) + 1 if places else 0)
    said = totals(told, Speeds()).split(" · ")[1]
    here = " here" if "gateway" in words else ""
    assert said == (f"{words}, the longest{here} for 31 s" if places else words)
    assert all(len(line) <= 37 for line in shown(told, 37))


def test_what_is_wrong_with_an_upstream_is_said_in_a_word_and_a_tone() -> None:
    down = upstream(Slot(0, SlotState.DOWN), state="down", reason="connection refused")
    out = upstream(Slot(0, SlotState.DOWN), name="box2", reason="", out_of_order_ms=43_000)
    told = rows(state([down, out]), Speeds(), 120)
    assert told[0].text == "box1 llama.cpp down · 0 of 1 slot busy · 1 down · connection refused"
    assert told[0].spans[-1].tone is Tone.BAD
    assert told[4].text.endswith(" · out of order for 43 s: it failed too often")
    assert told[2].text.split() == ["0", "down"]


def test_one_that_gave_its_slot_back_and_is_still_read_has_a_row() -> None:
    told = state([upstream(Slot(0, SlotState.FREE))], [request("req_e", Phase.ENDING, pieces=3)])
    assert shown(told)[3].split() == ["–", "ending", "3", "said", "4.0", "s", "qwen", "req_e"]


def test_a_speed_is_measured_from_state_to_state_on_the_gateways_clock() -> None:
    speeds = Speeds()

    def note(at: float, pieces: int, running: int | None = 1) -> None:
        answering = request("req_b", Phase.ANSWERING, pieces=pieces, running_ms=running)
        speeds.note(state([], [answering], at=at))

    note(10.0, 0)
    assert speeds.of("req_b") is None
    note(10.5, 0)
    assert speeds.of("req_b") is None
    note(12.0, 40)
    assert speeds.of("req_b") == 20
    note(15.0, 40 + 90)
    assert speeds.of("req_b") == 30  # the first ones are too long ago
    assert speeds.all() == 30
    note(1.0, 5)  # another gateway at the same address, with the same ids or not
    assert speeds.of("req_b") is None
    speeds.note(state([], [], at=2.0))
    assert speeds.all() == 0


def test_the_whole_is_one_sentence() -> None:
    speeds = Speeds()
    speeds.note(BUSY)
    faster = state(BUSY.upstreams, [request("req_b", Phase.ANSWERING, pieces=142)], at=12.0)
    speeds.note(faster)
    assert totals(BUSY, speeds) == "2 of 4 slots busy · 2 in line, the longest for 31 s · 41 tokens/s"


def test_names_of_strangers_steer_nothing() -> None:
    told = state([upstream(Slot(0, SlotState.FREE))], [request("req_1", model="a\x1b[2J\nb", position=1)])
    assert all("\x1b" not in line and "\n" not in line for line in shown(told))
    assert ("model", "a[2J b") in detail(told.requests[0], Speeds())


def test_all_that_is_told_of_one_request() -> None:
    waits = request("req_c", position=1, queue_length=2, estimated_wait_ms=12_400, key="alice", flow="f00")
    told = dict(detail(waits, Speeds()))
    assert (told["place"], told["expected"], told["key"], told["session"]) == ("1 of 2", "12 s", "alice", "f00")
    assert "running" not in told
    ended = dict(detail(request("req_c", Phase.ENDED, outcome=Outcome.CLIENT_LEFT_WAITING, stream=False), Speeds()))
    assert (ended["outcome"], ended["route"]) == ("client left waiting", "messages, not streaming")
    reads = dict(detail(request("r", Phase.PREFILL, prompt=Prompt(5, 9), pieces=3, thought=1), Speeds()))
    assert (reads["prompt"], reads["answer"]) == ("5 of 9 tokens read", "2 said, 1 thought")
