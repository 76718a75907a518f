"""Asking a running gateway as a client does: `Asker` makes calls to its Messages API over HTTP.

What is heard of a call is in `slotline.cli.hearing`. The mount is the root's, with a header that asks for queue frames
of their own name: so it does not matter where the gateway has its prefix.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import aiohttp
import click
import msgspec
from click.core import ParameterSource

from slotline.cli.hearing import BROKE, Collected, Failed, Fault, Heard, Opened, Reading, refused, whole
from slotline.cli.running import ask as get

_F = TypeVar("_F", bound=Callable[..., Any])

_WITHIN: Final = 10.0  # seconds for a connection, and for the list of models
_SILENCE: Final = 60.0  # seconds: a gateway that is there says something in a stream every ten, if it is set to no more
KEY: Final = "SLOTLINE_KEY"
_VARIABLE: Final = f"{__name__}.variable"  # in click's `meta`: the name of the first one that is to hold a key
_HEADERS: Final = {
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
    "x-slotline-queue": "event",
    "x-slotline-progress": "1",
}


def key_of(context: click.Context, parameter: click.Parameter, name: str) -> str | None:
    """What the variable `name` holds. Raises BadParameter where somebody names one that is not set."""
    key = os.environ.get(name)
    context.meta.setdefault(_VARIABLE, name)
    if key is None and context.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT:
        raise click.BadParameter(f"the variable {name} is not set")
    return key


def about_key(message: str, status: int | None, key: str | None) -> str:
    """`message` of a refusal; where it is the key that is not right, that, and the variable it comes from."""
    if status != HTTPStatus.UNAUTHORIZED:
        return message
    variable = click.get_current_context().meta[_VARIABLE]
    if key is None:
        return f"the gateway needs a key: set {variable}, or name another variable with --key-env"
    return f"the gateway refuses the key in {variable}"


def key_option(command: _F) -> _F:
    """`--key-env`, the key that the gateway wants, if it wants one."""
    words = "The variable that holds the key, where the gateway has keys."
    option = click.option(
        "--key-env", "key", default=KEY, show_default=True, metavar="NAME", callback=key_of, help=words
    )
    return option(command)


def question(
    model: str,
    messages: Sequence[Mapping[str, str]],
    max_tokens: int,
    *,
    system: str | None = None,
    thinking: bool | None = None,
    stream: bool = True,
) -> bytes:
    """The body of a call. `messages`: `{"role": …, "content": …}`; `thinking` None: not a word about it."""
    body: dict[str, object] = {"model": model, "max_tokens": max_tokens, "stream": stream, "messages": messages}
    if system is not None:
        body["system"] = system
    if thinking is not None:
        body["thinking"] = {"type": "adaptive" if thinking else "disabled"}
    return msgspec.json.encode(body)


async def _pieces(answer: aiohttp.ClientResponse, silence: float) -> AsyncGenerator[bytes]:
    """The body as it comes. Raises TimeoutError where a stream says nothing: a connection may be dead without a sign.

    An answer in one piece may be silent for as long as it takes.
    """
    limit = silence if answer.content_type == "text/event-stream" else None
    while True:
        try:
            async with asyncio.timeout(limit):
                piece = await answer.content.readany()
        except TimeoutError:
            raise TimeoutError(f"nothing was heard for {limit:g} s") from None
        if not piece:
            return
        yield piece


class Asker:
    """The gateway at `url`, asked with `key` where it wants one. Only inside of `async with`.

    `silence`: seconds after which a stream that says nothing is taken for lost.
    """

    def __init__(self, url: str, key: str | None, silence: float = _SILENCE) -> None:
        self._url = url
        self._silence = silence
        self._headers = _HEADERS | bearer(key)

    async def __aenter__(self) -> Self:
        # No limit on an answer: how long a line is, is nobody's to say. As many connections as calls.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_WITHIN)
        self._session = aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, body: bytes, *, again: bool = False) -> AsyncGenerator[Heard]:
        """One call. Leaving the generator (`aclosing`) leaves the line, or gives the slot back.

        `again`: it repeats one whose connection was lost, which may not have ended yet.
        """
        headers = self._headers | ({"x-stainless-retry-count": "1"} if again else {})
        reading: Reading | Collected = Reading()
        try:
            async with self._session.post(f"{self._url}/v1/messages", data=body, headers=headers) as answer:
                reading = _reading(answer)
                if answer.status == 200:
                    yield _opened(answer)
                async for piece in _pieces(answer, self._silence):
                    for heard in reading.feed(piece):
                        yield heard
                    if reading.strange:
                        return
                for heard in reading.end():
                    yield heard
        except aiohttp.ClientConnectorError as error:
            yield Failed(Fault.UNREACHABLE, Fault.UNREACHABLE, _silent(self._url, words(error)))
        except (aiohttp.ClientError, OSError) as error:
            for heard in reading.broken(words(error)):
                yield heard


def _reading(answer: aiohttp.ClientResponse) -> Reading | Collected:
    if answer.status != 200:
        return Collected(lambda body: [refused(answer.status, body)])
    return Reading() if answer.content_type == "text/event-stream" else Collected(whole)


def _opened(answer: aiohttp.ClientResponse) -> Opened:
    waited = answer.headers.get("x-slotline-wait-ms", "")
    return Opened(answer.headers.get("request-id"), int(waited) / 1000 if waited.isdecimal() else None)


class NoAnswer(Exception):
    """The gateway does not say which models it has; the message says why, for people.

    `status`: the one with which it refused, if it did.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _Listed(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Listed]


def models(url: str, key: str | None) -> list[str]:
    """The names of the models that the gateway at `url` lists for `key`. Raises NoAnswer."""
    body = _fetched(f"{url}/v1/models", url, key)
    if isinstance(body, Failed):
        raise NoAnswer(body.message, body.status)
    try:
        return [each.id for each in msgspec.json.decode(body, type=_Models).data]
    except msgspec.MsgspecError:
        raise NoAnswer(f"what answers at {url} is no Slotline gateway") from None


def first_model(url: str, key: str | None) -> str:
    """The one that is asked where nobody names one: the first that the gateway lists. Raises NoAnswer."""
    listed = models(url, key)
    if not listed:
        raise NoAnswer(f"the gateway at {url} lists no model")
    return listed[0]


def unserved(url: str, key: str | None, model: str) -> str | None:
    """None where a request may ask for `model`, else why not. Raises NoAnswer."""
    said = _fetched(f"{url}/v1/models/{quote(model, safe='')}", url, key)
    if isinstance(said, Failed) and said.status != 404:
        raise NoAnswer(said.message, said.status)
    return said.message if isinstance(said, Failed) else None


def words(error: Exception) -> str:
    """Why a connection failed, for people."""
    if isinstance(error, aiohttp.ClientPayloadError):  # it says how HTTP frames a body
        return BROKE
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    return str(error) or type(error).__name__


def bearer(key: str | None) -> dict[str, str]:
    """The header that shows a key or an operator's token."""
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _fetched(address: str, url: str, key: str | None) -> bytes | Failed:
    try:
        status, body = get(address, key, _WITHIN)
    except (OSError, HTTPException) as error:
        raise NoAnswer(_silent(url, getattr(error, "reason", None) or error)) from error
    return body if status == 200 else refused(status, body)


def _silent(url: str, why: object) -> str:
    return f"the gateway at {url} does not answer: {why}"
