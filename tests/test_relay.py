"""The life of one request, between four parts that the test holds in its hands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from fakes.parts import Dialect, Gate, Journal, Reply, Upstream
from slotline.core.errors import (
    Busy,
    Cancelled,
    LoadTimeout,
    Outcome,
    QueueTimeout,
    ShuttingDown,
    SlotlineError,
    SlotLost,
    Stalled,
    StreamClosedEarly,
    ThinkingOverrun,
    Unreachable,
    UpstreamStatus,
    WaitTimeout,
    Withdrawn,
)
from slotline.core.line import Place
from slotline.core.queue_frames import Told
from slotline.core.record import Moment, Record
from slotline.passage import Call, Passage
from slotline.relay import Relay

pytestmark = pytest.mark.looptime


def place(position: int) -> Told:
    return Told(Place(position, 5), None)


@dataclass
class Scene:
    """A relay with its four parts, and what became of its requests."""

    journal: Journal = field(default_factory=list)
    dialect: Dialect = field(default_factory=Dialect)
    ends: list[tuple[Outcome, SlotlineError | None]] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = Gate(self.journal)
        self.upstream = Upstream(self.journal)
        self.reply = Reply(self.journal)
        clock = asyncio.get_running_loop().time
        self.other = Upstream(self.journal)
        self.relay = Relay(
            self.gate, {"box": self.upstream, "other": self.other}, clock, self._ended, noted=self._noted
        )
        self.call = Call("req_1", "alias", self.dialect, frozenset({"box", "other"}), "target", 7)

    def _ended(self, passage: Passage, outcome: Outcome, error: SlotlineError | None) -> None:
        self.ends.append((outcome, error))
        self.passages.append(passage)

    def _noted(self, passage: Passage, moment: Moment) -> None:
        self.moments.append(moment)

    async def carry(self) -> None:
        await self.relay.carry(self.call, self.reply)

    @asynccontextmanager
    async def carried(self) -> AsyncIterator[asyncio.Task[None]]:
        """The request is on its way; within the block the test makes things happen to it."""
        task = asyncio.create_task(self.carry())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for outcome, _ in self.ends]

    async def stands_still(self) -> None:
        """Everything that can happen by itself has happened: virtual time goes on only when nothing else does."""
        await asyncio.sleep(1)

    def is_over(self) -> bool:
        """One outcome, nothing held, no heart that beats."""
        acquired = self.journal.count("join"), self.journal.count("sent")
        given_back = self.journal.count("leave"), self.journal.count("closed")
        return len(self.ends) == 1 and acquired == given_back and not self.relay.passages and not self.reply.beats


class Part:
    """A request's part in a trace."""

    trace_id = "ab"
    headers: Mapping[str, str] = {"traceparent": "00-ab-cd-01"}

    def end(self, record: Record) -> None:
        raise AssertionError("the relay ends no span")


def granted(*batches: list[bytes], stream: bool = True) -> Scene:
    """A scene in which a slot is free and the upstream has said `batches`."""
    scene = Scene(dialect=Dialect(stream=stream))
    scene.gate.news.put_nowait("box")
    for batch in batches:
        scene.upstream.says.put_nowait(batch)
    return scene


# ---- the good way ----------------------------------------------------------------------------------------------------


async def test_a_request_takes_its_turn_is_sent_and_is_relayed() -> None:
    scene = granted([b"a"], [b"b"], [b"end"])
    await scene.carry()
    assert scene.journal == ["join", "sent", "send <a>", "send <b>", "closed", "leave", "finish <end>"]
    assert scene.ends == [(Outcome.COMPLETED, None)]
    assert scene.is_over()


async def test_the_gate_is_asked_for_every_upstream_of_the_model_and_told_the_size() -> None:
    scene = granted([b"end"])
    await scene.carry()
    assert scene.gate.asked == [({"box", "other"}, 7)]


async def test_the_upstream_that_was_granted_gets_the_models_own_name() -> None:
    scene = granted([b"end"])
    await scene.carry()
    assert scene.upstream.bodies == [b"target for openai"]
    assert scene.passages[0].upstream == "box"


