"""What each key has, over all upstreams, and whether it may have more."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotline.core.errors import LimitReached
from slotline.core.party import Party


@dataclass(slots=True)
class _Has:
    limit: int | None  # how many it may have running, as its newest ticket said
    running: int = 0
    waiting: int = 0


@dataclass(slots=True)
class Allowances:
    """`barred`: the keys that have all running that they may, and so are passed over."""

    barred: set[str] = field(default_factory=set)
    _keys: dict[str, _Has] = field(default_factory=dict)  # those that have something

    def check_waiting(self, party: Party) -> None:
        """Raises LimitReached when `party` has as many waiting as it may."""
        has = self._keys.get(party.key)
        waiting = has.waiting if has else 0
        if party.waiting is not None and waiting >= party.waiting:
            raise LimitReached(
                f"{waiting} requests of this key wait already, and at most waiting = {party.waiting} may"
            )

    def may_run(self, party: Party) -> bool:
        """Whether one more of `party` may run."""
        has = self._keys.get(party.key)
        return party.running is None or (has.running if has else 0) < party.running

    def begin_wait(self, party: Party) -> bool:
        """One more of `party` waits, and its limits hold from now on; see `_weigh`."""
        has = self._keys.setdefault(party.key, _Has(party.running))
        has.limit = party.running
        has.waiting += 1
        return self._weigh(party.key, has)

    def end_wait(self, party: Party) -> None:
        """One less of `party` waits."""
        has = self._keys[party.key]
        has.waiting -= 1
        self._weigh(party.key, has)

    def begin_run(self, party: Party) -> None:
        """One more of `party` has a slot."""
        has = self._keys.setdefault(party.key, _Has(party.running))
        has.running += 1
        self._weigh(party.key, has)

    def end_run(self, party: Party) -> bool:
        """One less of `party` has a slot; see `_weigh`."""
        has = self._keys[party.key]
        has.running -= 1
        return self._weigh(party.key, has)

    def _weigh(self, key: str, has: _Has) -> bool:
        """Bars `key`, or lets it in again; true if it is let in."""
        if not has.running and not has.waiting:
            del self._keys[key]
        if has.limit is not None and has.running >= has.limit:
            self.barred.add(key)
            return False
        if key in self.barred:
            self.barred.discard(key)
            return True
        return False
