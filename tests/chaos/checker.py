"""Whether a history is one that may be: it knows the rules, and nothing of how they are kept.

The journal is gone through once more, with a line that is a list, and a grant to whoever has the lowest number. What
gateways saw must agree with that: each entry, each grant, each position that anybody was told. And the clock must
agree: never more at work than there are slots, but for what the table of failures allows, nobody forgotten, and nobody
kept waiting for long after a failure is over.

    a gateway that stands still (SIGSTOP) cannot stop what it runs: that does not count from its stop until it goes on
    a server that begins anew knows of those who can reach it within half a lease: who cannot does not count from then
      on until a lease has passed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from chaos.history import Event

SOON = 0.25  # seconds that pass between an end and the note of it, in a process that has much to do


@dataclass
class Model:
    """The line of one upstream, since one journal began."""

    sights: dict[str, int] = field(default_factory=dict)  # replica → slots that it sees, those that offer it only
    waiting: dict[int, tuple[str, int]] = field(default_factory=dict)  # number → whose, and which of theirs
    running: dict[tuple[str, int], int] = field(default_factory=dict)  # whose, and which of theirs → number
    fence: int = 0
    grants: list[tuple[int, int]] = field(default_factory=list)  # number, fence
    places: dict[int, set[int]] = field(default_factory=dict)  # number → all positions that it ever had

    @property
    def slots(self) -> int:
        return min((slots for slots in self.sights.values() if slots), default=0)

    def apply(self, entry: Event) -> None:
        number = entry["number"]
        self.fence = max(self.fence, number - 1)
        if not entry["commands"]:
            self._end(entry["replica"])
        for index, (kind, *what) in enumerate(entry["commands"]):
            self._take(entry["replica"], kind, what, number + index)
        for position, waiting in enumerate(sorted(self.waiting), 1):
            self.places.setdefault(waiting, set()).add(position)

    def _take(self, replica: str, kind: str, what: list[object], number: int) -> None:
        match kind:
            case "offer":
                self.sights.setdefault(replica, 0)
            case "see" if replica in self.sights:
                self.sights[replica] = int(str(what[1]))
            case "join":
                self._join(replica, what, number)
            case "leave":
                self._leave((replica, int(str(what[0]))))
            case "bury":
                self._end(str(what[0]))
            case "see" | "mark" | "keep":
                pass
            case _:
                raise ValueError(f"the storm does nothing that is a {kind}")
        self._fill()

    def _join(self, replica: str, what: list[object], number: int) -> None:
        ticket, place, holds = int(str(what[0])), what[7], what[9]
        stands = number if place is None or int(str(place)) in self.waiting else int(str(place))
        if holds is not None:
            self.running[replica, ticket] = stands
        else:
            self.waiting[stands] = replica, ticket
            self.places.setdefault(stands, set()).add(1 + sum(other < stands for other in self.waiting))

    def _leave(self, owner: tuple[str, int]) -> None:
        self.running.pop(owner, None)
        for number in [number for number, other in self.waiting.items() if other == owner]:
            del self.waiting[number]

    def _end(self, replica: str) -> None:
        self.sights.pop(replica, None)
        for number in [number for number, (name, _) in self.waiting.items() if name == replica]:
            del self.waiting[number]
        for owner in [owner for owner in self.running if owner[0] == replica]:
            del self.running[owner]
        self._fill()

    def _fill(self) -> None:
        while self.waiting and len(self.running) < self.slots:
            number = min(self.waiting)
            self.running[self.waiting.pop(number)] = number
            self.fence += 1
            self.grants.append((number, self.fence))


def check(events: list[Event]) -> list[str]:
    """What is wrong with it, in words; nothing is best."""
    return [
        *_check_entries(events),
        *_check_grants(events),
        *_check_the_cap(events),
        *_check_that_nobody_is_forgotten(events),
        *_check_recovery(events),
    ]


def _of(events: list[Event], *what: str) -> list[Event]:
    return [event for event in events if event["what"] in what]


def _settings(events: list[Event]) -> Event:
    return next(event for event in events if event["what"] == "storm" and event["does"] == "begins")


# ---- the journal -----------------------------------------------------------------------------------------------------


def _entries(events: list[Event]) -> dict[int, Event]:
    return {event["number"]: event for event in _of(events, "entry")}


def _check_entries(events: list[Event]) -> list[str]:
    """All read the same, in one order, and nothing is left out."""
    wrong: list[str] = []
    first: dict[int, Event] = {}
    for event in _of(events, "entry"):
        known = first.setdefault(event["number"], event)
        if any(known[key] != event[key] for key in ("moment", "replica", "commands")):
            wrong.append(f"{event['by']} and {known['by']} read different things at {event['number']}")
    births = {event["born"] for event in _of(events, "born")}
    for before, after in pairwise(first[number] for number in sorted(first)):
        if after["number"] in births:
            continue
        if before["number"] + max(1, len(before["commands"])) != after["number"]:
            wrong.append(f"between {before['number']} and {after['number']} there are entries that nobody read")
        if before["moment"] > after["moment"]:
            wrong.append(f"at {after['number']} the server's clock runs backwards")
    return wrong


def _models(events: list[Event]) -> list[Model]:
    births = {event["born"] for event in _of(events, "born")}
    models: list[Model] = []
    for number, entry in sorted(_entries(events).items()):
        if not models or number in births:
            models.append(Model())
        models[-1].apply(entry)
    return models


def _check_grants(events: list[Event]) -> list[str]:
    """Each grant that was acted on is one that the line makes, and so is each position that was told."""
    wrong: list[str] = []
    models = _models(events)
    granted = {grant for model in models for grant in model.grants}
    places: dict[int, set[int]] = {}
    for model in models:
        for number, positions in model.places.items():
            places.setdefault(number, set()).update(positions)
    seen: dict[int, Event] = {}
    for event in _of(events, "granted"):
        number, fence = event["number"], event["fence"]
        if (number, fence) not in granted:
            wrong.append(f"{event['by']} runs number {number} with fence {fence}, and it was not its turn")
        if fence in seen:
            wrong.append(f"{event['by']} and {seen[fence]['by']} have the fence {fence}")
        seen[fence] = event
    return wrong + [
        f"{event['by']} told number {event['number']} that it stands at {event['position']}"
        for event in _of(events, "told")
        if event["position"] not in places.get(event["number"], set())
    ]


# ---- the clock -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """From one time to another."""

    since: float
    until: float

    def meets(self, other: Span) -> bool:
        return self.since <= other.until and other.since <= self.until


def _troubles(events: list[Event]) -> dict[str, list[Span]]:
    """Each kind of trouble and whom it hits, by `does` and `who`, from its beginning to its end."""
    pairs = {
        "stops": "continues",
        "cuts off": "mends",
        "kills": "starts",
        "silences": "resumes",
        "stops server": "starts server",
    }
    ends = {end: begin for begin, end in pairs.items()}
    spans: dict[str, list[Span]] = {}
    open_: dict[str, float] = {}
    last = events[-1]["at"] if events else 0.0
    for event in _of(events, "storm"):
        does, who = event["does"], event.get("who", "")
        if does in pairs:
            open_[f"{does} {who}"] = event["at"]
        elif does in ends and f"{ends[does]} {who}" in open_:
            key = f"{ends[does]} {who}"
            spans.setdefault(key, []).append(Span(open_.pop(key), event["at"]))
    for key, since in open_.items():
        spans.setdefault(key, []).append(Span(since, last))
    return spans


def _runs(events: list[Event]) -> list[tuple[str, Span]]:
    """Who was at work, from when to when. What a gateway runs that is killed ends with it."""
    last = events[-1]["at"] if events else 0.0
    begun: dict[tuple[str, int], float] = {}
    runs: list[tuple[str, Span]] = []
    for event in events:
        by = event["by"]
        if event["what"] == "granted":
            begun[by, event["id"]] = event["at"]
        elif event["what"] == "released" and (by, event["id"]) in begun:
            runs.append((by, Span(begun.pop((by, event["id"])), event["at"])))
        elif event["what"] == "storm" and event["does"] == "kills":
            theirs = [key for key in begun if key[0] == event["who"]]
            runs += [(event["who"], Span(begun.pop(key), event["at"])) for key in theirs]
    return [*runs, *((by, Span(since, last)) for (by, _), since in begun.items())]


def _excused(events: list[Event]) -> dict[str, list[Span]]:
    """When the work of a gateway does not count: see above."""
    lease = _settings(events)["lease"]
    troubles = _troubles(events)
    excused: dict[str, list[Span]] = {}
    births = [span.until for span in troubles.get("stops server ", [])]
    for who in {event["by"] for event in events}:
        stood = troubles.get(f"stops {who}", [])
        spans = [Span(span.since, span.until + SOON) for span in stood]
        for birth in births:
            settles = Span(birth, birth + lease / 2 + SOON)
            if any(span.meets(settles) for span in [*stood, *troubles.get(f"cuts off {who}", [])]):
                spans.append(Span(birth, birth + lease + SOON))
        excused[who] = spans
    return excused


def _check_the_cap(events: list[Event]) -> list[str]:
    slots, excused = _settings(events)["slots"], _excused(events)
    edges: list[tuple[float, int, str]] = []
    for by, run in _runs(events):
        for part in _without(run, excused.get(by, [])):
            edges += [(part.since, +1, by), (part.until, -1, by)]
    wrong, at_work = [], 0
    for at, step, by in sorted(edges):
        at_work += step
        if at_work > slots:
            wrong.append(f"at {at:.3f} {at_work} are at work, the last at {by}, and there are {slots} slots")
    return wrong


def _without(span: Span, others: list[Span]) -> list[Span]:
    parts = [span]
    for other in others:
        parts = [
            part
            for each in parts
            for part in (
                [Span(each.since, min(each.until, other.since)), Span(max(each.since, other.until), each.until)]
                if each.meets(other)
                else [each]
            )
            if part.since < part.until
        ]
    return parts


def _check_that_nobody_is_forgotten(events: list[Event]) -> list[str]:
    """Whoever asked a gateway that was not killed has an answer in the end."""
    killed = {event["who"] for event in _of(events, "storm") if event["does"] == "kills"}
    ends = {(event["by"], event["id"]) for event in _of(events, "released", "left", "refused")}
    return [
        f"{event['by']} never answered its request {event['id']}"
        for event in _of(events, "asked")
        if event["by"] not in killed and (event["by"], event["id"]) not in ends
    ]


def recoveries(events: list[Event]) -> list[float]:
    """Seconds from each moment in which all was well again to the next grant, as far as there was one before more."""
    lease = _settings(events)["lease"]
    storm = _of(events, "storm")
    grants = [event["at"] for event in _of(events, "granted")]
    found = []
    for before, after in pairwise(storm):
        if before["well"] and after["at"] - before["at"] > lease + 1.0:
            found += [at - before["at"] for at in grants if before["at"] < at <= after["at"]][:1] or [
                after["at"] - before["at"]
            ]
    return found


def _check_recovery(events: list[Event]) -> list[str]:
    limit = _settings(events)["lease"] + 1.0 + _settings(events)["late"]
    return [
        f"it took {took:.2f} s until somebody was served again, and may take {limit:g} s"
        for took in recoveries(events)
        if took > limit
    ]


def decoded(commands: bytes) -> list[list[object]]:
    """Commands as a journal has them, as an entry in a history has them."""
    found: list[list[object]] = msgspec.msgpack.decode(commands, type=list[list[object]]) if commands else []
    return found
