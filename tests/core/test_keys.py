"""Whose key it is, what the key may do, and who asks."""

from __future__ import annotations

import hashlib

import pytest

from slotline.core.keys import Caller, Key, Keyring, Priority, digest, flow

ALICE = Key("alice", digest("sl-alice"))
BOB = Key("bob", digest("sl-bob"), models=("small", "claude-*", "gpt-?", "opus[1m]"))
RING = Keyring((ALICE, BOB))


@pytest.mark.parametrize(
    ("credentials", "owner"),
    [
        (["sl-alice"], ALICE),
        (["sl-bob"], BOB),
        (["dummy", "sl-bob"], BOB),
        (["sl-bob", "dummy"], BOB),
        (["sl-bob", "sl-alice"], BOB),  # the first counts
        (["sl-alice", "sl-bob"], ALICE),
        ([], None),
        ([""], None),
        (["sl-"], None),
        (["sl-alic"], None),
        (["sl-alice "], None),
        (["SL-ALICE"], None),
        (["sl-alice\udcff"], None),  # a byte that is no UTF-8, as it comes out of a header
        ([ALICE.digest.hex()], None),  # the hash opens nothing
        ([f"sha256:{ALICE.digest.hex()}"], None),
    ],
)
def test_the_owner_is_whose_whole_key_was_shown(credentials: list[str], owner: Key | None) -> None:
    assert RING.owner(credentials) is owner


def test_a_ring_without_keys_is_false_and_nobody_owns_anything() -> None:
    assert not Keyring()
    assert RING
    assert Keyring().owner(["sl-alice"]) is None


def test_what_is_compared_is_the_sha_256_of_the_bytes_that_came() -> None:
    assert digest("sl-ä") == hashlib.sha256("sl-ä".encode()).digest()
    assert digest("\udcff") == hashlib.sha256(b"\xff").digest()


@pytest.mark.parametrize("name", ["small", "claude-x", "claude-", "gpt-5", "opus[1m]"])
def test_a_key_may_use_what_one_of_its_patterns_fits(name: str) -> None:
    assert BOB.may(name)
    assert BOB.may("another", name)


@pytest.mark.parametrize("name", ["big", "Small", "small2", "gpt-55", "xclaude-x", "opus1", ""])
def test_a_key_may_use_nothing_else(name: str) -> None:
    assert not BOB.may(name)
    assert ALICE.may(name)
    assert not Key("none", digest("x"), models=()).may(name)


def test_a_key_that_nothing_is_said_about_has_one_share_and_no_limits() -> None:
    assert (ALICE.weight, ALICE.priority, ALICE.running, ALICE.waiting) == (1, Priority.INTERACTIVE, None, None)
    assert ALICE.models == ("*",)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"weight": 0}, "weight must be more than 0, not 0"),
        ({"weight": -1}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": float("inf")}, "weight"),
        ({"running": 0}, "running must be 1 or more, not 0"),
        ({"waiting": -1}, "waiting must be 0 or more, not -1"),
        ({"digest": b"marker"}, "the hash is no SHA-256"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_by_its_name(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=f"key 'eve': .*{says}") as refused:
        Key(**{"name": "eve", "digest": bytes(32), **wrong})  # type: ignore[arg-type] # which is what is tested
    assert "marker" not in str(refused.value)


@pytest.mark.parametrize("allowed", [{"weight": 0.5}, {"running": 1}, {"waiting": 0}])
def test_the_smallest_values_are_taken(allowed: dict[str, float]) -> None:
    assert Key("eve", bytes(32), **allowed).name == "eve"  # type: ignore[arg-type] # each a number of the right kind


def test_neither_a_hash_nor_what_a_client_says_of_itself_is_shown() -> None:
    key = Key("eve", b"marker-" * 4 + b"1234")
    for shown in (key, Keyring((key,)), Caller(key, "marker", "marker")):
        assert "eve" in repr(shown)
        assert "marker" not in repr(shown)


def test_a_flow_has_a_name_of_its_own_of_bounded_length() -> None:
    names = [flow(said) for said in ("a", "b", "a" * 100_000, "\udcff", "ä")]
    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {32}
    assert flow("session") == flow("session")


@pytest.mark.parametrize("nothing", [None, ""])
def test_who_tells_of_no_flow_is_in_the_one_without_a_name(nothing: str | None) -> None:
    assert flow(nothing) == ""
    assert Caller().flow == ""


def test_a_caller_is_called_by_its_key() -> None:
    assert Caller(ALICE).name == "alice"
    assert Caller().name is None
