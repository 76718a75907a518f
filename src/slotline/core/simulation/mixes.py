"""Loads that were not recorded but made: the same ones from the same seed.

Each mix is a few streams of requests, one a key, merged by time. They are made for four slots of the default speed; on
fewer, people wait longer, and `Plan.speed` makes them come faster. Lengths are lognormal, so that a few requests are
many times as long as most, as in traces of conversations and of code (https://arxiv.org/abs/2311.18677).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import count, islice
from math import log
from types import MappingProxyType
from typing import Protocol

from slotline.core.simulation.request import Request


class Chance(Protocol):
    """What is used of `random.Random`."""

    def random(self) -> float: ...
    def expovariate(self, lambd: float) -> float: ...
    def lognormvariate(self, mu: float, sigma: float) -> float: ...


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a request is like: the median lengths in tokens, and how far others are from them."""

    prompt: float
    output: float
    spread: float = 0.7
    longest: int = 32_000

    def draw(self, chance: Chance) -> tuple[int, int]:
        """The tokens of one prompt and its answer."""
        prompt = chance.lognormvariate(log(self.prompt), self.spread)
        output = chance.lognormvariate(log(self.output), self.spread)
        return min(self.longest, 1 + int(prompt)), min(self.longest, 1 + int(output))


_TALK = _Kind(1_000, 200)  # 1.3 s and 8.5 s, on average
_SHORT = _Kind(300, 40)
_LONG = _Kind(6_000, 700)
_AGENT = _Kind(9_000, 120)

_Stream = Iterator[Request]
PEOPLE = ("ana", "ben", "cleo", "dan", "eva", "finn")
"""The keys of those who ask one thing after another, in any mix but `heavy`."""


def _steadily(chance: Chance, key: str, every: float, kind: _Kind = _TALK, *, batch: bool = False) -> _Stream:
    """One after another, `every` so many seconds on average, none knowing of the others (Poisson)."""
    at = 0.0
    while True:
        at += chance.expovariate(1 / every)
        prompt, output = kind.draw(chance)
        yield Request(round(at, 3), key, batch=batch, prompt=prompt, output=output)  # alike with any C library


def _at_once(chance: Chance, key: str, many: int, at: float, kind: _Kind = _TALK, *, batch: bool = False) -> _Stream:
    """`many` in the same moment."""
    for _ in range(many):
        prompt, output = kind.draw(chance)
        yield Request(at, key, batch=batch, prompt=prompt, output=output)


def _in_flows(chance: Chance, key: str, flows: int, every: float, kind: _Kind) -> _Stream:
    """An agent with several conversations at a time, of which the first sends as much as all others together."""
    for request in _steadily(chance, key, every, kind):
        flow = 0 if chance.random() < 0.5 else 1 + int(chance.random() * (flows - 1))
        yield Request(request.at, key, f"{key}-{flow}", prompt=request.prompt, output=request.output)


def _people(chance: Chance, every: float) -> list[_Stream]:
    return [_steadily(chance, name, every) for name in PEOPLE]


def _steady(chance: Chance) -> list[_Stream]:
    return _people(chance, 17)


def _burst(chance: Chance) -> list[_Stream]:
    bursts = (_at_once(chance, "ci", 60, 1_800.0 * turn) for turn in count())
    return [*_people(chance, 26), (request for burst in bursts for request in burst)]


def _greedy(chance: Chance) -> list[_Stream]:
    return [*_people(chance, 26), _at_once(chance, "greedy", 1_000, 0.0)]


def _agents(chance: Chance) -> list[_Stream]:
    agents = [_in_flows(chance, f"agent-{number}", 4, 9, _AGENT) for number in (1, 2)]
    return [*_people(chance, 30), *agents]


def _batch(chance: Chance) -> list[_Stream]:
    return [*_people(chance, 22), _at_once(chance, "nightly", 400, 0.0, _LONG, batch=True)]


def _heavy(chance: Chance) -> list[_Stream]:
    """Each of the three asks for more than a third of all there is."""
    return [
        _steadily(chance, "short", 1.1, _SHORT),
        _steadily(chance, "middle", 5.5),
        _steadily(chance, "long", 20, _LONG),
    ]


MIXES: Mapping[str, tuple[str, Callable[[Chance], list[_Stream]]]] = MappingProxyType(
    {
        "steady": ("six people, who need nine tenths of four slots", _steady),
        "burst": ("six people, and every half an hour 60 requests at once from a machine", _burst),
        "greedy": ("six people, and one key that sends a thousand requests in the first moment", _greedy),
        "agents": ("six people, and two agents with long prompts and four conversations each", _agents),
        "batch": ("six people, and 400 long requests of a batch key in the first moment", _batch),
        "heavy": ("three keys with short, middle and long requests, each wanting more than its share", _heavy),
    }
)
"""Name → what it is, and how it is made."""


def mix(name: str, requests: int, chance: Chance) -> list[Request]:
    """The first `requests` of the mix, in the order of their arrival. Raises KeyError for a name there is not."""
    _, make = MIXES[name]
    return list(islice(merge(*make(chance), key=lambda request: request.at), requests))
