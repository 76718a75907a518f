"""One request as its client sees it: when what came, from the moment at which it was due."""

from __future__ import annotations

import pytest

from slotline.cli.bench.sample import End, Measure, Phase
from slotline.cli.hearing import (
    Begun,
    Done,
    Failed,
    Fault,
    Heard,
    Opened,
    Progress,
    Queued,
    Text,
    Thinking,
    Untrue,
    Usage,
)


def measured(*heard: tuple[float, Heard], due: float = 100.0, sent: float = 100.5) -> Measure:
    measure = Measure(7, due, sent)
    for now, each in heard:
        measure.hear(each, now)
    return measure


def test_every_time_counts_from_when_it_was_due() -> None:
    """Also the half second by which its client was late."""
    sample = measured(
        (100.6, Opened("req_1")),
        (100.75, Queued(2, 2, None)),
        (102.0, Queued(1, 1, None)),
        (104.0, Progress("prefill", 1, 2)),
        (104.5, Begun()),
        (105.0, Thinking("a")),
        (105.5, Text("b")),
        (107.0, Text("c")),
        (107.5, Usage(9, 3, 5)),
        (107.5, Done("end_turn")),
    ).sample(108.0)
    assert (sample.client, sample.end, sample.request_id, sample.error) == (7, End.COMPLETED, "req_1", None)
    assert (sample.late, sample.first_frame, sample.wait, sample.first_token, sample.total) == (
        0.5,
        0.75,
        4.0,
        5.0,
        8.0,
    )
    assert (list(sample.between), list(sample.places)) == ([0.5, 1.5], [2, 1])
    assert (sample.tokens, sample.prompt, sample.cached, sample.speed) == (5, 9, 3, 2.0)


def test_one_that_had_its_slot_at_once_waited_for_nothing_and_one_that_never_had_it_has_no_wait() -> None:
    assert measured((101.0, Begun()), (102.0, Done("end_turn"))).sample(102.0).wait == 0.0
    left = measured((101.0, Queued(1, 1, None))).sample(102.0, End.LEFT)
    assert (left.end, left.wait, left.first_token) == (End.LEFT, None, None)


def test_one_that_does_not_stream_waited_as_long_as_it_is_told() -> None:
    sample = measured((109.0, Opened("req_1", 3.5)), (109.0, Begun()), (109.0, Text("a"))).sample(109.0)
    assert sample.wait == 3.5


@pytest.mark.parametrize(
    ("failed", "untrue"),
    [
        (Failed(Fault.REFUSED, "overloaded_error", "full", 529), []),
        (Failed(Fault.ERROR, "api_error", "died"), []),
        (Failed(Fault.UNREACHABLE, "unreachable", "nobody"), []),
        (Failed(Fault.BROKEN, "broken", "the connection broke off in line"), []),
        (
            Failed(Fault.ENDLESS, "endless", "broke off in line: the stream has no end"),
            ["broke off in line: the stream has no end"],
        ),
        (Failed(Fault.STRANGE, "strange", "no answer"), ["no answer"]),
    ],
)
def test_an_error_is_an_end_but_a_stream_without_one_is_untrue(failed: Failed, untrue: list[str]) -> None:
    sample = measured((101.0, failed)).sample(101.0)
    assert (sample.end, sample.error, sample.message) == (End.FAILED, failed.kind, failed.message)
    assert sample.untrue == untrue


def test_what_cannot_be_true_is_kept_also_of_an_answer_that_is_whole() -> None:
    sample = measured((101.0, Begun()), (101.0, Untrue("queue came after message_start")), (102.0, Done("x"))).sample(
        102.0
    )
    assert (sample.end, sample.untrue) == (End.COMPLETED, ["queue came after message_start"])


def test_what_it_does_is_seen_while_it_goes_on() -> None:
    measure = measured()
    phases = [measure.phase]
    for heard in (Queued(1, 1, None), Begun(), Text("a")):
        measure.hear(heard, 101.0)
        phases.append(measure.phase)
    assert phases == [Phase.SENT, Phase.WAITING, Phase.RUNNING, Phase.RUNNING]
    assert (measure.pieces, measure.sample(104.0, End.STOPPED).tokens) == (1, 1)
