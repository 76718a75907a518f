"""Server-sent events: bytes → events, events → bytes.

The rules are WHATWG's (https://html.spec.whatwg.org/multipage/server-sent-events.html), with three choices of our own:

- a body that ends without the last blank line still gives its last event: real servers close right after `[DONE]`;
- a field `error:` is an event of the name "error": llama.cpp up to 2024 reported failures in that form;
- a line that begins with `<` is a proxy's error page in the middle of a stream. WHATWG would ignore it, and with it
  the failure; here it raises.

Lines end at `\\n`, `\\r\\n` and `\\r` and nowhere else: U+2028 and its like are ordinary characters inside JSON. So
this module works on bytes and never decodes the payload. It must never depend on where the network cut them.
"""

from __future__ import annotations

import msgspec

from slotline.core.errors import Protocol

_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event: `name` is "message" where the stream gave none, `data` the payload without framing, never empty."""

    name: str
    data: bytes


class Parser:
    """Reads one body. After it has raised it is of no further use."""

    __slots__ = (
        "_after_cr",
        "_between",
        "_data",
        "_head",
        "_held",
        "_max",
        "_name",
        "_size",
        "_tail",
        "comments",
        "fault",
    )

    def __init__(self, max_event: int) -> None:
        """`max_event`: the most bytes that the lines of one event may have together."""
        self.comments = 0
        """Comment lines so far: signs of life that are no events."""
        self._max = max_event
        self._head: bytes | None = b""  # what may become a byte order mark; None once that is decided
        self._after_cr = False  # a \n that comes next belongs to the \r that ended the last line
        self._tail: list[bytes] = []  # the unfinished line, as it came: joined once, so that no cutting costs O(n²)
        self._held = 0  # bytes in _tail
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0  # bytes in the finished lines of this event
        self.fault: Protocol | None = None  # comes next
        self._between = False  # nothing at all is held: the next byte begins an event

    def feed(self, data: bytes) -> list[Event]:
        """The next bytes of the body, cut anywhere → the events they complete.

        Raises Protocol when an event is longer than `max_event`, which is noticed while it grows, or when HTML comes.
        What came before the fault is returned first; it is then in `fault`, and the next call raises it.
        """
        if self.fault is not None:
            raise self.fault
        events: list[Event] = []
        try:
            return self._feed(data, events)
        except Protocol as fault:
            if not events:
                raise
            self.fault = fault
        return events

    def _feed(self, data: bytes, events: list[Event]) -> list[Event]:
        if not self._between or 13 in data or not data.endswith(b"\n\n"):
            self._read(data, events)
            return events
        # What servers send nearly always: one whole event of one `data: ` line, or several. The rest goes the long way.
        end = len(data) - 2
        if data.find(b"\n") == end and 6 < end <= self._max and data.startswith(b"data: "):
            return [Event("message", data[6:end])]
        for block in data[:-2].split(b"\n\n"):
            if block.startswith(b"data: ") and b"\n" not in block and 6 < len(block) <= self._max:
                events.append(Event("message", block[6:]))
            else:
                self._read(block + b"\n\n", events)
        return events

    def close(self) -> list[Event]:
        """The body has ended → the event whose blank line is missing, if there is one. Raises as `feed` does."""
        if self.fault is not None:
            raise self.fault
        events: list[Event] = []
        if self._tail:
            self._line(b"".join(self._tail), events)
            self._tail.clear()
        self._dispatch(events)
        return events

    def _read(self, data: bytes, events: list[Event]) -> None:
        """Any bytes: cuts them into lines, and keeps the unfinished last one."""
        if self._head is not None:
            data = self._decide_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 0x0A:
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1] == 0x0D
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._tail:
                self._tail.append(line)
                whole = b"".join(self._tail)
                self._tail.clear()
                self._held = 0
                self._line(whole, events)
            else:
                self._line(line, events)
        if rest:
            self._tail.append(rest)
            self._held += len(rest)
            self._check(self._held)
        self._between = not (self._tail or self._size or self._after_cr or self._head is not None)

    def _decide_bom(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _check(self, more: int) -> None:
        if self._size + more > self._max:
            raise Protocol(f"an event of the upstream's stream is longer than max_event ({self._max} bytes)")

    def _line(self, line: bytes, events: list[Event]) -> None:
        """One finished line, without its end."""
        if not line:
            self._dispatch(events)
            return
        self._check(len(line))
        if line[0] == 0x3A:  # ':'. Not counted into the size: a server may keep one event alive for hours
            self.comments += 1
            return
        self._size += len(line)
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"error":
            self._name = b"error"
            self._data.append(value)
        elif line[0] == 0x3C:  # '<'
            raise Protocol(f"the upstream's event stream turned into HTML: {line[:80].decode('utf-8', 'replace')}")
        # Everything else (`id`, `retry`, what is yet to be invented) is ignored, as the rules say.

    def _dispatch(self, events: list[Event]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        if data:
            events.append(Event(self._name.decode("utf-8", "replace") or "message", data))
        self._data.clear()
        self._name = b""
        self._size = 0


def encode(name: str | bytes, json: bytes) -> bytes:
    """The frame of one event. `json` is one line, as a JSON encoder gives it; a line end in it raises ValueError."""
    if b"\n" in json or b"\r" in json:
        raise ValueError("the payload of an event must be one line")
    if isinstance(name, str):
        name = name.encode()
    return b"event: %b\ndata: %b\n\n" % (name, json)


def comment(text: str) -> bytes:
    """A comment, which no client takes for an event; one comment line for each line of `text`."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join(f": {line}\n" for line in lines).encode() + b"\n"
