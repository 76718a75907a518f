"""The JSON body of a request, decoded into typed values; what does not fit is an `Invalid` that names field and value.

A client that reads `max_tokens: expected an integer of at least 0, got "5"` can mend its request; one that reads a
decoder's own words, or a stack trace, cannot. What is quoted from a body is short, and is never the payload of an
image: error texts end up in logs and on screens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from slotline.core.errors import Invalid

T = TypeVar("T")

QUOTED = 60
"""Characters of a value that an error message shows."""

_NO_WORDING: Mapping[str, str] = {}

_TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_UNQUOTED = frozenset({"data", "signature", "encrypted_content", "authorization_token"})
"""Fields whose value is never shown: payloads and secrets."""

_ERROR = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\.\.\.)\]")


def decode(raw: bytes | msgspec.Raw, kind: type[T], *, at: str = "", wording: Mapping[str, str] = _NO_WORDING) -> T:
    """`raw` as a `kind`, or `Invalid`.

    `at` is where `raw` stands in the whole body (`messages.2`). `wording` says what is expected of a field in words
    better than its type's; its keys are paths below `at`, without list positions (`messages.role`).
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise Invalid(_explained(str(error), bytes(raw), at, wording)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{at or 'body'}: not valid JSON: {error}") from None
    except RecursionError:
        raise Invalid(f"{at or 'body'}: nested too deeply") from None


def invalid(at: str, expected: str, value: object) -> Invalid:
    """The error for a field that decoded and still is not right."""
    return Invalid(f"{at}: expected {expected}, got {quote(value, at)}")


def join(*steps: str | int) -> str:
    """A path from its steps: `join("messages", 2, "role")` is `messages.2.role`."""
    return ".".join(str(step) for step in steps if step != "")


def quote(value: object, at: str = "") -> str:
    """`value` as an error message shows it: JSON, and short."""
    if isinstance(value, Mapping):
        kind = value.get("type")
        return f"an object of type {quote(kind)}" if isinstance(kind, str) else "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, str) and (at.rpartition(".")[2] in _UNQUOTED or value.startswith("data:")):
        return f"a string of {len(value)} characters"
    if isinstance(value, str) and len(value) > QUOTED:
        return f"{_json(value[:QUOTED])}… ({len(value)} characters)"
    shown = _json(value)
    return shown if len(shown) <= QUOTED else f"{shown[:QUOTED]}…"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _explained(error: str, raw: bytes, at: str, wording: Mapping[str, str]) -> str:
    try:
        return _explain(error, raw, at, wording)
    except RecursionError:  # the value at fault can be read no more than the whole
        return f"{at or 'body'}: nested too deeply"
    except msgspec.ValidationError:  # nor can a number such as 1e999, and nothing says which one it is
        return f"{at or 'body'}: a number in it is out of range"


def _explain(error: str, raw: bytes, at: str, wording: Mapping[str, str]) -> str:
    """The decoder's `Expected `int`, got `str` - at `$.a[0]`` as a sentence of ours."""
    match = _ERROR.fullmatch(error)
    what, path = (match["what"], match["path"] or "$") if match else (error, "$")
    steps = list(_steps(path))
    if missing := _MISSING.fullmatch(what):
        return f"{join(at, *steps, missing[1])}: a required field, and it is missing"
    expected = wording.get(join(*(step for step in steps if isinstance(step, str))))
    if expected is None:
        expected = re.sub(r"^Expected |, got .*$", "", what)
        expected = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), expected)
    field = join(at, *steps)
    return f"{field or 'body'}: expected {expected}, got {quote(_value(raw, steps), field)}"


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))


def _steps(path: str) -> Iterator[str | int]:
    for name, position, _ in _STEP.findall(path):
        if name:
            yield name
        elif position:
            yield int(position)
        else:
            return  # the decoder does not say which key of a mapping it was: the path ends at the mapping


def _value(raw: bytes, steps: list[str | int]) -> object:
    value: Any = msgspec.json.decode(raw)
    for step in steps:
        value = value[step]
    return value
