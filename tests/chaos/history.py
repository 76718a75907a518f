"""What happened in a chaos run, as those who were there wrote it down: one line of JSON for each event.

All clocks are the machine's monotonic one, which every process on it shares; `moment` in an entry is the server's.

    of a gateway      began, born(born), entry(number, moment, replica, commands), lapsed, idle
    of a request      asked, joined(number), told(number, position), granted(number, fence), released, left,
                      refused(why)
    of the storm      storm(what, who, lease, slots), and so for each thing that it does and undoes
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Diary:
    """One writer's. Each event is on its way to the disk when `note` returns, however the process ends after that."""

    def __init__(self, path: Path, who: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._who = who

    def note(self, what: str, **more: object) -> None:
        """`what` happened, now."""
        event = {"at": time.monotonic(), "by": self._who, "what": what, **more}
        os.write(self._file, json.dumps(event, default=list).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(paths: Iterable[Path]) -> list[Event]:
    """All events of all diaries, in the order of time. A line that its writer did not live to end is left out."""
    lines = [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]
    return sorted((json.loads(line) for line in lines if line.endswith(b"\n")), key=lambda event: event["at"])
