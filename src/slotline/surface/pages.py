"""The pages and the files they are made of: read once at the start, and the same for everybody.

A page holds no secret and shows nothing by itself: what it shows it fetches from the API, as whoever looks at it. So
pages are open to all, and carry a policy under which nothing runs or loads that does not come from here. Their own
links are relative, so that they also work where a proxy serves them below a path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web

from slotline.core.errors import NotFound
from slotline.surface.health import hello

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Where a page may load from, and what it may run. Source: https://www.w3.org/TR/CSP3/."""

_PAGES = {"/": "dashboard.html", "/chat": "chat.html"}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What may lie in the folder for a browser; anything else in it, such as a licence, is not served."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it goes out."""

    body: bytes
    headers: Mapping[str, str]
    tag: str  # a hash of the body

    @classmethod
    def of(cls, body: bytes, suffix: str) -> Asset:
        headers = {
            "content-type": _TYPES[suffix],
            "cache-control": "no-cache",  # asked for each time, so that an update shows at once; mostly answered by 304
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
        }
        if suffix in {".html", ".svg"}:  # what may be opened by itself
            headers["content-security-policy"] = POLICY
        return cls(body, headers, hashlib.sha256(body).hexdigest()[:32])


def mount(app: web.Application) -> None:
    """Adds the pages, and the files below `/static/`."""
    files = dict(_files(resources.files(__package__) / "static"))
    for path, name in _PAGES.items():
        app.router.add_get(path, partial(_page, files.pop(name)), allow_head=False)
        app.router.add_route("HEAD", path, hello)  # which some clients send first
    app.router.add_get("/static/{path:.+}", partial(_static, files))


def _files(folder: Traversable, below: str = "") -> Iterator[tuple[str, Asset]]:
    """Each file that a browser may have, by its path below `static`."""
    for each in folder.iterdir():
        path, (_, dot, suffix) = f"{below}{each.name}", each.name.rpartition(".")
        if each.is_dir():
            yield from _files(each, f"{path}/")
        elif f"{dot}{suffix}" in _TYPES:
            yield path, Asset.of(each.read_bytes(), f"{dot}{suffix}")


async def _page(asset: Asset, request: web.Request) -> web.Response:
    return _answer(asset, request)


async def _static(files: Mapping[str, Asset], request: web.Request) -> web.Response:
    """By a look into a table: no name reaches the file system."""
    asset = files.get(request.match_info["path"])
    if asset is None:
        raise NotFound(f"{request.path}: there is no such file")
    return _answer(asset, request)


def _answer(asset: Asset, request: web.Request) -> web.Response:
    known = any(each.value in {asset.tag, "*"} for each in request.if_none_match or ())
    response = web.Response(status=304) if known else web.Response(body=asset.body)
    response.headers.update(asset.headers)
    response.etag = asset.tag
    return response
