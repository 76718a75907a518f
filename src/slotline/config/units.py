"""Durations and sizes as they stand in the file, and back. Seconds are floats, bytes are whole numbers.

Each form has one spelling, so that a file reads the same everywhere; other spellings are refused with the right one.
`parse_*(show_*(x)) == x`.
"""

from __future__ import annotations

import re
from decimal import Decimal

from slotline.config.error import BadValue

KIB, MIB, GIB = 1024, 1024**2, 1024**3

_YEAR = 366 * 24 * 3600  # a longer wait is a slip of the hand, and timers count in bounded numbers
_LARGEST = 2**62  # bytes; what a signed 64-bit counter still holds

_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_BYTES = {"": 1, "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,18})?)([A-Za-z]*)")

# Spellings that people try, and what they mean by them.
_DURATION_SLIPS = {
    **dict.fromkeys(("", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("msec", "millis", "millisecond", "milliseconds"), "ms"),
}
_SIZE_SLIPS = {
    **dict.fromkeys(("b", "byte", "bytes"), "B"),
    **dict.fromkeys(("k", "kb", "kib"), "KiB"),
    **dict.fromkeys(("m", "mb", "mib"), "MiB"),
    **dict.fromkeys(("g", "gb", "gib"), "GiB"),
}
_DURATION_FORM = 'A duration is a number and a unit in quotes, as in "250ms", "10s", "5m" or "1h".'
_SIZE_FORM = 'A size is a number and a unit in quotes, as in "64KiB", "32MiB" or "1GiB"; without a unit: bytes.'


def parse_duration(value: object) -> float:
    """Seconds. Raises `BadValue`, with the right spelling where the meaning is plain."""
    text = _spelled(value)
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or isinstance(value, bool):
        raise BadValue(_DURATION_FORM)
    number, unit = match.groups()
    if unit not in _SECONDS or not isinstance(value, str) or text != value:
        lower = unit.lower()
        meant = lower if lower in _SECONDS else _DURATION_SLIPS.get(lower)
        raise BadValue(_DURATION_FORM, nearest=f'"{number}{meant}"' if meant else None)
    seconds = Decimal(number) * _SECONDS[unit]
    if seconds > _YEAR:
        raise BadValue("A duration of more than a year is not a limit.")
    return float(seconds)


def show_duration(seconds: float) -> str:
    """The shortest exact spelling in the largest unit that divides it: 1800.0 is "30m", 0.25 is "250ms"."""
    exact = Decimal(repr(seconds))
    if exact == 0:
        return "0s"
    for unit in ("h", "m", "s", "ms"):
        count = exact / _SECONDS[unit]
        if count == count.to_integral_value():
            return f"{int(count)}{unit}"
    return f"{exact:f}s"


def parse_size(value: object) -> int:
    """Bytes. A whole number, with or without quotes, counts bytes."""
    text = _spelled(value)
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or isinstance(value, bool | float):
        raise BadValue(_SIZE_FORM)
    number, unit = match.groups()
    if unit not in _BYTES or text != str(value):
        meant = next((known for known in _BYTES if known.lower() == unit.lower()), _SIZE_SLIPS.get(unit.lower()))
        raise BadValue(_SIZE_FORM, nearest=f'"{number}{meant}"' if meant is not None else None)
    count = Decimal(number) * _BYTES[unit]
    if count != count.to_integral_value() or count > _LARGEST:
        raise BadValue("A size is a whole number of bytes, 4EiB at most.")
    return int(count)


def show_size(count: int) -> str:
    """The shortest exact spelling: 33554432 is "32MiB", 1000 is "1000B"."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]}{unit}"
    return f"{count}B"


def _spelled(value: object) -> str:
    """The value as text without blanks, so that "5 min" is recognised; "" for what is neither text nor number."""
    return "".join(str(value).split()) if isinstance(value, str | int | float) else ""
