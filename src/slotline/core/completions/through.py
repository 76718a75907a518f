"""The upstream's own chunks on their way to the client: as they came, but for what this client did not ask for.

The gateway asks for more than its client does (a stream, its usage, how far the prompt is read), so some chunks end
here. What is left is changed only where a client could not read it: damaged text, an answer that came in one piece.

From the chunk with the finish reason on, chunks are held until the end is known to be one. They come within
milliseconds of it as a rule; and an answer that breaks after all must not look like one that ended well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from slotline.core.errors import Protocol
from slotline.core.openai.chunk import Choice, Chunk, decode

_encode = msgspec.json.encode
_strict = msgspec.json.Decoder(Chunk)
_COMMON = ("id", "object", "created", "model", "system_fingerprint")


class Through:
    """The chunks of one answer. What it remembers of them is for those that the gateway has to add itself."""

    def __init__(self, *, usage: bool, progress: bool, roles: bool) -> None:
        """`usage`, `progress`: the client sees such chunks. `roles`: an answer must say who speaks."""
        self._usage = usage
        self._progress = progress
        self._last = b"{}"
        self._held: list[bytes] = []
        self.finished = False
        """A finish reason came."""
        self.speaks = not roles
        """The client knows who speaks."""
        self.key: str | None = None
        """The field in which reasoning came; None: in none of its own so far."""
        self.calls: list[str] = []
        """The calls of tools that began, by their ids; "" for one without."""

    def take(self, data: bytes, seen: bytes, *, began: bool) -> list[bytes]:
        """The `data` of one event → the payloads for the client, often none.

        `seen`: the same in the shape of a chat chunk. `began`: the answer had begun before it.
        """
        try:
            chunk, data = _read(data, seen)
        except Protocol:
            return []  # not even damaged JSON: it was noted where the answer is judged
        self._last = data
        if self._is_left_out(chunk):
            return []
        choice = chunk.choice
        if choice is None:
            return self._let(data)
        if choice.delta is None and choice.message is not None:
            self.finished = self.speaks = True
            return [] if began else self._let(*_parted(data, usage=self._usage))
        return self._let(*self._noted(choice), data)

    def rest(self) -> list[bytes]:
        """What was held: the end turned out to be one."""
        held, self._held = self._held, []
        return held

    def drop(self) -> None:
        """The end that was held is none: the gateway has steered the answer, and it goes on."""
        self._held.clear()
        self.finished = False

    def common(self) -> dict[str, Any]:
        """What a chunk that is added has in common with the others."""
        last = unpacked(self._last)
        return {key: last[key] for key in _COMMON if key in last}

    def _is_left_out(self, chunk: Chunk) -> bool:
        if chunk.prompt_progress is not None and not chunk.begins:
            return not self._progress
        if chunk.choices is None:
            return True  # clients look into the choices of every chunk
        return not chunk.choices and chunk.usage is not None and not self._usage

    def _noted(self, choice: Choice) -> list[bytes]:
        """Remembers what a chunk tells; gives the chunk that has to stand before it, if one has to."""
        first: list[bytes] = []
        delta = choice.delta
        if not self.speaks:
            self.speaks = True
            if delta is None or delta.role is None:
                first.append(chat_chunk(self.common(), {"role": "assistant", "content": None}))
        if delta is not None:
            if delta.reasoning_content or delta.reasoning:
                self.key = "reasoning_content" if delta.reasoning_content else "reasoning"
            self.calls += [call.id or "" for call in delta.tool_calls or () if call.function and call.function.name]
        if choice.finish_reason:
            self.finished = True
        return first

    def _let(self, *payloads: bytes) -> list[bytes]:
        if not self.finished:
            return list(payloads)
        self._held += payloads
        return []


def chat_chunk(common: Mapping[str, Any], delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    """A chunk of one delta."""
    return _encode({**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def text_chunk(common: Mapping[str, Any], finish: str) -> bytes:
    """The last chunk of a completion that is no chat."""
    return _encode({**common, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": finish}]})


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(data: bytes, seen: bytes) -> tuple[Chunk, bytes]:
    """The chunk, and it again as a line of JSON that every client can read. Raises Protocol for what is no object."""
    try:
        chunk, sound = _strict.decode(seen), data.isascii() or _is_utf8(data)
    except (msgspec.DecodeError, RecursionError):
        chunk, sound = decode(seen), _is_json(data)
    if not sound:
        data = _mended(data)
    return chunk, data.replace(b"\n", b" ") if b"\n" in data else data  # in JSON, line ends stand only between tokens


def unpacked(payload: bytes) -> dict[str, Any]:
    """A payload as it was let through. The second reading is for numbers that are out of range."""
    try:
        found = msgspec.json.decode(payload)
    except msgspec.ValidationError:
        found = json.loads(payload)
    return found if isinstance(found, dict) else {}


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _mended(data: bytes) -> bytes:
    """JSON again, from the reading that `core.openai.chunk` allows: damaged characters become marks of damage."""
    found = json.loads(data.decode("utf-8", "replace"), strict=False, parse_constant=lambda _: None)
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")


def _parted(data: bytes, *, usage: bool) -> list[bytes]:
    """An answer in one piece as the chunks of a stream: all that was said, and what it cost."""
    whole = unpacked(data)
    cost = whole.pop("usage", None)
    whole["object"] = "chat.completion.chunk"
    whole["choices"] = [_as_delta(choice) for choice in whole["choices"]]
    said = [_encode(whole)]
    if usage and cost is not None:
        said.append(_encode({key: whole[key] for key in _COMMON if key in whole} | {"choices": [], "usage": cost}))
    return said


def _as_delta(choice: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", **choice.pop("message")}
    for place, call in enumerate(message.get("tool_calls") or ()):
        call.setdefault("index", place)
    return {**choice, "delta": message, "finish_reason": choice.get("finish_reason") or "stop"}
