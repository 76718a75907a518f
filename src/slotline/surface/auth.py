"""Who may ask: keys on the routes of the API, a token or this machine itself on those of the operator.

Where the configuration has keys, every route below `/v1` of both mounts wants one, also those that do not exist, before
a byte of the body is read. Health routes are open. A key is looked at here and nowhere else: what goes on is its owner.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from slotline.core.errors import Forbidden, Unauthenticated
from slotline.core.keys import Caller, Key, Keyring, digest, flow
from slotline.core.models import Model
from slotline.surface.errors import Handler
from slotline.surface.ports import Ports

_OWNER: web.RequestKey[Key] = web.RequestKey("owner", Key)
_SESSION = "x-claude-code-session-id"
_BEARER = re.compile(r"bearer +(\S.*)", re.IGNORECASE)  # https://www.rfc-editor.org/rfc/rfc6750#section-2.1
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def guard(ports: Ports) -> Middleware:
    """The middleware that wants a key where there are keys. Raises Unauthenticated."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if ports.keys and _is_api(request.path, ports.settings.prefix):
            request[_OWNER] = _owner(request, ports.keys)
        return await handler(request)

    return guarded


def caller(request: web.Request, user: str | None) -> Caller:
    """Who asks. `user`: whom the request says that it is for; a session of Claude Code is told in a header instead."""
    return Caller(request.get(_OWNER), flow(request.headers.get(_SESSION) or user), request.remote or "")


def may_use(request: web.Request, named: str, model: Model) -> bool:
    """Whether the caller may use `model`, which it calls `named`: either name may be one that its key allows."""
    owner = request.get(_OWNER)
    return owner is None or owner.may(named, model.name)


def offered(ports: Ports, request: web.Request) -> Sequence[Model]:
    """The models that the caller may use by their own names."""
    return [model for model in ports.catalogue.models() if may_use(request, model.name, model)]


def admin(request: web.Request, ports: Ports) -> None:
    """Returns for an operator. Raises Unauthenticated without the token where there is one.

    Where there is none, only this machine is an operator: raises Forbidden for everybody else. That a proxy on this
    machine passes on who asks is never believed, but it does tell that somebody else does.
    """
    if ports.admin is not None:
        shown = [hmac.compare_digest(digest(token), ports.admin) for token in _bearers(request)]
        if not any(shown):
            raise Unauthenticated("the operator's token is needed: authorization: Bearer TOKEN")
    elif not _from_here(request):
        raise Forbidden("this is for the operator, from the gateway's own machine, or with the token of [admin]")


def may_see(request: web.Request, ports: Ports, key: str | None) -> bool:
    """Whether who asks may be told of a request that came with the key of this name; None: without one.

    That is an operator, and whoever shows that key. A request without a key is anybody's who knows its identity.
    """
    owner = ports.keys.owner(_credentials(request))
    if (key is None and not ports.keys) or (owner is not None and owner.name == key):
        return True
    try:
        admin(request, ports)
    except (Unauthenticated, Forbidden):
        return False
    return True


def _is_api(path: str, prefix: str) -> bool:
    return any(f"{path}/".startswith(f"{mount}/v1/") for mount in (prefix, ""))


def _owner(request: web.Request, keys: Keyring) -> Key:
    """Claude Code and others send two credentials, of which one may be a dummy: either will do, the bearer first."""
    shown = _credentials(request)
    owner = keys.owner(shown)
    if owner is None:
        why = "this key is not one of the gateway's" if shown else "a key is needed"
        raise Unauthenticated(f"{why}: authorization: Bearer KEY, or x-api-key: KEY")
    return owner


def _credentials(request: web.Request) -> Sequence[str]:
    return [*_bearers(request), *filter(None, request.headers.getall("x-api-key", ()))]


def _bearers(request: web.Request) -> Iterator[str]:
    for value in request.headers.getall("authorization", ()):
        if found := _BEARER.fullmatch(value.strip()):
            yield found[1]


def _from_here(request: web.Request) -> bool:
    """Whether who asks is on this machine; a connection over a unix socket is.

    A page of somebody else's, open in a browser here, could have its own name mean this machine (DNS rebinding); the
    browser then still says that name, so one that is not of this machine's own is not believed.
    """
    transport = request.transport
    if transport is None or any(name in request.headers for name in _FORWARDED):
        return False
    own = transport.get_extra_info("socket")
    if own is not None and own.family == socket.AF_UNIX:
        return True
    return _is_loopback(request.remote or "") and _is_own_name(request)


def _is_own_name(request: web.Request) -> bool:
    try:
        host = request.url.host or ""
    except ValueError:  # what stands in the header is no name
        return False
    return host == "localhost" or host.endswith(".localhost") or _is_loopback(host)


def _is_loopback(host: str) -> bool:
    """A listener on all addresses sees IPv4 as `::ffff:127.0.0.1`, and may add a zone after a `%`."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
