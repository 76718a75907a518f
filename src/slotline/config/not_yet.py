"""Settings that are known and read, and whose feature is not in this release.

They are refused, because a setting without effect is worse than none. When a feature lands, its lines here go, and so
do the marks in `docs/configuration.md` (a test compares the two).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from slotline.config.lines import KeyPath


class NotYet(NamedTuple):
    """`when`: whether the value, as read, needs the feature. `instead`: what works in this release."""

    when: Callable[[Any], bool]
    instead: str


def _given(_value: object) -> bool:
    return True


NOT_YET: Mapping[str, NotYet] = {
    "cluster": NotYet(_given, "Each gateway has slots and lines of its own."),
}


def not_yet(path: KeyPath, value: object) -> str | None:
    """What to tell the one who wrote `value` at `path`; None if it has its effect."""
    rule = NOT_YET.get(".".join(step for step in path if isinstance(step, str)))
    return None if rule is None or not rule.when(value) else f"Not yet in this release. {rule.instead}"


def has_effect(dotted: str) -> bool:
    """Whether the key does anything in this release, whatever its value; `cluster` does not."""
    rule = NOT_YET.get(dotted)
    return rule is None or rule.when is not _given
