"""What is heard of one call to the Messages API, piece by piece.

`Reading` is the stream without the network: bytes, cut anywhere → what is heard. It also notices what cannot be true: a
stream that keeps no order, has no end, or goes on behind it. Nothing here raises for what a gateway sends: how a call
fails is heard, too, as its last piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from slotline.core.errors import Protocol
from slotline.core.sse import Event, Parser

BROKE: Final = "the connection broke off"
_MAX_EVENT: Final = 16 << 20  # bytes


# ---- what is heard ---------------------------------------------------------------------------------------------------


class Opened(msgspec.Struct, frozen=True):
    """The head of the answer is there. `waited`: seconds in line, of a call that does not stream."""

    request_id: str | None
    waited: float | None = None


class Queued(msgspec.Struct, frozen=True):
    """The place in line, from 1, and the seconds until a slot as far as anybody can say."""

    position: int
    length: int
    wait: float | None


class Progress(msgspec.Struct, frozen=True):
    """It has its slot. `stage` is `loading` or `prefill`; the counts are tokens of the prompt, where they are known."""

    stage: str
    processed: int | None
    total: int | None


class Begun(msgspec.Struct, frozen=True):
    """The answer has begun."""


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """A piece of what the model thinks."""

    text: str


class Text(msgspec.Struct, frozen=True, gc=False):
    """A piece of what it says."""

    text: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens of the whole call. `prompt` is what was read, `cached` what did not have to be."""

    prompt: int
    cached: int
    answer: int


class Done(msgspec.Struct, frozen=True):
    """The answer is whole. `reason`: the API's `stop_reason`."""

    reason: str


class Fault(StrEnum):
    """In which way a call failed."""

    REFUSED = "refused"  # a status, before any stream
    ERROR = "error"  # the gateway's last word in a stream
    UNREACHABLE = "unreachable"  # nobody took the call
    BROKEN = "broken"  # the connection was lost, and the answer had not ended
    ENDLESS = "endless"  # the body came to its proper end, and the answer had none
    STRANGE = "strange"  # this is not how a gateway speaks


class Failed(msgspec.Struct, frozen=True):
    """There is no whole answer. `kind`: the API's type of error, or that of `fault`; `message`: for people."""

    fault: Fault
    kind: str
    message: str
    status: int | None = None


class Untrue(msgspec.Struct, frozen=True):
    """Something that the gateway promises never to send."""

    message: str


Heard = Opened | Queued | Progress | Begun | Thinking | Text | Usage | Done | Failed | Untrue


# ---- one stream ------------------------------------------------------------------------------------------------------


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0


class _Block(msgspec.Struct):
    """A block of a whole answer, or a piece of one in a stream: whatever of text and thinking there is."""

    text: str | None = None
    thinking: str | None = None
    stop_reason: str | None = None


class _Words(msgspec.Struct):
    type: str = "api_error"
    message: str = ""


class _Payload(msgspec.Struct):
    """Whatever an event can have, of what is looked at."""

    position: int = 0
    queue_length: int = 0
    estimated_wait_ms: int | None = None
    stage: str = ""
    processed: int | None = None
    total: int | None = None
    delta: _Block = msgspec.field(default_factory=_Block)
    usage: _Usage = msgspec.field(default_factory=_Usage)
    error: _Words = msgspec.field(default_factory=_Words)


class _Whole(msgspec.Struct):
    content: list[_Block]
    stop_reason: str
    usage: _Usage


_payload: Final = msgspec.json.Decoder(_Payload).decode


class _At(Enum):
    """How far a stream is."""

    LINE = "in line"
    SLOT = "after the slot was granted"
    ANSWER = "after message_start"
    LAST = "after message_delta"
    END = "after the end"


_INSIDE: Final = ("content_block_start", "content_block_delta", "content_block_stop")
_NEXT: Final[Mapping[tuple[_At, str], _At]] = MappingProxyType(
    {
        (_At.LINE, "queue"): _At.LINE,
        (_At.LINE, "progress"): _At.SLOT,
        (_At.LINE, "message_start"): _At.ANSWER,
        (_At.SLOT, "progress"): _At.SLOT,
        (_At.SLOT, "message_start"): _At.ANSWER,
        **{(_At.ANSWER, name): _At.ANSWER for name in _INSIDE},
        (_At.ANSWER, "message_delta"): _At.LAST,
        (_At.LAST, "message_stop"): _At.END,
        **{(at, "error"): _At.END for at in _At if at is not _At.END},
    }
)
"""What may come when. What is named here and comes at another time is untrue; anything else may come before the end."""
_KNOWN: Final = frozenset(name for _, name in _NEXT)


