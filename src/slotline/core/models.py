"""Which upstreams serve a model, by the name that the client gave.

A name is looked up as it stands, then among the aliases, then among the alias patterns (`claude-*`), each in the order
of the configuration; the first that fits wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from slotline.core.errors import NotFound

_NAMED = 10  # models named in the error for an unknown one


@dataclass(frozen=True, slots=True)
class Model:
    """One model on offer. `target`: its name at the upstreams. `aliases`: other names, `*` and `?` as in a shell."""

    name: str
    upstreams: frozenset[str]
    target: str
    aliases: tuple[str, ...] = ()


class UnknownModel(NotFound):
    """No such model. (A route that does not exist is another thing: clients know a code for this one.)"""


def resolve(name: str, models: Sequence[Model]) -> Model:
    """The model that `name` means. Raises NotFound, which names those on offer."""
    for fits in (_is_name, _is_alias, _is_pattern):
        for model in models:
            if fits(name, model):
                return model
    raise unknown(name, models)


def unknown(name: str, models: Sequence[Model]) -> NotFound:
    """The error for a name that means nothing; `models` are those on offer to whoever asks."""
    offer = ", ".join(model.name for model in models[:_NAMED]) or "none at present"
    return UnknownModel(f"model: {name[:200]!r} is not served here; the models are: {offer}")


def matches(name: str, pattern: str) -> bool:
    """`*` and `?` as in a shell; brackets stand for themselves: clients do ask for models such as `opus[1m]`."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def merged(listings: Iterable[tuple[str, Sequence[str]]]) -> list[Model]:
    """The models of upstreams that list their own: (upstream, names) → one model per name, on all that have it."""
    upstreams: dict[str, set[str]] = {}
    for upstream, names in listings:
        for name in names:
            upstreams.setdefault(name, set()).add(upstream)
    return [Model(name, frozenset(where), name) for name, where in upstreams.items()]


def _is_name(name: str, model: Model) -> bool:
    return name == model.name


def _is_alias(name: str, model: Model) -> bool:
    return name in model.aliases


def _is_pattern(name: str, model: Model) -> bool:
    return any(matches(name, alias) for alias in model.aliases)
