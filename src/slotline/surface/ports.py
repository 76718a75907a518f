"""What the surface is given by the wiring: settings as values, and the rest of the gateway behind narrow protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slotline.core.kind import Traits
from slotline.core.models import Model
from slotline.core.queue_frames import QueueForm
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


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that the surface's handlers use."""

    settings: Settings
    relay: Relay
    catalogue: Catalogue
    health: Health
