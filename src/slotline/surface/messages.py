"""`POST …/v1/messages` and `…/count_tokens`: Anthropic's Messages API.

Source: https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

from functools import partial

import msgspec
from aiohttp import web

from slotline.core.anthropic.attachments import pending, weight
from slotline.core.anthropic.chat import chat_body
from slotline.core.anthropic.dialect import MessagesDialect
from slotline.core.anthropic.request import parse_count
from slotline.core.anthropic.tokens import estimate
from slotline.core.progress_frames import asked_for
from slotline.core.queue_frames import QueueForm, chosen
from slotline.surface.attachments import attach
from slotline.surface.call import body, carry, identity, served
from slotline.surface.errors import REQUEST_ID
from slotline.surface.ports import Ports


async def messages(ports: Ports, default: QueueForm, request: web.Request) -> web.StreamResponse:
    """One message, streamed or whole. `default`: how this mount tells a waiting caller its place."""
    form = chosen(request.headers.get("x-slotline-queue"), default)
    raw = await body(ports, request)
    made = partial(
        MessagesDialect,
        raw,
        version=request.headers.get("anthropic-version", ""),
        request_id=request[REQUEST_ID],
        message_id=identity("msg_"),
        tool_id=partial(identity, "toolu_"),
        form=form,
        progress=asked_for(request.headers.get("x-slotline-progress")),
        user_agent=request.headers.get("user-agent", ""),
        beat_after=ports.settings.beat_after,
    )
    dialect = made()
    model = await served(ports, request, dialect.model)
    traits = ports.catalogue.traits(model)
    if found := await attach(ports, dialect.pending(traits)):
        dialect = made(found=found)
    dialect.check(traits)
    return await carry(ports, request, dialect, dialect.model, model, raw, attached=weight(found), pulse=dialect.pulse)


async def count_tokens(ports: Ports, request: web.Request) -> web.Response:
    """The prompt's tokens: by the server's own tokenizer, or as the stated estimate. Takes no slot and never waits.

    Nothing is fetched or opened for it: what would have to be has a fixed price in the estimate.
    """
    counted = parse_count(await body(ports, request), version=request.headers.get("anthropic-version", ""))
    model = await served(ports, request, counted.model)
    tokens = None
    if not pending(counted):
        chat = chat_body(counted, model=model.target, kind=ports.catalogue.traits(model).kind)
        tokens = await ports.catalogue.count(model, chat)
    answer = {"input_tokens": estimate(counted) if tokens is None else tokens}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
