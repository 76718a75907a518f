"""What runs inside the engine's process: the llama.cpp server of the package `xllamacpp`, tied to the gateway's life.

The gateway starts it (`slotline.upstream.engine`), writes one line of JSON, the `Order`, to its standard input and
keeps that pipe open: the leash. The end of the leash is the only ordinary way to end this process. SIGINT and SIGTERM
are ignored, because Ctrl-C and a service manager send them to the whole family at once, while the gateway wants its
running answers finished first.

`xllamacpp.Server` holds Python's lock for as long as it loads the model (seen with 2026.10.11549), so no thread of ours
could watch the leash meanwhile; there, and wherever somebody else still holds the pipe, Linux itself ends the process
when its parent dies (prctl(2), PR_SET_PDEATHSIG).

It must never write to standard output, and never import more of Slotline than this file: it starts in a moment.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import xllamacpp

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
ERRORS = 1  # llama.cpp's `--verbosity`; its warnings are about open ports, and here there is none
# Tokens of a prompt that are read at once. llama.cpp ends the work for a client that has left only between two batches,
# and on a processor its own 2048 take many seconds (benchmarks/goodbye.py).
BATCH = 128
PROMPT_CACHE_MIB = 512  # llama.cpp's default of 8 GiB would make a small engine the largest process of a laptop


@dataclass(frozen=True, slots=True)
class Order:
    """What the engine shall be, in the words of the line of JSON."""

    parent: int  # process id of the gateway
    socket: str  # path to listen on; its folder belongs to this engine alone
    model: str  # path of the GGUF file
    alias: str  # the model's name in requests and answers
    slots: int
    context: int  # tokens per slot
    threads: int
    chat_template: str = ""  # the text of a Jinja template; empty: the model's own

    def line(self) -> bytes:
        """The line of JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Order:
        """The other way; anything missing or unknown raises TypeError."""
        return cls(**json.loads(line))


def parameters(order: Order) -> xllamacpp.CommonParams:
    """The order in llama.cpp's terms."""
    import xllamacpp  # noqa: PLC0415  (100 MB of native code: only in this process, and not before it is on its leash)

    params = xllamacpp.CommonParams()
    params.model.path = order.model
    params.model_alias = {order.alias}
    params.hostnames = [order.socket]  # a name that ends in .sock is a unix socket
    params.n_parallel = order.slots
    params.n_ctx = order.slots * order.context  # llama.cpp divides the total among its slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order.threads
    params.n_batch = params.n_ubatch = BATCH
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = True
    params.ui = False
    params.use_jinja = True
    params.chat_template = order.chat_template
    params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_DEEPSEEK
    params.verbosity = ERRORS
    return params


def end_with_parent(number: int, parent: int) -> None:
    """From now on the death of the parent sends signal `number` to this process; at once if it is dead already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def leave(socket: str) -> NoReturn:
    """End at once, without a word to the native threads, and leave nothing on the disk."""
    folder = Path(socket).parent
    try:
        Path(socket).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        pass  # the gateway was quicker
    os._exit(0)


def main() -> None:
    """Load, serve, and end with the leash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leash = sys.stdin.buffer
    order = Order.read(leash.readline())
    end_with_parent(signal.SIGKILL, order.parent)
    params = parameters(order)
    import xllamacpp  # noqa: PLC0415

    try:
        _server = xllamacpp.Server(params)  # it serves from native threads for as long as it is referred to
    except RuntimeError:
        sys.exit(f"{order.model} cannot be loaded")  # the reasons stand above it in llama.cpp's own words
    signal.signal(signal.SIGHUP, lambda *_: None if os.getppid() == order.parent else leave(order.socket))
    end_with_parent(signal.SIGHUP, order.parent)  # gentler than before: there is time to tidy up now
    leash.read()
    leave(order.socket)


if __name__ == "__main__":
    main()
