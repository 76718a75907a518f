"""`GET /metrics`: the numbers, in whichever of Prometheus' forms is asked for. Answered from memory, at any load.

Open like `/healthz`, also where the gateway has keys: it has no name of a key, no request and no word of anybody, and
what scrapes it seldom has a place for a secret. Names of upstreams and models and how busy they are is all it tells;
where that is too much, a proxy keeps this path to itself.
"""

from __future__ import annotations

from aiohttp import web

from slotline.surface.ports import Observer


async def metrics(observer: Observer, request: web.Request) -> web.Response:
    """All numbers as they are now."""
    body, content_type = await observer.exposition(request.headers.get("accept", ""))
    return web.Response(body=body, headers={"content-type": content_type, "cache-control": "no-store"})
