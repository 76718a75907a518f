"""Which script answers which request, and how the side routes misbehave: as JSON, and as a live repertoire."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from slotline.stub.script import Script
from slotline.stub.standard import named

_BY_NAME = "stub-"  # a model of this name asks for a script by its short name: `stub-die-3`


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one route (by its path, whether the stub has it or not) does in place of, or before, its ordinary answer.

    The ordinary answer is made first and then delayed, so that a late `/slots` tells of the past.
    """

    delay: float = 0.0  # seconds
    hang: bool = False  # takes the request and never answers
    status: int | None = None  # this status and `body` are the answer
    body: str | None = None  # this body is the answer, with 200 unless `status` says otherwise
    content_type: str = "application/json"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the repertoire, in JSON. What is left out stays as it is; a script may be given by its short name."""

    queue: list[Script | str] | None = None  # one for each of the next requests, in order of arrival
    models: dict[str, Script | str] | None = None
    default: Script | str | None = None
    sides: dict[str, Side] | None = None


def parse(text: bytes | str) -> Plan:
    """A plan from JSON: a plan object, one script (then the default), or an array of scripts (then the queue).

    Raises ValueError, with the place in the JSON, if it is none of these.
    """
    raw = msgspec.json.decode(text)
    if isinstance(raw, list):
        raw = {"queue": raw}
    elif isinstance(raw, str) or (isinstance(raw, dict) and "steps" in raw):
        raw = {"default": raw}
    plan = msgspec.convert(raw, Plan)
    scripts = [*(plan.queue or ()), *(plan.models or {}).values(), *([plan.default] if plan.default else ())]
    scripts_of(scripts)  # a wrong name is found now, not when a request meets it
    return plan


class Repertoire:
    """The scripts at hand. Chosen, in this order: the queue, the model, the model's name; else the stub's default."""

    def __init__(self) -> None:
        self._queue: deque[Script] = deque()
        self.models: dict[str, Script] = {}
        self.sides: dict[str, Side] = {}

    def play(self, *scripts: Script) -> None:
        """One script for each of the next requests, behind those that are already there."""
        self._queue.extend(scripts)

    @property
    def queued(self) -> Sequence[Script]:
        """Scripts that no request has taken yet."""
        return tuple(self._queue)

    def apply(self, plan: Plan) -> None:
        """Takes over what the plan names, but for its default, which is the stub's."""
        if plan.queue is not None:
            self._queue = deque(scripts_of(plan.queue))
        if plan.models is not None:
            self.models = dict(zip(plan.models, scripts_of(plan.models.values()), strict=True))
        if plan.sides is not None:
            self.sides = dict(plan.sides)

    def choose(self, model: str) -> Script | None:
        """The script for the next request, which asks for this model; None: none but the default.

        Raises ValueError if the model's name asks for a script that does not exist.
        """
        if self._queue:
            return self._queue.popleft()
        if model in self.models:
            return self.models[model]
        if model.startswith(_BY_NAME):
            return named(model.removeprefix(_BY_NAME))
        return None


def scripts_of(scripts: Iterable[Script | str]) -> list[Script]:
    """Scripts, with short names replaced by what they stand for. Raises ValueError for a name that is none."""
    return [named(script) if isinstance(script, str) else script for script in scripts]