async def test_events_that_were_read_together_are_written_together() -> None:
    scene = granted([b"a", b"b"], [b"c", b"end"])
    await scene.carry()
    assert [line for line in scene.journal if line[:4] in {"send", "fini"}] == ["send <a><b>", "finish <c><end>"]


async def test_the_upstream_hears_how_many_pieces_have_come() -> None:
    scene = granted([b"a", b"b"], [b"c"], [b"end"])
    await scene.carry()
    assert scene.upstream.pieces == [2, 3, 4]


async def test_the_slot_is_given_back_before_the_last_bytes_are_written() -> None:
    scene = granted([b"end"])
    scene.reply.reads.clear()
    async with scene.carried():
        await scene.stands_still()
        assert scene.journal == ["join", "sent", "closed", "leave"]
        assert scene.ends == []
        scene.reply.reads.set()
        await scene.stands_still()
    assert scene.journal[-1] == "finish <end>"
    assert scene.outcomes == [Outcome.COMPLETED]


async def test_a_body_that_ends_by_itself_ends_the_answer_as_the_dialect_says() -> None:
    scene = granted([b"a"])
    scene.upstream.says.put_nowait(None)
    await scene.carry()
    assert scene.journal[-2:] == ["leave", "finish <the end>"]
    assert scene.outcomes == [Outcome.COMPLETED]


async def test_what_the_upstream_says_after_the_end_is_not_waited_for() -> None:
    scene = granted([b"end"], [b"more"])
    await scene.carry()
    assert scene.upstream.says.qsize() == 1


async def test_a_client_that_wants_no_stream_gets_one_whole_answer_and_nothing_before_it() -> None:
    scene = granted([b"a"], [b"b"], [b"end"], stream=False)
    await scene.carry()
    assert scene.journal == ["join", "sent", "closed", "leave", "finish the whole answer"]


# ---- waiting ---------------------------------------------------------------------------------------------------------


async def test_each_change_of_place_goes_to_the_client_in_order() -> None:
    scene = Scene()
    for news in (place(3), place(2), place(1), "box"):
        scene.gate.news.put_nowait(news)
    scene.upstream.says.put_nowait([b"end"])
    await scene.carry()
    assert scene.journal[:5] == ["join", "send place 3", "send place 2", "send place 1", "sent"]


async def test_a_client_that_wants_no_stream_is_told_no_place() -> None:
    scene = Scene(dialect=Dialect(stream=False))
    for news in (place(1), "box"):
        scene.gate.news.put_nowait(news)
    scene.upstream.says.put_nowait([b"end"])
    await scene.carry()
    assert scene.journal == ["join", "sent", "closed", "leave", "finish the whole answer"]


async def test_who_stood_in_line_is_told_for_how_long() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(1))
    async with scene.carried():
        await asyncio.sleep(12)
        scene.gate.news.put_nowait("box")
        await scene.stands_still()
    assert scene.reply.seconds == pytest.approx(12)


async def test_who_was_served_at_once_is_told_of_no_wait_and_keeps_its_parsed_body() -> None:
    scene = granted([b"end"])
    await scene.carry()
    assert scene.reply.seconds is None
    assert scene.dialect.shelved == 0


async def test_a_call_that_waits_lets_go_of_what_can_be_made_again() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(1))
    async with scene.carried():
        await scene.stands_still()
        assert scene.dialect.shelved == 1


async def test_a_request_can_be_seen_while_it_lives_and_not_after_it() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(2))
    async with scene.carried():
        await asyncio.sleep(3)
        (waiting,) = scene.relay.passages
        assert (waiting.call.id, waiting.told, waiting.granted) == ("req_1", place(2), None)
        scene.gate.news.put_nowait("box")
        await scene.stands_still()
        (running,) = scene.relay.passages
        assert running.upstream == "box"
        assert running.granted is not None
        assert running.granted - running.arrived == pytest.approx(3)
        scene.upstream.says.put_nowait([b"end"])
        await scene.stands_still()
        assert not scene.relay.passages


# ---- errors ----------------------------------------------------------------------------------------------------------


async def test_a_request_that_cannot_join_has_its_error_and_nothing_to_give_back() -> None:
    scene = Scene()
    scene.gate.refusal = Busy("the line is full")
    await scene.carry()
    assert scene.journal == ["fail Busy"]
    assert scene.ends == [(Outcome.REFUSED_FULL, scene.gate.refusal)]
    assert scene.is_over()


