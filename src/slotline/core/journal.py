"""What replicas write into the journal that they share: the commands of `core.line`, as data, in one order for all.

Several gateways with one line are *replicas*. Each writes what happens to its own requests and upstreams, and reads
what all have written, in the one order in which it was taken down. `core.shared` says what follows from it, and since
nothing else has a say, the same follows in every replica. An entry says who wrote it, at which moment of the one clock
that all share, and under which numbers: every command has one, they only ever grow, and none is given out twice.

Fields are written in order and without names, so they keep their places; `RULES` is raised with any change of what
follows from an entry, and replicas that follow other rules do not share a journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from slotline.core.errors import Protocol
from slotline.core.party import NOBODY, Party
from slotline.core.seats import Chain

RULES = 1


class Offer(msgspec.Struct, frozen=True, array_like=True, tag="offer"):
    """The replica may send requests to `upstream` from now on, for which `queue` may wait; or: other numbers hold.

    `exclusive`, `affinity`: see `core.room.Room`.
    """

    upstream: str
    queue: int
    exclusive: bool = False
    affinity: bool = False


class Withdraw(msgspec.Struct, frozen=True, array_like=True, tag="withdraw"):
    """It sends nothing new to `upstream` any more."""

    upstream: str


class See(msgspec.Struct, frozen=True, array_like=True, tag="see"):
    """It sees `slots` slots of `upstream` that may be used; 0: it cannot use it at present.

    `seats`: how many the server has, if requests are sent to one by its id (0, 1, …); 0: the server chooses.
    `outside`: the ids of those that work for somebody who did not come through any replica.
    """

    upstream: str
    slots: int
    seats: int = 0
    outside: Sequence[int] = ()


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A slot that a ticket has: of which upstream, since when, by which grant, and which one, if that is known.

    `fence`: every grant has a greater one than all before it.
    """

    upstream: str
    since: float
    fence: int
    seat: int | None = None


class Join(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """A request wants a slot. `ticket`: the replica's own number of it, which it gives to no other.

    `number`: that of a place which it had before. `admitted`: it was let in once, so bounds do not hold for it.
    `holds`: it has a slot all the time; for when a journal begins anew.
    """

    ticket: int
    upstreams: Sequence[str]
    size: int = 0
    party: Party = NOBODY
    cost: float = 1.0
    model: str = ""
    chain: Chain = ()
    number: int | None = None
    admitted: bool = False
    holds: Held | None = None


class Retry(msgspec.Struct, frozen=True, array_like=True, tag="retry"):
    """Its upstream failed it: it goes back to its place as the ticket `again`, to be served by another one."""

    ticket: int
    again: int


class Leave(msgspec.Struct, frozen=True, array_like=True, tag="leave"):
    """It is gone, whatever it was doing."""

    ticket: int


class Keep(msgspec.Struct, frozen=True, array_like=True, tag="keep"):
    """The place `number` is kept for `request`, as `core.rejoin` tells them apart, whichever replica it comes to."""

    request: bytes
    number: int


class Bury(msgspec.Struct, frozen=True, array_like=True, tag="bury"):
    """The replica was another one before, which is gone with whatever it still has."""

    replica: str


class Mark(msgspec.Struct, frozen=True, array_like=True, tag="mark"):
    """Everybody goes on from a picture of the state, which is all that there is of the past from here on."""


Command: TypeAlias = Offer | Withdraw | See | Join | Retry | Leave | Keep | Bury | Mark


class Entry(msgspec.Struct, frozen=True):
    """What one replica wrote at once. `moment`: seconds; it never runs backwards from one entry to the next.

    `number`: of the first of the commands; the next one has the next number. No commands: the replica is gone, and
    whatever it had with it.
    """

    number: int
    moment: float
    replica: str
    commands: Sequence[Command] = ()

    @property
    def next(self) -> int:
        """The number of the entry after this one."""
        return self.number + max(1, len(self.commands))


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """One ticket in a picture. `holds`: the slot that it has; None while it waits."""

    replica: str
    ticket: int
    number: int
    upstreams: Sequence[str]
    size: int
    party: Party
    cost: float
    model: str
    chain: Chain
    holds: Held | None = None


class View(msgspec.Struct, frozen=True, array_like=True):
    """What one replica offers of an upstream, and what it sees of it."""

    replica: str
    offer: Offer
    sight: See


class Picture(msgspec.Struct, frozen=True, array_like=True):
    """The state after the entries below the number `next`, without what the past would still have had to say.

    `moment`: of the last of these entries. `views`: the upstreams in the order of preference. `standings`: by number.
    `kept`: places of those who left: whose, which, since when.
    """

    next: int
    moment: float
    views: Sequence[View]
    standings: Sequence[Standing]
    kept: Sequence[tuple[bytes, int, float]] = ()


_ENCODER = msgspec.msgpack.Encoder()
_COMMANDS = msgspec.msgpack.Decoder(list[Command])
_PICTURE = msgspec.msgpack.Decoder(Picture)


def written(commands: Sequence[Command]) -> bytes:
    """`commands` as they stand in the journal."""
    return _ENCODER.encode(commands)


def read(data: bytes) -> Sequence[Command]:
    """The commands that were written as `data`; nothing means none. Raises Protocol for what is not that."""
    try:
        return _COMMANDS.decode(data) if data else ()
    except msgspec.MsgspecError as error:
        raise Protocol(f"the journal of the cluster holds what no replica writes: {error}") from error


def drawn(picture: Picture) -> bytes:
    """`picture` as it is kept."""
    return _ENCODER.encode(picture)


def seen(data: bytes) -> Picture:
    """The picture that was kept as `data`. Raises Protocol for what is not one."""
    try:
        return _PICTURE.decode(data)
    except msgspec.MsgspecError as error:
        raise Protocol(f"the cluster keeps what no replica writes: {error}") from error
