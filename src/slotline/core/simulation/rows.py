"""One line of a trace: its fields, read with care, so that an error says in which line and field what stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite

_LARGEST = 1e8  # tokens: no context is that long
_MOST = 1e13  # milliseconds since 1970 are less, in any century that a trace is from


class TraceError(ValueError):
    """A trace that cannot be used. `line` counts from 1; None: it is not about one line, or one field."""

    def __init__(
        self, file: str, line: int | None, message: str, *, field: str | None = None, value: object = None
    ) -> None:
        where = file if line is None else f"{file}, line {line}"
        what = "" if field is None else f"{field} = {_shown(value)}: "
        super().__init__(f"{where}: {what}{message}")
        self.file, self.line, self.field, self.value, self.message = file, line, field, value, message


class Row:
    """The fields of one line, by name."""

    __slots__ = ("fields", "file", "line")

    def __init__(self, file: str, line: int, fields: Mapping[str, object]) -> None:
        self.file, self.line, self.fields = file, line, fields

    def error(self, field: str, message: str) -> TraceError:
        """What is wrong with `field`."""
        if field not in self.fields:
            return TraceError(self.file, self.line, f"there is no field {field}")
        return TraceError(self.file, self.line, message, field=field, value=self.fields[field])

    def has(self, field: str) -> bool:
        """Whether anything stands there; null counts as nothing, and so does empty text."""
        value = self.fields.get(field)
        return value is not None and value != ""

    def number(self, field: str) -> float:
        """Of 0 or more."""
        value = self.fields.get(field)
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
        except (ValueError, OverflowError):
            number = -1.0
        if not isfinite(number) or number < 0:
            raise self.error(field, "a number of 0 or more is needed")
        if number > _MOST:
            raise self.error(field, f"a number of at most {_MOST:.0e} is needed")
        return number

    def count(self, field: str) -> int:
        """A whole number of 0 or more; 12.0 is one, too."""
        number = self.number(field)
        if not number.is_integer():
            raise self.error(field, "a whole number is needed")
        if number > _LARGEST:
            raise self.error(field, f"a number of at most {_LARGEST:.0e} is needed")
        return int(number)

    def text(self, field: str) -> str:
        """Text, or a number as text; "" where nothing stands."""
        value = self.fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str | int | float):
            raise self.error(field, "text is needed")
        return str(value)

    def moment(self, field: str) -> float:
        """Seconds since 1970, of a date and time as in ISO 8601; without a zone it is taken as UTC."""
        value = self.fields.get(field)
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        except ValueError:
            moment = None
        if moment is None:
            raise self.error(field, "a date and time is needed, as in 2026-11-29 21:15:46.68")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
