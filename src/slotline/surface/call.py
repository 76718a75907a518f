"""What every route that asks a model has in common: its body, and the way through the relay."""

from __future__ import annotations

import asyncio
import secrets

from aiohttp import StreamReader, web

from slotline.core.dialect import Dialect
from slotline.core.errors import Forbidden, Invalid, NotFound, TooLarge
from slotline.core.models import Model, unknown
from slotline.core.patience import longest_wait
from slotline.core.rejoin import sameness
from slotline.passage import Call
from slotline.surface.auth import caller, may_use, offered
from slotline.surface.errors import REQUEST_ID
from slotline.surface.outcomes import CARRIED, MODEL, NAMED, SPAN
from slotline.surface.ports import Ports
from slotline.surface.reply import HttpReply

_PATIENCE = 60.0  # seconds for a body to arrive, and more for a long one:
_SLOWEST = 64 * 1024  # bytes a second


def identity(prefix: str) -> str:
    """A new identity such as `msg_01…`: a prefix and 24 hexadecimal digits."""
    return prefix + secrets.token_hex(12)


async def served(ports: Ports, request: web.Request, named: str) -> Model:
    """The model that `named` means. Raises NotFound, Unreachable, or Forbidden where the caller's key may not use it.

    Every route that asks a model begins here, before it looks closer at the request and before anything is acquired.
    """
    request[NAMED] = named
    try:
        model = await ports.catalogue.resolve(named)
    except NotFound:
        raise unknown(named, offered(ports, request)) from None
    request[MODEL] = model.name
    if not may_use(request, named, model):
        raise Forbidden(f"model: this key may not use {named[:200]!r}")
    return model


async def carry(
    ports: Ports,
    request: web.Request,
    dialect: Dialect,
    named: str,
    model: Model,
    raw: bytes,
    *,
    attached: int = 0,
    pulse: float | None = None,
) -> web.StreamResponse:
    """The request's answer, once it has ended. `named`: the model as the client calls it; `raw`: the body as received.

    `attached`: bytes that were fetched or opened for it. `pulse`: see `HttpReply`.
    """
    deadline = None if dialect.stream else longest_wait(request.headers)
    who = caller(request, dialect.user)
    settings = ports.settings
    call = Call(
        id=request[REQUEST_ID],
        model=named,
        dialect=dialect,
        upstreams=model.upstreams,
        target=model.target,
        size=len(raw) + attached,
        patience=deadline,
        caller=who,
        sameness=sameness(who, dialect.route, raw) if settings.rejoin else None,
        retried=_is_retry(request),
        surface=request.path.rpartition("/v1/")[2],
        name=model.name,
        span=request.get(SPAN),
    )
    reply = HttpReply(
        request,
        dialect,
        grace=settings.grace,
        keepalive=settings.keepalive,
        client_write=ports.catalogue.client_write(model),
        pulse=pulse,
    )
    request[CARRIED] = True
    await ports.relay.carry(call, reply)
    if reply.response is None:  # the client left before anything could be written to it
        return web.Response(status=499)
    return reply.response


def _is_retry(request: web.Request) -> bool:
    """Whether the client says that it has sent this before; the vendors' SDKs count their attempts."""
    count = request.headers.get("x-stainless-retry-count", "").strip()
    return count.isdecimal() and int(count[:9]) > 0


async def body(ports: Ports, request: web.Request) -> bytes:
    """The body as received, at most `max_body` bytes. Raises Invalid for one that is compressed."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Invalid(f"content-encoding: {encoding[:80]!r} is not supported, send the body as it is")
    size, most = request.content_length or 0, ports.settings.max_body
    if size > most:
        raise TooLarge(f"the body of {size} bytes is larger than max_body = {most} bytes")
    patience = _PATIENCE + size / _SLOWEST
    try:
        async with asyncio.timeout(patience):
            return await _read(request.content, most)
    except TimeoutError:
        raise Invalid(f"body: it did not arrive within {patience:.0f} s") from None


async def _read(content: StreamReader, most: int) -> bytes:
    """Not by `request.read`, whose bound is the application's and cannot change."""
    whole = bytearray()
    while piece := await content.readany():
        whole += piece
        if len(whole) > most:
            raise TooLarge(f"the body is larger than max_body = {most} bytes")
    return bytes(whole)
