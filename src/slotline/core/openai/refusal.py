"""How an error looks on OpenAI's surfaces: as the body of an answer, and as the last event of a stream.

https://platform.openai.com/docs/guides/error-codes. `code` is a word that programs act on; of OpenAI's own words only
those are used that clients are known to look for, for everything else it is null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from slotline.core.errors import SlotlineError, Unauthenticated, UpstreamStatus
from slotline.core.models import UnknownModel

_CODES: dict[type[SlotlineError], str] = {UnknownModel: "model_not_found", Unauthenticated: "invalid_api_key"}


def described(error: SlotlineError) -> dict[str, Any]:
    """OpenAI's error object. A prompt that is too long is said in the upstream's own words."""
    overflow = error.overflow if isinstance(error, UpstreamStatus) else None
    if overflow:
        return _object(error, overflow, "context_length_exceeded")
    return _object(error, error.message, _CODES.get(type(error)))


def body(error: SlotlineError, request_id: str) -> bytes:
    """The JSON body that goes with `error.status`."""
    return msgspec.json.encode({"error": described(error), "request_id": request_id})


def event(error: SlotlineError, request_id: str) -> bytes:
    """`error` in a stream that is open, a whole frame: the clients raise it, and nothing comes after it."""
    return b"data: %b\n\n" % body(error, request_id)


def _object(error: SlotlineError, message: str, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": error.openai_type, "param": None, "code": code}
