"""`GET …/v1/models` and `…/v1/models/{id}`: one object that the SDKs of both families read.

Sources: https://platform.claude.com/docs/en/api/models-list and https://platform.openai.com/docs/api-reference/models
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from slotline.core.errors import Invalid, NotFound
from slotline.core.models import resolve, unknown
from slotline.surface.auth import may_use, offered
from slotline.surface.ports import Ports

_MOST = 1000


async def list_models(ports: Ports, request: web.Request) -> web.Response:
    """All models that the caller may use; `limit`, `after_id` and `before_id` as in Anthropic's API."""
    limit = _limit(request.query.get("limit"))
    names = _names(ports, request)
    after, before = request.query.get("after_id"), request.query.get("before_id")
    if after in names:
        names = names[names.index(after) + 1 :]
    if before in names:
        names = names[: names.index(before)]
    page = names[:limit] if before is None else names[-limit:]
    answer = {
        "object": "list",
        "data": [_entry(name, ports.settings.started) for name in page],
        "has_more": len(page) < len(names),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def one_model(ports: Ports, request: web.Request) -> web.Response:
    """One model by any name that a request could ask for. Raises NotFound, also for one that the caller may not use."""
    name = request.match_info["id"]
    try:
        allowed = may_use(request, name, resolve(name, ports.catalogue.models()))
    except NotFound:
        allowed = False
    if not allowed:
        raise unknown(name, offered(ports, request))
    return web.Response(body=msgspec.json.encode(_entry(name, ports.settings.started)), content_type="application/json")


def _names(ports: Ports, request: web.Request) -> list[str]:
    """Names and plain aliases; patterns are no names."""
    names: dict[str, None] = {}
    for model in ports.catalogue.models():
        plain = (alias for alias in model.aliases if not set(alias) & set("*?"))
        names.update(dict.fromkeys(name for name in (model.name, *plain) if may_use(request, name, model)))
    return list(names)


def _limit(text: str | None) -> int:
    if text is None:
        return _MOST
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= _MOST:
        raise Invalid(f"limit: expected a whole number from 1 to {_MOST}, got {text[:80]!r}")
    return int(text)


def _entry(name: str, created: int) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "object": "model",
        "created": created,
        "owned_by": "slotline",
    }
