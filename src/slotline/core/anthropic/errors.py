"""How an error looks on the Messages surface: as the body of an answer, and as the last event of a stream.

https://platform.claude.com/docs/en/api/errors
"""

from __future__ import annotations

import msgspec

from slotline.core.errors import SlotlineError


def body(error: SlotlineError, request_id: str) -> bytes:
    """The JSON body that goes with `error.status`."""
    described = {"type": error.anthropic_type, "message": error.message}
    return msgspec.json.encode({"type": "error", "error": described, "request_id": request_id})


def event(error: SlotlineError, request_id: str) -> bytes:
    """`error` in a stream that is open, a whole frame. Without its name the official SDKs would pass over it, and call
    the message complete."""
    return b"event: error\ndata: %b\n\n" % body(error, request_id)
