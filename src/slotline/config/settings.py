"""How one value is read: each reader takes what TOML gave, returns what the gateway uses, or raises `BadValue`.

A refusal says what would be right, not what is wrong, and brings the right spelling where the meaning is plain.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from slotline.config.error import BadValue, shown_value
from slotline.config.nearest import nearest
from slotline.config.units import parse_duration, parse_size, show_duration, show_size


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a table: how its value is read from the file, and how it is shown."""

    read: Callable[[object], Any]
    show: Callable[[Any], str] = str


def text(value: object) -> str:
    """Something printable, without blanks around it."""
    if not isinstance(value, str):
        raise BadValue("Text, in quotes, is wanted here.", nearest=f'"{value}"' if type(value) is int else None)
    if not value.strip() or not value.isprintable() or value != value.strip():
        raise BadValue("Must be printable text, not empty, without blanks around it.")
    return value


def name(value: object) -> str:
    """A text that also fits into a label and a column of a table."""
    found = text(value)
    if len(found) > 100:
        raise BadValue(f"A name has 100 characters at most; this one has {len(found)}.")
    return found


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        meant = value.lower() if isinstance(value, str) else ""
        raise BadValue("Must be true or false, without quotes.", nearest=meant if meant in {"true", "false"} else None)
    return value


def whole(least: int, most: int | None = None) -> Setting:
    """A whole number in a closed range."""
    spoken = f"of {least} or more" if most is None else f"from {least} to {most}"

    def read(value: object) -> int:
        inside = isinstance(value, int) and not isinstance(value, bool) and least <= value <= (most or 2**31 - 1)
        if not inside or not isinstance(value, int):
            quoted = isinstance(value, str) and value.isascii() and value.isdigit()
            raise BadValue(f"Must be a whole number {spoken}, without quotes.", nearest=str(value) if quoted else None)
        return value

    return Setting(read)


def duration(*, zero: bool = False, least: float = 0.0) -> Setting:
    """Seconds, not fewer than `least`. `zero`: whether "0s" has a meaning here."""

    def read(value: object) -> float:
        seconds = parse_duration(value)
        if not seconds and not zero:
            raise BadValue('Must be more than 0: nothing here is without a limit. A long one is "24h".')
        if seconds < least:
            raise BadValue(f'Must be at least "{show_duration(least)}".')
        return seconds

    return Setting(read, show=show_duration)


def size() -> Setting:
    """Bytes, more than 0."""

    def read(value: object) -> int:
        count = parse_size(value)
        if not count:
            raise BadValue("Must be more than 0: 0 would let nothing through.")
        return count

    return Setting(read, show=show_size)


def choice(options: Iterable[str]) -> Setting:
    """One of a closed set of words."""
    known = tuple(options)
    spoken = ", ".join(f'"{option}"' for option in known)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            meant = nearest(value, known) if isinstance(value, str) else None
            raise BadValue(f"Must be one of {spoken}.", nearest=f'"{meant}"' if meant else None)
        return value

    return Setting(read)


def slots(value: object) -> int | str:
    """How many run at once, or "auto"."""
    if value == "auto":
        return "auto"
    count: int = whole(1).read(value)
    return count


def names(value: object) -> tuple[str, ...]:
    """One name, or a list of different ones."""
    if isinstance(value, str):
        return (name(value),)
    if not isinstance(value, list) or not value:
        raise BadValue('Must be a name, or a list of names: "box1" or ["box1", "box2"].')
    return _different(value)


def patterns(value: object) -> tuple[str, ...]:
    """A list of names in which `*` stands for any run of characters."""
    if not isinstance(value, list):
        meant = f"[{shown_value('', value)}]" if isinstance(value, str) else None
        raise BadValue('Must be a list of names, in which * stands for anything: ["claude-*"].', nearest=meant)
    return _different(value)


def _different(values: list[object]) -> tuple[str, ...]:
    found = tuple(name(value) for value in values)
    twice = sorted({value for value in found if found.count(value) > 1})
    if twice:
        raise BadValue(f'"{twice[0]}" stands in the list twice.')
    return found


# ---- addresses -------------------------------------------------------------------------------------------------------

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")
_SOCKET_PATH = 107  # bytes; `sun_path` of unix(7) has 108 with the final NUL
_URL_FORM = 'Must be "http://HOST:PORT", "https://HOST:PORT" or "unix:/PATH/OF/A/SOCKET".'
_ROUTES = ("/chat/completions", "/completions", "/messages", "/responses", "/models")


def host(value: object) -> str:
    """A name or an address to listen on."""
    found = text(value)
    if _HOST.fullmatch(found) or _address(found) is not None:
        return found
    bare = found.strip("[]")
    meant = f'"{bare}"' if bare != found and _address(bare) is not None else None
    raise BadValue('Must be an address or a name without a port: "127.0.0.1", "::1", "0.0.0.0".', nearest=meant)


def is_loopback(found: str) -> bool:
    """Whether only this machine can reach `found`. A name other than localhost counts as reachable from outside."""
    address = _address(found)
    return found.lower() == "localhost" if address is None else address.is_loopback


