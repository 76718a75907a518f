"""The same commands give the same grants, places and moves in every process, whatever hashes it gives to words.

Several gateways with one line depend on that: each gives the same commands to a line of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from slotline.core.errors import Busy, LimitReached, Withdrawn
from slotline.core.line import Changes, Lines, Phase
from slotline.core.party import FairBy, Party
from slotline.core.room import Ticket

UPSTREAMS = ("alpha", "beta", "gamma", "delta", "epsilon")
PARTIES = (
    *(Party(f"key {key}", f"flow {flow}") for key in range(4) for flow in range(4)),
    *(Party(f"heavy {key}", weight=40 + key) for key in range(3)),
    *(Party(f"batch {key}", batch=True, weight=1 + key) for key in range(3)),
    Party("limited", "1", running=1, waiting=3),
    Party("limited", "2", running=2, waiting=3),
)


class Walk:
    """Commands of every kind by chance, and all that they cause, as text."""

    def __init__(self, fair_by: FairBy) -> None:
        self.chance = Random(7)
        rooms = {name: (1 + index % 3, 40) for index, name in enumerate(UPSTREAMS)}
        self.lines = Lines(rooms, 4000, fair_by, exclusive={"gamma", "delta"}, affinity=set(UPSTREAMS))
        self.retired: set[str] = set()
        self.now = 0.0
        self.tickets: list[Ticket] = []
        self.told: list[str] = []

    def run(self, steps: int) -> str:
        """A digest of what was told, and how much that was."""
        for _ in range(steps):
            self.now += self.chance.choice([0.0, 0.5, 2.0, 20.0])
            command = self.chance.choices([self.join, self.end, self.back, self.retry, self.turn], [9, 7, 1, 1, 1])[0]
            self.note(command())
        return f"{len(self.told)} {sha256(' '.join(self.told).encode()).hexdigest()}"

    def note(self, changes: Changes | str) -> None:
        if isinstance(changes, str):
            self.told.append(changes)
            return
        self.told += [f"{grant.ticket.number}@{grant.upstream}" for grant in changes.grants]
        self.told += ["+".join(sorted(line)) for line in changes.moved]
        self.told += [f"{self.lines.place(ticket)}" for ticket in self.tickets if self.waits(ticket)][:5]

    def waits(self, ticket: Ticket) -> bool:
        return self.lines.phase(ticket) is Phase.WAITING

    def join(self, number: int | None = None) -> Changes | str:
        upstreams = set(self.chance.sample(UPSTREAMS, self.chance.choice([1, 1, 2, 3])))
        party, cost = self.chance.choice(PARTIES), self.chance.choice([0.1, 1.0, 7.3])
        chat = self.chance.randrange(6)
        chain = (0, *range(chat * 100, chat * 100 + self.chance.randrange(1, 6)))
        model = self.chance.choice(["small", "large"])
        try:
            ticket, changes = self.lines.join(upstreams, self.now, 100, party, cost, model, number, chain)
        except (Busy, LimitReached, Withdrawn, KeyError) as error:
            return f"{error}"
        self.tickets.append(ticket)
        return changes

    def end(self) -> Changes | str:
        if not self.tickets:
            return "nobody"
        return self.lines.leave(self.tickets.pop(self.chance.randrange(len(self.tickets))), self.now)

    def back(self) -> Changes | str:
        if not self.tickets:
            return "nobody"
        ticket = self.tickets.pop()
        self.note(self.lines.leave(ticket, self.now))
        return self.join(ticket.number)

    def retry(self) -> Changes | str:
        for index, ticket in enumerate(self.tickets):
            if again := self.lines.retry(ticket, self.now):
                self.tickets[index], changes = again
                return changes
        return "nobody"

    def turn(self) -> Changes | str:
        """An upstream is resized, taken out, or comes back."""
        name = self.chance.choice(UPSTREAMS)
        if name in self.retired:
            self.retired.discard(name)
            return self.lines.add(name, 2, 40, self.now, exclusive=name == "delta", affinity=True)
        if self.chance.random() < 0.3 and len(self.retired) < 3:
            self.retired.add(name)
            changes, stranded = self.lines.retire(name, self.now)
            self.note(" ".join(str(ticket.number) for ticket in stranded))
            return changes
        return self.lines.resize(name, self.chance.randrange(4), self.now)


@pytest.mark.parametrize("fair_by", FairBy)
def test_the_same_commands_give_the_same_grants_in_processes_that_hash_words_differently(fair_by: FairBy) -> None:
    def told(seed: int) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        run = [sys.executable, str(Path(__file__)), fair_by]
        return subprocess.run(run, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout

    first, second = told(1), told(2)
    assert int(first.split()[0]) > 3_000, "much has happened"
    assert first == second


if __name__ == "__main__":
    sys.stdout.write(Walk(FairBy(sys.argv[1])).run(1_200))
