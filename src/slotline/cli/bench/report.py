"""What a bench has measured: as text for a person, and as data for a program. Durations in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from slotline.cli.bench.load import Plan
from slotline.cli.bench.sample import End, Sample
from slotline.cli.check import columns
from slotline.cli.hearing import Fault
from slotline.cli.printable import one_line
from slotline.cli.running import OPERATOR
from slotline.core.simulation.fairshare import jain
from slotline.core.simulation.report import quantile
from slotline.core.why import spoken

_SHOWN: Final = 6  # sorts of errors; the rest are in the JSON
_WORDS: Final = 200  # characters of a message


class Spread(msgspec.Struct, frozen=True):
    """How something spreads that was measured `n` times."""

    n: int
    p50: float
    p90: float
    p99: float
    max: float


class Speed(msgspec.Struct, frozen=True):
    """Tokens a second of single answers."""

    n: int
    median: float
    slowest: float


class Failure(msgspec.Struct, frozen=True):
    """A sort of error, with what one of them said."""

    type: str
    count: int
    message: str


class Places(msgspec.Struct, frozen=True):
    """What was told of places. One that grows is no fault where keys take turns."""

    requests: int  # that were told one
    told: int
    grew: int  # requests of which one grew


class Rates(msgspec.Struct, frozen=True):
    """Of the whole, from the first request to the last end."""

    requests_per_second: float
    tokens_per_second: float
    answer_tokens: int
    prompt_tokens: int
    cached_tokens: int


class Report(msgspec.Struct, frozen=True):
    """All of it. The spreads and `speed` are of requests that were completed; None: nothing was measured."""

    url: str
    plan: Plan
    took: float
    stopped: bool  # before its time
    ends: Mapping[str, int]
    rates: Rates
    wait: Spread | None
    first_frame: Spread | None
    first_token: Spread | None
    between_tokens: Spread | None
    total: Spread | None
    speed: Speed | None
    places: Places
    fairness: float | None  # Jain's index of the tokens that each client got; of a closed loop
    latest: float  # how late the latest request was sent
    behind: int | None  # of those who left, how many the gateway still knows; None: it was not to be seen
    errors: Sequence[Failure]
    untrue: Mapping[str, int]

    @property
    def sound(self) -> bool:
        """Nothing was untrue, no connection broke off, and something was answered, if there was time."""
        broken = any(failure.type == Fault.BROKEN for failure in self.errors)
        answered = self.stopped or bool(self.ends.get(End.COMPLETED))
        return not self.untrue and not broken and not self.behind and answered


def report(
    url: str, plan: Plan, samples: Sequence[Sample], took: float, *, stopped: bool = False, behind: int | None = None
) -> Report:
    """Of these requests, all of which have ended."""
    whole = [sample for sample in samples if sample.end is End.COMPLETED]

    def spread(value: Callable[[Sample], float | None]) -> Spread | None:
        return spread_of([measured for sample in whole if (measured := value(sample)) is not None])

    answered = sum(sample.tokens for sample in samples)
    return Report(
        url=url,
        plan=plan,
        took=took,
        stopped=stopped,
        ends=dict(Counter(str(sample.end) for sample in samples)),
        rates=Rates(
            requests_per_second=len(whole) / took if took else 0.0,
            tokens_per_second=answered / took if took else 0.0,
            answer_tokens=answered,
            prompt_tokens=sum(sample.prompt for sample in samples),
            cached_tokens=sum(sample.cached for sample in samples),
        ),
        wait=spread(lambda sample: sample.wait),
        first_frame=spread(lambda sample: sample.first_frame),
        first_token=spread(lambda sample: sample.first_token) if plan.stream else None,
        between_tokens=spread_of([gap for sample in whole for gap in sample.between]) if plan.stream else None,
        total=spread(lambda sample: sample.total),
        speed=_speed([sample.speed for sample in whole if sample.speed is not None]),
        places=_places([sample.places for sample in samples if sample.places]),
        fairness=_fairness(plan, samples),
        latest=max((sample.late for sample in samples), default=0.0),
        behind=behind,
        errors=_errors(samples),
        untrue=dict(Counter(words for sample in samples for words in sample.untrue)),
    )


def spread_of(measured: Sequence[float]) -> Spread | None:
    """Of any order."""
    if not measured:
        return None
    ascending = sorted(measured)
    return Spread(len(ascending), *(quantile(ascending, share) for share in (0.5, 0.9, 0.99, 1.0)))


def _speed(measured: Sequence[float]) -> Speed | None:
    return Speed(len(measured), quantile(sorted(measured), 0.5), min(measured)) if measured else None


def _places(told: Sequence[Sequence[int]]) -> Places:
    grew = sum(any(later > earlier for earlier, later in pairwise(each)) for each in told)
    return Places(len(told), sum(map(len, told)), grew)


def _fairness(plan: Plan, samples: Sequence[Sample]) -> float | None:
    if plan.rate is not None:
        return None
    shares = Counter(dict.fromkeys(range(plan.clients), 0))
    for sample in samples:
        shares[sample.client] += sample.tokens
    return jain(shares.values())


def _errors(samples: Sequence[Sample]) -> list[Failure]:
    messages = {sample.error: sample.message or "" for sample in samples if sample.error is not None}
    counts = Counter(sample.error for sample in samples if sample.error is not None)
    return [Failure(kind, count, messages[kind]) for kind, count in counts.most_common()]


# ---- as text ---------------------------------------------------------------------------------------------------------


def as_text(told: Report, token_env: str = OPERATOR) -> str:
    """For a person. `token_env`: the variable that an operator's token was looked for in."""
    facts = (_facts(told), _verdicts(told, token_env))
    head, foot = ([f"{name:<8}  {text}" for name, text in each] for each in facts)
    return "\n".join([*head, "", _table(told), "", *foot])


