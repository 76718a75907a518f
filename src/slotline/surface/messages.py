"""`POST …/v1/messages` and `…/count_tokens`: Anthropic's Messages API.

Source: https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

import msgspec
from aiohttp import web

from slotline.core.anthropic.chat import chat_body
from slotline.core.anthropic.dialect import MessagesDialect
from slotline.core.anthropic.request import parse_count
from slotline.core.anthropic.tokens import estimate
from slotline.core.errors import Invalid, TooLarge
from slotline.core.progress_frames import asked_for
from slotline.core.queue_frames import QueueForm, chosen
from slotline.relay import Call
from slotline.surface.errors import REQUEST_ID
from slotline.surface.ports import Ports
from slotline.surface.reply import HttpReply

_PATIENCE = 60.0  # seconds for a body to arrive, and more for a long one:
_SLOWEST = 64 * 1024  # bytes a second


def identity(prefix: str) -> str:
    """A new identity such as `msg_01…`: a prefix and 24 letters and digits."""
    return prefix + secrets.token_hex(12)


async def messages(ports: Ports, default: QueueForm, request: web.Request) -> web.StreamResponse:
    """One message, streamed or whole. `default`: how this mount tells a waiting caller its place."""
    form = chosen(request.headers.get("x-slotline-queue"), default)
    raw = await body(request)
    dialect = MessagesDialect(
        raw,
        version=request.headers.get("anthropic-version", ""),
        request_id=request[REQUEST_ID],
        message_id=identity("msg_"),
        tool_id=partial(identity, "toolu_"),
        form=form,
        progress=asked_for(request.headers.get("x-slotline-progress")),
    )
    model = await ports.catalogue.resolve(dialect.model)
    dialect.check(ports.catalogue.traits(model))
    call = Call(request[REQUEST_ID], dialect.model, dialect, model.upstreams, model.target, len(raw))
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


async def count_tokens(ports: Ports, request: web.Request) -> web.Response:
    """The prompt's tokens: by the server's own tokenizer, or as the stated estimate. Takes no slot and never waits."""
    counted = parse_count(await body(request), version=request.headers.get("anthropic-version", ""))
    model = await ports.catalogue.resolve(counted.model)
    chat = chat_body(counted, model=model.target, kind=ports.catalogue.traits(model).kind)
    tokens = await ports.catalogue.count(model, chat)
    answer = {"input_tokens": estimate(counted) if tokens is None else tokens}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


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
