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
from slotline.upstream.asker import FAILURES, Asker, Told, reason
from slotline.upstream.kinds.llama_cpp import Props

_LOADING = b"loading model"


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

    data: list[Entry] | None  # Ollama says null when it has none


async def look(ask: Asker, kind: Kind | None) -> Sighting:
    """One look at the server. Never raises: a server that cannot be seen is DOWN."""
    try:
        return await _look(ask, kind)
    except TimeoutError:
        return Sighting(Health.DOWN, kind, reason=f"no answer to a probe within {ask.limit:g} s")
    except FAILURES as error:
        return Sighting(Health.DOWN, kind, reason=reason(error))


async def _look(ask: Asker, kind: Kind | None) -> Sighting:
    health = await ask.get("/health")
    loading = health.status == 503
    if loading:
        kind = kind or (Kind.LLAMA_CPP if _LOADING in health.body.lower() else None)
    props = (await ask.get("/props")).read(Props) if not loading and kind in {None, Kind.LLAMA_CPP} else None
    if props is not None:
        kind = Kind.LLAMA_CPP
    listing = await ask.get("/v1/models")
    models = _models(listing)
    if loading or listing.status == 503:
        why = health if loading else listing
        return Sighting(Health.LOADING, kind, models or (), reason=why.body[:200].decode("utf-8", "replace"))
    if models is None:
        return Sighting(Health.DOWN, kind, reason=_no_listing(listing.status))
    if props is None:
        return Sighting(Health.UP, kind or Kind.OPENAI, models)
    settings = props.default_generation_settings
    return Sighting(Health.UP, kind, models, props.total_slots, settings.n_ctx, props.modalities.vision)


def _models(listing: Told) -> tuple[str, ...] | None:
    found = listing.read(_Listing)
    return None if found is None else tuple(entry.id for entry in found.data or ())


def _no_listing(status: int) -> str:
    if status in {401, 403}:
        return f"it refuses the gateway's key, or the lack of one: /v1/models answers with status {status}"
    return f"it answers, but not as an OpenAI-compatible server: /v1/models with status {status} lists no models"
