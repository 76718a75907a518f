"""Which slot of a server a request sits in, where the server lets one choose: llama.cpp's `id_slot`.

A slot keeps in memory what it read last, so a conversation that comes back to its slot has only its new part read. A
free slot is chosen in this order:

1. the one that holds the most of this conversation
2. one that was never used: nothing is lost there
3. one whose conversation began in the same way, with the same tools and system prompt
4. the one that was free for longest: what it holds is the least likely to come back

A conversation is a chain: a number for what stands before all messages, then one per message, each made from the
message and the number before it. Two chains share a beginning exactly as far as their messages do; those that share
only the first number are two conversations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

Chain = Sequence[int]


@dataclass(slots=True)
class _Seat:
    chain: Chain = ()
    taken: bool = False
    freed: int = 0  # a number that grows with every seat given back


@dataclass(slots=True)
class Seats:
    """The slots of one server, by the ids that it gives them: 0, 1, …"""

    count: int
    _seats: dict[int, _Seat] = field(default_factory=dict)
    _clock: int = 0

    def take(self, chain: Chain, avoid: Collection[int] = ()) -> int | None:
        """A free slot for a conversation; None when all are taken, or in `avoid` (used by someone else)."""
        free = [slot for slot in range(self.count) if not self._seat(slot).taken and slot not in avoid]
        if not free:
            return None
        slot = max(free, key=lambda slot: self._worth(self._seat(slot), chain))
        seat = self._seat(slot)
        seat.taken, seat.chain = True, chain
        return slot

    def claim(self, slot: int, chain: Chain) -> bool:
        """This slot, for a conversation that sits there already; False if it is taken."""
        seat = self._seat(slot)
        if seat.taken:
            return False
        seat.taken, seat.chain = True, chain
        return True

    def give(self, slot: int) -> None:
        """The slot is free again, and still holds what was said in it; twice is harmless."""
        seat = self._seat(slot)
        if seat.taken:
            self._clock += 1
            seat.taken, seat.freed = False, self._clock

    def holds(self, chain: Chain) -> bool:
        """Whether a free slot holds some of this conversation, and not only what stands before all messages."""
        start = chain[:2]
        return any(
            slot < self.count and not seat.taken and shared(seat.chain[:2], start) > 1
            for slot, seat in self._seats.items()
        )

    def taken(self) -> frozenset[int]:
        """The slots in use."""
        return frozenset(slot for slot, seat in self._seats.items() if seat.taken)

    def _worth(self, seat: _Seat, chain: Chain) -> tuple[int, bool, int, int]:
        held = shared(seat.chain, chain)
        return (held if held > 1 else 0, seat.freed == 0, held, -seat.freed)

    def _seat(self, slot: int) -> _Seat:
        return self._seats.setdefault(slot, _Seat())


def shared(one: Chain, other: Chain) -> int:
    """How many messages two conversations have in common from their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
