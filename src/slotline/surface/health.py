"""`/healthz`, `/readyz`, `HEAD /`: answered from cached truths, at any load, without a slot."""

from __future__ import annotations

from aiohttp import web

from slotline.surface.ports import Ports


async def healthz(request: web.Request) -> web.Response:
    """The process lives and its event loop turns."""
    return web.Response(text="ok\n")


async def readyz(ports: Ports, request: web.Request) -> web.Response:
    """200 while some upstream can serve, else 503 with the reason."""
    reason = "the gateway is shutting down" if ports.relay.closing else ports.health.unready()
    if reason is None:
        return web.Response(text="ready\n")
    return web.Response(status=503, text=f"not ready: {reason}\n")


async def hello(request: web.Request) -> web.Response:
    """The probe that some clients send before their first request."""
    return web.Response()
