"""Places that are kept for those who left."""

from __future__ import annotations

import pytest

from slotline.core.keys import Caller, Key, digest
from slotline.core.rejoin import Kept, sameness

ALICE = Caller(Key("alice", digest("a")), "flow", "10.0.0.1")
BOB = Caller(Key("bob", digest("b")), "flow", "10.0.0.1")
BODY = b'{"model": "m"}'


def test_the_same_bytes_of_the_same_caller_are_the_same_request() -> None:
    assert sameness(ALICE, "/v1/messages", BODY) == sameness(ALICE, "/v1/messages", bytes(BODY))


@pytest.mark.parametrize(
    "other",
    [
        (BOB, "/v1/messages", BODY),
        (ALICE, "/v1/responses", BODY),
        (ALICE, "/v1/messages", BODY + b" "),
        (Caller(None, "flow", "10.0.0.1"), "/v1/messages", BODY),
    ],
)
def test_another_key_route_or_body_is_another_request(other: tuple[Caller, str, bytes]) -> None:
    assert sameness(*other) != sameness(ALICE, "/v1/messages", BODY)


def test_a_key_is_the_same_caller_from_any_address_and_in_any_session() -> None:
    elsewhere = Caller(ALICE.key, "another flow", "10.0.0.2")
    assert sameness(elsewhere, "/v1/messages", BODY) == sameness(ALICE, "/v1/messages", BODY)


@pytest.mark.parametrize("other", [Caller(None, "flow", "10.0.0.2"), Caller(None, "another flow", "10.0.0.1")])
def test_without_keys_the_address_and_the_session_tell_callers_apart(other: Caller) -> None:
    assert sameness(other, "/", BODY) != sameness(Caller(None, "flow", "10.0.0.1"), "/", BODY)


def test_a_place_is_kept_for_a_while_and_taken_once() -> None:
    kept = Kept(60.0)
    kept.keep(b"one", 7, now=0.0)
    assert kept.take(b"two", now=1.0) is None
    assert kept.take(b"one", now=59.9) == 7
    assert kept.take(b"one", now=59.9) is None


def test_a_place_whose_time_is_over_is_given_up() -> None:
    kept = Kept(60.0)
    kept.keep(b"one", 7, now=0.0)
    kept.keep(b"two", 8, now=30.0)
    assert kept.take(b"one", now=60.0) is None
    assert len(kept) == 1
    assert kept.take(b"two", now=60.0) == 8


def test_who_leaves_once_more_is_kept_from_then_on() -> None:
    kept = Kept(60.0)
    kept.keep(b"one", 7, now=0.0)
    kept.keep(b"two", 8, now=1.0)
    kept.keep(b"one", 7, now=50.0)
    assert kept.take(b"two", now=70.0) is None
    assert kept.take(b"one", now=70.0) == 7


def test_the_number_of_places_is_bounded_and_the_oldest_goes_first() -> None:
    kept = Kept(60.0)
    for number in range(10_001):
        kept.keep(b"%d" % number, number, now=0.0)
    assert len(kept) == 10_000
    assert kept.take(b"0", now=0.0) is None
    assert kept.take(b"10000", now=0.0) == 10_000


def test_another_time_holds_for_the_places_that_are_kept_already() -> None:
    kept = Kept(60.0)
    kept.keep(b"one", 7, now=0.0)
    kept.keep(b"two", 8, now=10.0)
    kept.seconds = 5.0
    assert kept.take(b"one", now=14.0) is None
    assert kept.take(b"two", now=14.0) == 8
