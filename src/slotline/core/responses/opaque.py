"""`encrypted_content`: what a model thought, in a form that clients keep and send back without looking into it.

Some clients (Codex) send no reasoning back but this, and the next turn of a model that reasons between its tool calls
is worse without it. It is not secret, only opaque: the client has the text anyway.
"""

from __future__ import annotations

import base64
import binascii

_OURS = "slotline-1."


def seal(text: str) -> str:
    """`text`, to be sent as `encrypted_content`."""
    return _OURS + base64.b64encode(text.encode()).decode()


def unseal(sealed: str) -> str:
    """What `seal` was given; "" for what somebody else has encrypted, which only its maker can read."""
    if not sealed.startswith(_OURS):
        return ""
    try:
        return base64.b64decode(sealed[len(_OURS) :], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