def _facts(told: Report) -> Iterator[tuple[str, str]]:
    plan, rates = told.plan, told.rates
    loop = f"{_many(plan.clients, 'client')}, each with one request after the other (closed loop)"
    if plan.rate is not None:
        loop = f"{plan.rate:g} requests a second on average, whatever becomes of them (open loop, seed {plan.seed})"
    yield "gateway", f"{told.url}, model {one_line(plan.model)}"
    yield "load", loop
    prompts = "one prefix for all" if plan.shared_prefix else "no two alike"
    stream = "" if plan.stream else ", not streamed"
    yield "", f"prompts of about {plan.prompt_tokens} tokens, {prompts}; answers of at most {plan.max_tokens}{stream}"
    stopped = ", stopped before its time" if told.stopped else ""
    yield "took", f"{took(told.took)}{stopped}: {rates.requests_per_second:.2f} requests/s completed"
    answers = f"{rates.answer_tokens:,} of answers, {rates.tokens_per_second:.1f}/s"
    yield "tokens", f"{answers}; {rates.prompt_tokens:,} of prompts read, {rates.cached_tokens:,} more were cached"
    yield "ended", ", ".join(f"{count} {end}" for end, count in sorted(told.ends.items())) or "nothing was asked"


def _verdicts(told: Report, token_env: str) -> Iterator[tuple[str, str]]:
    if told.speed is not None:
        speed = told.speed
        yield (
            "speed",
            f"half of the answers come at {speed.median:.1f} tokens/s or more, the slowest at {speed.slowest:.1f}",
        )
    if told.places.requests:
        grew = "none ever grew" if not told.places.grew else f"of {told.places.grew} one grew, as it may among keys"
        yield "places", f"{_many(told.places.requests, 'request')} heard {_many(told.places.told, 'place')}; {grew}"
    if told.fairness is not None:
        yield "fairness", f"{told.fairness:.3f} (Jain's index of the tokens that each client got; 1 is perfect)"
    if left := told.ends.get(End.LEFT):
        yield "left", f"{left} while they waited; {_gone(told.behind, token_env)}"
    if told.plan.rate is not None:
        yield "late", f"the latest request was sent {took(told.latest)} after it was due, which counts as its own time"
    for place, failure in enumerate(told.errors[:_SHOWN]):
        yield "errors" if not place else "", f"{failure.count} {failure.type}: {one_line(failure.message)[:_WORDS]}"
    for place, (words, count) in enumerate(told.untrue.items()):
        yield "untrue" if not place else "", f"{count} times: {one_line(words)[:_WORDS]}"
    if not told.untrue:
        yield "untrue", "nothing: every stream kept its order and had its end"


def _gone(behind: int | None, token_env: str) -> str:
    if behind is None:
        return f"whether the gateway has let go of them, only an operator sees: {token_env} is to hold the token"
    return f"{behind} of them are still there" if behind else "the gateway has let go of all of them"


def _table(told: Report) -> str:
    rows = {
        "wait in line": told.wait,
        "until the first place": told.first_frame,
        "until the first token": told.first_token,
        "from token to token": told.between_tokens,
        "whole answer": told.total,
    }
    cells = [
        (name, str(each.n), *(took(value) for value in (each.p50, each.p90, each.p99, each.max)))
        if each is not None
        else (name, "0", *("–",) * 4)
        for name, each in rows.items()
    ]
    return columns(("how long", "n", "p50", "p90", "p99", "max"), cells)


def took(seconds: float) -> str:
    """A duration that is worth its milliseconds: 3.2 ms, 340 ms, 4.21 s, 43.1 s."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 119.5:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    return spoken(seconds)


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
