"""Any server that speaks chat completions and no more: it lists its models, and shows nothing of its slots."""

from __future__ import annotations

from slotline.core.reading import Reading
from slotline.upstream.asker import FAILURES, Asker


async def reading(ask: Asker) -> Reading:
    """Whether it can serve at all: nobody there, or a 503, is loading or restarting."""
    try:
        return Reading(loading=(await ask.get("/v1/models")).status == 503)
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
