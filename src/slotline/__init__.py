"""Slotline: the gateway in front of GPUs that people own. Every LLM request gets a slot, or a place in line.

The library is `Client`, its events and its errors; see `slotline.client`. They are loaded when they are first asked
for: the engine's child process and the command line have no use for all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slotline.client import Client
    from slotline.core.chat import (
        Completed,
        Completion,
        Event,
        Queued,
        Reasoning,
        Text,
        ThinkingCapped,
        ToolCall,
        Waiting,
    )
    from slotline.core.errors import (
        Busy,
        Invalid,
        LoadTimeout,
        Protocol,
        SlotlineError,
        Stalled,
        StreamClosedEarly,
        ThinkingOverrun,
        Unreachable,
        UpstreamStatus,
        WaitTimeout,
    )
    from slotline.core.limits import Limits

__all__ = [
    "Busy",
    "Client",
    "Completed",
    "Completion",
    "Event",
    "Invalid",
    "Limits",
    "LoadTimeout",
    "Protocol",
    "Queued",
    "Reasoning",
    "SlotlineError",
    "Stalled",
    "StreamClosedEarly",
    "Text",
    "ThinkingCapped",
    "ThinkingOverrun",
    "ToolCall",
    "Unreachable",
    "UpstreamStatus",
    "WaitTimeout",
    "Waiting",
]

_HOMES = ("slotline.core.errors", "slotline.core.chat", "slotline.core.limits", "slotline.client")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            if hasattr(module := import_module(home), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
