"""The model of grant, lease and crash, gone through by `spin` in all orders in which things may happen.

Promela and not Python, because what is to be shown is about every order of some dozens of steps: `spin` goes through
ten million states in the time in which Python goes through some ten thousand, and shows the steps to one that is wrong.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "line.pml"
pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs `spin` and `gcc`; on Debian: apt-get install spin"
)


async def run(*command: str, folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(out.decode())
    return out.decode()


async def searched(folder: Path, **settings: int) -> tuple[int, int, str]:
    """How many errors there are, in how many states, and what was said."""
    await run("spin", *(f"-D{name}={value}" for name, value in settings.items()), "-a", str(MODEL), folder=folder)
    await run("gcc", "-O1", "-DSAFETY", "-w", "-o", "pan", "pan.c", folder=folder)
    said = await run(str(folder / "pan"), "-m200000", "-w22", folder=folder)
    assert "max search depth too small" not in said
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    assert errors is not None
    assert states is not None
    return int(errors[1]), int(states[1]), said


async def test_whatever_two_things_go_wrong_the_cap_holds_and_nobody_is_lost(tmp_path: Path) -> None:
    errors, states, said = await searched(tmp_path, FAULTS=2)
    assert errors == 0, said
    assert states > 100_000


async def test_a_gateway_that_does_not_look_whether_its_slot_is_still_free_is_found(tmp_path: Path) -> None:
    errors, _, said = await searched(tmp_path, FAULTS=2, CARELESS=1)
    assert errors == 1
    assert "assertion violated (at_work<=1)" in said


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_whatever_three_things_go_wrong_it_does_so_as_well(tmp_path: Path) -> None:
    errors, states, said = await searched(tmp_path, FAULTS=3)
    assert errors == 0, said
    assert states > 1_000_000
