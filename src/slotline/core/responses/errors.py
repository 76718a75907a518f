"""What went wrong, in the words of the Responses API: https://platform.openai.com/docs/api-reference/responses/object."""

from __future__ import annotations

from slotline.core.errors import SlotlineError
from slotline.core.openai.refusal import described


def code(error: SlotlineError) -> str:
    """`error.code` of a response that failed. Clients act on it: a request that was wrong is not sent again."""
    if word := described(error)["code"]:
        return str(word)
    if error.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.status < 500 else "server_error"
