"""What is wrong with a configuration, in words for the person who wrote it. Never shows a secret.

This is not one of the errors of `slotline.core.errors`: those end a request, this one keeps the gateway from starting.
"""

from __future__ import annotations

import json
import re


class ConfigError(Exception):
    """One fault in the configuration. `str(error)` is two lines: where and what it is, then why it is wrong.

    `file`: the file, or what stands for it ("command line"); `line`: counted from 1, None where there is none.
    `key`: the setting as a reader finds it in the file, e.g. `[[upstream]] "box1" limits.busy_wait`; empty when the
    file as a whole is meant. `value`: the value as it would stand in the file, None when there is none; what may be a
    secret is not in it. `nearest`: what was probably meant, as it would stand in the file, or None.
    """

    def __init__(
        self,
        *,
        file: str,
        key: str,
        message: str,
        value: str | None = None,
        nearest: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.key = key
        self.value = value
        self.message = message
        self.nearest = nearest
        self.line = line

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        what = self.key if self.value is None else f"{self.key} = {self.value}"
        said = self.nearest is None or (self.nearest.startswith("`") and self.nearest.strip("`") in self.message)
        why = self.message if said else f"{self.message} Did you mean {self.nearest}?"
        head = ": ".join(part for part in (where, what) if part)
        return f"{head}\n  {why}"


class BadValue(Exception):
    """Why one value cannot stand. Whoever knows file and key makes a `ConfigError` of it."""

    def __init__(self, message: str, *, nearest: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.nearest = nearest


_LONGEST = 100  # characters of a value that are shown; enough to recognise it, and the message stays readable
_SECRET_KEY = re.compile(r"key|tok|secret|pass|hash|cred|auth|bearer", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(sk|sl)[-_]|sha256:", re.IGNORECASE)  # how keys of vendors, and our own, begin
_USER = re.compile(r"//[^/@\s]*@")  # the user and password of a URL


def shown_value(key: str, value: object) -> str:
    """`value` as it would stand in the file, cut when long. A text that may be a secret is not shown."""
    if isinstance(value, str) and value and (_SECRET_KEY.search(key) or _SECRET_VALUE.match(value)):
        return "(not shown: it may be a secret)"
    if isinstance(value, dict):
        return "{…}"  # whatever is inside has its own path, or may be a secret
    text = _USER.sub("//(not shown)@", _as_toml(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _as_toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # escapes control characters: a value cannot forge a line
    if isinstance(value, list):
        return f"[{', '.join('{…}' if isinstance(item, dict) else _as_toml(item) for item in value)}]"
    return str(value)