class Reading:
    """One stream. After its end, or after it failed, nothing comes of it but `Untrue`."""

    def __init__(self) -> None:
        self.strange = False
        """What came could not be read, so that nothing behind it can."""
        self._parser = Parser(_MAX_EVENT)
        self._at = _At.LINE
        self._reason: str | None = None

    def feed(self, data: bytes) -> list[Heard]:
        """The next bytes, cut anywhere → what they complete."""
        return self._heard(lambda: self._parser.feed(data))

    def end(self) -> list[Heard]:
        """The body has ended."""
        heard = self._heard(self._parser.close)
        if self._at is not _At.END:
            heard.append(self._fails(Fault.ENDLESS, f"broke off {self._at.value}: the stream has no end"))
        return heard

    def broken(self, why: str) -> list[Heard]:
        """The connection is gone. Nothing comes of it where the answer was whole."""
        return [] if self._at is _At.END else [self._fails(Fault.BROKEN, _broke(f" {self._at.value}", why))]

    def _heard(self, read: Callable[[], list[Event]]) -> list[Heard]:
        """What came before something unreadable counts, however the network cut it."""
        heard: list[Heard] = []
        try:
            for event in read():
                heard.extend(self._event(event))
        except (Protocol, msgspec.MsgspecError) as error:
            self.strange = True
            if self._at is not _At.END:
                heard.append(self._fails(Fault.STRANGE, f"what came is no answer: {error}"))
        return heard

    def _event(self, event: Event) -> Iterator[Heard]:
        name = event.name
        if self._at is _At.END or (name in _KNOWN and (self._at, name) not in _NEXT):
            yield Untrue(f"{name} came {self._at.value}")
            return
        said = _payload(event.data)
        self._at = _NEXT.get((self._at, name), self._at)
        match name:
            case "queue":
                yield from _place(said)
            case "progress":
                yield Progress(said.stage, said.processed, said.total)
            case "message_start":
                yield Begun()
            case "content_block_delta":
                yield from _said(said.delta)
            case "message_delta":
                yield _used(said.usage)
                self._reason = said.delta.stop_reason
            case "message_stop":
                yield Done(self._reason or "")
            case "error":
                yield Failed(Fault.ERROR, said.error.type, said.error.message)

    def _fails(self, fault: Fault, message: str) -> Failed:
        self._at = _At.END
        return Failed(fault, fault, message)


def _broke(where: str, why: str) -> str:
    """`why` is not said where it is but that."""
    return f"{BROKE}{where}" if why == BROKE else f"{BROKE}{where}: {why}"


def _place(said: _Payload) -> Iterator[Heard]:
    if not 1 <= said.position <= said.queue_length:
        yield Untrue(f"place {said.position} of {said.queue_length} was told")
    wait = said.estimated_wait_ms
    yield Queued(said.position, said.queue_length, None if wait is None else wait / 1000)


def _said(piece: _Block) -> Iterator[Heard]:
    """Empty pieces are signs of life and nothing else."""
    if piece.thinking:
        yield Thinking(piece.thinking)
    if piece.text:
        yield Text(piece.text)


def _used(usage: _Usage) -> Usage:
    return Usage(usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens)


# ---- what comes in one piece -----------------------------------------------------------------------------------------


class _Refused(msgspec.Struct):
    error: _Words


class Collected:
    """A body that says something only when it is whole: as `Reading`, with `read` for what it says then."""

    strange = False

    def __init__(self, read: Callable[[bytes], list[Heard]]) -> None:
        self._read = read
        self._body = bytearray()

    def feed(self, data: bytes) -> list[Heard]:
        """More of it."""
        self._body += data
        return []

    def end(self) -> list[Heard]:
        """All of it has come."""
        return self._read(bytes(self._body))

    def broken(self, why: str) -> list[Heard]:
        """The connection is gone."""
        return [Failed(Fault.BROKEN, Fault.BROKEN, _broke("", why))]


def whole(body: bytes) -> list[Heard]:
    """An answer that was not streamed."""
    try:
        said = msgspec.json.decode(body, type=_Whole)
    except msgspec.MsgspecError as error:
        return [Failed(Fault.STRANGE, Fault.STRANGE, f"what came is no answer: {error}")]
    pieces = (piece for block in said.content for piece in _said(block))
    return [Begun(), *pieces, _used(said.usage), Done(said.stop_reason)]


def refused(status: int, body: bytes) -> Failed:
    """What a status other than 200 says: the gateway's words, or ours where somebody else answers."""
    try:
        words = msgspec.json.decode(body, type=_Refused).error
    except msgspec.MsgspecError:
        return Failed(
            Fault.STRANGE, Fault.STRANGE, f"what answers there is no Slotline gateway (status {status})", status
        )
    return Failed(Fault.REFUSED, words.type, words.message, status)
