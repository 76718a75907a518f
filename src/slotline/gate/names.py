"""The names of all keys that a cluster has in Redis or Valkey.

All have the namespace as their hash tag, so a Redis Cluster keeps them on one shard, where one script may change them
together: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """Those of one namespace."""

    journal: str  # stream: the entries
    meta: str  # hash: the next number, the last moment, the rules, the server's run, when somebody was last heard of
    leases: str  # sorted set: replica → when its lease ends
    written: str  # hash: replica → its last batch
    picture: str  # hash: the last picture, and where to read on

    @classmethod
    def of(cls, namespace: str) -> Names:
        tag = f"slotline:{{{namespace}}}"
        return cls(*(f"{tag}:{name}" for name in ("journal", "meta", "leases", "written", "picture")))

    @property
    def all(self) -> tuple[str, ...]:
        """In the order in which the script takes them."""
        return (self.journal, self.meta, self.leases, self.written, self.picture)
