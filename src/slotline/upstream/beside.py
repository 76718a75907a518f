"""Tasks that live beside a block: started with it or in it, ended with it, and never forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

Work = Coroutine[Any, Any, None]


@asynccontextmanager
async def beside(*work: Work) -> AsyncIterator[Callable[[Work], None]]:
    """Runs `work` for as long as the block lasts. The block is given what starts more of it.

    Unlike a bare `asyncio.TaskGroup`, which would wrap it, an error of the block itself arrives as it is: what ends the
    block is the caller's business. A fault of the work cancels the block, and arrives as an exception group.
    """
    group = asyncio.TaskGroup()
    await group.__aenter__()
    tasks: set[asyncio.Task[None]] = set()

    def start(each: Work) -> None:
        task = group.create_task(each)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for each in work:
        start(each)
    ended: BaseException | None = None
    try:
        yield start
    except asyncio.CancelledError as cancelled:  # which a fault of the work may have brought about
        ended = cancelled
        raise
    finally:
        for task in tasks:
            task.cancel()
        await group.__aexit__(None if ended is None else type(ended), ended, None)
