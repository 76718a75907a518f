"""The course of one answer, from the question to its last piece: what there is to show of it at any moment.

Knows no terminal; times are those of any clock of seconds, and come in as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from slotline.cli.chat.rejoin import Lost
from slotline.cli.hearing import (
    Begun,
    Done,
    Failed,
    Heard,
    Opened,
    Progress,
    Queued,
    Text,
    Thinking,
    Untrue,
    Usage,
)
from slotline.core.why import spoken

_SOON: Final = 1.0  # seconds: what is left of an estimate that is nearly used up says no more than "soon"


@dataclass(slots=True)
class Course:
    """See above. `asked`: when."""

    asked: float
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    failed: Failed | None = None
    _stopped: float | None = None  # by the person, when
    _last: Heard | Lost | None = None
    _queued: float | None = None  # since when
    _told: float = 0.0  # when the last thing was heard that the line shows
    _granted: float | None = None
    _first: float | None = None  # piece
    _latest: float = 0.0  # piece
    _thinking: float = 0.0  # the latest piece of that
    _usage: Usage | None = None
    _reason: str | None = None

    def hear(self, heard: Heard | Lost, now: float) -> None:
        """The next thing that is heard, and when."""
        match heard:
            case Text(text) | Thinking(text):
                (self.text if isinstance(heard, Text) else self.thought).append(text)
                self._first = self._first or now
                self._latest = now
                if isinstance(heard, Thinking):
                    self._thinking = now
                self._granted = self._granted or now
            case Queued():
                self._queued = self._queued or now
            case Progress() | Begun():
                self._granted = self._granted or now
            case Usage():
                self._usage = heard
            case Done(reason):
                self._reason = reason
            case Failed():
                self.failed = heard
            case Opened() | Untrue() | Lost():
                pass
        if not isinstance(heard, (Opened, Untrue, Usage)):
            self._last, self._told = heard, now

    def stop(self, now: float) -> None:
        """The person does not want more of it."""
        self._stopped = now

    # ---- to be shown -------------------------------------------------------------------------------------------------

    def status(self, now: float) -> str:
        """What goes on just now, in a few words."""
        match self._last:
            case Queued() as at:
                return self._place(at, now)
            case Progress() | Begun() as read:
                return self._reads(read, now)
            case Thinking() | Text() as piece:
                return " · ".join(("thinking" if isinstance(piece, Thinking) else "answering", *self._speed(now)))
            case Lost():
                return f"connection lost; asking again, the place is kept · {_whole(now - self._told)}"
            case _:
                return f"asking · {_whole(now - self.asked)}"

    def footer(self) -> str:
        """How it went, once it is over."""
        parts = ["stopped"] if self._stopped is not None else []
        if self._queued is not None:
            until = next(each for each in (self._granted, self._stopped, self._told) if each is not None)
            parts.append(f"waited {spoken(until - self.asked)}")
        if self._first is not None:
            began = self._granted if self._queued is not None and self._granted is not None else self.asked
            parts += [f"first token after {spoken(self._first - began)}", *self._speed(self._latest)]
        if self._reason is not None:
            parts.append("cut at --max-tokens" if self._reason == "max_tokens" else self._reason)
        return " · ".join(parts)

    def thoughts(self) -> str | None:
        """How long it thought, in place of what it thought; None: it did not."""
        if not self.thought or self._first is None:
            return None
        return f"thought for {spoken(self._thinking - self._first)} · {_many(len(self.thought))}"

    def _place(self, at: Queued, now: float) -> str:
        place = f"place {at.position} of {at.length}"
        waited = f"waiting for {_whole(now - (self._queued or now))}"
        if at.wait is None:
            return f"{place} · {waited}"
        left = at.wait - (now - self._told)
        return f"{place}, {f'about {_whole(left)}' if left >= _SOON else 'any moment'} · {waited}"

    def _reads(self, at: Progress | Begun, now: float) -> str:
        for_so_long = _whole(now - (self._granted or now))
        match at:
            case Progress("loading"):
                return f"the model is loading · {for_so_long}"
            case Progress(_, processed, total) if processed is not None and total is not None:
                return f"reading {processed:,}/{total:,}"
            case _:
                return f"reading · {for_so_long}"

    def _speed(self, until: float) -> list[str]:
        pieces = len(self.text) + len(self.thought)
        tokens = pieces if self._usage is None else self._usage.answer
        took = until - (self._first or until)
        # The first one marks the beginning: what is timed are the others.
        return [_many(tokens), *([f"{(tokens - 1) / took:.0f} tokens/s"] if tokens > 1 and took > 0 else [])]


def _many(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"


def _whole(seconds: float) -> str:
    """A duration that is shown while it changes: nobody reads tenths."""
    return spoken(seconds) if seconds >= 9.5 else f"{max(0, round(seconds))} s"
