"""What a gateway tells of itself while one looks: states, and in between for how long it cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Final, Self
from urllib.parse import quote

import aiohttp
import msgspec

from slotline.cli.asking import bearer, words
from slotline.cli.hearing import Fault, refused
from slotline.cli.running import OPERATOR
from slotline.core.errors import Protocol
from slotline.core.report import Request, State
from slotline.core.sse import Parser

_MAX_EVENT: Final = 64 << 20  # bytes: a state with tens of thousands of requests
_WITHIN: Final = 10.0  # seconds for a connection, and for a short answer
_SILENCE: Final = 30.0  # seconds: the gateway says something every ten
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)  # seconds before each further try; then the last one


class Trouble(Exception):
    """The gateway says nothing, or no; the message says why, for people."""


class Barred(Trouble):
    """Who asks is not taken for an operator."""


class Away(msgspec.Struct, frozen=True):
    """It tells nothing, `since` a time of the loop's clock. `there`: it can be reached, and refuses."""

    why: str
    since: float
    there: bool = False


class Feed:
    """The gateway at `url`, asked with the operator's `token`, which is the one in `variable`.

    Only inside of `async with`.
    """

    def __init__(self, url: str, token: str | None, variable: str = OPERATOR) -> None:
        self._url = url
        self._token = f"set {variable}, or name another variable with --token-env"
        if token is not None:
            self._token = f"the one in {variable} is refused"
        self._headers = bearer(token)

    async def __aenter__(self) -> Self:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_WITHIN, sock_read=_SILENCE)
        self._session = aiohttp.ClientSession(timeout=limits, headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def follow(self) -> AsyncGenerator[State | Away]:
        """For ever: the state whenever it is another one, and that it is gone after each try that failed."""
        time = asyncio.get_running_loop().time
        since, tries = time(), 0
        while True:
            there = False
            try:
                async with aclosing(self._states()) as states:
                    async for state in states:
                        yield state
                        since, tries = time(), 0
                why = "it has ended"
            except Trouble as trouble:
                why, there = str(trouble), isinstance(trouble, Barred)
            yield Away(why, since, there)
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1

    async def state(self) -> bytes:
        """The state, once, as JSON. Raises Trouble."""
        return await self._ask("GET", "/api/state")

    async def request(self, identity: str) -> Request:
        """One request, also one that has ended. Raises Trouble."""
        said = await self._ask("GET", f"/api/requests/{quote(identity, safe='')}")
        try:
            return msgspec.json.decode(said, type=Request)
        except msgspec.MsgspecError as error:
            raise _stranger(error) from error

    async def end(self, identity: str) -> None:
        """Ends a request. Raises Trouble."""
        await self._ask("DELETE", f"/api/requests/{quote(identity, safe='')}")

    async def _states(self) -> AsyncGenerator[State]:
        parser = Parser(_MAX_EVENT)
        try:
            async with self._session.get(f"{self._url}/api/events") as answer:
                if answer.status != 200:
                    raise self._refusal(answer.status, await answer.read())
                async for piece in answer.content.iter_any():
                    for event in parser.feed(piece):
                        yield decoded(event.data)
        except (aiohttp.ClientError, OSError, Protocol) as error:
            raise Trouble(words(error)) from error

    async def _ask(self, method: str, path: str) -> bytes:
        try:
            within = aiohttp.ClientTimeout(total=_WITHIN)
            async with self._session.request(method, self._url + path, timeout=within) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, OSError) as error:
            raise Trouble(f"the gateway at {self._url} does not answer: {words(error)}") from error
        if answer.status not in (200, 202):
            raise self._refusal(answer.status, body)
        return body

    def _refusal(self, status: int, body: bytes) -> Trouble:
        failed = refused(status, body)
        if failed.fault is Fault.STRANGE or status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return Trouble(failed.message)
        wants_token = status == HTTPStatus.UNAUTHORIZED
        return Barred(f"the operator's token is needed: {self._token}" if wants_token else failed.message)


def decoded(state: bytes) -> State:
    """Raises Trouble where that is no state, or that of another version."""
    try:
        return msgspec.json.decode(state, type=State)
    except msgspec.MsgspecError as error:
        raise _stranger(error) from error


def _stranger(error: msgspec.MsgspecError) -> Trouble:
    return Trouble(f"what answers there is no Slotline gateway of this version: {error}")
