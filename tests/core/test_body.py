"""A body that does not fit is refused in words that name the field and the value."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from slotline.core.body import decode, join, quote
from slotline.core.errors import Invalid


class Inner(msgspec.Struct):
    text: str


class Outer(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=0)]
    items: list[Inner] = []
    either: str | list[int] | None = None
    table: dict[str, int] = {}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"count":"5"}', 'count: expected a whole number, got "5"'),
        (b'{"count":-1}', "count: expected a whole number, got -1"),
        (b"{}", "count: a required field, and it is missing"),
        (b'{"count":1,"items":[{"text":"a"},{"text":7}]}', "items.1.text: expected a string, got 7"),
        (b'{"count":1,"items":[{}]}', "items.0.text: a required field, and it is missing"),
        (b'{"count":1,"items":{}}', "items: expected a list, got an object"),
        (b'{"count":1,"either":1.5}', "either: expected a string or a list or null, got 1.5"),
        (b'{"count":1,"table":{"a":"b"}}', "table: expected an integer, got an object"),
        (b"[]", "body: expected an object, got a list of 0"),
    ],
)
def test_the_message_names_the_path_what_was_expected_and_what_came(raw: bytes, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode(raw, Outer, wording={"count": "a whole number"})
    assert str(caught.value) == message


def test_a_path_begins_where_the_part_stands_in_the_whole() -> None:
    with pytest.raises(Invalid, match=r"^messages\.2\.items\.0\.text: "):
        decode(b'{"count":1,"items":[{"text":null}]}', Outer, at="messages.2")


def test_a_wording_serves_every_position_of_a_list() -> None:
    with pytest.raises(Invalid, match=r"^items\.1\.text: expected words, got null"):
        decode(b'{"count":1,"items":[{"text":""},{"text":null}]}', Outer, wording={"items.text": "words"})


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"{'a':1}", b"\xff", b'{"count":1,"items":[{"text":"\\ud800"}]}', b'{"count":1} {}']
)
def test_what_is_not_json_is_refused_as_such(raw: bytes) -> None:
    with pytest.raises(Invalid, match=r"^body: not valid JSON: "):
        decode(raw, Outer)


def test_nesting_without_end_is_refused_and_does_not_exhaust_the_stack() -> None:
    with pytest.raises(Invalid, match="nested too deeply"):
        decode(b'{"count":1,"unknown":' + b"[" * 200_000, Outer)


@pytest.mark.parametrize(
    ("value", "at", "shown"),
    [
        ("short", "", '"short"'),
        ("x" * 200, "text", f'"{"x" * 60}"… (200 characters)'),
        ("aGVsbG8=", "source.data", "a string of 8 characters"),
        ("data:image/png;base64,aGVsbG8=", "url", "a string of 30 characters"),
        ({"type": "image", "source": {"data": "aGVsbG8="}}, "", 'an object of type "image"'),
        ({}, "", "an object"),
        ([1, 2], "", "a list of 2"),
        (None, "", "null"),
        (10**70, "", f"1{'0' * 59}…"),
    ],
)
def test_a_value_is_quoted_shortly_and_a_payload_never(value: object, at: str, shown: str) -> None:
    assert quote(value, at) == shown


def test_a_path_is_joined_with_dots() -> None:
    assert join("", "messages", 2, "content") == "messages.2.content"


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"count":' + b"[" * 100_000])
def test_a_body_that_is_nested_without_end_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid, match=r"nested too deeply|not valid JSON"):
        decode(raw, Outer)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 5000])
@pytest.mark.parametrize("body", [b'{"count":%b}', b"%b"])
def test_a_number_that_is_beyond_all_measure_is_refused(body: bytes, number: bytes) -> None:
    """A client's number is never a fault of the gateway."""
    with pytest.raises(Invalid, match="out of range"):
        decode(body % number, Outer)
