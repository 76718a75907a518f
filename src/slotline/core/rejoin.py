"""Places of those who left: a client that gives up waiting and sends the same request again stands where it stood.

Clients give up after some minutes and try again, and would then stand at the end of the line, behind everybody who came
later; with every attempt the wait begins anew. So the place of one who left is kept for a while. What makes two
requests the same is that the same caller sends the same bytes to the same route.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from slotline.core.keys import Caller

_MOST = 10_000  # places kept; beyond it the oldest is given up


def sameness(caller: Caller, route: str, body: bytes) -> bytes:
    """16 bytes that are the same for the same request of the same caller.

    A caller is its key; without keys, its address and what it says of its session.
    """
    who = f"peer\0{caller.peer}\0{caller.flow}" if caller.key is None else f"key\0{caller.key.name}"
    person = hashlib.blake2b(f"{who}\0{route}".encode(), digest_size=16).digest()
    return hashlib.blake2b(body, digest_size=16, person=person).digest()


@dataclass(slots=True)
class Kept:
    """The places that are kept, each for `seconds`. `now` is any clock of seconds that does not run backwards."""

    seconds: float
    _places: dict[bytes, tuple[int, float]] = field(default_factory=dict)  # request → (number, since), oldest first

    def keep(self, request: bytes, number: int, now: float) -> None:
        """`request` has left the line, where it was number `number` of all arrivals."""
        self.forget(now)
        self._places.pop(request, None)
        self._places[request] = (number, now)
        if len(self._places) > _MOST:
            del self._places[next(iter(self._places))]

    def take(self, request: bytes, now: float) -> int | None:
        """The number under which `request` stands again; None if no place is kept for it. A place is taken once."""
        self.forget(now)
        number, _ = self._places.pop(request, (None, 0.0))
        return number

    def find(self, request: bytes, now: float, seconds: float) -> int | None:
        """As `take`, but the place is still kept, and only found if that began less than `seconds` ago."""
        self.forget(now)
        number, since = self._places.get(request, (None, 0.0))
        return number if since + seconds > now else None

    def give_up(self, number: int) -> None:
        """Somebody stands at this place again."""
        for request in [request for request, (kept, _) in self._places.items() if kept == number]:
            del self._places[request]

    def all(self) -> list[tuple[bytes, int, float]]:
        """Each request, its number, and since when its place is kept."""
        return [(request, number, since) for request, (number, since) in self._places.items()]

    def forget(self, now: float) -> None:
        """Gives up the places whose time is over."""
        while self._places:
            request, (_, since) = next(iter(self._places.items()))
            if since + self.seconds > now:
                break
            del self._places[request]

    def __len__(self) -> int:
        return len(self._places)
