"""The drawing of a simulation."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from slotline.cli.plot import draw
from slotline.core.simulation.mixes import mix
from slotline.core.simulation.plan import Plan, Policy
from slotline.core.simulation.replay import simulate
from slotline.core.simulation.report import Report

PNG = b"\x89PNG\r\n\x1a\n"
WITHOUT = "import sys; sys.modules['matplotlib'] = None; from slotline.cli import main; main()"


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    requests = mix("steady", 300, random.Random(1))
    plans = [Plan(slots=slots, policy=policy) for slots in (1, 2) for policy in (Policy.FIFO, Policy.FAIR)]
    return [simulate(requests, plan) for plan in plans]


def test_an_svg_has_a_line_for_each_try_and_says_which(reports: list[Report], tmp_path: Path) -> None:
    draw(reports, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "<svg" in text
    for name in ("1 slot, fifo", "2 slots, fair", "How many waited", "Slots that worked (%)", "minutes since"):
        assert f">{name}" in text


def test_the_same_reports_give_the_same_file(reports: list[Report], tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw(reports[:1], tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_png_is_a_png(reports: list[Report], tmp_path: Path) -> None:
    draw(reports[:1], tmp_path / "x.PNG")
    assert (tmp_path / "x.PNG").read_bytes().startswith(PNG)


def test_without_the_library_it_says_how_to_get_it_before_anything_is_simulated(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, "simulate", "mix:steady", "--plot", str(tmp_path / "x.svg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: --plot needs matplotlib, which is not installed: pip install 'slotline[plot]'\n"
    assert done.stdout == ""


def test_the_command_draws(tmp_path: Path) -> None:
    """And leaves matplotlib alone where nothing is to be drawn."""
    file = tmp_path / "x.svg"
    code = "import sys; from slotline.cli import main; main(standalone_mode=False); print('matplotlib' in sys.modules)"
    for more, loaded in (((), "False"), (("--plot", str(file)), "True")):
        command = [sys.executable, "-c", code, "simulate", "mix:steady", "--limit", "50", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == loaded
    assert file.stat().st_size > 1_000
