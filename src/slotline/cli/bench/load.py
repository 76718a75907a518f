"""The load of a bench: clients that ask one after the other (closed loop), or arrivals at a rate (open loop).

In a closed loop a slow gateway is asked less often, which hides how long people would have waited; so there is the open
one, whose requests come when they are due, whatever has become of those before.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from random import Random
from typing import Final

import msgspec

from slotline.cli.asking import Asker, question
from slotline.cli.bench.sample import End, Measure, Sample
from slotline.cli.hearing import Begun, Heard, Progress, Queued

_PATIENCE: Final = 1.0  # seconds: who leaves does so within this of its first place
_PAUSE: Final = 0.5  # seconds after a failure, so that who is refused does not do nothing else than ask
_WORDS: Final = (
    *("river", "stone", "cloud", "table", "green", "house", "light", "paper", "morning", "winter", "garden", "window"),
    *("silver", "letter", "summer", "bridge", "forest", "island", "market", "mountain", "engine", "station", "village"),
    *("kitchen", "doctor", "music", "number", "picture", "question", "water"),
)
_TASK: Final = "Write a long story in which all of these words occur: "


class Plan(msgspec.Struct, frozen=True):
    """What is asked how often. Exactly one of `requests` and `seconds`; `rate` None: a closed loop."""

    model: str
    clients: int
    requests: int | None
    seconds: float | None
    rate: float | None  # a second
    prompt_tokens: int
    max_tokens: int
    stream: bool
    shared_prefix: bool
    leave: float  # the share of requests whose client leaves the line
    seed: int


class Prompts:
    """Prompts of about so many tokens. No two are alike, nor like those of another run, from their first words on.

    With a shared prefix it is only their last words that differ.
    """

    def __init__(self, tokens: int, *, shared_prefix: bool) -> None:
        self._words = max(1, tokens - 40)  # so many are the task, the mark, and what most templates add
        self._shared = shared_prefix
        self._run = secrets.token_hex(3)

    def prompt(self, number: int) -> str:
        """That of the request of this number."""
        mark = f"{self._run}-{number}"
        pick = Random(0 if self._shared else mark)  # noqa: S311 - words, not secrets
        words = " ".join(pick.choices(_WORDS, k=self._words))
        return f"{_TASK}{words}. {mark}" if self._shared else f"{mark}. {_TASK}{words}."


class Load:
    """`run` it; `samples` are those that have ended, `going` those that have not."""

    def __init__(self, plan: Plan, askers: Sequence[Asker]) -> None:
        """`askers`: clients take them in turn, each with its own key."""
        self.plan = plan
        self.samples: list[Sample] = []
        self.going: set[Measure] = set()
        self.began = 0.0
        self.ended = 0.0
        self._askers = askers
        self._random = Random(plan.seed)  # noqa: S311 - arrivals, not secrets
        self._prompts = Prompts(plan.prompt_tokens, shared_prefix=plan.shared_prefix)
        self._asked = 0
        self._time = asyncio.get_running_loop().time

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return (self.ended or self._time()) - self.began

    async def run(self) -> None:
        """Until the last answer has ended. Cancelled, it has what there was until then."""
        self.began = self._time()
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.plan.rate is None:
                    for client in range(self.plan.clients):
                        tasks.create_task(self._client(client))
                else:
                    await self._arrivals(tasks, self.plan.rate)
        finally:
            self.ended = self._time()

    async def _client(self, client: int) -> None:
        while self._more(self._time()):
            if await self._one(self._next(), client, self._time()) is End.FAILED:
                await asyncio.sleep(_PAUSE)

    async def _arrivals(self, tasks: asyncio.TaskGroup, rate: float) -> None:
        due = self.began
        while self._more(due := due + self._random.expovariate(rate)):
            await asyncio.sleep(due - self._time())
            number = self._next()
            tasks.create_task(self._one(number, number, due))

    def _more(self, due: float) -> bool:
        if self.plan.requests is not None:
            return self._asked < self.plan.requests
        return due - self.began < (self.plan.seconds or 0.0)

    def _next(self) -> int:
        """The number of the next request, which counts from now on."""
        self._asked += 1
        return self._asked - 1

    async def _one(self, number: int, client: int, due: float) -> End:
        messages = [{"role": "user", "content": self._prompts.prompt(number)}]
        body = question(self.plan.model, messages, self.plan.max_tokens, stream=self.plan.stream)
        leaves = self._random.uniform(0, _PATIENCE) if self._random.random() < self.plan.leave else None
        measure = Measure(client, due, self._time())
        self.going.add(measure)
        end: End | None = End.STOPPED  # unless it comes to an end of its own
        try:
            end = await self._ask(measure, body, leaves)
        finally:
            self.going.discard(measure)
            self.samples.append(measure.sample(self._time(), end))
        return self.samples[-1].end

    async def _ask(self, measure: Measure, body: bytes, leaves: float | None) -> End | None:
        """None: it went its way. `leaves`: so many seconds after its first place its client does, if it still waits."""
        asker = self._askers[measure.client % len(self._askers)]
        try:
            async with asyncio.timeout(None) as patience, aclosing(asker.ask(body)) as hearing:
                async for heard in hearing:
                    measure.hear(heard, self._time())
                    if leaves is not None:
                        _lose(patience, heard, self._time() + leaves)
        except TimeoutError:
            return End.LEFT
        return None


def _lose(patience: asyncio.Timeout, heard: Heard, when: float) -> None:
    if isinstance(heard, Queued) and patience.when() is None:
        patience.reschedule(when)
    elif isinstance(heard, (Progress, Begun)):
        patience.reschedule(None)
