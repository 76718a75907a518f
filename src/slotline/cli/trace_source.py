"""Where the requests of `slotline simulate` come from: a file, standard input, or a mix that is made on the spot."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from slotline.core.simulation.formats import Format
from slotline.core.simulation.mixes import MIXES, mix
from slotline.core.simulation.rows import TraceError
from slotline.core.simulation.trace import Trace, read

MIXED = 10_000
"""Requests of a mix, if nothing else is said."""
_MIX = "mix:"
_GZIP = b"\x1f\x8b"  # how a compressed file begins, whatever its name: RFC 1952, 2.3.1


def requests_of(source: str, format_: str | None, key_column: str | None, limit: int | None, seed: int) -> Trace:
    """What TRACE names; the arguments are the options of the command. Raises ClickException, which says where."""
    if source.startswith(_MIX):
        return _made(source.removeprefix(_MIX), limit or MIXED, seed)
    name = "standard input" if source == "-" else source
    try:
        with _opened(source) as lines:
            return read(lines, name, Format(format_) if format_ else None, key_column, limit)
    except TraceError as wrong:
        raise click.ClickException(str(wrong)) from None
    except (OSError, EOFError, zlib.error) as wrong:  # the last two: a compressed file that is cut off, or broken
        raise click.ClickException(f"{name}: {getattr(wrong, 'strerror', None) or wrong}") from None


def _made(name: str, requests: int, seed: int) -> Trace:
    if name not in MIXES:
        raise click.BadParameter(f"there is no mix {name!r}; there are {', '.join(MIXES)}", param_hint="TRACE")
    chance = random.Random(seed)  # noqa: S311 - the same requests from the same seed
    return Trace(Format.PLAIN, mix(name, requests, chance), (f"made from seed {seed}: {MIXES[name][0]}",))


@contextmanager
def _opened(source: str) -> Iterator[Iterable[str]]:
    """Its lines. What is not UTF-8 is replaced: nothing that matters here is anything but ASCII."""
    if source == "-":
        yield _text(sys.stdin.buffer)
        return
    with open(source, "rb") as raw:
        yield _text(gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(_GZIP) else raw)


def _text(lines: Iterable[bytes]) -> Iterator[str]:
    return (line.decode(errors="replace") for line in lines)
