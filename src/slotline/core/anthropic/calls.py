"""Tool calls: from the fragments of a chat stream to whole calls.

Servers differ in how they tell calls apart: most by `index`, some give every call index 0 with ids of their own, some
send neither; some repeat id and name with every fragment, and some send fragments of several calls in turn.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Any

import msgspec

from slotline.core.errors import Protocol
from slotline.core.openai.chunk import Function, ToolCall


class Shape(Enum):
    """What the arguments of a call turned out to be."""

    WHOLE = auto()
    CUT = auto()
    """The beginning of a JSON text: the tokens ran out in the middle."""
    BAD = auto()
    """No JSON object, and not the beginning of one."""


def settle(raw: str) -> tuple[Shape, str]:
    """The arguments of a call → their shape, and the JSON text to send; "" stands for `{}`.

    Models send objects, nothing, `null`, an object inside a JSON string, and strings with line ends or halves of
    surrogate pairs in them: all of these mean an object. Of a cut text the beginning is sent: clients read the
    beginning of an object, and learn why it ends.
    """
    raw = raw.strip()
    if raw in {"", "null"}:
        return Shape.WHOLE, ""
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        return Shape.BAD, ""
    except msgspec.DecodeError:
        mended = _STRING.sub(_mended, raw)
        return _cut(raw) if mended == raw else settle(mended)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        shape, inner = settle(value)
        return (shape, inner) if shape is Shape.WHOLE else (Shape.BAD, "")
    return (Shape.WHOLE, raw) if isinstance(value, dict) else (Shape.BAD, "")


def _cut(raw: str) -> tuple[Shape, str]:
    """Text that is no JSON, though its strings are in order."""
    # Half a number is wrong to msgspec: it is taken off first.
    if _stops_early(raw) or (raw[-1] in "+-.eE" and _stops_early(raw.rstrip("+-.eE0123456789"))):
        return Shape.CUT, raw if raw.startswith("{") else ""
    return Shape.BAD, ""


def _stops_early(raw: str) -> bool:
    """Whether `raw` is JSON as far as it goes; msgspec tells that from JSON that is wrong, though only in words."""
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return "truncated" in str(error)
    return False


_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_PIECE = re.compile(
    r"[\x00-\x1f]"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    r"|\\.",
    re.DOTALL,
)


def _mended(string: re.Match[str]) -> str:
    """A JSON string, whole or cut, in which characters stand that must not."""
    return _PIECE.sub(_in_order, string.group())


def _in_order(piece: re.Match[str]) -> str:
    found = piece.group()
    if len(found) == 1:
        return f"\\u{ord(found):04x}"
    return "\\ufffd" if len(found) == 6 else found  # half of a pair; a pair has 12 characters, other escapes have 2


class Call:
    """One call in the making."""

    __slots__ = ("id", "name", "parts", "taken")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.parts: list[str] = []
        self.taken = False  # it went out

    @property
    def arguments(self) -> str:
        """What came so far."""
        return "".join(self.parts)

    @property
    def whole(self) -> bool:
        """Its arguments are an object to the last brace. (No arguments at all may still become some.)"""
        shape, arguments = settle(self.arguments)
        return shape is Shape.WHOLE and arguments != ""

    def begins_anew(self, identity: str, name: str, arguments: str) -> bool:
        """Whether a fragment at this call's place is another call.

        Only with a name, and then by an id of its own, or by arguments that follow whole arguments. A name alone says
        nothing, for some servers repeat it.
        """
        if not name or not self.name:
            return False
        if identity and self.id and identity != self.id:
            return True
        return bool(arguments.strip()) and self.whole

    def add(self, identity: str, name: str, arguments: str) -> None:
        """One more fragment. Raises Protocol when the call went out already and this would change it."""
        self.id = self.id or identity
        self.name = self.name or name
        if self.taken and arguments.strip():
            raise Protocol("the upstream continued a tool call whose arguments were complete")
        if arguments:
            self.parts.append(arguments)


class Calls:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._places: dict[int, Call] = {}  # by index, the latest
        self._last: Call | None = None  # the one that was added to last

    @property
    def any(self) -> bool:
        """There is or was a call."""
        return bool(self._calls)

    @property
    def whole(self) -> bool:
        """Every gathered call is whole."""
        return all(call.whole for call in self._gathered())

    @property
    def cut(self) -> bool:
        """Some gathered call has only the beginning of its arguments."""
        return any(settle(call.arguments)[0] is Shape.CUT for call in self._gathered())

    def add(self, fragment: ToolCall) -> None:
        """Raises Protocol when the fragment would change a call that went out."""
        function = fragment.function or Function()
        identity, name, arguments = fragment.id or "", function.name or "", _text(function.arguments)
        call = self._at(fragment.index, identity)
        if call is None or call.begins_anew(identity, name, arguments):
            call = Call()
            self._calls.append(call)
        if fragment.index is not None:
            self._places[fragment.index] = call
        self._last = call
        call.add(identity, name, arguments)

    def take(self) -> list[Call]:
        """The gathered calls, which go out now."""
        gathered = self._gathered()
        for call in gathered:
            call.taken = True
        return gathered

    def _gathered(self) -> list[Call]:
        return [call for call in self._calls if not call.taken]

    def _at(self, index: int | None, identity: str) -> Call | None:
        """The call at the place of a fragment, as far as the place tells."""
        if index is not None:
            return self._places.get(index)
        if identity:
            return next((call for call in reversed(self._calls) if call.id == identity), None)
        return self._last


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return "" if arguments is None else msgspec.json.encode(arguments).decode()
    except RecursionError:
        raise Protocol("the arguments of a tool call are nested too deeply") from None
