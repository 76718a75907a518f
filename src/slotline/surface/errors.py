"""Errors as answers: every route, the unknown ones included, answers in the shape of its surface."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable

from aiohttp import web

from slotline.core.anthropic.errors import body as anthropic_body
from slotline.core.errors import Invalid, NotFound, SlotlineError, TooLarge, Unauthenticated, WrongMethod
from slotline.core.openai.refusal import body as openai_body

_log = logging.getLogger(__name__)

REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
_OPENAI = re.compile(r"/v1/(chat/completions|completions|embeddings|responses)(/|$)")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_response(error: SlotlineError, body: bytes) -> web.Response:
    """`error` as an answer with its status; `body` is the error in the dialect's shape."""
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if isinstance(error, Unauthenticated):
        headers["www-authenticate"] = "Bearer"  # https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1
    return web.Response(status=error.status, body=body, content_type="application/json", headers=headers)


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns what a handler raises, before an answer has started, into an error answer."""
    allowed: str | None = None
    try:
        return await handler(request)
    except SlotlineError as known:
        error = known
    except web.HTTPException as foreign:
        if foreign.status < 400:
            raise
        error = translated(request, foreign)
        allowed = foreign.headers.get("allow")
    except Exception:  # noqa: BLE001 - the boundary of the routes that do not go through the relay
        _log.exception("request %s: a fault of the gateway itself", request[REQUEST_ID])
        error = SlotlineError("the gateway made a mistake; its log has the details")
    shaped = openai_body if _OPENAI.search(request.path) else anthropic_body
    response = error_response(error, shaped(error, request[REQUEST_ID]))
    if allowed is not None:
        response.headers["allow"] = allowed
    return response


def translated(request: web.Request, foreign: web.HTTPException) -> SlotlineError:
    """What the HTTP library says of a request that it does not pass on, in our words."""
    match foreign.status:
        case 404:
            return NotFound(f"{request.method} {request.path}: there is no such route")
        case 405:
            return WrongMethod(f"{request.path}: this route does not take {request.method}")
        case 413:
            return TooLarge(f"the body is larger than max_body = {request.client_max_size} bytes")
    error = Invalid(foreign.reason) if foreign.status < 500 else SlotlineError(foreign.reason)
    error.status = foreign.status
    return error
