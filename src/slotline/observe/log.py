"""Logs: lines for people on a terminal, JSON lines in a pipe. Never content, never keys."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec

from slotline.core.errors import Outcome
from slotline.core.keys import Priority
from slotline.core.record import Record

_log = logging.getLogger(__name__)

ENDED = "request ended"
"""Of a request that came to the line."""
REFUSED = "request refused"
"""Of one that did not, because something was wrong with it."""
ANSWERED = "request answered"
"""Of one that needs no slot: a list of models, a count of tokens. Told with `--verbose` only."""

_LONG = 200  # characters of a model's name, which a client may have made up, and of any value in a line for people
_GREEN, _YELLOW, _RED, _DIM, _PLAIN = 32, 33, 31, 2, 0
_COLOURS = {
    Outcome.COMPLETED: _GREEN,
    Outcome.CLIENT_LEFT_WAITING: _DIM,
    Outcome.CLIENT_LEFT_RUNNING: _DIM,
    Outcome.INVALID: _YELLOW,
    Outcome.REFUSED_FULL: _YELLOW,
    Outcome.REFUSED_LIMIT: _YELLOW,
    Outcome.SHUTDOWN: _YELLOW,
}


def tell(record: Record) -> None:
    """One line for a request that has ended: what it was and how it went, never what was said."""
    if record.arrived is not None:
        _log.info(ENDED, extra={"fields": _fields(record)})
    elif record.outcome is Outcome.COMPLETED:
        _log.debug(ANSWERED, extra={"fields": _fields(record)})
    else:
        _log.info(REFUSED, extra={"fields": _fields(record)})


def _fields(record: Record) -> dict[str, Any]:
    tokens = record.tokens
    return {
        "outcome": record.outcome,
        "request_id": record.id,
        "key": record.key,
        "class": Priority.BATCH if record.batch else Priority.INTERACTIVE,
        "surface": record.surface,
        "model": record.named and record.named[:_LONG],
        "upstream": record.upstream,
        "waited_s": _rounded(record.waited),
        "first_token_s": _rounded(record.first_token),
        "ran_s": _rounded(record.ran),
        "bytes": record.size,
        "pieces": record.pieces,
        "input_tokens": tokens.input,
        "cached_tokens": tokens.cached,
        "output_tokens": tokens.output,
        "reasoning_tokens": tokens.reasoning,
        "thinking_capped": record.capped,
        "trace_id": None if record.span is None else record.span.trace_id,
        "notes": record.notes,
        "error": record.fault,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


# ---- the two forms ---------------------------------------------------------------------------------------------------


class _Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, f"%Y-%m-%dT%H:%M:%S.{int(record.msecs):03}%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class _People(logging.Formatter):
    """Time, message, and the fields that matter; of a request one line of words.

    What clients and upstreams wrote cannot move the cursor: nothing that does not print reaches the terminal.
    """

    def __init__(self, *, colours: bool) -> None:
        super().__init__("%(message)s", "%H:%M:%S")
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        if record.getMessage() in {ENDED, REFUSED, ANSWERED} and "request_id" in fields:
            text = self._request(fields)
        else:
            text = self._painted(_printable(super().format(record), "\n\t"), _severity(record.levelno))
            text += "".join(f" {name}={_printable(value)}" for name, value in fields.items() if value is not None)
        return f"{self._painted(self.formatTime(record, '%H:%M:%S'), _DIM)} {text}"

    def _request(self, fields: Mapping[str, Any]) -> str:
        outcome = Outcome(fields["outcome"])
        words = [
            _printable(fields["model"] or "–"),
            fields["surface"] or "no such route",
            *_took("waited", fields["waited_s"]),
            *_took("ran", fields["ran_s"]),
            *_cost(fields),
            *(_printable(fields[name]) for name in ("upstream", "key") if fields[name] is not None),
            self._painted(fields["request_id"], _DIM),
        ]
        text = "  ".join((self._painted(f"{outcome:<19}", _COLOURS.get(outcome, _RED)), *words))
        return text if fields["error"] is None else f"{text}\n         {_printable(fields['error'])}"

    def _painted(self, text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours and colour != _PLAIN else text


def _severity(level: int) -> int:
    return _RED if level >= logging.ERROR else _YELLOW if level >= logging.WARNING else _PLAIN


def _took(what: str, seconds: float | None) -> list[str]:
    return [] if seconds is None else [f"{what} {seconds:.1f} s"]


def _cost(fields: Mapping[str, Any]) -> list[str]:
    """The tokens, and how fast the answer was made."""
    read, made = fields["input_tokens"], fields["output_tokens"]
    words = [] if read is None and made is None else [f"{'?' if read is None else read} → {made or 0} tokens"]
    waited, ran, first = fields["waited_s"], fields["ran_s"], fields["first_token_s"]
    if made and ran is not None and first is not None and (making := waited + ran - first) > 0:
        words.append(f"{made / making:.0f} tok/s")
    return words


def _printable(value: object, spared: str = "") -> str:
    text = str(value)
    if not spared:
        text = text[:_LONG]
    return "".join(each if each.isprintable() or each in spared else "�" for each in text)


# ---- set-up ----------------------------------------------------------------------------------------------------------


def for_people(stream: TextIO) -> bool:
    """Whether somebody reads `stream` as it is written."""
    return stream.isatty()


def set_up(level: int = logging.INFO, stream: TextIO = sys.stderr) -> None:
    """Sends the gateway's log to `stream`, in the form that suits it. `NO_COLOR`: see https://no-color.org"""
    handler = logging.StreamHandler(stream)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    handler.setFormatter(_People(colours=not plain) if for_people(stream) else _Json())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("slotline").setLevel(level)


def http() -> logging.Logger:
    """For the HTTP library, which logs requests that it cannot read, headers and keys included: that it happened."""
    logger = logging.getLogger("slotline.http")
    if not logger.filters:
        logger.addFilter(_without_content)
    return logger


def _without_content(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    record.msg = f"a request could not be handled: {kind.__name__ if kind else 'no reason given'}"
    record.args, record.exc_info = (), None
    return True
