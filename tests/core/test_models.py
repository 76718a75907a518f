"""Which upstreams serve a model, by the name that a client gave."""

from __future__ import annotations

import pytest

from slotline.core.errors import NotFound
from slotline.core.models import Model, merged, resolve

BOX = frozenset({"box"})


def model(name: str, *aliases: str) -> Model:
    return Model(name, BOX, name, aliases)


OFFER = [
    model("small", "claude-*"),
    model("big", "claude-opus", "gpt-?", "small"),
    model("odd", "opus[1m]", "claude-x-*"),
]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("big", "big"),
        ("small", "small"),  # a name goes before the same name as an alias
        ("claude-opus", "big"),  # an alias goes before a pattern, wherever it stands
        ("claude-sonnet-4", "small"),
        ("claude-x-1", "small"),  # of two patterns that fit, the first
        ("claude-", "small"),
        ("gpt-5", "big"),
        ("opus[1m]", "odd"),
    ],
)
def test_a_name_is_looked_up_as_it_stands_then_as_an_alias_then_by_pattern(asked: str, meant: str) -> None:
    assert resolve(asked, OFFER).name == meant


@pytest.mark.parametrize("asked", ["", "Small", "CLAUDE-1", "gpt-", "gpt-55", "opus1", "opusm", "xclaude-1", "*"])
def test_a_name_that_nobody_has_is_not_found_case_counts_and_brackets_are_no_pattern(asked: str) -> None:
    with pytest.raises(NotFound):
        resolve(asked, OFFER)


def test_the_error_names_what_was_asked_and_what_there_is() -> None:
    with pytest.raises(NotFound, match="'huge' is not served here; the models are: small, big, odd"):
        resolve("huge", OFFER)


def test_the_error_is_short_however_long_the_name_and_the_list() -> None:
    offer = [model(f"model-{number}") for number in range(1000)]
    with pytest.raises(NotFound) as caught:
        resolve("x" * 100_000, offer)
    assert "model-9" in str(caught.value)
    assert "model-10" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_where_nothing_is_on_offer_the_error_says_so() -> None:
    with pytest.raises(NotFound, match="none at present"):
        resolve("small", [])


def test_upstreams_that_list_the_same_model_share_it() -> None:
    found = merged([("box1", ["a", "b"]), ("box2", []), ("box3", ["b", "c"])])
    assert found == [
        Model("a", frozenset({"box1"}), "a"),
        Model("b", frozenset({"box1", "box3"}), "b"),
        Model("c", frozenset({"box3"}), "c"),
    ]


def test_a_model_that_one_upstream_lists_twice_is_one_model() -> None:
    assert merged([("box1", ["a", "a"])]) == [Model("a", frozenset({"box1"}), "a")]
