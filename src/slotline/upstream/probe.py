"""Asking a server how it is: alive, loading or gone; which kind; which models; how many slots.

Probes use a connection of their own and a short limit, and a probe that fails says nothing about a running request.
What is asked, in this order: `/health` (llama.cpp says 503 while it loads, in two shapes of body), `/props` (only
llama.cpp has it; it does not wake a sleeping model, as `/slots` would), `/v1/models` (everyone has it).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from slotline.core.kind import Kind
from slotline.upstream.asker import FAILURES, Asker
from slotline.upstream.kinds.llama_cpp import Props


class Health(StrEnum):
    """How a server is, as far as a probe can tell."""

    UNKNOWN = "unknown"
    UP = "up"
    LOADING = "loading"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look at a server showed. `context`: tokens per slot, where the server tells."""

    state: Health
    kind: Kind | None = None
    models: tuple[str, ...] = ()
    slots: int | None = None
    context: int | None = None
    vision: bool | None = None
    reason: str = ""


class _Listing(msgspec.Struct):
    class Entry(msgspec.Struct):
        id: str

    data: list[Entry]


async def look(ask: Asker, kind: Kind | None) -> Sighting:
    """One look at the server. Never raises: a server that cannot be seen is DOWN."""
    try:
        return await _look(ask, kind)
    except TimeoutError:
        return Sighting(Health.DOWN, kind, reason=f"no answer to a probe within {ask.limit:g} s")
    except FAILURES as error:
        return Sighting(Health.DOWN, kind, reason=str(error) or type(error).__name__)


async def _look(ask: Asker, kind: Kind | None) -> Sighting:
    health = await ask.get("/health")
    if health.status == 503:
        return Sighting(Health.LOADING, kind or Kind.LLAMA_CPP, reason=health.body[:200].decode("utf-8", "replace"))
    props = (await ask.get("/props")).read(Props) if kind in {None, Kind.LLAMA_CPP} else None
    if props is not None:
        kind = Kind.LLAMA_CPP
    listing = (await ask.get("/v1/models")).read(_Listing)
    if listing is None:
        return Sighting(Health.DOWN, kind, reason="it answers, but not as an OpenAI-compatible server: no /v1/models")
    models = tuple(entry.id for entry in listing.data)
    if props is None:
        return Sighting(Health.UP, kind or Kind.OPENAI, models)
    settings = props.default_generation_settings
    return Sighting(Health.UP, kind, models, props.total_slots, settings.n_ctx, props.modalities.vision)
