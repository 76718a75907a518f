"""The routes: the same ones under the prefix and at the root, which differ only in the form of queue frames."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from slotline.core.queue_frames import QueueForm
from slotline.surface import health, messages, models
from slotline.surface.call import identity
from slotline.surface.errors import REQUEST_ID, Handler, errors
from slotline.surface.ports import Ports


def application(ports: Ports) -> web.Application:
    """The whole surface as one aiohttp application."""
    settings = ports.settings
    app = web.Application(
        middlewares=[_identify, errors],
        client_max_size=settings.max_body,
        handler_args={"auto_decompress": False},  # a compressed body is refused, in our words, and not unpacked first
    )
    app.on_response_prepare.append(_sign)
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", partial(health.readyz, ports))
    app.router.add_route("HEAD", "/", health.hello)
    for prefix, form in ((settings.prefix, settings.queue_frames), ("", settings.root_queue_frames)):
        _mount(app.router, ports, prefix, form)
    return app


def _mount(router: web.UrlDispatcher, ports: Ports, prefix: str, form: QueueForm) -> None:
    router.add_post(f"{prefix}/v1/messages", partial(messages.messages, ports, form))
    router.add_post(f"{prefix}/v1/messages/count_tokens", partial(messages.count_tokens, ports))
    router.add_get(f"{prefix}/v1/models", partial(models.list_models, ports))
    router.add_get(f"{prefix}/v1/models/{{id:.+}}", partial(models.one_model, ports))
    router.add_route("HEAD", f"{prefix}/api/hello", health.hello)


@web.middleware
async def _identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[REQUEST_ID] = identity("req_")
    return await handler(request)


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer carries the request's identity, and does not tell what it is made of."""
    response.headers["request-id"] = request.get(REQUEST_ID) or identity("req_")  # some end before they have one
    response.headers["server"] = "slotline"
