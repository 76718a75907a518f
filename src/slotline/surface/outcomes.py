"""One outcome for every request below `/v1` of both mounts: told here for those that never come to the relay.

Those are what is refused before the line, what takes no slot, and clients that leave before their body is there. Of
the others the relay tells. Either way a request has one record, which is counted, logged and traced.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.typedefs import Middleware

from slotline.core.errors import Outcome, SlotlineError
from slotline.core.keys import Priority
from slotline.core.record import SURFACES, UNKNOWN, Record, Span
from slotline.surface.auth import caller
from slotline.surface.errors import REQUEST_ID, Handler, translated
from slotline.surface.ports import Ports

CARRIED: web.RequestKey[bool] = web.RequestKey("carried", bool)  # the relay has it, and tells how it ends
MODEL: web.RequestKey[str] = web.RequestKey("model", str)  # by the catalogue's name
NAMED: web.RequestKey[str] = web.RequestKey("named", str)  # … and by the client's
SPAN: web.RequestKey[Span] = web.RequestKey("span", Span)


def outcomes(ports: Ports) -> Middleware:
    """The middleware that tells the observer of requests that the relay does not know. Where there is none: nothing."""

    @web.middleware
    async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
        surface = surface_of(request.path, ports.settings.prefix)
        if surface is None or ports.observer is None:
            return await handler(request)
        span = ports.observer.begin(request.method, surface, request.headers)
        if span is not None:
            request[SPAN] = span
        error: SlotlineError | None = None
        outcome = Outcome.UPSTREAM_ERROR  # whatever is not foreseen is the gateway's own fault
        try:
            response = await handler(request)
        except SlotlineError as known:
            error, outcome = known, known.outcome
            raise
        except web.HTTPException as foreign:
            error = translated(request, foreign)
            outcome = error.outcome
            raise
        except (asyncio.CancelledError, ConnectionError):
            outcome = Outcome.SHUTDOWN if ports.relay.closing else Outcome.CLIENT_LEFT_WAITING
            raise
        else:
            outcome = Outcome.COMPLETED
            return response
        finally:
            if CARRIED not in request:
                ports.observer.ended(_record(request, surface, outcome, error))

    return watched


def surface_of(path: str, prefix: str) -> str | None:
    """The surface that `path` belongs to, one of SURFACES or UNKNOWN; None for one that is not below `/v1`."""
    for mount in (prefix, ""):
        if f"{path}/".startswith(f"{mount}/v1/"):
            route = path[len(mount) + len("/v1/") :]
            return route if route in SURFACES else "models" if route.startswith("models/") else UNKNOWN
    return None


def _record(request: web.Request, surface: str, outcome: Outcome, error: SlotlineError | None) -> Record:
    who = caller(request, None)
    return Record(
        id=request[REQUEST_ID],
        surface=surface,
        model=request.get(MODEL, UNKNOWN),
        named=request.get(NAMED),
        outcome=outcome,
        ended=asyncio.get_running_loop().time(),
        key=who.name,
        batch=who.key is not None and who.key.priority is Priority.BATCH,
        size=request.content_length or 0,
        error=error,
        span=request.get(SPAN),
    )
