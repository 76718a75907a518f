"""A simulated request, as the estimator sees it."""

from __future__ import annotations

from slotline.core.room import Ticket
from slotline.core.simulation.flight import Clock, Flight
from slotline.core.simulation.request import Request


def flight(request: Request, reading: float, answering: float) -> Flight:
    return Flight(request, ("", False), 0, 0.0, reading, answering, reading + answering, Clock())


def test_nothing_has_begun_before_the_prompt_is_read() -> None:
    one = flight(Request(0.0, prompt=500, output=100), 2.0, 10.0)
    assert (one.began, one.pieces) == (None, 0)
    one.granted = 5.0
    one.clock.now = 6.9
    assert (one.began, one.pieces) == (None, 0)
    one.clock.now = 7.0
    assert (one.began, one.pieces) == (7.0, 0)


def test_pieces_come_evenly_and_no_more_than_there_are() -> None:
    one = flight(Request(0.0, prompt=500, output=100), 2.0, 10.0)
    one.granted = 5.0
    seen = []
    for one.clock.now in (8.0, 12.0, 17.0, 99.0):
        seen.append(one.pieces)
    assert seen == [10, 50, 100, 100]


def test_without_tokens_tenths_of_seconds_are_counted() -> None:
    assert flight(Request(0.0, held=12.3), 0.0, 12.3).length == 123


def test_one_that_has_been_in_line_comes_again() -> None:
    one = flight(Request(0.0), 0.0, 1.0)
    assert not one.comes_again
    one.ticket = Ticket(1, frozenset("x"))
    assert one.comes_again
