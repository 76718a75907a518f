"""The text of PDF documents, read by the library pypdf in a child process for each (`pdf_child.py`).

What a client sends may be made to keep its reader busy for ever, so it is never opened here: the child has bounds on
CPU, memory and time, and is killed when the client leaves. Few run at once, as they share the machine with what the
gateway is for. A conversation brings its documents again with every turn, so what was read is remembered for a while.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import importlib.util
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slotline.attachments.pdf_child import REFUSED
from slotline.core.errors import Busy, Invalid

# By its path, and `-P`: nothing of the gateway is loaded, and nothing from the working directory.
CHILD = (sys.executable, "-P", str(Path(__file__).with_name("pdf_child.py")))
LIBRARY = "pypdf"
_KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")  # of the environment, which holds the upstreams' keys
_HEAD = 1400  # characters of base64, line breaks among them: the mark of a PDF stands in its first 1024 bytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the reading of PDFs may take."""

    seconds: float = 30.0  # for one, on the clock and of CPU
    memory: int = 1 << 30  # bytes of address space, for one
    text: int = 8 << 20  # bytes, of one
    at_once: int = 2
    patience: float = 30.0  # seconds until one of those is free
    remembered: int = 16 << 20  # characters of text
    entries: int = 256  # … and how many texts


@dataclass(frozen=True, slots=True)
class _Read:
    """What came of one PDF: its text, or why it has none."""

    said: str
    refused: bool


class PdfReader:
    """Reads PDFs. `library`: the module that the child needs; where it is missing every PDF is refused."""

    def __init__(self, bounds: Bounds | None = None, *, child: Sequence[str] = CHILD, library: str = LIBRARY) -> None:
        self._bounds = bounds or Bounds()
        self._child = child
        self._there = importlib.util.find_spec(library) is not None
        self._free = asyncio.Semaphore(self._bounds.at_once)
        self._known: OrderedDict[bytes, _Read] = OrderedDict()

    async def text(self, data: str) -> str:
        """The text of a PDF in base64, each page under its number.

        Raises Invalid, whose message is the reason alone; Busy when too many are being read for others.
        """
        if not self._there:
            raise Invalid("PDFs are read where the gateway has `pip install slotline[pdf]`; send the text instead")
        if not _begins(data):
            raise Invalid("it does not begin as a PDF does")
        sent = data.encode()
        key = hashlib.sha256(sent).digest()
        read = self._known.get(key) or await self._in_turn(sent)
        self._remember(key, read)
        if read.refused:
            raise Invalid(read.said)
        return read.said

    def _remember(self, key: bytes, read: _Read) -> None:
        self._known[key] = read
        self._known.move_to_end(key)
        size = sum(len(each.said) for each in self._known.values())
        while size > self._bounds.remembered or len(self._known) > self._bounds.entries:
            size -= len(self._known.popitem(last=False)[1].said)

    async def _in_turn(self, sent: bytes) -> _Read:
        try:
            async with asyncio.timeout(self._bounds.patience):
                await self._free.acquire()
        except TimeoutError:
            raise Busy("too many PDFs are being read for other requests", retry_after=10) from None
        try:
            return await self._run(sent)
        finally:
            self._free.release()

    async def _run(self, sent: bytes) -> _Read:
        """Only what the child itself says is worth remembering; how long it takes depends on what else is going on."""
        bounds = self._bounds
        slow = Invalid(f"reading it takes longer than {bounds.seconds:g} s")
        process = await asyncio.create_subprocess_exec(
            *self._child,
            *map(str, (max(1, round(bounds.seconds)), bounds.memory, bounds.text)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            start_new_session=True,  # Ctrl-C is the gateway's business
        )
        try:
            async with asyncio.timeout(bounds.seconds):
                out, _ = await process.communicate(sent)
        except TimeoutError:
            raise slow from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == -signal.SIGXCPU:
            raise slow
        if process.returncode not in {0, REFUSED}:
            raise Invalid("reading it failed")
        return _Read(out.decode(), refused=process.returncode == REFUSED)


def _begins(data: str) -> bool:
    """Whether `data`, which may be no base64 at all, begins as a PDF does."""
    head = "".join(data[:_HEAD].split())
    try:
        return b"%PDF-" in binascii.a2b_base64(head[: len(head) // 4 * 4])
    except ValueError:
        return False
