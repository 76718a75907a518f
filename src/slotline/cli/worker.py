"""One of several workers behind one address, as it sees itself: what it was told, and the leash that it is on.

`slotline serve --workers N` starts `slotline serve … --worker` N times, with the socket that it listens on, and writes
one line of JSON, the `Order`, to the standard input of each. It keeps that pipe open for as long as it lives, however
it ends; a worker whose pipe has ended ends as with SIGTERM, so none is left behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field

import click
import msgspec

from slotline.config import Config
from slotline.config.values import ClusterConfig


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """`listen`: the file descriptor of the socket. `cluster`: where the line is that all workers share.

    `folder`: of the server of that line, if it is their own; it goes when nobody is left who could remove it.
    """

    listen: int
    cluster: ClusterConfig
    folder: str | None = None

    def line(self) -> bytes:
        """The line of JSON."""
        return msgspec.json.encode(self) + b"\n"

    def over(self, config: Config) -> Config:
        """`config` with the shared line: whatever the file says by now, all workers have the same one."""
        return msgspec.structs.replace(config, cluster=self.cluster)


@dataclass(eq=False, slots=True)
class Leash:
    """Standard input, after the order was read from it."""

    order: Order
    broken: bool = field(default=False, init=False)

    @classmethod
    def taken(cls) -> Leash:
        """Reads the order. Raises click.UsageError where nobody has written one."""
        try:
            return cls(msgspec.json.decode(sys.stdin.buffer.readline(), type=Order))
        except msgspec.DecodeError:
            raise click.UsageError("--worker is for the processes that --workers starts") from None

    def listener(self) -> socket.socket:
        """The socket that all workers accept on."""
        return socket.socket(fileno=self.order.listen)

    def hold(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on the end of the parent is the end of this worker."""
        loop.add_reader(sys.stdin.fileno(), self._feel, loop)

    def _feel(self, loop: asyncio.AbstractEventLoop) -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            self.broken = True
            signal.raise_signal(signal.SIGTERM)

    def tidy(self) -> None:
        """What the parent would have removed, if it had been given the time."""
        if self.broken and self.order.folder is not None:
            shutil.rmtree(self.order.folder, ignore_errors=True)
