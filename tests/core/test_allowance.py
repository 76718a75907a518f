"""What keys have, and who is barred."""

from __future__ import annotations

import pytest

from slotline.core.allowance import Allowances
from slotline.core.errors import LimitReached
from slotline.core.party import NOBODY, Party


def test_a_key_is_barred_while_it_has_all_running_that_it_may() -> None:
    allowances, alice = Allowances(), Party("alice", running=2)
    barred = []
    for step in (allowances.begin_run, allowances.begin_run, allowances.end_run):
        step(alice)
        barred.append("alice" in allowances.barred)
    assert barred == [False, True, False]


def test_it_is_said_when_a_key_may_have_slots_again() -> None:
    allowances, alice = Allowances(), Party("alice", running=1)
    allowances.begin_run(alice)
    assert allowances.end_run(alice)
    allowances.begin_run(NOBODY)
    assert not allowances.end_run(NOBODY)


def test_all_flows_of_a_key_count_together() -> None:
    allowances = Allowances()
    allowances.begin_wait(Party("alice", "1", waiting=2))
    allowances.begin_wait(Party("alice", "2", waiting=2))
    with pytest.raises(LimitReached, match="2 requests of this key wait already, and at most waiting = 2"):
        allowances.check_waiting(Party("alice", "3", waiting=2))


def test_of_two_words_on_a_limit_the_newer_one_counts() -> None:
    allowances = Allowances()
    allowances.begin_run(Party("alice", running=1))
    assert "alice" in allowances.barred
    assert allowances.begin_wait(Party("alice", running=2))
    assert "alice" not in allowances.barred


def test_of_a_key_that_has_nothing_nothing_is_kept() -> None:
    allowances, alice = Allowances(), Party("alice", running=1)
    allowances.begin_wait(alice)
    allowances.begin_run(alice)
    allowances.end_wait(alice)
    allowances.end_run(alice)
    assert allowances == Allowances()
