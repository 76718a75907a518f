"""The checker itself: it lets a good history pass, and finds each thing that is planted in one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from chaos.checker import check, recoveries
from chaos.history import Event

LEASE = 1.0
BORN = 1000


class Play:
    """A history as it would be written: gateways `a` and `b` before two slots, and whatever comes of the commands."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at = 0.0
        self.number = BORN
        self.ids = count(1)
        self.note("storm", "storm", does="begins", well=True, lease=LEASE, slots=2, late=0.5)
        for name in "ab":
            self.note(name, "born", born=BORN, replica=f"{name}.0")
        for name in "ab":
            self.write(name, ["offer", "x", 99], ["see", "x", 2])

    def note(self, by: str, what: str, **more: object) -> Event:
        self.at += 0.01
        self.events.append({"at": self.at, "by": by, "what": what, **more})
        return self.events[-1]

    def write(self, who: str, *commands: list[object], life: int = 0, readers: str = "ab") -> int:
        """One entry, that both read; the number of its first command."""
        number, moment = self.number, self.at
        for reader in readers:
            self.note(reader, "entry", number=number, moment=moment, replica=f"{who}.{life}", commands=list(commands))
        self.number += max(1, len(commands))
        return number

    def join(self, who: str, ticket: int, *, life: int = 0, number: int | None = None) -> int:
        """A request comes; the number under which it stands."""
        written = self.write(who, joins(ticket, number), life=life)
        stands = written if number is None else number
        if number is None:
            self.note(who, "asked", id=ticket)
            self.note(who, "joined", id=ticket, number=stands)
        return stands

    def leave(self, who: str, ticket: int, *, life: int = 0) -> None:
        self.note(who, "released", id=ticket)
        self.write(who, ["leave", ticket], life=life)

    def granted(self, who: str, ticket: int, number: int, fence: int) -> Event:
        return self.note(who, "granted", id=ticket, number=number, fence=fence)

    def storm(self, does: str, who: str = "", *, well: bool = False) -> None:
        self.note("storm", "storm", does=does, who=who, well=well)

    def pass_(self, seconds: float) -> None:
        self.at += seconds


def joins(ticket: int, number: int | None = None, holds: object = None) -> list[object]:
    return ["join", ticket, ["x"], 0, [], 1.0, "", [], number, number is not None, holds]


def good() -> Play:
    """Three come, two are served, then the third is."""
    play = Play()
    numbers = [play.join("a", 1), play.join("b", 1), play.join("a", 2)]
    play.granted("a", 1, numbers[0], numbers[0])
    play.granted("b", 1, numbers[1], numbers[1])
    play.note("a", "told", id=2, number=numbers[2], position=1)
    play.leave("a", 1)
    play.granted("a", 2, numbers[2], play.number - 1)
    play.leave("b", 1)
    play.leave("a", 2)
    return play


def test_a_good_history_passes() -> None:
    assert check(good().events) == []


def found(play: Play, *words: str) -> None:
    wrong = check(play.events)
    assert any(all(word in each for word in words) for each in wrong), wrong


Change = Callable[[Play], None]


def one(play: Play, what: str, index: int = 0) -> Event:
    return [event for event in play.events if event["what"] == what][index]


def _reads_something_else(play: Play) -> None:
    one(play, "entry", -1)["commands"] = [["leave", 99]]


def _skips_an_entry(play: Play) -> None:
    gone = one(play, "entry", 6)["number"]
    play.events = [event for event in play.events if event.get("number") != gone or event["what"] != "entry"]


def _clock_runs_backwards(play: Play) -> None:
    for event in [event for event in play.events if event["what"] == "entry"][-2:]:
        event["moment"] = 0.0


def _has_an_old_fence(play: Play) -> None:
    one(play, "granted", 2)["fence"] = one(play, "granted", 0)["fence"]


def _is_told_a_place_that_it_never_had(play: Play) -> None:
    one(play, "told")["position"] = 2


def _never_answers(play: Play) -> None:
    play.note("b", "asked", id=77)


def _never_ends(play: Play) -> None:
    play.events = [event for event in play.events if event["what"] != "released" or event["id"] != 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_reads_something_else, "read different things"),
        (_skips_an_entry, "entries that nobody read"),
        (_clock_runs_backwards, "runs backwards"),
        (_has_an_old_fence, "have the fence"),
        (_has_an_old_fence, "it was not its turn"),
        (_is_told_a_place_that_it_never_had, "that it stands at 2"),
        (_never_answers, "never answered its request 77"),
        (_never_ends, "never answered its request 2"),
    ],
)
def test_what_is_planted_is_found(change: Change, words: str) -> None:
    play = good()
    change(play)
    found(play, words)


