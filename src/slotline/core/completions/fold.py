"""The whole answer, for a client that does not stream: the same chunks, folded into one object.

Fields that are not known here are folded as well, by what they are: pieces of text are joined, lists grow, of
everything else the latest holds, and null says nothing. Which is how servers themselves make both forms of an answer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from slotline.core.completions.through import unpacked

_ONCE: Final = frozenset({"role", "id", "type", "name", "object"})
"""Texts in a delta that do not grow: some servers repeat them with every piece."""


class _Text:
    """A text in pieces; joined once, for an answer of many tokens would be copied as many times."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str) -> None:
        self.parts = list(parts)

    def __str__(self) -> str:
        return "".join(self.parts)


def _joined(value: object) -> str:
    if isinstance(value, _Text):
        return str(value)
    raise NotImplementedError(f"{type(value)} is not JSON")


_encode: Final = msgspec.json.Encoder(enc_hook=_joined).encode


class Fold:
    """Takes the chunks of one answer, in order."""

    def __init__(self, kind: str) -> None:
        """`kind`: the `object` that the whole is, `chat.completion` or `text_completion`."""
        self._kind = kind
        self._whole: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, payload: bytes) -> None:
        """The next chunk, a JSON object."""
        chunk = unpacked(payload)
        for choice in _objects(chunk.pop("choices", None)):
            self._choice(choice)
        for key, value in chunk.items():
            if value is not None or key not in self._whole:
                self._whole[key] = value

    def encode(self) -> bytes:
        """The whole answer as JSON."""
        choices = [choice for _, choice in sorted(self._choices.items())]
        if self._kind == "chat.completion":
            choices = [_settled(choice) for choice in choices]
        return _encode({**self._whole, "object": self._kind, "choices": choices})

    def _choice(self, choice: dict[str, Any]) -> None:
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        kept = self._choices.setdefault(index, {"index": index})
        for key, value in choice.items():
            if key == "delta":
                kept["message"] = _merged(kept.get("message"), value)
            elif key == "text" or not isinstance(value, str):
                kept[key] = _merged(kept.get(key), value)
            else:
                kept[key] = value or kept.get(key)


def _merged(old: Any, new: Any, key: str = "") -> Any:
    if old is None or new is None:
        return old if new is None else new
    match old, new:
        case str() | _Text(), str():
            return _grown(old, new, key)
        case dict(), dict():
            for name, value in new.items():
                old[name] = _merged(old.get(name), value, name)
            return old
        case list(), list():
            for item in new:
                _put(old, item, key)
            return old
        case _:
            return new


def _grown(old: str | _Text, new: str, key: str) -> str | _Text:
    if isinstance(old, _Text):
        old.parts.append(new)
        return old
    if key in _ONCE:
        return old or new
    return _Text(old, new)


def _put(items: list[Any], new: Any, key: str) -> None:
    """Adds `new` to the item that it is a piece of, else to the list."""
    place = None
    if isinstance(new, dict):
        place = _call_of(items, new) if key == "tool_calls" else _last(items, "index", new.get("index"))
    if place is None:
        items.append(new)
    else:
        items[place] = _merged(items[place], new)


def _call_of(calls: list[Any], piece: dict[str, Any]) -> int | None:
    """The call that a piece belongs to. Some servers give all calls one index, or none, and ids of their own."""
    identity, index = piece.get("id"), piece.get("index")
    if index is None:
        named = identity or _function(piece).get("name")
        return _last(calls, "id", identity) if named else (len(calls) - 1 if calls else None)
    place = _last(calls, "index", index)
    if place is not None and identity and calls[place].get("id") not in {None, "", identity}:
        return None
    return place


def _last(items: list[Any], key: str, value: object) -> int | None:
    """The last of the objects in which `key` is `value`, if there is one."""
    if not value and value != 0:
        return None
    places = range(len(items) - 1, -1, -1)
    return next((at for at in places if isinstance(items[at], dict) and items[at].get(key) == value), None)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _function(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    return function if isinstance(function, dict) else {}


# ---- what a whole answer has that its pieces need not have -----------------------------------------------------------


def _settled(choice: dict[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    message["role"] = message.get("role") or "assistant"
    for call in _objects(message.get("tool_calls")):
        call.pop("index", None)
        function = _function(call)
        if isinstance(function.get("arguments"), dict):  # the object itself, where clients expect its text
            function["arguments"] = msgspec.json.encode(function["arguments"]).decode()
    content = message.get("content")
    if not (str(content) if isinstance(content, _Text) else content):
        elsewhere = message.get("tool_calls") or message.get("function_call") or message.get("refusal")
        message["content"] = None if elsewhere else ""
    return {**choice, "message": message, "finish_reason": choice.get("finish_reason")}
