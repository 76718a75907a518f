"""The pages before a gateway that is only told of: any state at once, also those that no real one is in for long.

All routes are the real ones; what is made up is what there is to tell. `docs/images/make.py` takes the pictures of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from slotline.core.errors import Outcome
from slotline.core.history import History, Hour
from slotline.core.keys import Keyring, Priority, digest
from slotline.core.kind import Kind
from slotline.core.queue_frames import QueueForm
from slotline.core.report import (
    Gateway,
    Line,
    Phase,
    Prompt,
    Request,
    Slot,
    Slots,
    SlotState,
    State,
    Upstream,
)
from slotline.surface.app import application
from slotline.surface.operators import Pace
from slotline.surface.ports import Ports, Settings

SETTINGS = Settings("/llm", 1 << 20, 2.0, 10.0, QueueForm.EVENT, QueueForm.PING, 0, 60.0, 300.0)
_ENDED = (SlotState.FREE, SlotState.LOADING, SlotState.DOWN, SlotState.OUTSIDE, SlotState.DRAINING)


def nothing_yet() -> Hour:
    """The hour of a gateway that has just been started."""
    return History(0.0).told(5.0)


def an_hour() -> Hour:
    """A working hour: calm, then a rush with a line, one bad minute, and calm again."""
    history = History(0.0)
    for second in range(0, 3600, 10):
        minute = second // 60
        rush = max(0, 10 - abs(minute - 38)) if minute > 8 else 0
        busy = min(4, rush + (second // 70) % 3)
        history.looked(second + 1.0, 4, busy, max(0, rush - 4 + (second // 30) % 3) if rush > 3 else 0)
        if second % 30 == 0 and (minute % 7 or rush):
            waited = rush * 1.9 * (1 + (second % 4)) if rush > 3 else 0.02
            history.ended(second + 2.0, Outcome.COMPLETED, waited, 180 + 7 * minute)
            if second % 60 == 0 and rush > 5:
                history.ended(second + 3.0, Outcome.CLIENT_LEFT_WAITING, waited * 1.7, 0)
        if minute == 41 and second % 20 == 0:
            history.ended(second + 4.0, Outcome.UPSTREAM_DIED, 12.0, 40)
        if rush > 8 and second % 30 == 0:
            history.ended(second + 5.0, Outcome.REFUSED_FULL, 0.0, 0)
    return history.told(3598.0)


@dataclass(eq=False)
class Scene:
    """See `slotline.surface.ports.Overview`. What is put into `told` is what is told next."""

    told: State
    hour: Hour = dataclasses.field(default_factory=nothing_yet)
    token: str | None = None
    port: int = 0
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Listens; again at the port that it had."""
        unused: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Ports))
        admin = None if self.token is None else digest(self.token)
        given = {"settings": SETTINGS, "overview": self, "keys": Keyring(), "admin": admin}
        app = application(Ports(**{**unused, **given}), Pace(every=0.1))
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Is gone, with all connections. Twice is harmless."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def state(self) -> State:
        return self.told

    def history(self) -> Hour:
        return self.hour

    def request(self, id: str) -> Request | None:  # noqa: A002 - as the protocol has it
        return next((each for each in self.told.requests if each.id == id), None)


@asynccontextmanager
async def staged(told: State, hour: Hour | None = None, *, token: str | None = None) -> AsyncIterator[Scene]:
    """`told` on a port of loopback. `token`: the operator's; None: it is who asks from here."""
    scene = Scene(told, hour or nothing_yet(), token)
    await scene.open()
    try:
        yield scene
    finally:
        await scene.close()


# ---- what a state is made of -----------------------------------------------------------------------------------------


def slot(index: int | None, state: SlotState, held: float | None = None, **more: Any) -> Slot:
    """A slot of request `req_INDEX`, unless its state is that of nobody's. `held`: seconds."""
    request = None if state in _ENDED else f"req_{index}"
    return Slot(index, state, request, None if held is None else round(held * 1000), **more)


def upstream(name: str, slots: Sequence[Slot], **more: Any) -> Upstream:
    """One that is up, unless `more` says otherwise."""
    free, draining, down = (
        sum(each.state in states for each in slots)
        for states in (
            {SlotState.FREE},
            {SlotState.DRAINING},
            {SlotState.DOWN, SlotState.LOADING, SlotState.OUTSIDE},
        )
    )
    busy = len(slots) - free - draining - down
    made: dict[str, Any] = {
        "kind": Kind.LLAMA_CPP,
        "state": "up",
        "reason": "",
        "out_of_order_ms": None,
        "models": ["qwen3-30b-a3b"],
        "running": busy,
        "waiting": 0,
        "queue": 64,
        **more,
    }
    return Upstream(name=name, slots=Slots(len(slots), free, busy, draining, down, slots), **made)


def running(on: str, at: Slot, **more: Any) -> Request:
    """The request that has this slot of `on`."""
    made: dict[str, Any] = {
        "id": str(at.request_id),
        "model": "qwen3-30b-a3b",
        "surface": "messages",
        "upstream": on,
        "upstreams": [on],
        "phase": Phase(str(at.state)),
        "why": f"runs on {on} slot {at.index}",
        "waited_ms": 0,
        "running_ms": at.held_ms,
        "priority": Priority.INTERACTIVE,
        "stream": True,
        "pieces": at.pieces,
        "thought": at.thought,
        "bytes": 0,
        **more,
    }
    return Request(**made)


