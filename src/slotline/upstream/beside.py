"""Tasks that live beside a block: started with it, ended with it, and never forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` for as long as the block lasts.

    Unlike a bare `asyncio.TaskGroup`, which would wrap it, an error of the block itself arrives as it is: what ends the
    block is the caller's business. A fault of the work cancels the block, and arrives as an exception group.
    """
    group = asyncio.TaskGroup()
    await group.__aenter__()
    tasks = [group.create_task(each) for each in work]
    ended: BaseException | None = None
    try:
        yield
    except asyncio.CancelledError as cancelled:  # which a fault of the work may have brought about
        ended = cancelled
        raise
    finally:
        for task in tasks:
            task.cancel()
        await group.__aexit__(None if ended is None else type(ended), ended, None)