@pytest.mark.parametrize("error", [QueueTimeout("too long"), ShuttingDown("the end")])
async def test_a_wait_that_ends_badly_is_left_before_the_client_hears_of_it(error: SlotlineError) -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(1))
    scene.gate.news.put_nowait(error)
    await scene.carry()
    assert scene.journal == ["join", "send place 1", "leave", f"fail {type(error).__name__}"]
    assert scene.ends == [(error.outcome, error)]


@pytest.mark.parametrize(
    "error",
    [Unreachable("nobody"), UpstreamStatus(500, "its own words"), WaitTimeout("busy"), LoadTimeout("loading")],
)
async def test_an_upstream_that_gives_no_answer_has_its_slot_back_before_the_client_hears_of_it(
    error: SlotlineError,
) -> None:
    scene = granted()
    scene.upstream.refusal = error
    await scene.carry()
    assert scene.journal == ["join", "sent", "closed", "leave", f"fail {type(error).__name__}"]
    assert scene.ends == [(error.outcome, error)]
    assert scene.is_over()


@pytest.mark.parametrize("error", [Stalled("silent"), ThinkingOverrun("too much"), StreamClosedEarly("cut")])
async def test_an_answer_that_breaks_off_has_its_slot_back_before_the_client_hears_of_it(error: SlotlineError) -> None:
    scene = granted([b"a"])
    scene.upstream.says.put_nowait(error)
    await scene.carry()
    assert scene.journal == ["join", "sent", "send <a>", "closed", "leave", f"fail {type(error).__name__}"]
    assert scene.ends == [(error.outcome, error)]
    assert scene.is_over()


async def test_a_body_that_ends_without_an_answer_is_an_upstream_that_died() -> None:
    scene = granted()
    scene.upstream.says.put_nowait(None)
    await scene.carry()
    assert scene.journal[-1] == "fail StreamClosedEarly"
    assert scene.outcomes == [Outcome.UPSTREAM_DIED]


async def test_what_came_before_a_fault_reaches_the_client_also_when_both_were_read_together() -> None:
    scene = granted([b"a", b"b", b"nonsense", b"c"])
    await scene.carry()
    assert scene.journal == ["join", "sent", "send <a><b>", "closed", "leave", "fail Protocol"]
    assert scene.outcomes == [Outcome.UPSTREAM_ERROR]


async def test_a_fault_of_the_gateway_ends_the_request_and_its_details_are_in_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = granted([b"a", b"bug"])
    await scene.carry()
    assert scene.journal == ["join", "sent", "send <a>", "closed", "leave", "fail SlotlineError"]
    assert scene.is_over()
    assert scene.reply.error is not None
    assert scene.reply.error.status == 500
    assert "secret" not in str(scene.reply.error)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "req_1" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


async def test_a_client_that_left_before_its_error_changes_nothing_about_it() -> None:
    scene = granted()
    scene.upstream.refusal = Unreachable("nobody")
    scene.reply.gone = True
    await scene.carry()
    assert scene.outcomes == [Outcome.UPSTREAM_ERROR]
    assert scene.is_over()


# ---- clients that leave ----------------------------------------------------------------------------------------------


def in_line(scene: Scene) -> None:
    scene.gate.news.put_nowait(place(1))


def before_the_head(scene: Scene) -> None:
    scene.gate.news.put_nowait("box")


def in_the_middle(scene: Scene) -> None:
    scene.gate.news.put_nowait("box")
    scene.upstream.says.put_nowait([b"a"])


def at_the_end(scene: Scene) -> None:
    in_the_middle(scene)
    scene.upstream.says.put_nowait([b"end"])


LEFT = [
    pytest.param(in_line, Outcome.CLIENT_LEFT_WAITING, id="in line"),
    pytest.param(before_the_head, Outcome.CLIENT_LEFT_RUNNING, id="before the head"),
    pytest.param(in_the_middle, Outcome.CLIENT_LEFT_RUNNING, id="in the middle"),
]


