"""Ollama: https://github.com/ollama/ollama/blob/main/docs/api.md

It has no gauge of what runs, and tells neither how many requests it takes at once (`OLLAMA_NUM_PARALLEL`) nor how many
tokens a prompt has. A model that is not in memory is loaded by the request itself, silently, so its silence is never
loading: what can be asked is whether the server is there.

`/api/ps` and `/api/show` load nothing. Only the first tells the context that a model was really given, for those in
memory (`ProcessModelResponse` in `api/types.go`); the second tells what the model could have at most.
"""

from __future__ import annotations

import msgspec

from slotline.core.reading import Reading
from slotline.upstream.asker import FAILURES, Asker
from slotline.upstream.kinds.facts import Facts, Listing, tried
from slotline.upstream.kinds.server import Server
from slotline.upstream.kinds.tokenize import never


class _Version(msgspec.Struct):
    version: str


class _Loaded(msgspec.Struct):
    """`/api/ps`."""

    class Model(msgspec.Struct):
        context_length: int = 0  # builds before 2025-07 do not tell

    models: list[Model] | None = None


class _Shown(msgspec.Struct):
    """`/api/show`."""

    capabilities: list[str] | None = None


async def reading(ask: Asker) -> Reading:
    """Whether it is there; nobody there is restarting."""
    try:
        await ask.get("/api/version")
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
    return Reading()


async def answers(ask: Asker) -> bool:
    """Whether an Ollama is there; asked where the list of models does not tell, as it is empty at first."""
    told = await tried(ask.get("/api/version"))
    return told is not None and told.read(_Version) is not None


async def facts(ask: Asker, listing: Listing) -> Facts | None:
    """What holds for every model it has: they may differ, and facts are of the server."""
    loaded = await tried(ask.get("/api/ps"))
    if loaded is None:
        return None
    models = (loaded.read(_Loaded) or _Loaded()).models or []
    lengths = {model.context_length for model in models if model.context_length > 0}
    return Facts(context=lengths.pop() if len(lengths) == 1 else None, vision=await _vision(ask, listing.models))


async def _vision(ask: Asker, models: tuple[str, ...]) -> bool | None:
    if len(models) != 1:
        return None
    told = await tried(ask.post("/api/show", msgspec.json.encode({"model": models[0]})))
    shown = None if told is None else told.read(_Shown)
    return None if shown is None or shown.capabilities is None else "vision" in shown.capabilities


SERVER = Server(reading, facts, never, health=False)