def test_one_that_is_served_before_its_turn_is_found() -> None:
    play = Play()
    numbers = [play.join("a", 1), play.join("b", 1), play.join("a", 2), play.join("b", 2)]
    for who, ticket, number in (("a", 1, numbers[0]), ("b", 1, numbers[1])):
        play.granted(who, ticket, number, number)
    play.leave("a", 1)
    play.granted("b", 2, numbers[3], play.number - 1)
    found(play, "b runs number", "it was not its turn")


def test_more_at_work_than_there_are_slots_are_found() -> None:
    play = good()
    last = [play.join("a", 3), play.join("b", 3)]
    for who, number in zip("ab", last, strict=True):
        play.granted(who, 3, number, number)
    play.granted("b", 4, 1, 1)
    play.storm("is over")
    found(play, "3 are at work", "2 slots")


def over_the_cap(play: Play) -> list[str]:
    return [each for each in check(play.events) if "at work" in each]


def two_at_work() -> tuple[Play, int]:
    play = Play()
    numbers = [play.join("a", 1), play.join("a", 2), play.join("b", 1), play.join("b", 2)]
    for ticket, number in zip((1, 2), numbers[:2], strict=True):
        play.granted("a", ticket, number, number)
    return play, numbers[2]


def ended(play: Play, next_one: int) -> None:
    """The lease of `a` has ended, and `b` is served."""
    play.write("a")
    play.granted("b", 1, next_one, play.number - 1)


def test_what_runs_at_a_gateway_that_stands_still_does_not_count_and_counts_again_when_it_goes_on() -> None:
    play, next_one = two_at_work()
    play.storm("stops", "a")
    play.pass_(LEASE)
    ended(play, next_one)
    play.storm("continues", "a", well=True)
    for ticket in (1, 2):
        play.note("a", "released", id=ticket)
    play.note("b", "released", id=1)
    assert over_the_cap(play) == []
    late = [event for event in play.events if event["by"] == "a" and event["what"] == "released"]
    for event in late:
        event["at"] += 1.0
    for event in play.events:
        if event["by"] == "b" and event["what"] == "released":
            event["at"] += 1.0
    play.events.sort(key=lambda event: float(event["at"]))
    assert over_the_cap(play) != []


def test_what_runs_at_one_that_is_cut_off_counts_unless_the_server_began_anew_meanwhile() -> None:
    play, next_one = two_at_work()
    play.storm("cuts off", "a")
    play.pass_(LEASE)
    ended(play, next_one)
    play.note("a", "released", id=1)
    assert over_the_cap(play) != []
    play, next_one = two_at_work()
    play.storm("cuts off", "a")
    play.storm("stops server")
    play.storm("starts server")
    play.pass_(LEASE / 2)
    ended(play, next_one)
    for ticket in (1, 2):
        play.note("a", "released", id=ticket)
    play.note("b", "released", id=1)
    assert over_the_cap(play) == []


def test_what_a_killed_gateway_ran_ended_with_it_and_it_owes_nobody_an_answer() -> None:
    play, next_one = two_at_work()
    play.storm("kills", "a")
    play.pass_(LEASE)
    ended(play, next_one)
    for ticket in (1, 2):
        play.note("b", "released", id=ticket)
    assert check(play.events) == []


def test_a_line_that_stands_still_after_all_is_well_is_found() -> None:
    play, next_one = two_at_work()
    play.storm("kills", "a")
    play.storm("starts", "a", well=True)
    play.pass_(LEASE + 2.0)
    ended(play, next_one)
    play.storm("is over")
    found(play, "until somebody was served again")
    assert recoveries(play.events) == [pytest.approx(LEASE + 2.0, abs=0.1)]


def test_requests_that_hold_their_slots_over_a_new_beginning_are_not_in_the_way() -> None:
    """They say what they hold, under new names, and whoever waits stands where it stood."""
    play = Play()
    numbers = [play.join("a", 1), play.join("b", 1), play.join("b", 2), play.join("a", 2)]
    play.granted("a", 1, numbers[0], numbers[0])
    play.granted("b", 1, numbers[1], numbers[1])
    born = play.number = 5000
    for name in "ab":
        play.note(name, "born", born=born, replica=f"{name}.1")
    holds = ["x", 0.0, numbers[0], None]
    play.write("a", ["offer", "x", 99], joins(1, numbers[0], holds), ["bury", "a.0"], joins(2, numbers[3]), life=1)
    holds = ["x", 0.0, numbers[1], None]
    play.write("b", ["offer", "x", 99], joins(1, numbers[1], holds), ["bury", "b.0"], joins(2, numbers[2]), life=1)
    for name in "ab":
        play.write(name, ["see", "x", 2], life=1)
    play.note("a", "told", id=2, number=numbers[3], position=2)
    play.leave("a", 1, life=1)
    play.granted("b", 2, numbers[2], play.number - 1)
    play.leave("b", 1, life=1)
    play.granted("a", 2, numbers[3], play.number - 1)
    for who in "ba":
        play.note(who, "released", id=2)
    assert check(play.events) == []
