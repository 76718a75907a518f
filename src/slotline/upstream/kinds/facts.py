"""What a server tells of itself: the list of its models, which every kind has, and the few numbers that matter here."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

import msgspec

from slotline.upstream.asker import FAILURES, Told


@dataclass(frozen=True, slots=True)
class Facts:
    """`slots`: requests it works on at once. `context`: tokens that one of them may hold. None: it does not tell."""

    slots: int | None = None
    context: int | None = None
    vision: bool | None = None


class Listing(msgspec.Struct):
    """`GET /v1/models`. Beside `id` no type is relied on: an odd field is no reason to lose sight of a server."""

    class Entry(msgspec.Struct):
        id: str
        owned_by: object = None
        max_model_len: object = None  # vLLM, SGLang
        status: object = None  # llama.cpp's router

    data: list[Entry] | None  # Ollama says null when it has none

    @property
    def entries(self) -> list[Entry]:
        return self.data or []

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.entries)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset(entry.owned_by for entry in self.entries if isinstance(entry.owned_by, str))

    @property
    def context(self) -> int | None:
        """The least that is said of any model: adapters share that of the model they belong to, and say nothing."""
        lengths = [entry.max_model_len for entry in self.entries]
        return min((length for length in lengths if isinstance(length, int) and length > 0), default=None)

    def status(self, model: str) -> str | None:
        """The router's word for the state of `model`: unloaded, loading, loaded, sleeping, downloading."""
        states = (entry.status for entry in self.entries if entry.id == model)
        return next((str(state.get("value")) for state in states if isinstance(state, dict)), None)


async def tried(question: Awaitable[Told]) -> Told | None:
    """The answer to a question that a server need not answer; None where it does not, or not in time."""
    try:
        return await question
    except (TimeoutError, *FAILURES):
        return None
