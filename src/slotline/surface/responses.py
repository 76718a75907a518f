"""`POST …/v1/responses`: OpenAI's Responses API, without anything that is kept.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import time
from functools import partial

from aiohttp import web

from slotline.core.anthropic.attachments import weight
from slotline.core.queue_frames import QueueForm, chosen, nameless
from slotline.core.responses.dialect import ResponsesDialect
from slotline.surface.attachments import attach
from slotline.surface.call import body, carry, identity, served
from slotline.surface.errors import REQUEST_ID
from slotline.surface.ports import Ports


async def responses(ports: Ports, default: QueueForm, request: web.Request) -> web.StreamResponse:
    """One response, streamed or whole. `default`: how this mount tells a waiting caller its place."""
    form = chosen(request.headers.get("x-slotline-queue"), default)
    raw = await body(ports, request)
    made = partial(
        ResponsesDialect,
        raw,
        request_id=request[REQUEST_ID],
        response_id=identity("resp_"),
        item_id=identity,
        clock=time.time,
        form=nameless(form),
        beat_after=ports.settings.beat_after,
    )
    dialect = made()
    model = await served(ports, request, dialect.model)
    traits = ports.catalogue.traits(model)
    if found := await attach(ports, dialect.pending(traits)):
        dialect = made(found=found)
    dialect.check(traits)
    return await carry(ports, request, dialect, dialect.model, model, raw, attached=weight(found), pulse=dialect.pulse)
