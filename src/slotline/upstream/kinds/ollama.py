"""Ollama: https://github.com/ollama/ollama/blob/main/docs/api.md

It has no gauge of what runs. A model that is not in memory is loaded by the request itself, silently, so its silence is
never loading: what can be asked is whether the server is there.
"""

from __future__ import annotations

from slotline.core.reading import Reading
from slotline.upstream.asker import FAILURES, Asker


async def reading(ask: Asker) -> Reading:
    """Whether it is there; nobody there is restarting."""
    try:
        await ask.get("/api/version")
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
    return Reading()
