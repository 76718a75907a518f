"""Logs: for people on a terminal, JSON lines in a pipe. Never content, never keys."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import msgspec


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


class _Plain(logging.Formatter):
    """Time, message, and the fields that matter."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        fields = getattr(record, "fields", {})
        return text + "".join(f" {name}={value}" for name, value in fields.items() if value is not None)


def set_up(level: int = logging.INFO, stream: TextIO = sys.stderr) -> None:
    """Sends the gateway's log to `stream`, in the form that suits it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Plain() if stream.isatty() else _Json())
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
