"""Every client that people use gets the right answer, at once and after a wait, with one request and without an error.

Not part of `make test`: `make test-clients` brings the clients, runs this, and writes `docs/clients.md` from what it
saw.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from clients.results import RESULTS, Row, merged, read, write
from clients.scene import CROWD, RESULT, TEXT, Told, called, perform, scene
from clients.table import Case, Way, broken, cases
from fakes.gateway import Front
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, ensure

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """What is seen here; it takes the place of what was seen before."""
    seen: list[Row] = []
    yield seen
    write(merged(read(RESULTS), seen), RESULTS)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine() -> AsyncIterator[str]:
    """The real engine's address."""
    spec = EngineSpec(ensure(default_cache(), lambda _: None), "smollm2", slots=2, context=8192)
    async with Engine(spec, lambda _: None) as running:
        await running.started()
        yield running.url


STUB, ENGINE = ([case for case in cases() if case.upstream == upstream] for upstream in ("stub", "engine"))


@pytest.mark.parametrize("case", STUB, ids=str)
async def test_it_gets_the_right_answer(case: Case, rows: list[Row], tmp_path: Path) -> None:
    """The right text, and the right tool with the right arguments; one request for each answer; nobody fails."""
    row, said, front = await seen(case, rows, tmp_path, None)
    assert said.error is None
    assert said.text == TEXT
    client = case.client
    if case.way is Way.TOOLS:
        name, arguments, result = called(front)
        assert (name, arguments) == (client.tool, client.arguments)
        assert RESULT in result
        assert said.tool in (None, {"name": client.tool, "input": client.arguments})
    assert row.requests == (2 if case.way is Way.TOOLS else 1)
    assert row.faultless
    row.right = True


@pytest.mark.parametrize("case", ENGINE, ids=str)
async def test_a_real_model_answers_it(case: Case, rows: list[Row], tmp_path: Path, engine: str) -> None:
    """Some text comes, by one request, from the real llama.cpp server."""
    row, said, _ = await seen(case, rows, tmp_path, engine)
    assert said.error is None
    assert said.text
    assert row.requests == 1
    assert row.faultless
    row.right = True


@pytest.mark.parametrize("case", [*broken()], ids=str)
async def test_what_is_said_to_break_does(case: Case, rows: list[Row], tmp_path: Path) -> None:
    """Otherwise the page would warn of what works."""
    _, said, _ = await seen(case, rows, tmp_path, None)
    assert said.error is not None


async def seen(case: Case, rows: list[Row], home: Path, engine: str | None) -> tuple[Row, Told, Front]:
    """The case, played; its row does not say yet that all was right."""
    if not case.client.interpreter.exists():
        pytest.skip(f"{case.client.folder} is not there: make test-clients")
    async with scene(engine) as front:
        said = await perform(case, front, home)
        await front.settled(within=10)
        crowd = Counter(CROWD if case.waiting else [])
        ends = Counter(front.outcomes)
        row = Row(
            client=case.client.key,
            versions=case.client.versions,
            mount=case.mount,
            way=case.way,
            upstream=case.upstream,
            waiting=case.waiting,
            right=False,
            faultless=set(ends - crowd) == {"completed"} and not front.log.faults,
            requests=ends.total() - crowd.total(),  # a story of the real engine may have come to its own end
            shown="queue" in said.events,
            error=said.error and gist(said.error),
            date=datetime.now(UTC).date().isoformat(),
        )
    rows.append(row)
    return row, said, front


def gist(error: str) -> str:
    """The line that says what went wrong: Node's first one, Python's last."""
    lines = [line.strip() for line in error.strip().splitlines()]
    return next((line for line in lines if re.match(r"[\w.\[\] ]*(Error|Exception)\b.*:", line)), lines[-1])[:200]
