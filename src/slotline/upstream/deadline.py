"""A deadline that moves: like `asyncio.timeout`, but moving it later costs one assignment.

An answer of a thousand tokens moves its deadline a thousand times. The timer is therefore set once and looks, when it
fires, whether the deadline has moved on meanwhile; only then is it set again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Self


class Deadline:
    """`async with Deadline(at, error)`: cancels the block at `at` (loop time) and raises what `error()` returned then.

    A cancellation from outside wins over it, whichever of the two came first.
    """

    __slots__ = ("_armed", "_at", "_cancelling", "_error", "_failure", "_loop", "_task", "_timer")

    def __init__(self, at: float, error: Callable[[], Exception]) -> None:
        self._at = at
        self._error = error
        self._failure: Exception | None = None  # made when the deadline passes: a moment later it might be another
        self._armed = inf  # when the timer will look
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._arm()
        return self

    def move(self, at: float) -> None:
        """The block now has until `at`."""
        self._at = at
        if at < self._armed:
            self._arm()

    def suspend(self) -> None:
        """The block has all the time it wants, until `move` is called."""
        self._at = inf

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disarm()
        self._armed = -inf  # no `move` arms it again
        if self._failure is None or self._task is None:
            return
        ours_alone = self._task.uncancel() <= self._cancelling
        if ours_alone and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise self._failure from error

    def _arm(self) -> None:
        self._disarm()
        self._armed = self._at
        self._timer = self._loop.call_at(self._at, self._look)

    def _disarm(self) -> None:
        self._armed = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._disarm()
        if self._at == inf:
            return
        if self._loop.time() < self._at:
            self._arm()
        elif self._task is not None:
            self._failure = self._error()
            self._task.cancel()
