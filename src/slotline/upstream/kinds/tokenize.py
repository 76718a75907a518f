"""Counting where `/tokenize` takes a whole chat request: vLLM and SGLang use the same form, and one answer shape."""

from __future__ import annotations

import msgspec

from slotline.upstream.asker import Asker
from slotline.upstream.kinds.facts import tried


class _Count(msgspec.Struct):
    count: int


async def count(ask: Asker, body: bytes) -> int | None:
    """The tokens of a chat request, by the server's template and tokenizer; None where it does not count such."""
    told = await tried(ask.post("/tokenize", body))
    counted = None if told is None else told.read(_Count)
    return None if counted is None else counted.count


async def never(ask: Asker, body: bytes) -> int | None:
    """For servers that do not show their tokenizer."""
    return None