def waiting(place: int, length: int, *, of: Sequence[str] = ("box1",), waited: float = 0.0, **more: Any) -> Request:
    """One in line. `waited`: seconds."""
    made: dict[str, Any] = {
        "id": f"req_waits_{place}",
        "model": "qwen3-30b-a3b",
        "surface": "messages",
        "upstream": None,
        "upstreams": list(of),
        "phase": Phase.WAITING,
        "why": f"waits at place {place} of {length}",
        "cause": "2 slots are held, the longest for 43 s",
        "position": place,
        "queue_length": length,
        "estimated_wait_ms": 12_400 + 21_000 * (place - 1),
        "waited_ms": round(waited * 1000),
        "priority": Priority.INTERACTIVE,
        "stream": True,
        "pieces": 0,
        "thought": 0,
        "bytes": 0,
        **more,
    }
    return Request(**made)


def state(upstreams: Sequence[Upstream], requests: Sequence[Request] = (), *, draining: bool = False) -> State:
    """The whole of it; the lines are those in which somebody waits."""
    lengths: dict[tuple[str, ...], int] = {}
    for each in requests:
        if each.phase is Phase.WAITING:
            lengths[tuple(each.upstreams)] = lengths.get(tuple(each.upstreams), 0) + 1
    lines = [Line(list(names), length) for names, length in lengths.items()]
    return State(Gateway("0.1.0", 1_790_000_000, 12_000_000, draining), upstreams, lines, requests)


# ---- the scenes ------------------------------------------------------------------------------------------------------


def idle(count: int = 2) -> State:
    """All free."""
    return state([upstream("box1", [slot(number, SlotState.FREE) for number in range(count)])])


def busy() -> State:
    """Two servers, a slot in every phase, and a short line with keys and classes."""
    one = [
        slot(0, SlotState.PREFILL, 4.2, prompt=Prompt(6100, 8123)),
        slot(1, SlotState.THINKING, 21.0, prompt=Prompt(812, 812), thought=900, pieces=900, thinking_cap=4000),
        slot(2, SlotState.ANSWERING, 43.0, prompt=Prompt(2210, 2210), thought=640, pieces=952, thinking_cap=4000),
        slot(3, SlotState.FREE),
    ]
    two = [slot(None, SlotState.ANSWERING, 12.0, pieces=214), slot(None, SlotState.DRAINING, 1.5)]
    two[0] = msgspec.structs.replace(two[0], request_id="req_9")
    line = [
        waiting(1, 3, of=("vllm-a100",), waited=14.0, key="alice", model="gemma-3-27b"),
        waiting(2, 3, of=("vllm-a100",), waited=9.1, key="ci-nightly", priority=Priority.BATCH, model="gemma-3-27b"),
        waiting(3, 3, of=("vllm-a100",), waited=2.3, key="alice", model="gemma-3-27b", estimated_wait_ms=None),
    ]
    return state(
        [
            upstream("box1", one),
            upstream("vllm-a100", two, kind=Kind.VLLM, models=["gemma-3-27b"], waiting=3),
        ],
        [
            running("box1", one[0], key="alice"),
            running("box1", one[1], key="bob"),
            running("box1", one[2], key="alice"),
            running("vllm-a100", two[0], key="ci-nightly", model="gemma-3-27b"),
            *line,
        ],
    )


def overloaded(length: int = 60) -> State:
    """Two slots, and a line that is full."""
    slots = [
        slot(0, SlotState.ANSWERING, 43.0, prompt=Prompt(3120, 3120), pieces=411),
        slot(1, SlotState.PREFILL, 6.0, prompt=Prompt(1024, 31_877)),
    ]
    line = [waiting(place, length, waited=8.0 * (length - place) + 3) for place in range(1, length + 1)]
    return state(
        [upstream("box1", slots, waiting=length, queue=length)], [*(running("box1", each) for each in slots), *line]
    )


def broken() -> State:
    """One server out of order, one that loads, and those who wait for them."""
    down = [slot(number, SlotState.DOWN) for number in range(2)]
    loading = [slot(0, SlotState.LOADING)]
    cause = "box1 is out of order for 95 s"
    line = [waiting(place, 2, waited=100.0 - 30 * place, cause=cause, estimated_wait_ms=None) for place in (1, 2)]
    return state(
        [
            upstream(
                "box1",
                down,
                state="down",
                reason="Cannot connect to host 192.168.1.20:8081: connection refused",
                out_of_order_ms=95_000,
                waiting=2,
            ),
            upstream("box2", loading, state="loading", reason="it says: Loading model", models=[]),
        ],
        line,
    )


def draining() -> State:
    """The gateway is about to end."""
    slots = [slot(0, SlotState.ANSWERING, 12.0, pieces=120), slot(1, SlotState.FREE)]
    return state([upstream("box1", slots)], [running("box1", slots[0])], draining=True)


def hostile(markup: str) -> State:
    """Every name that somebody else chooses is markup."""
    slots = [slot(0, SlotState.ANSWERING, 1.0, pieces=3)]
    return state(
        [upstream(markup, slots, models=[markup, markup], state="down", reason=markup, waiting=1)],
        [
            running(markup, slots[0], model=markup, key=markup, why=markup),
            waiting(1, 1, of=(markup,), model=markup, key=markup, cause=markup),
        ],
    )
