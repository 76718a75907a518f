"""`POST …/v1/chat/completions`, `…/v1/completions` and `…/v1/embeddings`: OpenAI's API.

Source: https://platform.openai.com/docs/api-reference
"""

from __future__ import annotations

from functools import partial

from aiohttp import web

from slotline.core.anthropic.attachments import weight
from slotline.core.completions.dialect import ChatDialect, TextDialect
from slotline.core.completions.embeddings import EmbeddingsDialect
from slotline.core.queue_frames import QueueForm, chosen, nameless
from slotline.surface.attachments import attach
from slotline.surface.call import body, carry, identity, served
from slotline.surface.errors import REQUEST_ID
from slotline.surface.ports import Ports


async def chat(ports: Ports, default: QueueForm, request: web.Request) -> web.StreamResponse:
    """A chat completion, streamed or whole. `default`: how this mount tells a waiting caller its place."""
    form = _form(request, default)
    raw = await body(ports, request)
    made = partial(ChatDialect, raw, request_id=request[REQUEST_ID], form=form, tool_id=partial(identity, "call_"))
    dialect = made()
    model = await served(ports, request, dialect.model)
    traits = ports.catalogue.traits(model)
    dialect.check(traits)
    if found := await attach(ports, dialect.pending(traits)):
        dialect = made(found=found)
    return await carry(ports, request, dialect, dialect.model, model, raw, attached=weight(found))


async def text(ports: Ports, default: QueueForm, request: web.Request) -> web.StreamResponse:
    """A completion of a plain prompt, streamed or whole."""
    form = _form(request, default)
    raw = await body(ports, request)
    dialect = TextDialect(raw, request_id=request[REQUEST_ID], form=form)
    model = await served(ports, request, dialect.model)
    return await carry(ports, request, dialect, dialect.model, model, raw)


async def embeddings(ports: Ports, default: QueueForm, request: web.Request) -> web.StreamResponse:
    """Embeddings, which are never streamed."""
    form = _form(request, default)
    raw = await body(ports, request)
    dialect = EmbeddingsDialect(raw, request_id=request[REQUEST_ID], form=form)
    model = await served(ports, request, dialect.model)
    return await carry(ports, request, dialect, dialect.model, model, raw)


def _form(request: web.Request, default: QueueForm) -> QueueForm:
    return nameless(chosen(request.headers.get("x-slotline-queue"), default))
