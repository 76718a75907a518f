"""SIGHUP: the gateway reads its file again.

It never ends the gateway, not even where there is nothing to read. One that comes before the gateway is ready is
remembered, and those that come while a file is being read count as one more. When the terminal is gone on which the
gateway was started, SIGHUP means what it has always meant: nobody is there, and the gateway ends as with SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable

from slotline.config import Config, ConfigError
from slotline.wiring import Gateway

_log = logging.getLogger(__name__)


class Hangups:
    """Made before anything that takes long: from then on the signal is caught."""

    def __init__(self, read: Callable[[], Config] | None) -> None:
        """`read`: the same file once more; None where there is none. Raises ConfigError."""
        self._read = read
        self._on_terminal = _is_terminal()
        self._early = False
        self._asked = asyncio.Event()
        signal.signal(signal.SIGHUP, self._remember)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on they come in `loop`."""
        loop.add_signal_handler(signal.SIGHUP, self._hear)
        if self._early:
            self._hear()

    async def reload(self, gateway: Gateway) -> None:
        """Brings `gateway` to what the file says, whenever that is asked for, until cancelled."""
        while True:
            await self._heard()
            await self._once(gateway)

    async def pass_on(self, act: Callable[[], None]) -> None:
        """Has `act` done in place of that: the files of others are read again."""
        while True:
            await self._heard()
            act()

    async def _heard(self) -> None:
        await self._asked.wait()
        self._asked.clear()

    def _remember(self, *_: object) -> None:
        self._early = True

    def _hear(self) -> None:
        if self._on_terminal and not _is_terminal():
            signal.raise_signal(signal.SIGTERM)
        else:
            self._asked.set()

    async def _once(self, gateway: Gateway) -> None:
        if self._read is None:
            _log.warning("reload: there is no configuration file to read again, and nothing has changed")
            return
        try:
            done = await gateway.reload(self._read())
        except ConfigError as error:
            _log.error("reload: nothing has changed: %s", str(error).replace("\n ", ":"))
        except Exception:  # noqa: BLE001 - the one boundary: a fault in here must not end those who wait and run
            _log.exception("reload: a fault of the gateway itself")
        else:
            for key in done.waiting:
                _log.warning("reload: %s is read at the start alone: the new value needs a restart", key)
            _log.info("reload: %s: %s", gateway.config.source, "; ".join(done.changed) or "nothing is different")


def _is_terminal() -> bool:
    """Whether standard error is a terminal that is still there."""
    try:
        return os.isatty(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):  # it was closed, or is no file
        return False
