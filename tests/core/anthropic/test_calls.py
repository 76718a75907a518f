"""Gathering tool calls from fragments. The orders in which servers send fragments are in `test_stream`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.calls import Calls, Shape, settle
from slotline.core.errors import Protocol
from slotline.core.openai.chunk import Function, ToolCall

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, min_size=1, max_size=4)


@given(OBJECTS, st.booleans())
def test_an_object_is_whole_and_sent_as_it_came(value: object, ascii_only: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only)
    assert settle(raw) == (Shape.WHOLE, raw)
    assert settle(json.dumps(raw)) == (Shape.WHOLE, raw)


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"x": "line\none"}', '{"x": "line\\u000aone"}'),
        ('{\n"x": "a\tb"\n}', '{\n"x": "a\\u0009b"\n}'),
        ('{"x": "\\ud83d"}', '{"x": "\\ufffd"}'),
        ('{"x": "\\ude00\\ud83d\\ude00"}', '{"x": "\\ufffd\\ud83d\\ude00"}'),
        ('{"x": "\\\\ud83d \n"}', '{"x": "\\\\ud83d \\u000a"}'),
    ],
)
def test_what_must_not_stand_in_a_string_is_written_as_it_must(raw: str, sent: str) -> None:
    """Line ends and halves of surrogate pairs: strict clients could not read the call, and could not send it back."""
    assert settle(raw) == (Shape.WHOLE, sent)
    assert json.loads(sent) == json.loads(raw, strict=False) or "ufffd" in sent


@pytest.mark.parametrize("half", ['{"x": "line\none', '{"x": "line\none", "y": [1', '{"x": "\\ud83d\\ude00\n'])
def test_a_cut_is_known_as_one_whatever_its_strings_hold(half: str) -> None:
    """B78: taken for nonsense, it would go out as a call with `{}`, and be made."""
    shape, sent = settle(half)
    assert shape is Shape.CUT
    assert all(ord(character) >= 32 for character in sent)


@given(OBJECTS, st.data())
def test_every_beginning_of_an_object_is_known_as_one(value: object, data: st.DataObject) -> None:
    raw = json.dumps(value, ensure_ascii=False)
    half = raw[: data.draw(st.integers(1, len(raw) - 1))]
    assert settle(half) == (Shape.CUT, half.strip())


@pytest.mark.parametrize(
    "raw", ["{bad", '{"a" 1', '{"a": 1}}', '{"a": 1}e', "[", "[1]", "x", '"text"', "{'a': 1}", '{"a": bad e']
)
def test_what_is_wrong_is_not_taken_for_cut_and_gives_no_input(raw: str) -> None:
    shape, arguments = settle(raw)
    assert arguments == ""
    assert shape is (Shape.CUT if raw == "[" else Shape.BAD)


def test_arguments_without_end_do_not_break_anything() -> None:
    assert settle('{"a":' * 100_000)[0] is Shape.CUT or settle('{"a":' * 100_000)[0] is Shape.BAD


def fragment(
    index: int | None, name: str | None = None, arguments: object = None, identity: str | None = None
) -> ToolCall:
    return ToolCall(index=index, id=identity, function=Function(name=name, arguments=arguments))


def test_calls_are_taken_once() -> None:
    calls = Calls()
    assert not calls.any
    calls.add(fragment(0, "f", "{}"))
    calls.add(fragment(1, "g"))
    assert (calls.any, calls.whole, calls.cut) == (True, False, False)
    calls.add(fragment(1, arguments='{"x"'))
    assert calls.cut
    assert [call.name for call in calls.take()] == ["f", "g"]
    assert calls.take() == []
    assert calls.any


def test_a_call_that_was_taken_cannot_change_but_may_be_repeated() -> None:
    calls = Calls()
    calls.add(fragment(0, "f", "{}", "a"))
    (call,) = calls.take()
    calls.add(fragment(0, "f", "", "a"))
    calls.add(fragment(None, "f", " ", "a"))
    assert calls.take() == []
    assert call.arguments == "{} "
    with pytest.raises(Protocol, match="continued"):
        calls.add(fragment(0, None, "x", "a"))


def test_a_fragment_without_a_function_is_no_failure() -> None:
    calls = Calls()
    calls.add(ToolCall(index=0, id="a"))
    assert [(call.id, call.name, call.arguments) for call in calls.take()] == [("a", "", "")]
