"""The routes: the same ones under the prefix and at the root, which differ only in the form of queue frames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter

from aiohttp import web

from slotline.core.queue_frames import QueueForm
from slotline.surface import completions, health, messages, models, operators, pages, responses
from slotline.surface.auth import guard
from slotline.surface.call import identity
from slotline.surface.errors import REQUEST_ID, Handler, errors
from slotline.surface.metrics import metrics
from slotline.surface.outcomes import outcomes
from slotline.surface.ports import Ports, Settings


def application(ports: Ports, pace: operators.Pace | None = None) -> web.Application:
    """The whole surface as one aiohttp application. `pace`: of the stream of states."""
    settings = ports.settings
    app = web.Application(
        middlewares=[_identify, errors, outcomes(ports), guard(ports)],
        client_max_size=settings.max_body,
        handler_args={"auto_decompress": False},  # a compressed body is refused, in our words, and not unpacked first
    )
    app.on_response_prepare.append(_sign)
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", partial(health.readyz, ports))
    if ports.observer is not None:
        app.router.add_get("/metrics", partial(metrics, ports.observer))
    pages.mount(app)
    operators.mount(app, ports, pace or operators.Pace())
    _mount(app.router, ports, settings.prefix, attrgetter("queue_frames"))
    _mount(app.router, ports, "", attrgetter("root_queue_frames"))
    return app


def _mount(router: web.UrlDispatcher, ports: Ports, prefix: str, form: Callable[[Settings], QueueForm]) -> None:
    """`form`: the mount's default, which may change while it is open."""

    def asking(answer: Callable[[Ports, QueueForm, web.Request], Awaitable[web.StreamResponse]]) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            return await answer(ports, form(ports.settings), request)

        return handler

    router.add_post(f"{prefix}/v1/messages", asking(messages.messages))
    router.add_post(f"{prefix}/v1/messages/count_tokens", partial(messages.count_tokens, ports))
    router.add_post(f"{prefix}/v1/responses", asking(responses.responses))
    router.add_post(f"{prefix}/v1/chat/completions", asking(completions.chat))
    router.add_post(f"{prefix}/v1/completions", asking(completions.text))
    router.add_post(f"{prefix}/v1/embeddings", asking(completions.embeddings))
    router.add_get(f"{prefix}/v1/models", partial(models.list_models, ports))
    router.add_get(f"{prefix}/v1/models/{{id:.+}}", partial(models.one_model, ports))
    router.add_route("HEAD", f"{prefix}/api/hello", health.hello)


@web.middleware
async def _identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[REQUEST_ID] = identity("req_")
    return await handler(request)


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer carries the request's identity, and does not tell what it is made of."""
    mine = request.get(REQUEST_ID) or identity("req_")  # some end before they have one
    for name in ("request-id", "x-request-id"):  # Anthropic's clients read the first, OpenAI's the second
        response.headers[name] = mine
    response.headers["server"] = "slotline"
