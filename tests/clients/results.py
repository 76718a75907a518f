"""What was seen when the clients were tried: rows in `results.json`, which is kept beside the code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from clients.table import HERE, Case, Way, broken, cases

RESULTS = HERE / "results.json"


class Row(msgspec.Struct, kw_only=True):
    """One case and how it went."""

    client: str  # `Client.key`
    versions: dict[str, str]  # by package
    mount: str
    way: Way
    upstream: str  # stub | engine
    waiting: bool
    right: bool  # the right answer, one request each, no error
    faultless: bool  # the gateway itself ended all well and logged no error
    requests: int  # that reached the gateway and were answered
    shown: bool  # whether the code around the client got to see its place in line
    error: str | None
    date: str  # of the run, YYYY-MM-DD in UTC

    @property
    def place(self) -> tuple[str, str, str, str, bool]:
        """Which case it is."""
        return (self.client, self.mount, self.way, self.upstream, self.waiting)


Place = tuple[str, str, str, str, bool]


def place(case: Case) -> Place:
    """By what a row and its case know each other."""
    return (case.client.key, case.mount, case.way, case.upstream, case.waiting)


def wanted() -> list[Place]:
    """The cases of the table, in its order."""
    return [place(case) for case in (*cases(), *broken())]


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """The newer row of each case, in the table's order; what the table does not have any more is dropped."""
    rows = {row.place: row for row in (*old, *new)}
    return [rows[place] for place in wanted() if place in rows]


def read(path: Path) -> list[Row]:
    return msgspec.json.decode(path.read_bytes(), type=list[Row]) if path.exists() else []


def write(rows: Iterable[Row], path: Path) -> None:
    """A line for each row, so that a difference can be read."""
    lines = b",\n".join(msgspec.json.encode(row) for row in rows)
    path.write_bytes(b"[\n" + lines + b"\n]\n")
