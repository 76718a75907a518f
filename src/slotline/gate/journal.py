"""The journal of a cluster, in Redis or Valkey: what may be asked of it, and what can come of that.

Every change is one call of `journal.lua`, which the server runs as one step. Errors of the library become those of this
module here. Nothing is tried again in here: who calls knows what has become of it meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from importlib.resources import files
from typing import Any, Final

import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from slotline.core.errors import Protocol
from slotline.core.journal import RULES, Command, Entry, Picture, drawn, read, seen, written
from slotline.core.party import FairBy
from slotline.gate.names import Names

_BLOCK = 0.5  # seconds that one reading waits for entries
_AT_ONCE = 1000  # entries in one reading
_BEGINNING: Final = b"0-0"
_SECOND = 1_000_000  # microseconds


class Silence(Enum):
    """Why the server does not answer."""

    SILENT = auto()  # it may answer others
    TORN = auto()  # the connection broke; another one may do
    CLOSED = auto()  # nobody listens there, or it has only just begun: no one is answered


class Unavailable(Exception):
    """The server did not answer."""

    def __init__(self, message: str, silence: Silence = Silence.SILENT) -> None:
        super().__init__(message)
        self.silence = silence


class Barred(Exception):
    """The server answers, and this gateway may not take part. `setting`: by what in its configuration that is so."""

    setting = "[cluster]"


class OtherRules(Barred):
    """Replicas of another version, or with another `fair_by`, hold the line."""


class WrongPassword(Barred):
    """The server wants a password, or another one."""

    setting = "[cluster] password_env"


class LeaseLost(Exception):
    """The replica has no lease in the journal that was `born` with this number; 0: there is no journal.

    If it is the one in which it had a lease, that has ended, and whatever the replica had is others' by now.
    """

    def __init__(self, born: int) -> None:
        super().__init__("the lease has ended")
        self.born = born


@dataclass(frozen=True, slots=True)
class Entered:
    """`moment`: on the server's clock, seconds. `settle`: seconds for which others may still be about to come.

    `born`: the first number of the journal, which tells it from every other one.
    """

    moment: float
    settle: float
    born: int


@dataclass(frozen=True, slots=True)
class Beat:
    """`moment`: on the server's clock, seconds. `first`: in how many seconds the first of all leases ends."""

    moment: float
    next: int
    first: float


@dataclass(frozen=True, slots=True)
class Line:
    """One entry, and where in the journal it stands."""

    place: bytes
    entry: Entry