@pytest.mark.parametrize(("phase", "outcome"), LEFT)
async def test_a_client_that_leaves_frees_what_it_held_and_is_no_error(
    phase: Callable[[Scene], None], outcome: Outcome
) -> None:
    scene = Scene()
    phase(scene)
    async with scene.carried() as task:
        await scene.stands_still()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert scene.ends == [(outcome, None)]
    assert scene.is_over()
    assert scene.reply.error is None


async def test_a_client_that_left_is_written_to_once_and_ends_its_request() -> None:
    scene = granted([b"a"], [b"b"], [b"end"])
    scene.reply.gone = True
    await scene.carry()
    assert scene.journal == ["join", "sent", "closed", "leave"]
    assert scene.ends == [(Outcome.CLIENT_LEFT_RUNNING, None)]
    assert scene.is_over()


async def test_a_client_that_left_before_the_last_bytes_did_not_get_its_answer() -> None:
    scene = granted([b"end"])
    scene.reply.gone = True
    await scene.carry()
    assert scene.outcomes == [Outcome.CLIENT_LEFT_RUNNING]


async def test_a_client_that_left_before_it_was_told_its_place_leaves_the_line() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(1))
    scene.reply.gone = True
    await scene.carry()
    assert scene.journal == ["join", "leave"]
    assert scene.outcomes == [Outcome.CLIENT_LEFT_WAITING]


@pytest.mark.parametrize("phase", [in_line, before_the_head, in_the_middle, at_the_end])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_request_may_be_cancelled_at_any_step_once_or_twice(phase: Callable[[Scene], None], times: int) -> None:
    for steps in range(25):
        scene = Scene()
        phase(scene)
        task = asyncio.create_task(scene.carry())
        for _ in range(steps):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        assert not scene.relay.passages, steps
        if scene.passages:  # else it was cancelled before it began
            assert scene.is_over(), (steps, scene.journal)


# ---- ended from inside -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [in_line, before_the_head, in_the_middle, at_the_end])
async def test_a_request_may_be_stopped_at_any_step_and_has_one_end(phase: Callable[[Scene], None]) -> None:
    for steps in range(25):
        scene = Scene()
        phase(scene)
        verdict = ShuttingDown("stopped")
        task = asyncio.create_task(scene.carry())
        for _ in range(steps):
            await asyncio.sleep(0)
        for passage in list(scene.relay.passages):
            passage.stop(verdict)
        if not scene.relay.passages and not scene.ends:
            task.cancel()  # it had not begun
        await scene.stands_still()
        task.cancel()
        await asyncio.wait([task])
        if scene.passages:
            assert scene.is_over(), (steps, scene.journal)
            assert scene.ends[0] in {(Outcome.SHUTDOWN, verdict), (Outcome.COMPLETED, None)}


@pytest.mark.parametrize("phase", [in_line, before_the_head, in_the_middle])
async def test_a_request_that_is_stopped_gets_the_verdict_as_its_error(phase: Callable[[Scene], None]) -> None:
    scene = Scene()
    phase(scene)
    verdict = SlotlineError("an operator ended it")
    async with scene.carried() as task:
        await scene.stands_still()
        (passage,) = scene.relay.passages
        passage.stop(verdict)
        passage.stop(SlotlineError("a second thought"))
        await task
        assert task.cancelling() == 0
    assert scene.reply.error is verdict
    assert scene.ends == [(verdict.outcome, verdict)]
    assert scene.journal[-2:] == ["leave", "fail SlotlineError"]
    assert scene.is_over()


async def test_a_request_that_has_its_outcome_can_no_longer_be_stopped() -> None:
    scene = granted()
    scene.upstream.refusal = Unreachable("nobody")
    scene.reply.reads.clear()
    async with scene.carried() as task:
        await scene.stands_still()
        assert scene.outcomes == [Outcome.UPSTREAM_ERROR]
        scene.passages[0].stop(ShuttingDown("too late"))
        scene.reply.reads.set()
        await task
    assert scene.journal[-1] == "fail Unreachable"
    assert scene.outcomes == [Outcome.UPSTREAM_ERROR]


