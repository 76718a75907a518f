"""What an operator is told of the gateway: who holds what since when, and why each waits. `docs/api.md` is about it.

Values only, as they go out as JSON. Nothing here has a place for what anybody said, nor for a key; of a caller it knows
the name of its key, and of a flow the hash that `core.keys` makes. Names that end in `_ms` are durations, milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

import msgspec

from slotline.core.errors import Outcome
from slotline.core.keys import Priority
from slotline.core.kind import Kind
from slotline.core.queue_frames import Told


class Phase(StrEnum):
    """What happens to a request."""

    WAITING = "waiting"  # in line
    LOADING = "loading"  # it has its slot, and the upstream loads or restarts
    PREFILL = "prefill"  # it is out, and no piece of the answer has come
    THINKING = "thinking"  # all that came is reasoning
    ANSWERING = "answering"
    ENDING = "ending"  # its slot is free, or about to be; the client may still read
    ENDED = "ended"


class SlotState(StrEnum):
    """What a slot does: what its request does, or one of these."""

    FREE = "free"
    LOADING = "loading"
    PREFILL = "prefill"
    THINKING = "thinking"
    ANSWERING = "answering"
    ENDING = "ending"
    DRAINING = "draining"  # its request was ended before its time, and the upstream may still work on it
    ELSEWHERE = "elsewhere"  # its request came by another gateway with the same line
    OUTSIDE = "outside"  # it works for somebody who did not come through this gateway
    DOWN = "down"  # the upstream is out of order


class Prompt(msgspec.Struct, frozen=True):
    """How far the prompt is read, in tokens, as the upstream last told."""

    processed: int
    total: int


class Slot(msgspec.Struct, frozen=True):
    """One slot. `index`: the server's own number of it, where it has one and that is known."""

    index: int | None
    state: SlotState
    request_id: str | None = None
    held_ms: int | None = None
    """For how long its request has had it; of one that drains, since that request was ended."""
    prompt: Prompt | None = None
    thought: int = 0
    pieces: int = 0
    thinking_cap: int | None = None


class Slots(msgspec.Struct, frozen=True):
    """The slots of one upstream, counted, and each of them. The counts add up to `total`."""

    total: int
    free: int
    busy: int
    draining: int
    down: int  # not to be had at present: the upstream is out of order, or others use them
    each: Sequence[Slot] = ()


class Upstream(msgspec.Struct, frozen=True):
    """One inference server. `kind` and `models` as last seen, or as configured; `state`: as last seen."""

    name: str
    kind: Kind
    state: str  # unknown, up, loading, down
    reason: str  # why it is not up; "" where it is
    out_of_order_ms: int | None  # for how long nothing has been sent to it, because it failed too often
    models: Sequence[str]
    slots: Slots
    running: int
    waiting: int  # who may be served by it
    queue: int  # how many of those there may be


class Line(msgspec.Struct, frozen=True):
    """Those who wait for any of the same upstreams."""

    upstreams: Sequence[str]
    length: int


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. What does not apply in its phase is null."""

    id: str
    model: str  # as the client named it
    surface: str  # the route below `/v1/`
    upstream: str | None
    upstreams: Sequence[str]  # who may serve it: the line that it stands in
    phase: Phase
    why: str  # a sentence without its subject: "waits for 12 s at place 3 of 5 …"
    cause: str | None = None  # of that, what stands in its way
    position: int | None = None
    queue_length: int | None = None
    estimated_wait_ms: int | None = None
    waited_ms: int  # until it had its slot, or until now
    running_ms: int | None = None
    key: str | None = None  # the name of the caller's key
    flow: str | None = None
    priority: Priority = msgspec.field(name="class")
    stream: bool
    prompt: Prompt | None = None
    pieces: int  # of the answer: text, reasoning, parts of tool calls
    thought: int  # … of which reasoning
    thinking_cap: int | None = None  # after so many of those its reasoning is ended
    bytes: int  # written to the client
    last_upstream_byte_ms_ago: int | None = None
    last_client_write_ms_ago: int | None = None
    outcome: Outcome | None = None
    ended_ms_ago: int | None = None


class Gateway(msgspec.Struct, frozen=True):
    """The process itself. `started`: Unix time, seconds."""

    version: str
    started: int
    uptime_ms: int
    draining: bool = False  # it is about to end: nobody is let in


class State(msgspec.Struct, frozen=True):
    """Everything, at one moment."""

    gateway: Gateway
    upstreams: Sequence[Upstream]
    lines: Sequence[Line]
    requests: Sequence[Request]


class Standing(msgspec.Struct, frozen=True):
    """Where a request stands in line. `barred`: its key has all running that it may have, so it is passed over."""

    told: Told
    barred: bool


def ms(seconds: float) -> int:
    """`seconds` as milliseconds; two clocks that are read one after the other make nothing negative."""
    return max(0, round(seconds * 1000))


def laid_out(
    total: int,
    allowed: int,
    taken: Sequence[Slot],
    *,
    numbers: Collection[int] = (),
    outside: Sequence[int | None] = (),
    loading: bool = False,
) -> Slots:
    """The slots of an upstream that has `total`, of which `allowed` may be used at present.

    `taken`: those of requests, and those that drain. `numbers`: the server's own of all slots, where all are known.
    `outside`: of those that others use. `loading`: what is down is about to be up.
    """
    draining = sum(slot.state is SlotState.DRAINING for slot in taken)
    free = max(0, allowed - len(taken))
    down = max(0, total - len(taken) - free)
    others = [Slot(index, SlotState.OUTSIDE) for index in outside[:down]]
    fallen = SlotState.LOADING if loading else SlotState.DOWN
    rest = [SlotState.FREE] * free + [fallen] * (down - len(others))
    unused = iter(sorted(set(numbers) - {slot.index for slot in (*taken, *others)}))
    empty = [Slot(next(unused, None), state) for state in rest]
    return Slots(total, free, len(taken) - draining, draining, down, _in_order((*taken, *others, *empty)))


def _in_order(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    return tuple(sorted(slots, key=lambda slot: (slot.index is None, slot.index or 0)))
