"""A program that ends with whoever started it."""

from __future__ import annotations

import asyncio
import sys

import pytest

from fakes.processes import gone
from slotline.cli import tied

PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-P", sys.argv[1], str(os.getpid()), "sleep", "60"])
print(child.pid, flush=True)
sys.exit(child.wait())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no signal comes when a parent dies")
async def test_it_is_gone_when_its_parent_is_killed() -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, tied.__file__), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    async with asyncio.timeout(5):
        await parent.wait()
        await gone(child)


async def test_it_is_gone_at_once_where_the_parent_is_gone_already() -> None:
    """Process 1 is nobody's wrong parent: it has not started this one."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", tied.__file__, "1", "sleep", "60")
    async with asyncio.timeout(10):
        assert await process.wait() == -9


HEARD = """
import os, subprocess, sys
print(subprocess.check_output([sys.executable, "-P", sys.argv[1], str(os.getpid()), "echo", "a", "b  c"]).decode())
"""


async def test_else_it_is_that_program_with_all_that_this_one_says() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HEARD, tied.__file__), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "a b  c"
