"""Clients that need more than the protocol: known by their `User-Agent`.

Claude Code before some version between 2.1.197 and 2.1.332 closes a stream, and sends its request again, after 300 s in
which nothing came that it counts: pings, comments and unknown events are nothing to it, parts of an answer are. Such a
client is kept by beats that are parts of an answer (`MessageStream.heartbeat`), before its 300 s are over.
"""

from __future__ import annotations

import re
from typing import Final

BEAT_AFTER: Final = 240.0
"""Seconds without an event that counts, after which such a client gets beats: 300 less all that may delay them."""

_KNOWN_GOOD: Final = (2, 1, 332)  # kept by comments, as tried; where between 2.1.197 and this it changed is not known
_NAME: Final = re.compile(r"(?<![\w-])claude-cli(?![\w-])(?:/(\d{1,9}(?:\.\d{1,9})*))?", re.ASCII | re.IGNORECASE)


def counts_only_events(user_agent: str) -> bool:
    """Whether this client's watchdog may count only parts of an answer: Claude Code that is old, or tells no version.

    `user_agent`: such as `claude-cli/2.1.332 (external, sdk-cli)`.
    """
    found = _NAME.search(user_agent)
    if found is None:
        return False
    version = tuple(int(part) for part in (found[1] or "0").split("."))
    return version < _KNOWN_GOOD


class Watchdog:
    """The clock of such a client, as far as it can be seen from here. Times are seconds since the request came."""

    def __init__(self, patience: float) -> None:
        """`patience`: seconds without an event, after which one is due."""
        self.patience = patience
        self._sent = 0  # of the answer, when it was last looked at
        self._fed = 0.0  # when that was seen to have changed

    @property
    def pulse(self) -> float:
        """How often it must be looked at, whatever else is sent: twice this time may be lost, and 300 s not be over."""
        return self.patience / 12

    def hungry(self, sent: int, waited: float) -> bool:
        """Whether an event is due. `sent`: how much of the answer the client has been given, in any unit.

        Beats are no part of it: once they are due they are, until the answer goes on.
        """
        if sent != self._sent:
            self._sent, self._fed = sent, waited
        return waited - self._fed >= self.patience
