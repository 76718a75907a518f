"""Processes of others, as Linux shows them: who they are, and when they are gone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def children(parent: int) -> dict[int, str]:
    """The processes that `parent` has started, in that order, by their ids: the command line of each."""
    pids = map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    return {pid: Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids}


async def gone(pid: int) -> None:
    """Returns when the process `pid` has ended, whoever its parent is; pidfd_open(2)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """They do nothing within the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