async def test_a_client_that_leaves_while_its_request_is_stopped_is_gone_and_nothing_is_written_to_it() -> None:
    scene = Scene()
    in_the_middle(scene)
    async with scene.carried() as task:
        await scene.stands_still()
        for passage in scene.relay.passages:
            passage.stop(ShuttingDown("stopped"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert scene.ends == [(Outcome.CLIENT_LEFT_RUNNING, None)]
    assert scene.reply.error is None
    assert scene.is_over()


# ---- the heart -------------------------------------------------------------------------------------------------------


async def test_a_stream_has_a_heart_as_long_as_its_request_lives() -> None:
    scene = Scene()
    async with scene.carried():
        await scene.stands_still()
        assert scene.reply.beats == 1
        scene.gate.news.put_nowait("box")
        scene.upstream.says.put_nowait([b"end"])
        await scene.stands_still()
        assert scene.reply.beats == 0


async def test_an_answer_that_is_no_stream_has_no_heart() -> None:
    scene = Scene(dialect=Dialect(stream=False))
    async with scene.carried():
        await scene.stands_still()
        assert scene.reply.beats == 0


# ---- shutting down ---------------------------------------------------------------------------------------------------


async def test_draining_an_idle_relay_closes_the_gate_and_takes_no_time() -> None:
    scene, time = Scene(), asyncio.get_running_loop().time
    before = time()
    await scene.relay.drain(30)
    assert scene.journal == ["gate closed"]
    assert time() == before


async def test_a_running_answer_may_end_within_the_drain() -> None:
    scene, time = Scene(), asyncio.get_running_loop().time
    in_the_middle(scene)
    async with scene.carried(), asyncio.TaskGroup() as tasks:
        await scene.stands_still()
        before = time()
        drain = tasks.create_task(scene.relay.drain(30))
        await asyncio.sleep(20)
        assert not drain.done()
        scene.upstream.says.put_nowait([b"end"])
        await drain
        assert time() - before == pytest.approx(20)
    assert scene.outcomes == [Outcome.COMPLETED]


async def test_an_answer_that_outlives_the_drain_is_ended_with_an_error_that_names_the_limit() -> None:
    scene, time = Scene(), asyncio.get_running_loop().time
    in_the_middle(scene)
    async with scene.carried():
        await scene.stands_still()
        before = time()
        await scene.relay.drain(30)
        assert time() - before == pytest.approx(30)
    assert scene.journal[-1] == "fail ShuttingDown"
    assert scene.outcomes == [Outcome.SHUTDOWN]
    assert "drain = 30 s" in str(scene.reply.error)
    assert scene.is_over()


async def test_a_client_that_does_not_read_does_not_hold_the_shutdown_up() -> None:
    scene, time = Scene(), asyncio.get_running_loop().time
    in_the_middle(scene)
    async with scene.carried():
        await scene.stands_still()
        scene.reply.reads.clear()
        before = time()
        await scene.relay.drain(30)
        assert time() - before < 31
        assert scene.outcomes == [Outcome.SHUTDOWN]


# ---- the patrol ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def patrolled(scene: Scene) -> AsyncIterator[asyncio.Task[None]]:
    patrol = asyncio.create_task(scene.relay.patrol())
    try:
        async with scene.carried() as task:
            yield task
    finally:
        patrol.cancel()
        await asyncio.wait([patrol])


async def test_who_waits_for_upstreams_that_are_all_out_of_order_is_told_after_load_wait() -> None:
    scene = Scene()
    now = asyncio.get_running_loop().time()
    for upstream in (scene.upstream, scene.other):
        upstream.closed_since = now
    async with patrolled(scene) as task:
        await asyncio.sleep(scene.upstream.limits.load_wait - 1)
        assert not task.done()
        await asyncio.sleep(2)
        await task
    assert scene.outcomes == [Outcome.LOAD_TIMEOUT]
    assert "load_wait" in str(scene.ends[0][1])


async def test_its_own_wait_counts_not_the_time_before_it_came() -> None:
    scene = Scene()
    for upstream in (scene.upstream, scene.other):
        upstream.closed_since = asyncio.get_running_loop().time() - 10 * upstream.limits.load_wait
    async with patrolled(scene) as task:
        await asyncio.sleep(scene.upstream.limits.load_wait - 1)
        assert not task.done()


async def test_one_upstream_in_order_is_enough_to_wait_for() -> None:
    scene = Scene()
    scene.upstream.closed_since = asyncio.get_running_loop().time()
    async with patrolled(scene) as task:
        await asyncio.sleep(10 * scene.upstream.limits.load_wait)
        assert not task.done()


async def test_every_connection_is_looked_at_again_and_again() -> None:
    scene = Scene()
    async with patrolled(scene):
        await asyncio.sleep(10)
        assert scene.reply.checks >= 10


async def test_who_waits_in_line_for_longer_than_its_client_does_is_out_of_it() -> None:
    scene = Scene(dialect=Dialect(stream=False))
    scene.call = replace(scene.call, patience=300.0)
    async with patrolled(scene) as task:
        await asyncio.sleep(299)
        assert not task.done()
        await asyncio.sleep(2)
        await task
    assert scene.outcomes == [Outcome.WAIT_TIMEOUT]
    assert "300 s" in str(scene.ends[0][1])
    assert "sent" not in scene.journal
    assert scene.is_over()


async def test_who_has_a_slot_by_then_keeps_it() -> None:
    scene = granted([b"a"], stream=False)
    scene.call = replace(scene.call, patience=300.0)
    async with patrolled(scene) as task:
        await asyncio.sleep(3000)
        assert not task.done()
        scene.upstream.says.put_nowait([b"end"])
        await task
    assert scene.outcomes == [Outcome.COMPLETED]


# ---- upstreams that are taken out of the configuration ---------------------------------------------------------------


async def test_a_slot_of_an_upstream_that_is_no_more_is_a_typed_error() -> None:
    """It was granted before that, and its client has read only now what came ahead of it."""
    scene = granted()
    del scene.relay._upstreams["box"]  # type: ignore[attr-defined]
    await scene.carry()
    assert isinstance(scene.ends[0][1], Withdrawn)
    assert scene.journal == ["join", "leave", "fail Withdrawn"]
    assert scene.is_over()


async def test_who_waits_for_one_that_is_no_more_is_judged_by_those_that_are_left() -> None:
    scene = Scene()
    del scene.relay._upstreams["other"]  # type: ignore[attr-defined]
    scene.upstream.closed_since = asyncio.get_running_loop().time()
    async with patrolled(scene) as task:
        await asyncio.sleep(scene.upstream.limits.load_wait + 1)
        await task
    assert scene.outcomes == [Outcome.LOAD_TIMEOUT]


async def test_who_waits_for_none_that_is_left_is_the_gates_to_tell() -> None:
    scene = Scene()
    scene.relay._upstreams.clear()  # type: ignore[attr-defined]
    async with patrolled(scene) as task:
        await asyncio.sleep(10)
        assert not task.done()
        scene.gate.news.put_nowait(Withdrawn("gone"))
        await task
    assert isinstance(scene.ends[0][1], Withdrawn)


# ---- ended from outside ----------------------------------------------------------------------------------------------


async def test_one_that_an_operator_ends_is_ending_at_once_and_reads_why() -> None:
    scene = granted([b"a"])
    async with scene.carried() as task:
        await scene.stands_still()
        passage = scene.relay.passage("req_1")
        assert passage is not None
        seats = [passage.trace.seat]
        passage.stop(Cancelled("an operator has ended this request"))
        assert passage.ending
        await task
    assert scene.outcomes == [Outcome.SHUTDOWN]
    assert scene.journal[-1] == "fail Cancelled"
    assert [*seats, passage.trace.seat] == [scene.upstream.seats[0], None]
    assert scene.relay.passage("req_1") is None
    assert scene.is_over()


async def test_one_that_still_waits_for_its_earlier_copy_to_go_can_be_ended_and_has_its_outcome() -> None:
    """That one has a client that does not read."""
    scene = granted([b"a"])
    scene.call = replace(scene.call, sameness=b"same", retried=True)
    async with scene.carried() as first:
        await scene.stands_still()
        scene.reply.reads.clear()
        scene.call, scene.reply = replace(scene.call, id="req_2"), Reply(scene.journal)
        async with scene.carried() as second:
            await scene.stands_still()
            passage = scene.relay.passage("req_2")
            assert passage is not None
            assert passage.number is None
            passage.stop(Cancelled("an operator has ended this request"))
            await second
        assert scene.outcomes == [Outcome.CLIENT_LEFT_RUNNING, Outcome.SHUTDOWN]
        assert scene.journal[-1] == "fail Cancelled"
        assert not first.done()


# ---- what is told of a request before its end ------------------------------------------------------------------------


async def test_its_moments_are_told_as_they_come() -> None:
    scene = granted([b"a"], [b"b"])
    async with scene.carried():
        await scene.stands_still()
        assert scene.moments == [Moment.ARRIVED, Moment.GRANTED, Moment.SENT, Moment.BEGAN]
        assert scene.ends == []


async def test_one_that_waits_has_arrived_and_no_more() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(2))
    async with scene.carried():
        await scene.stands_still()
        assert scene.moments == [Moment.ARRIVED]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_comes_whole_has_begun_too(*, stream: bool) -> None:
    scene = granted([b"a", b"end"], stream=stream)
    await scene.carry()
    assert scene.moments[-1] is Moment.BEGAN
    (passage,) = scene.passages
    assert passage.began is not None
    assert passage.spoke == passage.began


async def test_an_answer_that_thinks_first_comes_to_the_point_later() -> None:
    scene = granted([b"thought"])
    scene.dialect.thought = 1
    async with scene.carried():
        await scene.stands_still()
        (passage,) = scene.relay.passages
        began, spoke = passage.began, passage.spoke
        scene.upstream.says.put_nowait([b"text"])
        await scene.stands_still()
        assert began is not None
        assert [spoke, passage.spoke] == [None, began + 1]
        assert scene.moments.count(Moment.BEGAN) == 1


async def test_a_slot_is_idle_from_its_grant_until_the_next_in_line_goes_out() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(1))
    scene.gate.since = asyncio.get_running_loop().time() + 1  # its slot is granted then …
    async with scene.carried():
        await asyncio.sleep(1.25)
        scene.gate.news.put_nowait("box")  # … and this is when it comes to know
        await scene.stands_still()
        (passage,) = scene.relay.passages
        assert passage.idle == pytest.approx(0.25)


