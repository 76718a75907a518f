"""The place in line, as bytes in a client's stream: the four forms of INTERFACE's queue extension.

`event` is a frame of its own name, `ping` hides the same fields in a ping, `comment` in a line that no client parses,
`off` tells nothing. `docs/queue-extension.md` says which client takes which. All are legal only before the first event
of the answer itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from slotline.core.errors import Invalid
from slotline.core.line import Place

_encode = msgspec.json.encode

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: every SSE parser drops it, and it keeps proxies and read timers awake."""


def comment(text: str) -> bytes:
    """A comment that says something, to people and to tools that look; on one line, whatever `text` is."""
    return f": {' '.join(text.split())}\n\n".encode()


class QueueForm(StrEnum):
    """How a waiting caller is told its place."""

    EVENT = "event"
    PING = "ping"
    COMMENT = "comment"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Told:
    """What a waiting caller is told: its place, and the seconds until its slot as far as they can be known."""

    place: Place
    wait: float | None


class _Fields(msgspec.Struct, frozen=True):
    position: int
    queue_length: int
    estimated_wait_ms: int | None


class _QueueEvent(_Fields, frozen=True, tag="queue"):
    pass


class _PingEvent(msgspec.Struct, frozen=True, tag="ping"):
    queue: _Fields


def chosen(header: str | None, default: QueueForm) -> QueueForm:
    """The form that the header `x-slotline-queue` asks for. Raises Invalid for one that does not exist."""
    if header is None:
        return default
    try:
        return QueueForm(header.strip().lower())
    except ValueError:
        forms = ", ".join(QueueForm)
        raise Invalid(f"x-slotline-queue: expected one of {forms}, got {header[:80]!r}") from None


def nameless(form: QueueForm) -> QueueForm:
    """`form` on OpenAI's routes: their clients fail on events that have a name, so there are comments, or nothing."""
    return QueueForm.OFF if form is QueueForm.OFF else QueueForm.COMMENT


def frame(form: QueueForm, told: Told) -> bytes:
    """The whole frame that tells `told`; empty where nothing is told."""
    place = told.place
    wait_ms = None if told.wait is None else round(told.wait * 1000)
    match form:
        case QueueForm.EVENT:
            event = _encode(_QueueEvent(place.position, place.length, wait_ms))
            return b"event: queue\ndata: " + event + b"\n\n"
        case QueueForm.PING:
            ping = _encode(_PingEvent(_Fields(place.position, place.length, wait_ms)))
            return b"event: ping\ndata: " + ping + b"\n\n"
        case QueueForm.COMMENT:
            shown = "unknown" if wait_ms is None else wait_ms
            return f": queue position={place.position} length={place.length} wait_ms={shown}\n\n".encode()
        case QueueForm.OFF:
            return b""
