"""One request of a trace, and for how long it holds a slot."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

_LEAST = 0.001  # seconds: nothing is served in no time


class Request(msgspec.Struct, frozen=True, gc=False):
    """What a client asked for, and when. Times in seconds, lengths in tokens."""

    at: float  # since the first request of the trace
    key: str = ""
    flow: str = ""
    batch: bool = False
    model: str = ""
    prompt: int = 0
    output: int = 0
    held: float | None = None  # how long it had its slot, where that was measured
    patience: float | None = None  # how long its client waited before it gave up, where one did


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast one slot is while all of them work. Where a trace has measured times, those count and not the rates."""

    prefill: float = 1000.0  # tokens of a prompt read in a second
    decode: float = 30.0  # tokens of an answer made in a second
    cached: float = 0.0  # share of each prompt that need not be read, because the server still has it
    faster: float = 1.0  # so many times as fast as all this, measured times included

    def times(self, request: Request) -> tuple[float, float]:
        """Seconds until the first token of the answer, and from there to its last.

        A measured time is divided as the tokens say; without tokens all of it counts as the answer.
        """
        reading = request.prompt * (1.0 - self.cached) / self.prefill
        answering = request.output / self.decode
        if request.held is not None:
            whole = reading + answering
            share = reading / whole if whole else 0.0
            reading, answering = request.held * share, request.held * (1.0 - share)
        reading, answering = reading / self.faster, answering / self.faster
        return reading, max(answering, _LEAST - reading)
