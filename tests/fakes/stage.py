"""A gateway before the stub, as processes and sockets that the vendors' own clients can talk to."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fakes.checker import check
from fakes.product import Caller, Program, ask, calling
from slotline.stub import Stub
from slotline.stub.standard import hang


@dataclass(frozen=True, slots=True)
class Stage:
    """The stub, and the product before it."""

    stub: Stub
    gateway: Program

    @asynccontextmanager
    async def crowded(self) -> AsyncIterator[None]:
        """Every slot is taken and silent, until the block ends."""
        callers = [await Caller.connect(self.gateway.url) for _ in range(self.stub.slots)]
        try:
            for caller in callers:
                await caller.send("POST", "/v1/messages", ask(model="held"))
            await self.stub.until(lambda state: state.running == self.stub.slots)
            yield
        finally:
            for caller in callers:
                caller.reset()

    async def waiting(self, count: int) -> None:
        """Returns once `count` requests wait in line: a caller that joins is told how many stand before it."""
        async with asyncio.timeout(10):
            while await self._place() != count + 1:
                pass

    async def _place(self) -> int:
        # Each time with other words: who sends the same again gets the place back that it had before.
        async with calling(self.gateway.url, "/llm/v1/messages", ask(secrets.token_hex(8))) as probe:
            first = await anext(probe.pieces(await probe.head()))
        return int(check(first, whole=False).places[0]["position"])


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Two slots and five tokens an answer; the model `held` is silent for ever."""
    async with Stub(slots=2, tokens=5, models=("stub", "held")) as stub:
        stub.by_model["held"] = hang()
        async with Program("serve", "--port", "0", "--upstream", stub.url, "--slots", "2") as gateway:
            yield Stage(stub, gateway)
