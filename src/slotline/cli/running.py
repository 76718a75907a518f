"""A gateway that runs, as the commands that ask it something see it: where it is, and how it is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import click

URL: Final = "http://127.0.0.1:8080"
OPERATOR: Final = "SLOTLINE_ADMIN"
"""The variable that holds the operator's token, unless another one is named."""
_MOST = 1 << 20  # bytes of an answer

_F = TypeVar("_F", bound=Callable[..., Any])


def address(_: click.Context, __: click.Parameter, url: str) -> str:
    """The address of a gateway, as a user writes it, without what the clients of its API add. Raises BadParameter."""
    url = url.rstrip("/")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise click.BadParameter(f"expected an address such as {URL}, got {url!r}")
    return re.sub("/v1$", "", url)


def url_option(command: _F) -> _F:
    """`--url`, the gateway."""
    return click.option("--url", default=URL, show_default=True, metavar="URL", callback=address, help="The gateway.")(
        command
    )


def ask(url: str, token: str | None, within: float) -> tuple[int, bytes]:
    """Status and body of what lies at `url`. Raises OSError when nobody answers `within` so many seconds."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    request = Request(url, headers=headers)  # noqa: S310 - see `address`
    near = build_opener(ProxyHandler({}))  # a proxy for the internet does not know the way to a gateway of one's own
    try:
        with near.open(request, timeout=within) as answer:
            return answer.status, answer.read(_MOST)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read(_MOST)
