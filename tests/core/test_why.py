"""The sentences that say why a request waits, what it does, and how it ended."""

from __future__ import annotations

import pytest

from slotline.core.errors import Invalid, LoadTimeout, Protocol, SlotlineError, UpstreamStatus
from slotline.core.liveness import State
from slotline.core.report import Phase, Prompt
from slotline.core.why import Run, Server, barred, ended, names, obstacle, own_words, running, spoken, waiting


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1.0, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.95, "10 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (7169.0, "119 min"),
        (7171.0, "2 h 0 min"),
        (12000.0, "3 h 20 min"),
    ],
)
def test_a_duration_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([Server("a", [43.0, 2.0])], "2 slots are held, the longest for 43 s"),
        ([Server("a", [3.0])], "1 slot is held, for 3.0 s"),
        ([Server("a", [43.0]), Server("b", [60.0])], "2 slots are held, the longest for 60 s"),
        (
            [Server("a", [43.0, 2.0], draining=1)],
            "2 slots are held, the longest for 43 s, 1 of them for a request that left and may still be worked on",
        ),
        ([Server("a", [4.0], outside=2)], "1 slot is held, for 4.0 s, 2 slots are used by others than this gateway"),
        ([Server("a", closed=35.0)], "a is out of order for 35 s"),
        (
            [Server("a", [9.0], closed=35.0), Server("b", closed=1.0)],
            "a is out of order for 35 s, b is out of order for 1.0 s",
        ),
        ([Server("a", closed=35.0), Server("b", [7.0])], "1 slot is held, for 7.0 s, a is out of order"),
        ([Server("a", loading=True)], "a is loading"),
        ([Server("a")], "no slot can be used just now"),
        ([], "no slot can be used just now"),
    ],
)
def test_an_obstacle_is_who_holds_the_slots_or_why_there_are_none(servers: list[Server], said: str) -> None:
    assert obstacle(servers) == said


def test_who_waits_is_told_place_cause_and_expectation() -> None:
    assert waiting(12.0, 3, 5, 20.0, names(["box1"]), "2 slots are held") == (
        "waits for 12 s at place 3 of 5 for box1: 2 slots are held; its slot is expected in 20 s"
    )


def test_where_there_is_no_basis_no_time_is_told() -> None:
    assert waiting(1.0, 1, 1, None, "a", "x").endswith("; nobody can say yet for how long")


def test_who_is_kept_by_its_own_key_is_told_so() -> None:
    assert barred(4) == "its key has 4 running, which is all that it may have"


def test_of_many_upstreams_some_are_named() -> None:
    assert names(["a", "b", "c"]) == "a or b or c"
    assert names(["a", "b", "c", "d", "e"]) == "a or b or c or one of 2 more"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (Run(Phase.PREFILL, "a", 0, 12.0), "runs on a slot 0 for 12 s: nothing has come back yet"),
        (
            Run(Phase.PREFILL, "a", None, 35.0, silence=State.BUSY),
            "runs on a for 35 s: nothing has come back yet, and the upstream is busy, as far as it shows",
        ),
        (
            Run(Phase.PREFILL, "a", None, 35.0, silence=State.IDLE),
            "runs on a for 35 s: nothing has come back yet, and the upstream says that its slot is idle",
        ),
        (Run(Phase.PREFILL, "a", 0, 12.0, quiet=1.0), "runs on a slot 0 for 12 s: reading the prompt"),
        (
            Run(Phase.PREFILL, "a", 0, 12.0, Prompt(6100, 8123), quiet=6.0),
            "runs on a slot 0 for 12 s: reading the prompt, 6100 of 8123 tokens, and nothing new for 6.0 s",
        ),
        (Run(Phase.LOADING, "a", None, 3.0), "runs on a for 3.0 s: the upstream is loading or restarting"),
        (Run(Phase.THINKING, "a", 0, 12.0, None, 900, 900, 0.1), "runs on a slot 0 for 12 s: thinking, 900 pieces"),
        (Run(Phase.ANSWERING, "a", 0, 12.0, None, 1, 0, 4.9), "runs on a slot 0 for 12 s: answering, 1 piece"),
        (
            Run(Phase.ANSWERING, "a", 0, 99.0, None, 12, 2, 35.0),
            "runs on a slot 0 for 99 s: answering, 12 pieces, and nothing new for 35 s",
        ),
        (
            Run(Phase.ENDING, "a", None, 1.0),
            "runs on a for 1.0 s: it is ending, and its client may still be reading",
        ),
    ],
)
def test_who_runs_is_told_what_is_done_for_it(run: Run, said: str) -> None:
    assert running(run) == said


def test_who_has_ended_is_told_how() -> None:
    assert ended(3.0, 0.5, 12.0, "completed") == "ended 3.0 s ago: completed, after 0.5 s in line and 12 s in a slot"
    assert ended(3.0, 4.0, None, "client_left_waiting") == (
        "ended 3.0 s ago: client left waiting, after 4.0 s in line and without a slot"
    )
    assert ended(3.0, 4.0, None, "stalled", "words").startswith("ended 3.0 s ago: stalled (words), after")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, ""),
        (LoadTimeout("load_wait = 1 s"), "load_wait = 1 s"),
        (Invalid("messages: 'the prompt' is wrong"), ""),
        (UpstreamStatus(400, "cannot read: the prompt"), ""),
        (Protocol("the answer"), ""),
    ],
)
def test_words_of_others_which_may_quote_a_prompt_are_not_repeated(error: SlotlineError | None, words: str) -> None:
    assert own_words(error) == words
