"""A call that outlives its connection: who loses it while waiting asks the same again, and stands where it stood.

The gateway keeps the place of whoever leaves the line for `rejoin`, 60 s by default, for the same body of the same
caller. Once a piece of the answer was heard there is no coming back: another answer would be another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Protocol

import msgspec

from slotline.cli.hearing import Failed, Fault, Heard, Text, Thinking

KEPT: Final = 60.0  # seconds for which a place is kept, unless the gateway is told otherwise
_LASTS: Final = 15.0  # seconds: a connection that broke sooner was none, and does not make the minute begin anew
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds before each further try; then the last one


class Lost(msgspec.Struct, frozen=True):
    """The connection is gone, and the same will be asked again."""

    why: str


class Asks(Protocol):
    """See `slotline.cli.asking.Asker`."""

    def ask(self, body: bytes, *, again: bool = False) -> AsyncGenerator[Heard]: ...


async def steadily(asker: Asks, body: bytes, kept: float = KEPT) -> AsyncGenerator[Heard | Lost]:
    """As `Asker.ask`. Gives up when no connection has lasted again for as long as a place is kept."""
    time = asyncio.get_running_loop().time
    since: float | None = None  # when a connection was lost, and none has lasted ever since
    tries, spoken = 0, False
    while True:
        lost: Failed | None = None
        asked = time()
        async with aclosing(asker.ask(body, again=since is not None)) as hearing:
            async for heard in hearing:
                spoken = spoken or isinstance(heard, (Thinking, Text))
                if isinstance(heard, Failed) and not spoken and _passes(heard, after_loss=since is not None):
                    lost = heard
                    break
                yield heard
        if lost is None:
            return
        if since is None or time() - asked >= _LASTS:
            since, tries = time(), 0
        if time() - since >= kept:
            yield lost
            return
        yield Lost(lost.message)
        await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        tries += 1


def _passes(failed: Failed, *, after_loss: bool) -> bool:
    """Whether another try can help: a connection broke, or does not come back yet."""
    return failed.fault in (Fault.BROKEN, Fault.ENDLESS) or (after_loss and failed.fault is Fault.UNREACHABLE)
