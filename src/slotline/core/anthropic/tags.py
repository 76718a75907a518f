"""`<think>…</think>` in the text of an answer, for upstreams that have no reasoning parser.

An opening tag is looked for only where text begins: an answer may speak of tags. A closing tag alone is what a parser
leaves over of reasoning; it is removed where text begins, and anywhere in the text of a model that reasons. When the
reasoning was ended by force, the rest of it may come as text, up to that tag: so the first words after it are held back
until the tag, or their number, has decided.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

_OPEN, _SHUT = "<think>", "</think>"
_LEAK = 256  # characters after a forced end that may turn out to be reasoning


class Piece(NamedTuple):
    """A piece of text that is decided, never empty."""

    thinking: bool
    text: str


class _Place(Enum):
    BEGINNING = auto()  # a tag may stand here
    INSIDE = auto()
    FORCED = auto()  # after a forced end: reasoning may go on
    BEHIND = auto()  # after a closing tag, before the text
    TEXT = auto()


class Tags:
    """Splits text as it comes, over any cuts: what may be a part of a tag is held back until that is decided."""

    def __init__(self) -> None:
        self._place = _Place.BEGINNING
        self._pending = ""
        self._reasons = False  # reasoning came by another way

    @property
    def quiet(self) -> bool:
        """No tag is looked for: text passes as it is."""
        return self._place is _Place.TEXT and not self._reasons

    def forced(self) -> None:
        """The reasoning was ended by force."""
        self._reasons = True
        self._place = _Place.FORCED

    def expect(self) -> None:
        """Reasoning came by another way, so that the next text begins anew."""
        self._reasons = True
        if self._place is _Place.TEXT:
            self._place = _Place.BEGINNING

    def split(self, text: str) -> list[Piece]:
        """The next text → the pieces that are decided."""
        pieces: list[Piece] = []
        text, self._pending = self._pending + text, ""
        if self._place is _Place.BEGINNING:
            text = self._begin(text)
        if self._place is _Place.FORCED:
            text = self._leaked(text, pieces)
        if self._place is _Place.INSIDE:
            text = self._inside(text, pieces)
        if self._place is _Place.BEHIND:
            text = text.lstrip()
            self._place = _Place.TEXT if text else _Place.BEHIND
        if self._place is _Place.TEXT and self._reasons:
            text = self._bare(text)
        if text:
            pieces.append(Piece(thinking=False, text=text))
        return pieces

    def rest(self) -> list[Piece]:
        """Nothing will complete what is held back → it was no tag."""
        text, self._pending = self._pending, ""
        return [Piece(self._place is _Place.INSIDE, text)] if text else []

    def _begin(self, text: str) -> str:
        bare = text.lstrip()
        if bare.startswith(_OPEN):
            self._place = _Place.INSIDE
            return bare[len(_OPEN) :]
        if bare.startswith(_SHUT):
            self._place = _Place.BEHIND
            return bare[len(_SHUT) :]
        if _OPEN.startswith(bare) or _SHUT.startswith(bare):
            self._pending = text
            return ""
        self._place = _Place.TEXT
        return text

    def _leaked(self, text: str, pieces: list[Piece]) -> str:
        """Takes off what still is reasoning, once that can be told → the text behind it."""
        thinking, tag, behind = text.partition(_SHUT)
        if len(thinking) > _LEAK:
            self._place = _Place.TEXT
            return text
        if tag:
            self._place = _Place.BEHIND
            if thinking.strip():
                pieces.append(Piece(thinking=True, text=thinking))
            return behind
        self._pending = text
        return ""

    def _bare(self, text: str) -> str:
        """Takes closing tags out of text, and holds back what may be the beginning of one."""
        text = text.replace(_SHUT, "")
        if held := _held_back(text):
            self._pending = text[-held:]
            text = text[:-held]
        return text

    def _inside(self, text: str, pieces: list[Piece]) -> str:
        """Takes the thinking off → the text behind it."""
        thinking, tag, behind = text.partition(_SHUT)
        if tag:
            self._place = _Place.BEHIND
        else:
            held = _held_back(thinking)
            self._pending = thinking[len(thinking) - held :]
            thinking = thinking[: len(thinking) - held]
        if thinking:
            pieces.append(Piece(thinking=True, text=thinking))
        return behind


def _held_back(thinking: str) -> int:
    """How many of the last characters may be the beginning of the closing tag."""
    return next((n for n in range(len(_SHUT) - 1, 0, -1) if thinking.endswith(_SHUT[:n])), 0)
