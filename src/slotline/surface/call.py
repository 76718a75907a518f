"""What every route that asks a model has in common: its body, and the way through the relay."""

from __future__ import annotations

import asyncio
import secrets

from aiohttp import web

from slotline.core.dialect import Dialect
from slotline.core.errors import Invalid, TooLarge
from slotline.core.models import Model
from slotline.relay import Call
from slotline.surface.errors import REQUEST_ID
from slotline.surface.ports import Ports
from slotline.surface.reply import HttpReply

_PATIENCE = 60.0  # seconds for a body to arrive, and more for a long one:
_SLOWEST = 64 * 1024  # bytes a second


def identity(prefix: str) -> str:
    """A new identity such as `msg_01…`: a prefix and 24 letters and digits."""
    return prefix + secrets.token_hex(12)


async def carry(
    ports: Ports, request: web.Request, dialect: Dialect, named: str, model: Model, size: int
) -> web.StreamResponse:
    """The request's answer, once it has ended. `named`: the model as the client calls it; `size`: bytes of the body."""
    call = Call(request[REQUEST_ID], named, dialect, model.upstreams, model.target, size)
    settings = ports.settings
    reply = HttpReply(
        request,
        dialect,
        grace=settings.grace,
        keepalive=settings.keepalive,
        client_write=ports.catalogue.client_write(model),
    )
    await ports.relay.carry(call, reply)
    if reply.response is None:  # the client left before anything could be written to it
        return web.Response(status=499)
    return reply.response


async def body(request: web.Request) -> bytes:
    """The body as received, at most `max_body` bytes. Raises Invalid for one that is compressed."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Invalid(f"content-encoding: {encoding[:80]!r} is not supported, send the body as it is")
    size = request.content_length or 0
    if size > request.client_max_size:
        raise TooLarge(f"the body of {size} bytes is larger than max_body = {request.client_max_size} bytes")
    patience = _PATIENCE + size / _SLOWEST
    try:
        async with asyncio.timeout(patience):
            return await request.read()
    except TimeoutError:
        raise Invalid(f"body: it did not arrive within {patience:.0f} s") from None
