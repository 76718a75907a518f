"""`x-slotline-progress: 1`: what a client is told between its grant and the first token."""

from __future__ import annotations

from fakes.checker import check
from fakes.gateway import fronted
from fakes.product import ask
from slotline.core.limits import Limits
from slotline.stub import Stub

WANTS = {"x-slotline-progress": "1"}


async def test_prefill_is_told_step_by_step_before_the_message() -> None:
    async with fronted(stub=Stub(prefill=0.2, batches=4, tokens=1)) as front:
        told = check((await front.fetch(ask("word " * 50), headers=WANTS)).body)
        assert [frame["stage"] for frame in told.progress] == ["prefill"] * len(told.progress)
        done = [frame["processed"] for frame in told.progress]
        assert len(done) > 2
        assert done == sorted(done)
        assert done[-1] == told.progress[-1]["total"]


async def test_loading_is_told_for_as_long_as_it_lasts() -> None:
    async with fronted(stub=Stub(tokens=1), limits=Limits(poll=0.05)) as front:
        front.stub.start_loading(0.3)
        told = check((await front.fetch(ask(), headers=WANTS)).body)
        assert told.complete
        assert told.progress[0] == {"type": "progress", "stage": "loading", "processed": None, "total": None}


async def test_nobody_else_is_told() -> None:
    async with fronted(stub=Stub(prefill=0.1, tokens=1)) as front:
        assert check((await front.fetch(ask())).body).progress == []
        whole = await front.fetch(ask(stream=False), headers=WANTS)
        assert whole.json()["content"]
