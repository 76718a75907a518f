"""What the surface is given by the wiring: settings as values, and the rest of the gateway behind narrow protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from multidict import CIMultiDictProxy

from slotline.core.history import Hour
from slotline.core.keys import Keyring
from slotline.core.kind import Traits
from slotline.core.models import Model
from slotline.core.queue_frames import QueueForm
from slotline.core.record import Record, Span
from slotline.core.report import Request, State
from slotline.relay import Relay


@dataclass(frozen=True, slots=True)
class Settings:
    """`[server]`, as far as it is the surface's; times in seconds, sizes in bytes."""

    prefix: str
    max_body: int
    grace: float
    keepalive: float
    queue_frames: QueueForm
    root_queue_frames: QueueForm
    started: int  # Unix time: what models are dated with, since no upstream tells a date
    rejoin: float  # for how long the place of a client that left is kept
    beat_after: float  # without an event, for clients that count nothing else


class Catalogue(Protocol):
    """The models on offer, and those who serve them."""

    def models(self) -> Sequence[Model]:
        """All models, in the order in which they are listed to clients."""
        ...

    async def resolve(self, name: str) -> Model:
        """The model that `name` means. Raises NotFound, or Unreachable when nobody could be asked what there is."""
        ...

    def traits(self, model: Model) -> Traits:
        """What is known of the server that serves `model`; of the first, where there are several."""
        ...

    def client_write(self, model: Model) -> float:
        """For how many seconds a client of `model` may fail to read."""
        ...

    async def count(self, model: Model, body: bytes) -> int | None:
        """The tokens of the prompt in a chat request, by the server's own tokenizer; None where it has none."""
        ...


class Health(Protocol):
    """Cached truths about the gateway, to be told at any load."""

    def unready(self) -> str | None:
        """Why nothing can be served at present; None when some upstream can serve."""
        ...


class Fetcher(Protocol):
    """Who may visit an address that a client names."""

    async def fetch(self, address: str, limit: int) -> str:
        """What lies at `address`, in base64; `limit`: bytes of it at most.

        Raises Invalid, whose message is the reason alone; Busy when too much is being fetched for others.
        """
        ...


class Pdfs(Protocol):
    """Who opens PDFs."""

    async def text(self, data: str) -> str:
        """The text of a PDF in base64. Raises Invalid, whose message is the reason alone, and Busy."""
        ...


class Overview(Protocol):
    """What goes on, to be told to those who may know."""

    def state(self) -> State:
        """Everything, as it is now."""
        ...

    def history(self) -> Hour:
        """The last hour in numbers."""
        ...

    def request(self, id: str) -> Request | None:  # noqa: A002 - it is the id
        """One request: where it stands, or how it ended, if that is not long ago. None for one that is not known."""
        ...


class Observer(Protocol):
    """Who counts, logs and traces; see `slotline.observe.observer`."""

    def begin(self, method: str, surface: str, headers: CIMultiDictProxy[str]) -> Span | None:
        """A request has come; its part in a trace, None where there are no traces."""
        ...

    def ended(self, record: Record) -> None:
        """It has its outcome; told once for each request."""
        ...

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """All numbers, in the form that the header `accept` asks for, and the content type of that."""
        ...


@dataclass(slots=True)
class Ports:
    """Everything that the surface's handlers use.

    Not frozen: a reload puts new settings, keys and token in their places, so they are read when they matter.
    """

    settings: Settings
    relay: Relay
    catalogue: Catalogue
    health: Health
    fetcher: Fetcher
    pdfs: Pdfs
    overview: Overview
    keys: Keyring = field(default_factory=Keyring)
    """Who may ask; empty: anybody who reaches the port."""
    admin: bytes | None = field(default=None, repr=False)
    """The SHA-256 of the operator's token; None: an operator is who asks from this machine."""
    observer: Observer | None = None
    """Who is told of requests; None: nobody."""
