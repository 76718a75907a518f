"""Scripts as values and as JSON."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from slotline.stub import script as steps
from slotline.stub.script import Repeat, Script, Sleep, Step, Text, Tokens, ToolCall


def test_a_script_is_json_in_which_do_names_each_step() -> None:
    text = b'{"steps": [{"do": "tool_call", "name": "f"}, {"do": "text", "text": "hi"}], "write_size": 3}'
    assert msgspec.json.decode(text, type=Script) == Script((ToolCall(name="f"), Text("hi")), write_size=3)


def test_steps_nest_in_repeat() -> None:
    script = Script((Repeat((Text("again"), Sleep(0.1)), times=2),))
    assert msgspec.json.decode(msgspec.json.encode(script), type=Script) == script


def test_every_step_has_a_name_of_its_own_in_json() -> None:
    kinds = get_args(Step)
    names = {kind.__struct_config__.tag for kind in kinds}
    assert len(names) == len(kinds)
    assert {"head", "text", "reasoning", "tool_call", "raw", "event", "usage", "finish", "done", "sleep"} <= names
    assert {"comment", "hold", "hang", "close", "reset", "cut"} <= names


def test_an_unknown_step_or_field_is_refused() -> None:
    for wrong in ({"do": "explode"}, {"do": "sleep", "second": 1}, {"do": "sleep"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps({"steps": [wrong]}), type=Script)


def test_scripts_are_frozen() -> None:
    with pytest.raises(AttributeError):
        steps.Script((Tokens(1),)).steps = ()  # type: ignore[misc]
