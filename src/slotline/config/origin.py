"""Where a configuration came from and what its keys are called there: makes a `ConfigError` of a path and a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slotline.config.error import ConfigError, shown_value
from slotline.config.lines import KeyPath, line_of
from slotline.config.tables import TABLES


@dataclass(frozen=True, slots=True)
class Origin:
    """`file`: what messages call it. `text`: its text, where lines can be counted. `flags`: keys given as options."""

    file: str
    document: Mapping[str, Any]
    text: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)

    def error(
        self,
        path: KeyPath,
        message: str,
        *,
        value: object = msgspec.UNSET,
        nearest: str | None = None,
    ) -> ConfigError:
        """The fault at `path`; `value` as it stands in the file."""
        return ConfigError(
            file=self.file,
            key=self.flags.get(str(path[-1]), self._called(path)),
            message=message,
            value=None if value is msgspec.UNSET or _is_table(value) else shown_value(str(path[-1]), value),
            nearest=nearest,
            line=None if self.text is None else line_of(self.text, path),
        )

    def _called(self, path: KeyPath) -> str:
        """The path in the file's own words: `[[upstream]] "box1" limits.busy_wait`, `[server] port`."""
        first, *rest = path
        table = TABLES.get(str(first))
        words = [str(first) if table is None else table.heading]
        if table is not None and table.many and isinstance(self.document.get(str(first)), dict):
            words = [f"[{first}]"]  # written with too few brackets
        if rest and isinstance(rest[0], int):
            words.append(self._which(str(first), int(rest.pop(0))))
        if rest:
            words.append(".".join(str(step) for step in rest))
        return " ".join(words)

    def _which(self, table: str, place: int) -> str:
        entry = self.document[table][place]
        named = entry.get("name") if isinstance(entry, dict) else None
        return shown_value("", named) if isinstance(named, str) and named else f"number {place + 1}"


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(entry, dict) for entry in value))
