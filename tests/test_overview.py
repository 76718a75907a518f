"""What the overview keeps, which is how the last requests ended, and nothing that hangs on them."""

from __future__ import annotations

import gc
import weakref

from fakes.parts import Dialect, Journal, Reply
from slotline.core.errors import Outcome, Stalled
from slotline.core.keys import Caller, Key, digest
from slotline.overview import Recent
from slotline.passage import Call, Passage


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def passage(name: str = "req_1", model: str = "model", granted: float | None = None) -> Passage:
    caller = Caller(Key("alice", digest("a key")))
    call = Call(name, model, Dialect(), frozenset({"box"}), "target", 7, caller=caller, surface="messages")
    return Passage(call, Reply(Journal()), 90.0, granted, _task=None)


def test_of_one_that_has_ended_its_times_and_outcome_are_told() -> None:
    clock = Clock()
    recent = Recent(clock)
    recent.note(passage(granted=94.0), Outcome.STALLED, Stalled("liveness = 1 s"))
    clock.now = 103.5
    told = recent.request("req_1")
    assert told is not None
    assert (told.outcome, told.key, told.surface) == ("stalled", "alice", "messages")
    assert (told.waited_ms, told.running_ms, told.ended_ms_ago) == (4000, 6000, 3500)
    assert told.why == "ended 3.5 s ago: stalled (liveness = 1 s), after 4.0 s in line and 6.0 s in a slot"


def test_one_that_never_had_a_slot_waited_until_it_ended() -> None:
    recent = Recent(Clock())
    recent.note(passage(), Outcome.CLIENT_LEFT_WAITING, None)
    told = recent.request("req_1")
    assert told is not None
    assert (told.waited_ms, told.running_ms) == (10_000, None)


def test_the_last_256_are_remembered() -> None:
    recent = Recent(Clock())
    for number in range(300):
        recent.note(passage(f"req_{number}"), Outcome.COMPLETED, None)
    known = [number for number in range(300) if recent.request(f"req_{number}") is not None]
    assert known == list(range(44, 300))
    assert recent.request("req_x") is None


def test_neither_the_request_nor_its_error_is_kept_for_that() -> None:
    recent = Recent(Clock())
    gone, error = passage(), Stalled("liveness = 1 s")
    kept = weakref.ref(gone.call.dialect), weakref.ref(error)
    recent.note(gone, Outcome.STALLED, error)
    del gone, error
    gc.collect()
    assert [each() for each in kept] == [None, None]


def test_a_name_of_a_model_is_told_no_longer_than_names_are() -> None:
    """An alias such as `claude-*` lets a client write whatever it likes behind it."""
    recent = Recent(Clock())
    recent.note(passage(model="claude-" + "x" * 10_000), Outcome.COMPLETED, None)
    told = recent.request("req_1")
    assert told is not None
    assert len(told.model) == 200
