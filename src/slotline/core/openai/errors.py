"""What an upstream says when it refuses, made into one class of ours and words that a client can use.

Four servers, four shapes, and proxies in front of them with pages of HTML. The text goes on as the upstream wrote it,
because clients act on its wording, with three exceptions: an overflow of the context is said in the words that clients
know how to mend; a page of HTML is not passed on; and nothing is told of a refusal of our own credentials, as such
texts often quote them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from slotline.core.errors import UpstreamStatus

_KEPT = frozenset({400, 401, 403, 404, 413, 429})
"""The 4xx whose meaning is the same for our client; 401 and 403 become 502 in `UpstreamStatus`."""


def explain(status: int, body: bytes, content_type: str) -> UpstreamStatus:
    """The error for an upstream's answer with `status`, or for the error in its stream with the status it names."""
    if status in {401, 403}:
        return UpstreamStatus(status, f"the upstream refused the gateway's own credentials (status {status})")
    text = readable(body, content_type)
    too_long = _counted(body) or overflow(text)
    error = UpstreamStatus(400, too_long) if too_long else UpstreamStatus(_status(status), text)
    error.overflow = text if too_long else None
    error.upstream_status = status
    return error


def _status(status: int) -> int:
    """A client must not read 408 and 409 as an invitation to send at once again, nor see codes it has no class for."""
    if status == 408:
        return 504
    return 400 if 400 <= status < 500 and status not in _KEPT else status


# ---- text ------------------------------------------------------------------------------------------------------------


def readable(body: bytes, content_type: str) -> str:
    """The message in an error body, at most `UpstreamStatus.MAX_BODY` bytes of UTF-8; "" for an empty body.

    Known shapes: {"error": {"message"}}, {"error": "…"}, {"object": "error", "message"}, {"detail": …}, plain text.
    """
    if not body.strip():
        return ""
    try:
        text = _message(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = _plain(body[: UpstreamStatus.MAX_BODY])
    if "html" in content_type.lower() or _looks_like_html(text):
        return "the upstream answered with a page of HTML instead of a message"
    return _cut(text)


def _message(value: Any) -> str:
    """The words in a decoded error, or all of it where none of the known keys is there."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            if value.get(key):
                return _message(value[key])
    if isinstance(value, list) and value:
        return "; ".join(_message(each) for each in value)
    return msgspec.json.encode(value).decode()


def _plain(body: bytes) -> str:
    text = body.decode(errors="replace").strip()
    odd = sum(not (character.isprintable() or character.isspace()) for character in text) + text.count("\ufffd")
    return "the upstream answered with something that is not text" if odd * 10 > len(text) else text


def _looks_like_html(text: str) -> bool:
    return re.search(r"<(!doctype|html|head|body|center|h1|title)\b", text[:4096], re.IGNORECASE) is not None


def _cut(text: str) -> str:
    encoded = text.encode()
    return (
        text if len(encoded) <= UpstreamStatus.MAX_BODY else encoded[: UpstreamStatus.MAX_BODY].decode(errors="ignore")
    )


# ---- overflow --------------------------------------------------------------------------------------------------------

_N = r"(?P<prompt>\d+)"  # tokens of the prompt
_M = r"(?P<limit>\d+)"  # tokens that the context holds
_OUT = r"(?P<output>\d+)"  # tokens that the answer may have

_MAX = rf"maximum context length is {_M} tokens\. However, "

_NUMBERED = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        # llama.cpp (`server-context.cpp`)
        rf"request \({_N} tokens\) exceeds the available context size \({_M}",
        # vLLM (`serving_engine.py`, `renderers/`), from the oldest to the newest
        rf"{_MAX}you requested \d+ tokens \({_N} in the [\w ]{{1,40}}, {_OUT} in the completion",
        rf"{_MAX}your [\w ]{{1,40}} resulted in {_N} tokens",
        rf"{_MAX}your request has {_N} input tokens",
        rf"is too large: {_OUT}\. This model's maximum context length is {_M} tokens and your request has {_N} input",
        rf"{_MAX}you requested {_OUT} output tokens and your prompt contains (?:at least )?{_N} input tokens",
        rf"You passed {_N} input tokens and requested {_OUT} output tokens\. .{{1,40}} context length is only {_M}",
        rf"prompt \(length {_N}\) is longer than the maximum model length of {_M}",
        # SGLang (`tokenizer_manager.py`)
        rf"input \({_N} tokens\) is longer than the model's context length \({_M}",
        rf"maximum context length of {_M} tokens\. .{{1,40}} \d+ tokens: {_N} tokens from .{{1,40}} and {_OUT} tokens",
        rf"input length \(?{_N}\b\D{{1,60}}exceeds\D{{1,60}}{_M}",
    )
)

_UNNUMBERED = re.compile(
    r"input length exceeds (?:the )?context length|prompt too long; exceeded max context length"  # Ollama
    r"|exceeds the available context size"  # llama.cpp before 2025-10
    r"|Requested token count exceeds the model's maximum context length"  # SGLang, shortened by proxies
    r"|maximum context length is \d+",
    re.IGNORECASE,
)


def overflow(text: str) -> str | None:
    """`text` in the words that clients understand, if it speaks of a prompt that does not fit; else None.

    `prompt is too long: N tokens > M maximum` where the prompt alone is too long, or, where a shorter answer would
    fit, ``input length and `max_tokens` exceed context limit: A + B > C, …``, upon which clients ask again for less.
    """
    for pattern in _NUMBERED:
        if found := pattern.search(text):
            numbers = {name: int(value) for name, value in found.groupdict().items() if value is not None}
            return _worded(numbers["prompt"], numbers["limit"], numbers.get("output", 0))
    return f"prompt is too long: {text}" if _UNNUMBERED.search(text) else None


def _counted(body: bytes) -> str | None:
    """llama.cpp puts the numbers next to the message; they are right whatever the message says."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or error.get("type") != "exceed_context_size_error":
        return None
    prompt, limit = error.get("n_prompt_tokens"), error.get("n_ctx")
    return _worded(prompt, limit, 0) if isinstance(prompt, int) and isinstance(limit, int) else None


def _worded(prompt: int, limit: int, output: int) -> str:
    """Some servers refuse at the limit and some above it; what they refused is above it in any case."""
    if output and prompt < limit:
        total = min(limit, prompt + output - 1)
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {total}, "
            "decrease input length or `max_tokens` and try again"
        )
    return f"prompt is too long: {prompt} tokens > {min(limit, prompt - 1)} maximum"