class Journal:
    """One namespace's. `lease` and `timeout` in seconds; the latter bounds each answer of the server."""

    def __init__(self, url: str, namespace: str, lease: float, fair_by: FairBy, password: str | None = None) -> None:
        """Raises ValueError for an address that is none."""
        self.lease = lease
        self._names = Names.of(namespace)
        self._rules = f"{RULES} {fair_by}"
        timeout = max(0.2, min(lease / 3, 5.0))
        self._asking = _client(url, password, timeout)
        self._reading = _client(url, password, timeout + _BLOCK)
        self._astray = False  # what reads is connected to the wrong server
        self._script = self._asking.register_script(files(__package__).joinpath("journal.lua").read_text("utf-8"))

    async def close(self) -> None:
        """Closes the connections."""
        await self._asking.aclose()
        await self._reading.aclose()

    async def enter(self, replica: str, floor: int, old: str) -> Entered:
        """`replica` begins; `old` is what it was before, or "". `floor`: it has read what is below this number.

        Raises OtherRules, and WrongPassword and Unavailable as all do.
        """
        verdict, *told = await self._call("enter", replica, self._rules, floor, old)
        if verdict == b"RULES":
            theirs = told[0].decode()
            raise OtherRules(f"the line is held by gateways that follow other rules ({theirs}; ours: {self._rules})")
        moment, settle, born = map(int, told)
        return Entered(moment / _SECOND, settle / _SECOND, born)

    async def beat(self, replica: str) -> Beat:
        """`replica` is alive. Raises LeaseLost."""
        moment, following, first = map(int, await self._call_as(replica, "beat"))
        return Beat(moment / _SECOND, following, first / _SECOND)

    async def write(self, replica: str, batch: int, commands: Sequence[Command]) -> None:
        """Writes one entry, once: a batch that is there already is not written again. Raises LeaseLost."""
        await self._call_as(replica, "write", batch, len(commands), written(commands))

    async def leave(self, replica: str) -> None:
        """`replica` ends by itself."""
        await self._call("leave", replica)

    async def draw(self, replica: str, line: Line, picture: Picture) -> None:
        """Keeps `picture`, made after `line`, for those who come later."""
        await self._call("draw", replica, picture.next, line.place, drawn(picture))

    async def picture(self) -> tuple[Picture | None, bytes]:
        """The last picture, and the place after which to read on. Raises Protocol for what is not one."""
        with _translated():
            found: Any = await self._asking.hmget(self._names.picture, ["data", "id"])
        data, place = found
        return (None, _BEGINNING) if data is None else (seen(data), place)

    async def read(self, after: bytes, *, wait: bool = True) -> list[Line]:
        """What stands after that place; waits half a second for it. Raises Protocol for what no replica writes."""
        block = int(_BLOCK * 1000) if wait else None
        with _translated():
            if self._astray:
                self._astray = False
                await self._reading.connection_pool.disconnect(inuse_connections=False)
            streams: Any = await self._reading.xread({self._names.journal: after}, _AT_ONCE, block)
        found = streams.values() if isinstance(streams, dict) else (lines for _, lines in streams or ())
        return [_line(place, fields) for lines in found for place, fields in _flat(lines)]

    async def _call_as(self, replica: str, verb: str, *more: object) -> Sequence[Any]:
        verdict, *told = await self._call(verb, replica, *more)
        if verdict == b"LOST":
            raise LeaseLost(int(told[0]))
        return told

    async def _call(self, verb: str, replica: str, *more: object) -> Sequence[Any]:
        args: Any = [verb, replica, round(self.lease * _SECOND), *more]
        with _translated():
            try:
                answer: Sequence[Any] = await self._script(keys=self._names.all, args=args)
            except exceptions.ReadOnlyError:  # another server took its place; who stays connected here never sees that
                await self._asking.connection_pool.disconnect(inuse_connections=False)
                self.look_again()
                raise
        return answer

    def look_again(self) -> None:
        """The next reading looks for the server anew: what it is connected to is not where the others write."""
        self._astray = True


def _client(url: str, password: str | None, timeout: float) -> aioredis.Redis:
    return aioredis.Redis.from_url(
        url,
        password=password,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        client_name="slotline",
    )


def _flat(lines: Any) -> Any:
    """RESP3 has one more list around the entries of a stream than RESP2."""
    return lines[0] if lines and lines[0] and isinstance(lines[0][0], (list, tuple)) else lines


def _line(place: bytes, fields: dict[bytes, bytes]) -> Line:
    try:
        number, moment, replica = int(fields[b"number"]), int(fields[b"moment"]) / _SECOND, fields[b"replica"].decode()
        commands = fields[b"commands"]
    except (KeyError, ValueError) as error:
        raise Protocol(f"the journal of the cluster holds what no replica writes: {fields}") from error
    return Line(place, Entry(number, moment, replica, read(commands)))


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the library become those of this module, and a cancellation stays one.

    The library sends with `asyncio.wait_for`, which before Python 3.12 may swallow it (python/cpython#86296).
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError) as error:
        raise WrongPassword(f"the server of the cluster does not let this gateway in: {error}") from error
    except (exceptions.RedisError, OSError) as error:
        raise Unavailable(str(error) or type(error).__name__, _silence(error)) from error
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


def _silence(error: Exception) -> Silence:
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, (ConnectionRefusedError, FileNotFoundError, exceptions.BusyLoadingError)):
            return Silence.CLOSED
        link = link.__cause__ or link.__context__
    return Silence.TORN if isinstance(error, exceptions.ConnectionError) else Silence.SILENT