async def test_who_never_stood_in_line_kept_no_slot_waiting() -> None:
    scene = granted()
    scene.gate.since = asyncio.get_running_loop().time()
    async with scene.carried():
        await scene.stands_still()
        (passage,) = scene.relay.passages
        assert Moment.SENT in scene.moments
        assert passage.idle is None


async def test_the_upstream_is_told_of_the_trace_that_a_request_is_a_part_of() -> None:
    scene = granted([b"end"])
    scene.call = replace(scene.call, span=Part())
    await scene.carry()
    assert scene.upstream.headers == [{"traceparent": "00-ab-cd-01"}]


async def test_without_a_trace_there_is_nothing_to_tell_the_upstream() -> None:
    scene = granted([b"end"])
    await scene.carry()
    assert scene.upstream.headers == [{}]


# ---- a line that is shared -------------------------------------------------------------------------------------------


async def test_whoever_runs_ends_when_its_slot_is_others_and_whoever_waits_waits_on() -> None:
    scene = granted([b"one"])
    async with scene.carried():
        await scene.stands_still()
        scene.relay.lapse()
        await scene.stands_still()
        assert [(outcome, type(error)) for outcome, error in scene.ends] == [(Outcome.SHUTDOWN, SlotLost)]
    waiting = Scene()
    waiting.gate.news.put_nowait(place(3))
    async with waiting.carried():
        await waiting.stands_still()
        waiting.relay.lapse()
        await waiting.stands_still()
        assert waiting.ends == []


async def test_whoever_waits_hears_that_the_line_stands_still_and_that_it_moves_on() -> None:
    scene = Scene()
    scene.gate.news.put_nowait(place(3))
    patrol = asyncio.create_task(scene.relay.patrol())
    async with scene.carried():
        await scene.stands_still()
        scene.gate.trouble = "it cannot be reached"
        await scene.stands_still()
        scene.gate.trouble = None
        await scene.stands_still()
    patrol.cancel()
    told = ["send : the line stands still: it cannot be reached\n\n", "send : the line moves on\n\n"]
    assert [line for line in scene.journal if line in told] == told
