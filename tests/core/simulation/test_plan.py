"""What is to be tried, and who is who under it."""

from __future__ import annotations

from slotline.core.party import NOBODY, FairBy, Party
from slotline.core.simulation.plan import Plan, Policy
from slotline.core.simulation.request import Request

ASKED = Request(0.0, "alice", "chat-7")


def test_by_arrival_nobody_is_told_from_anybody() -> None:
    assert Plan(policy=Policy.FIFO, running=3).party(ASKED) is NOBODY


def test_where_keys_take_turns_flows_make_no_difference() -> None:
    plan = Plan(policy=Policy.FAIR)
    assert plan.party(ASKED) == Party("alice")
    assert plan.fair_by is FairBy.KEY


def test_where_flows_take_turns_a_party_is_a_flow_of_a_key() -> None:
    plan = Plan(policy=Policy.FLOW)
    assert plan.party(ASKED) == Party("alice", "chat-7")
    assert plan.fair_by is FairBy.FLOW


def test_weights_and_limits_are_those_of_the_key() -> None:
    plan = Plan(weights={"alice": 2.5}, running=3, waiting=4)
    assert plan.party(ASKED) == Party("alice", weight=2.5, running=3, waiting=4)
    assert plan.party(Request(0.0, "bob")).weight == 1


def test_a_request_is_of_the_class_that_the_trace_says_or_the_plan() -> None:
    plan = Plan(batch=frozenset({"nightly"}))
    assert plan.party(Request(0.0, "nightly")).batch
    assert plan.party(Request(0.0, "alice", batch=True)).batch
    assert not plan.party(ASKED).batch


def test_each_upstream_has_a_name_of_its_own() -> None:
    assert Plan(upstreams=3).names == ("upstream 1", "upstream 2", "upstream 3")
