"""What a server shows of its slots at one moment, and what that says about a request it has not answered yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotline.core.liveness import State


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot as the server describes it; counts in tokens, None where it does not tell."""

    id: int
    busy: bool
    prompt: int | None = None  # tokens of the prompt it works on
    prompt_done: int | None = None  # … of which it has read
    decoded: int | None = None  # tokens of the answer so far


@dataclass(frozen=True, slots=True)
class Reading:
    """One look. `loading`: the server cannot serve yet. `late`: it is there, and did not answer in time.

    `slots`: None where it does not show them. `running`: requests it works on, where it counts them without showing
    slots.
    """

    loading: bool = False
    late: bool = False
    slots: tuple[Slot, ...] | None = None
    running: int | None = None

    @property
    def blind(self) -> bool:
        """It serves, and shows nothing of what it does."""
        return not self.loading and not self.late and self.slots is None and self.running is None

    @property
    def busy(self) -> int | None:
        """How many requests the server works on; None where it does not tell."""
        return self.running if self.slots is None else sum(slot.busy for slot in self.slots)


def meaning(reading: Reading, *, slot: int | None, answering: int) -> State:
    """What the silence of a request means. `slot`: the one it was sent to, if it was sent to one.

    `answering`: our requests on this server that do get an answer, each of which has a slot that works. Where nobody
    can say, the answer is BUSY: a limit too long costs patience, a limit too short costs the work that was done.
    """
    if reading.loading:
        return State.LOADING
    if slot is not None and reading.slots is not None:
        return State.BUSY if _works(reading.slots, slot) else State.IDLE
    if reading.busy is None or reading.busy > answering:
        return State.BUSY
    return State.IDLE


def _works(slots: Sequence[Slot], wanted: int) -> bool:
    """A slot that the server does not list says nothing against it."""
    return all(slot.busy for slot in slots if slot.id == wanted)
