"""What a command costs does not grow with the line. Counted, not timed: a count is the same on every machine.

The containers that hold those who wait are replaced by ones that count each element they give out, and that refuse
every way of walking them. So a command that walks the line fails here, in Python and inside a C function alike
(`list`, `sorted`, `sum` and `in` ask a subclass for its iterator, too). What the counts leave out is the one block of
memory that leaving moves; `benchmarks/line.py` times that.

The sums of the costs before each ticket are kept, and added up where they are not known; that is counted by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import pytest

from slotline.core.errors import Busy
from slotline.core.fairness import Queue
from slotline.core.line import Lines, Place
from slotline.core.party import NOBODY, Party
from slotline.core.room import Ticket

X = frozenset("x")
KEYS = tuple(Party(key) for key in "abcde")
LONG = 10_000
SEARCH = 14  # elements that a binary search looks at among 10,000: 2 ** 14 = 16,384


def walk(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a command walks the line")


class CountingList(list[int]):
    """Counts the elements that it gives out, and cannot be walked."""

    given = 0

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            walk()
        type(self).given += 1
        return super().__getitem__(key)

    __iter__ = __reversed__ = __contains__ = __eq__ = __add__ = __mul__ = walk
    __hash__ = None
    index = count = copy = sort = reverse = remove = extend = walk


class SlicedList(list[int]):
    """Notes how many elements were taken at once."""

    def __init__(self, elements: Iterable[int]) -> None:
        super().__init__(elements)
        self.sliced: list[int] = []

    def __getitem__(self, key: Any) -> Any:
        taken = super().__getitem__(key)
        if isinstance(key, slice):
            self.sliced.append(len(taken))
        return taken


class CountingDict(dict[int, Ticket]):
    """Cannot be walked; a look-up costs the same at any length."""

    __iter__ = __reversed__ = __eq__ = __or__ = walk
    __hash__ = None
    keys = values = items = copy = walk


def long_line(length: int, parties: tuple[Party, ...] = (NOBODY,)) -> tuple[Lines, list[Ticket]]:
    """One slot taken, `length` waiting, and a second line that meets the first. From here on all is counted."""
    lines = Lines({"x": (1, 2 * LONG), "y": (0, 2 * LONG)})
    running, _ = lines.join("x", 0.0)
    tickets = [
        lines.join("x" if number % 2 else "xy", 0.0, party=parties[number % len(parties)])[0]
        for number in range(length)
    ]
    for line in lines._crowd.lines.values():
        line.waiting = {party: CountingList(numbers) for party, numbers in line.waiting.items()}
    for queue in queues(lines):
        queue.work(len(queue))  # the sums are known
        queue.numbers = CountingList(queue.numbers)
        queue.sums = CountingList(queue.sums)
    lines._crowd.tickets = CountingDict(dict(lines._crowd.tickets))
    return lines, [running, *tickets]


def queues(lines: Lines) -> list[Queue]:
    circles = [circle for pool in lines._crowd.pools for circle in pool.circles]
    return [queue for circle in circles for queue in circle.waiting.values() if isinstance(queue, Queue)]


def given(command: Callable[[], object]) -> int:
    """How many elements of the lines `command` looked at."""
    before = CountingList.given
    command()
    return CountingList.given - before


def test_the_counting_containers_notice_every_way_of_walking() -> None:
    numbers, tickets = CountingList([1, 2, 3]), CountingDict({1: Ticket(1, X)})
    ways: Iterable[Callable[[], object]] = (
        lambda: list(numbers),
        lambda: sorted(numbers),
        lambda: sum(numbers),
        lambda: 2 in numbers,
        lambda: numbers[1:],
        lambda: numbers.remove(2),
        lambda: numbers.index(2),
        lambda: [*numbers],
        lambda: enumerate(numbers),
        lambda: list(tickets),
        tickets.values,
    )
    for way in ways:
        with pytest.raises(AssertionError, match="walks the line"):
            way()
    assert given(lambda: numbers[0]) == 1


def test_joining_a_long_line_looks_at_the_last_in_each_line_and_pool_alone() -> None:
    lines, _ = long_line(LONG)
    assert given(lambda: lines.join("x", 0.0)) == 4


@pytest.mark.parametrize("where", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("parties", [(NOBODY,), KEYS], ids=["nobody", "five keys"])
def test_a_place_in_a_long_line_is_found_by_a_few_binary_searches_for_each_party(
    where: float, parties: tuple[Party, ...]
) -> None:
    lines, (_, *tickets) = long_line(LONG, parties)
    index = round(where * (LONG - 1))
    places: list[Place] = []
    assert given(lambda: places.append(lines.place(tickets[index]))) <= len(parties) * 7 * SEARCH
    assert places == [Place(index + 1, LONG)]


@pytest.mark.parametrize("where", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_leaving_a_long_line_looks_up_one_place_in_it_and_in_each_pool_and_the_last_of_each_line(where: float) -> None:
    lines, (_, *tickets) = long_line(LONG)
    leaver = tickets[round(where * (LONG - 1))]
    assert given(lambda: lines.leave(leaver, 0.0)) <= 3 * SEARCH + 2


@pytest.mark.parametrize("parties", [(NOBODY,), KEYS], ids=["nobody", "five keys"])
def test_a_grant_from_a_long_line_looks_at_the_first_of_each_party_and_up_one_place(parties: tuple[Party, ...]) -> None:
    lines, (running, *_) = long_line(LONG, parties)
    assert given(lambda: lines.release(running, 0.0)) <= 4 * len(parties) + 3 * SEARCH + 2


def test_leaving_the_middle_makes_the_next_place_behind_it_add_up_the_costs_behind_it_once() -> None:
    lines = Lines({"x": (1, LONG)})
    lines.join("x", 0.0)
    tickets = [lines.join("x", 0.0)[0] for _ in range(100)]
    (queue,) = queues(lines)
    queue.costs = costs = SlicedList(queue.costs)
    lines.place(tickets[99])
    lines.leave(tickets[60], 0.0)
    lines.place(tickets[10])
    lines.place(tickets[99])
    lines.leave(tickets[0], 0.0)
    lines.place(tickets[50])
    assert costs.sliced == [100, 39]


def test_going_back_into_a_long_line_searches_in_it_and_looks_at_the_first_and_last_of_each_line() -> None:
    lines, (running, *_) = long_line(LONG)
    lines.resize("y", 1, 0.0)  # granted to the earliest who may have it: the first of all who wait
    (elsewhere,) = lines.room("y").running
    results: list[object] = []
    assert given(lambda: results.append(lines.retry(elsewhere, 0.0))) <= 5 * SEARCH + 16
    assert results != [None]
    assert lines.room("x").running.keys() == {running}


def test_a_refusal_by_a_long_line_looks_at_nobody_in_it() -> None:
    lines, _ = long_line(LONG)
    lines._rooms["x"].queue = lines._rooms["y"].queue = 0

    def refused() -> None:
        with pytest.raises(Busy, match="10000 wait, and at most queue = 0"):
            lines.join("x", 0.0)

    assert given(refused) == 0


def test_questions_about_a_long_line_look_at_nobody_in_it() -> None:
    lines, (running, first, *_) = long_line(LONG)
    for question in (
        lines.lines,
        lambda: lines.phase(first),
        lambda: lines.phase(running),
        lambda: repr(lines),
    ):
        assert given(question) == 0


def test_a_line_a_thousand_times_as_long_is_searched_in_ten_steps_more() -> None:
    """The same commands, counted before 10 and before 10,000: they differ by the steps of the binary searches."""

    def counts(length: int) -> tuple[int, int, int]:
        lines, (running, *tickets) = long_line(length)
        middle, last = tickets[length // 2], tickets[-1]
        return (
            given(lambda: lines.place(last)),
            given(lambda: lines.leave(middle, 0.0)),
            given(lambda: lines.release(running, 0.0)),
        )

    place, leave, release = (many - few for few, many in zip(counts(10), counts(LONG), strict=True))
    assert 0 < place <= 7 * 11
    assert 0 < leave <= 3 * 11
    assert 0 < release <= 3 * 11
