"""What a chat shows of an answer, from the question to its last piece."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slotline.cli.chat.course import Course
from slotline.cli.chat.rejoin import Lost
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


def course(*heard: tuple[float, Heard | Lost]) -> Course:
    """Of a question that was asked at 100, with these things heard so many seconds later."""
    made = Course(100.0)
    for later, each in heard:
        made.hear(each, 100.0 + later)
    return made


@pytest.mark.parametrize(
    ("heard", "later", "shown"),
    [
        ([], 1.0, "asking · 1 s"),
        ([(0.1, Opened("req_1"))], 3.2, "asking · 3 s"),
        ([(0.0, Queued(3, 5, 12.4))], 0.2, "place 3 of 5, about 12 s · waiting for 0 s"),
        ([(0.0, Queued(3, 5, 12.4))], 4.0, "place 3 of 5, about 8 s · waiting for 4 s"),
        ([(0.0, Queued(3, 5, 12.4)), (9.0, Queued(2, 4, 12.4))], 10.0, "place 2 of 4, about 11 s · waiting for 10 s"),
        ([(0.0, Queued(1, 1, 12.4))], 200.0, "place 1 of 1, any moment · waiting for 3 min"),
        ([(0.0, Queued(1, 1, None))], 7.0, "place 1 of 1 · waiting for 7 s"),
        ([(0.0, Queued(1, 1, None)), (1.0, Untrue("x"))], 7.0, "place 1 of 1 · waiting for 7 s"),
        ([(1.0, Progress("loading", None, None))], 7.0, "the model is loading · 6 s"),
        ([(1.0, Progress("prefill", 6100, 8123))], 7.0, "reading 6,100/8,123"),
        ([(1.0, Progress("prefill", None, None))], 7.0, "reading · 6 s"),
        ([(1.0, Begun())], 2.0, "reading · 1 s"),
        ([(1.0, Thinking("Hm"))], 2.0, "thinking · 1 token"),
        ([(1.0, Thinking("a")), (2.0, Thinking("b")), (3.0, Text("c"))], 3.0, "answering · 3 tokens · 1 tokens/s"),
        (
            [(0.0, Queued(1, 1, 9.0)), (5.0, Lost("reset"))],
            8.0,
            "connection lost; asking again, the place is kept · 3 s",
        ),
    ],
)
def test_the_status_says_what_goes_on(heard: Sequence[tuple[float, Heard | Lost]], later: float, shown: str) -> None:
    assert course(*heard).status(100.0 + later) == shown


def test_at_the_end_it_says_how_it_went() -> None:
    whole = course(
        (0.0, Queued(1, 1, None)),
        (12.0, Progress("prefill", 1, 9)),
        (12.5, Begun()),
        (12.8, Thinking("a")),
        (13.8, Text("b")),
        (22.8, Text("c")),
        (22.9, Usage(9, 0, 401)),
        (22.9, Done("end_turn")),
    )
    assert whole.footer() == "waited 12 s · first token after 0.8 s · 401 tokens · 40 tokens/s · end_turn"
    assert whole.thoughts() == "thought for 0.0 s · 1 token"
    assert course((0.4, Text("a")), (0.5, Done("max_tokens"))).footer() == (
        "first token after 0.4 s · 1 token · cut at --max-tokens"
    )


def test_one_that_was_stopped_or_failed_says_how_far_it_came() -> None:
    stopped = course((0.0, Queued(2, 2, None)), (4.0, Queued(1, 1, None)))
    stopped.stop(109.0)  # its place was told for the last time five seconds before
    assert stopped.footer() == "stopped · waited 9.0 s"
    assert course((1.0, Failed(Fault.REFUSED, "not_found_error", "no", 404))).footer() == ""
