"""Any server that speaks chat completions and no more: it lists its models, and shows nothing of its slots."""

from __future__ import annotations

from slotline.core.reading import Reading
from slotline.upstream.asker import FAILURES, Asker
from slotline.upstream.kinds.facts import Facts, Listing
from slotline.upstream.kinds.server import Server
from slotline.upstream.kinds.tokenize import never


async def reading(ask: Asker) -> Reading:
    """Whether it can serve at all: nobody there, or a 503, is loading or restarting."""
    try:
        return Reading(loading=(await ask.get("/v1/models")).status == 503)
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)


async def facts(ask: Asker, listing: Listing) -> Facts:
    """The context, for the servers that list it as vLLM does."""
    return Facts(context=listing.context)


SERVER = Server(reading, facts, never, health=True)
