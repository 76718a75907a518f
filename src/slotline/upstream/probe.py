"""Asking a server how it is: alive, loading or gone; which kind; which models; how many slots.

Probes use a connection of their own and a short limit, and a probe that fails says nothing about a running request.
What is asked, in this order:

1. `/v1/models`, which everyone has: the models, and in `owned_by` mostly the kind.
2. `/health`, where that costs nothing: llama.cpp says 503 while it loads, in two shapes of body.
3. `/props`, if the kind is llama.cpp or not known yet; it does not wake a sleeping model, as `/slots` would.
4. `/api/version`, if the kind is still not known: only Ollama has it.
5. What the kind tells of itself besides; see `kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slotline.core.kind import Kind
from slotline.upstream.asker import FAILURES, Asker, Told, reason
from slotline.upstream.kinds import OWNERS, SERVERS, llama_cpp, ollama
from slotline.upstream.kinds.facts import Facts, Listing

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


async def look(ask: Asker, kind: Kind | None, before: Sighting | None = None) -> Sighting:
    """One look at the server. Never raises: a server that cannot be seen is DOWN.

    `kind`: None to find out. `before`: the last look; what it showed of the same kind holds where a server that is up
    does not answer just now.
    """
    try:
        return await _look(ask, kind, before)
    except TimeoutError:
        return Sighting(Health.DOWN, kind, reason=f"no answer to a probe within {ask.limit:g} s")
    except FAILURES as error:
        return Sighting(Health.DOWN, kind, reason=reason(error))


async def _look(ask: Asker, kind: Kind | None, before: Sighting | None) -> Sighting:
    told = await ask.get("/v1/models")
    listing = told.read(Listing)
    if kind is None and listing is not None:
        kind = next((OWNERS[owner] for owner in sorted(listing.owners) if owner in OWNERS), None)
    asks_health = told.status != 503 and (kind is None or SERVERS[kind].health)
    health = await ask.get("/health") if asks_health else told
    if health.status == 503:
        return _loading(health, kind, listing)
    if listing is None:
        return Sighting(Health.DOWN, kind, reason=_no_listing(told.status))
    kind, facts = await _identify(ask, kind, listing)
    known = facts or _remembered(kind, before) or Facts()
    return Sighting(Health.UP, kind, listing.models, known.slots, known.context, known.vision)


async def _identify(ask: Asker, kind: Kind | None, listing: Listing) -> tuple[Kind, Facts | None]:
    """The kind, and what it tells of itself."""
    if kind is None:
        facts = await llama_cpp.facts(ask, listing)
        if facts is not None:
            return Kind.LLAMA_CPP, facts
        kind = Kind.OLLAMA if await ollama.answers(ask) else Kind.OPENAI
    return kind, await SERVERS[kind].facts(ask, listing)


def _remembered(kind: Kind, before: Sighting | None) -> Facts | None:
    if before is None or before.kind is not kind:
        return None
    return Facts(before.slots, before.context, before.vision)


def _loading(told: Told, kind: Kind | None, listing: Listing | None) -> Sighting:
    if kind is None and _LOADING in told.body.lower():
        kind = Kind.LLAMA_CPP
    models = () if listing is None else listing.models
    return Sighting(Health.LOADING, kind, models, reason=told.body[:200].decode("utf-8", "replace"))


def _no_listing(status: int) -> str:
    if status in {401, 403}:
        return f"it refuses the gateway's key, or the lack of one: /v1/models answers with status {status}"
    return f"it answers, but not as an OpenAI-compatible server: /v1/models with status {status} lists no models"
