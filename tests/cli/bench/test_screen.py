"""How far a bench is."""

from __future__ import annotations

from io import StringIO

import msgspec
from rich.console import Console

from cli.bench.test_report import PLAN, WHOLE
from slotline.cli.bench.load import Load
from slotline.cli.bench.sample import End, Measure
from slotline.cli.bench.screen import counts, remaining, screen
from slotline.cli.hearing import Begun, Queued, Text


async def load() -> Load:
    made = Load(PLAN, [])
    made.samples = [WHOLE, WHOLE, msgspec.structs.replace(WHOLE, end=End.LEFT, tokens=0)]
    runs, waits = Measure(0, 0.0, 0.0), Measure(1, 0.0, 0.0)
    for heard in (Begun(), Text("a"), Text("b")):
        runs.hear(heard, 1.0)
    waits.hear(Queued(1, 1, None), 1.0)
    made.going = {runs, waits}
    return made


async def test_it_counts_and_says_how_long_it_will_take() -> None:
    made = await load()
    assert counts(made, 4.0) == "2 done · 1 running · 1 in line · 1 left · 0.5/s · 6 tokens/s · 8.0 s to go"
    assert counts(made, 0.0).endswith(" · 1 left · 0.0 s to go")
    made.samples.clear()
    assert remaining(made, 4.0) is None
    made.plan = msgspec.structs.replace(PLAN, requests=None, seconds=10.0)
    assert remaining(made, 4.0) == 6.0


async def test_the_bar_has_a_line_of_its_own() -> None:
    made = await load()
    made.began, made.ended = 1.0, 5.0
    console = Console(file=StringIO(), width=80)
    console.print(screen(made))
    assert isinstance(console.file, StringIO)
    bar, words = console.file.getvalue().splitlines()
    assert set(bar.strip()) <= set("━╸╺")
    assert words.startswith("2 done · ")