def _address(found: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(found)
    except ValueError:
        return None


def url(value: object) -> str:
    """The base of an upstream: without `/v1`, without a slash at its end."""
    found = text(value)
    if found.startswith("unix:"):
        return _unix(found)
    try:
        parts = urlsplit(found)
        port = parts.port
    except ValueError:  # urlsplit's words for brackets that do not match and for ports that are none
        raise BadValue(_URL_FORM) from None
    if parts.scheme not in {"http", "https"}:
        raise BadValue(_URL_FORM, nearest=_with_scheme(found))
    if parts.username is not None or parts.password is not None:
        raise BadValue('A secret never stands in the file: name its environment variable with api_key_env = "…".')
    if not parts.hostname or port == 0 or " " in found:
        raise BadValue(_URL_FORM)
    if parts.query or parts.fragment or "?" in found or "#" in found:
        raise BadValue("Must end before the ? or #: the gateway adds the route itself.")
    return f"{parts.scheme}://{parts.netloc}{_base_path(parts)}"


def _base_path(parts: SplitResult) -> str:
    path = parts.path.rstrip("/")
    for route in _ROUTES:
        if path.endswith(route):
            base = f'"{parts.scheme}://{parts.netloc}{path.removesuffix(route)}"'
            raise BadValue("Must be the base of the server: the gateway adds the route itself.", nearest=base)
    return path.removesuffix("/v1").rstrip("/")


def _unix(found: str) -> str:
    path = found.removeprefix("unix:")
    if path.startswith("//"):
        path = "/" + path.lstrip("/")  # unix:///run/x is how some programs write it
    if not path.startswith("/") or path.endswith("/"):
        raise BadValue('Must be the absolute path of a socket: "unix:/run/llama.sock".')
    length = len(path.encode())
    if length > _SOCKET_PATH:
        raise BadValue(f"The path of a socket has {_SOCKET_PATH} bytes at most; this one has {length}.")
    return f"unix:{path}"


def _with_scheme(found: str) -> str | None:
    if found.startswith("/"):
        return f'"unix:{found}"'
    meant = f"http://{found}"
    return f'"{meant}"' if "://" not in found and urlsplit(meant).hostname and " " not in found else None


def redis_url(value: object) -> str:
    """`redis://HOST:PORT/DB`, without a password."""
    found = text(value)
    if not re.match(r"(rediss?://|unix:/)[^\s]+", found):
        raise BadValue('Must be "redis://HOST:PORT/DATABASE".')
    if re.match(r"[a-z]+://[^/]*@", found) or re.search(r"[?&]password=", found):
        raise BadValue('A secret never stands in the file: name its environment variable with password_env = "…".')
    return found


_LISTED = re.compile(r"(?P<host>(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?")


def hosts(value: object) -> tuple[str, ...]:
    """A list of hosts to fetch from, in lower case: "name", or "*.name" for all below it; with ":port" or without."""
    if not isinstance(value, list):
        meant = f"[{shown_value('', value)}]" if isinstance(value, str) else None
        raise BadValue('Must be a list of hosts: ["images.example.com", "*.example.org"].', nearest=meant)
    return _different([_listed(each) for each in value])


def _listed(value: object) -> str:
    found = text(value).lower()
    if _is_listed(found):
        return found
    inside = urlsplit(found).netloc.rpartition("@")[2] if re.match(r"[a-z]+://", found) else ""
    raise BadValue(
        'A host is a name or an address, without scheme and path: "images.example.com", "images.example.com:8443", '
        '"[::1]", or "*.example.com" for all names below it.',
        nearest=f'"{inside}"' if _is_listed(inside) else None,
    )


def _is_listed(found: str) -> bool:
    match = _LISTED.fullmatch(found)
    if match is None or not 0 < int(match["port"] or 1) < 65536:
        return False
    name = match["host"]
    if name.startswith("["):
        return _address(name.strip("[]")) is not None
    return not (name.startswith("*.") and name.rpartition(".")[2].isdigit())  # part of an address has no names below it


# ---- the rest --------------------------------------------------------------------------------------------------------

_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_TAKEN = ("v1", "api", "chat", "metrics", "healthz", "readyz")  # the first parts of the routes that stand at the root


def prefix(value: object) -> str:
    """Where the first-party mount stands, e.g. "/llm"."""
    found = text(value)
    segments = found.strip("/").split("/")
    plain = all(_SEGMENT.fullmatch(segment) and segment.strip(".") for segment in segments)
    if not plain:
        raise BadValue(
            'Must be a path of letters, digits and - . _ ~, as in "/llm": at the root all routes stand anyway.'
        )
    right = "/" + "/".join(segments)
    if found != right:
        raise BadValue("Must begin with a slash and not end with one.", nearest=f'"{right}"')
    if segments[0] in _TAKEN:
        raise BadValue(f"The gateway's own routes stand below /{segments[0]}: take another word.")
    return found


def env_name(value: object) -> str:
    """The name of an environment variable. Whoever puts the secret itself here gets it refused, and not shown."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", value):
        raise BadValue('Must be the name of an environment variable, as in "BOX1_KEY"; never the secret itself.')
    return value


_HASH_OF_NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def key_hash(value: object) -> str:
    """`sha256:` and 64 hexadecimal digits, in lower case. That of nothing at all would let everybody in."""
    if not isinstance(value, str) or not re.fullmatch(r"sha256:[0-9a-fA-F]{64}", value):
        raise BadValue("Must be sha256: and 64 hexadecimal digits, the SHA-256 of the whole key; never the key itself.")
    found = value.lower()
    if found == _HASH_OF_NOTHING:
        raise BadValue("This is the SHA-256 of an empty text, which is no key: `slotline keys new NAME` makes one.")
    return found
