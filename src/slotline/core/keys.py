"""Who asks: keys, which are known by their hashes alone, and the flows of one key.

A key itself is in nobody's memory for longer than it takes to hash it, and its hash is in no message, log or `repr`:
what is shown of a key is its name.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from slotline.core.models import matches

_FLOW = 32  # hexadecimal digits, 128 bits: nobody finds a second text with the flow of another


class Priority(StrEnum):
    """Whether someone waits in front of a screen."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


def digest(secret: str) -> bytes:
    """The SHA-256 of the whole `secret`, as a header brought it: bytes that are not UTF-8 come as surrogates."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


@dataclass(frozen=True, slots=True)
class Key:
    """One who may ask. `weight`: its share of the slots when there is a line, as against the weights of the others."""

    name: str
    digest: bytes = field(repr=False)
    weight: float = 1
    priority: Priority = Priority.INTERACTIVE
    running: int | None = None  # at most so many at once; None: no limit
    waiting: int | None = None  # at most so many in line; None: no limit
    models: tuple[str, ...] = ("*",)  # patterns, as in `core.models`

    def __post_init__(self) -> None:
        """Raises ValueError, which never shows the hash."""
        if len(self.digest) != hashlib.sha256().digest_size:
            raise ValueError(f"key {self.name!r}: the hash is no SHA-256")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"key {self.name!r}: weight must be more than 0, not {self.weight!r}")
        if self.running is not None and self.running < 1:
            raise ValueError(f"key {self.name!r}: running must be 1 or more, not {self.running!r}")
        if self.waiting is not None and self.waiting < 0:
            raise ValueError(f"key {self.name!r}: waiting must be 0 or more, not {self.waiting!r}")

    def may(self, *names: str) -> bool:
        """Whether it may use a model of which these are names: the one that was asked for, and the model's own."""
        return any(matches(name, pattern) for name in names for pattern in self.models)


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys; false where there are none, and then nobody is asked for one. Names and hashes differ."""

    keys: tuple[Key, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys)

    def owner(self, credentials: Iterable[str]) -> Key | None:
        """Whose key is among `credentials`; where several are, the first counts.

        Each is compared with every key, in constant time and to the end, so that how long it takes tells nothing.
        """
        found: Key | None = None
        for presented in map(digest, credentials):
            for key in self.keys:
                same = hmac.compare_digest(presented, key.digest)
                found = key if same and found is None else found
        return found


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for one thing. `key` is None where the gateway has no keys, and then the peer is all that is known."""

    key: Key | None = None
    flow: str = field(default="", repr=False)
    """Which of the caller's conversations, as `flow` names it; "" for a client that does not tell."""
    peer: str = field(default="", repr=False)
    """The address that the connection came from; what a proxy says about others is not believed."""

    @property
    def name(self) -> str | None:
        """The key's name, which is all of a caller that may be logged."""
        return None if self.key is None else self.key.name


def flow(said: str | None) -> str:
    """The name of a flow from what the client calls it, which may name a person and is of any length."""
    return digest(said).hex()[:_FLOW] if said else ""
