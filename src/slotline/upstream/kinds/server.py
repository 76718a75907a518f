"""What differs between the kinds of server in how they are looked at; each kind's file makes one `Server`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slotline.core.reading import Reading
from slotline.upstream.asker import Asker
from slotline.upstream.kinds.facts import Facts, Listing


@dataclass(frozen=True, slots=True)
class Server:
    """One kind. Nothing in it takes a slot, loads a model or wakes a sleeper.

    `reading`: what it works on now; never raises for what a server does. `facts`: what it tells of itself, given the
    list of its models; None where it could not be asked just now; may raise as the Asker does. `count`: the tokens of
    the prompt in a chat request; None where the server cannot say; never raises. `health`: whether `/health` tells that
    it loads, and costs nothing.
    """

    reading: Callable[[Asker], Awaitable[Reading]]
    facts: Callable[[Asker, Listing], Awaitable[Facts | None]]
    count: Callable[[Asker, bytes], Awaitable[int | None]]
    health: bool
