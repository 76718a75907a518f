"""What a bench says of what it has measured, to people and to programs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from slotline.cli.bench.load import Plan
from slotline.cli.bench.report import Report, Spread, as_text, report, spread_of, took
from slotline.cli.bench.sample import End, Sample

PLAN = Plan(
    model="m", clients=2, requests=9, seconds=None, rate=None, prompt_tokens=50, max_tokens=9, stream=True,
    shared_prefix=False, leave=0.0, seed=1,
)  # fmt: skip
WHOLE = Sample(
    client=0, end=End.COMPLETED, late=0.0, wait=1.0, first_frame=0.004, first_token=1.25, between=[0.02, 0.03],
    total=2.0, tokens=10, prompt=20, cached=5, speed=40.0, places=[2, 1], request_id="req_1", error=None, message=None,
    untrue=[],
)  # fmt: skip


def sample(**changes: Any) -> Sample:
    return msgspec.structs.replace(WHOLE, **changes)


def told(*samples: Sample, plan: Plan = PLAN, took: float = 4.0, **more: Any) -> Report:
    return report("http://gateway", plan, samples, took, **more)


def test_the_whole_as_text() -> None:
    text = as_text(
        told(
            WHOLE,
            sample(client=1, wait=3.0, speed=20.0, places=[1, 2, 1]),
            sample(end=End.LEFT, tokens=0, prompt=0, cached=0, places=[3]),
            sample(end=End.FAILED, tokens=0, prompt=0, cached=0, error="overloaded_error", message="the line is\nfull"),
            behind=0,
        )
    )
    assert text.splitlines() == [
        "gateway   http://gateway, model m",
        "load      2 clients, each with one request after the other (closed loop)",
        "          prompts of about 50 tokens, no two alike; answers of at most 9",
        "took      4.00 s: 0.50 requests/s completed",
        "tokens    20 of answers, 5.0/s; 40 of prompts read, 10 more were cached",
        "ended     2 completed, 1 failed, 1 left",
        "",
        "how long               n  p50      p90      p99      max",
        "wait in line           2  1.00 s   3.00 s   3.00 s   3.00 s",
        "until the first place  2  4.0 ms   4.0 ms   4.0 ms   4.0 ms",
        "until the first token  2  1.25 s   1.25 s   1.25 s   1.25 s",
        "from token to token    4  20.0 ms  30.0 ms  30.0 ms  30.0 ms",
        "whole answer           2  2.00 s   2.00 s   2.00 s   2.00 s",
        "",
        "speed     half of the answers come at 20.0 tokens/s or more, the slowest at 20.0",
        "places    4 requests heard 8 places; of 1 one grew, as it may among keys",
        "fairness  1.000 (Jain's index of the tokens that each client got; 1 is perfect)",
        "left      1 while they waited; the gateway has let go of all of them",
        "errors    1 overloaded_error: the line is full",
        "untrue    nothing: every stream kept its order and had its end",
    ]


def test_an_open_loop_says_how_late_it_was_and_knows_no_fairness() -> None:
    result = told(sample(late=0.25), plan=msgspec.structs.replace(PLAN, rate=4.0, stream=False))
    text = as_text(result)
    assert "4 requests a second on average, whatever becomes of them (open loop, seed 1)" in text
    assert "the latest request was sent 250 ms after it was due" in text
    assert result.fairness is None
    assert result.first_token is result.between_tokens is None  # all of it came at once


def test_fairness_counts_who_got_nothing() -> None:
    assert told(WHOLE).fairness == pytest.approx(0.5)


def test_what_was_untrue_is_counted_and_makes_it_unsound() -> None:
    result = told(WHOLE, sample(untrue=["queue came after the end"]), sample(untrue=["queue came after the end"]))
    assert result.untrue == {"queue came after the end": 2}
    assert not result.sound
    assert as_text(result).splitlines()[-1] == "untrue    2 times: queue came after the end"


@pytest.mark.parametrize(
    ("samples", "more", "sound"),
    [
        ([WHOLE], {}, True),
        ([sample(end=End.FAILED, error="api_error", message="")], {}, False),
        ([sample(end=End.STOPPED)], {"stopped": True}, True),
        ([], {}, False),
        ([WHOLE, sample(end=End.FAILED, error="broken")], {}, False),
        ([WHOLE, sample(end=End.LEFT)], {"behind": 0}, True),
        ([WHOLE, sample(end=End.LEFT)], {"behind": 1}, False),
        ([WHOLE, sample(end=End.LEFT)], {"behind": None}, True),
    ],
)
def test_it_is_sound_when_nothing_was_untrue_and_something_was_answered(
    samples: list[Sample], more: dict[str, Any], sound: bool
) -> None:
    assert told(*samples, **more).sound is sound


def test_what_was_stopped_before_anything_came_has_a_report() -> None:
    text = as_text(told(stopped=True, took=0.0))
    assert "nothing was asked" in text
    assert "took      0.0 ms, stopped before its time: 0.00 requests/s completed" in text
    assert "wait in line           0  –    –    –    –" in text


def test_who_left_and_is_not_to_be_seen_is_said() -> None:
    assert "only an operator sees" in as_text(told(sample(end=End.LEFT)))
    assert "2 of them are still there" in as_text(told(sample(end=End.LEFT), behind=2))


def test_the_json_has_the_plan_and_every_number() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(told(WHOLE)))
    assert plain["plan"]["clients"] == 2
    assert plain["wait"] == {"n": 1, "p50": 1.0, "p90": 1.0, "p99": 1.0, "max": 1.0}
    assert plain["ends"] == {"completed": 1}


def test_percentiles_are_values_that_were_measured() -> None:
    assert spread_of([float(number) for number in range(100, 0, -1)]) == Spread(100, 50.0, 90.0, 99.0, 100.0)
    assert spread_of([]) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0032, "3.2 ms"), (0.34, "340 ms"), (4.207, "4.21 s"), (43.07, "43.1 s"), (600.0, "10 min")],
)
def test_durations_are_worth_their_milliseconds(seconds: float, text: str) -> None:
    assert took(seconds) == text
