"""One chunk of a chat completion stream, as far as Slotline reads it.

Shape: https://platform.openai.com/docs/api-reference/chat-streaming, and what llama.cpp, vLLM, SGLang and Ollama add to
it or leave out of it. The same structs read a whole answer (`message` in place of `delta`), for an upstream that
answers a streamed request with one JSON object.

Decoding is typed and fast for what servers send; a chunk in which a field has an unexpected type is read a second time,
leniently: a field that makes no sense counts as absent, because half an answer is worth more than a quarrel about it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from slotline.core.errors import Protocol


class Function(msgspec.Struct, frozen=True, gc=False):
    """A called function, or a fragment of one. `arguments`: a JSON text, the object itself, or nothing."""

    name: str | None = None
    arguments: Any = None


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A fragment of a tool call; only a call's first must have `id` and a name. Not every server sends `index`."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct, frozen=True, gc=False):
    """What a chunk adds. Servers spell the reasoning `reasoning_content` or `reasoning`, some both at once."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    refusal: str | None = None

    @property
    def blank(self) -> bool:
        """It adds nothing: at most a role."""
        return not (
            self.content
            or self.reasoning_content
            or self.reasoning
            or self.tool_calls
            or self.function_call
            or self.refusal
        )


class Choice(msgspec.Struct, frozen=True, gc=False):
    """One of the answers; only index 0 is ever asked for."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    """vLLM: the stop string that was met, the id of the stop token, or null."""
    matched_stop: Any = None
    """SGLang: the same."""


class PromptDetails(msgspec.Struct, frozen=True, gc=False):
    """How much of the prompt was already in the cache."""

    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct, frozen=True, gc=False):
    """How much of the answer was reasoning."""

    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens so far. `reasoning_tokens` at this level is SGLang's spelling."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    reasoning_tokens: int | None = None

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that came from the cache, where the server tells."""
        return self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details is not None else None

    @property
    def thinking_tokens(self) -> int | None:
        """Tokens of the answer that were reasoning, where the server tells."""
        details = self.completion_tokens_details
        if details is not None and details.reasoning_tokens is not None:
            return details.reasoning_tokens
        return self.reasoning_tokens


class Progress(msgspec.Struct, frozen=True, gc=False):
    """llama.cpp's `prompt_progress`: tokens of the prompt; `cache` of them came from the cache."""

    total: int = 0
    cache: int = 0
    processed: int = 0


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One chunk. `failure` tells whether it is an error; `object`, `message`, `type`, `code` belong to flat errors."""

    id: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    prompt_progress: Progress | None = None
    error: Any = None
    object: Any = None
    message: Any = None
    type: Any = None
    code: Any = None

    @property
    def choice(self) -> Choice | None:
        """The choice of index 0, the only one that counts."""
        for choice in self.choices or ():
            if not choice.index:
                return choice
        return None

    @property
    def begins(self) -> bool:
        """It belongs to the answer: it does more than tell how far the prompt is read."""
        if self.prompt_progress is None:
            return True
        choice = self.choice
        if choice is None:
            return False
        delta = choice.delta or choice.message
        return bool(choice.finish_reason) or (delta is not None and not delta.blank)

    @property
    def failure(self) -> Failure | None:
        """The error in this chunk. Any `error` that is not empty is one, whatever else the chunk holds."""
        if self.error:
            return _failure(self.error)
        flat = self.object == "error" or (self.type is not None or self.code is not None)
        if self.choices is None and self.message and flat:
            return _failure({"message": self.message, "code": self.code})
        return None


class Failure(msgspec.Struct, frozen=True, gc=False):
    """An error that an upstream reports in its stream: its status, 400 to 599 (500 where it names none), its text."""

    status: int
    message: str


_typed = msgspec.json.Decoder(Chunk)


def decode(data: bytes) -> Chunk:
    """The `data` of one event. Raises Protocol when it is no JSON object."""
    try:
        return _typed.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_leniently(data)


# ---- the second, lenient reading ------------------------------------------------------------------------------------


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _decode_leniently(data: bytes) -> Chunk:
    """As `decode`, with damaged UTF-8, half surrogate pairs and wrong types allowed."""
    try:
        found = _well_formed(json.loads(data.decode("utf-8", "replace"), strict=False))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Protocol(f"an event of the upstream's stream is no JSON object: {data[:80].decode('utf-8', 'replace')}")
    choices = found.get("choices")
    return Chunk(
        id=_text(found.get("id")),
        choices=None if choices is None else [_choice(item) for item in _objects(choices)],
        usage=_usage(found.get("usage")),
        prompt_progress=_progress(found.get("prompt_progress")),
        error=found.get("error"),
        object=found.get("object"),
        message=found.get("message"),
        type=found.get("type"),
        code=found.get("code"),
    )


def _well_formed(value: Any) -> Any:
    """`value` without halves of surrogate pairs, which no UTF-8 can carry."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    return value


def _text(value: Any) -> str | None:
    """A string; or the text of a list of parts, as Mistral's servers send it."""
    if isinstance(value, list):
        return "".join(part["text"] for part in _objects(value) if isinstance(part.get("text"), str)) or None
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63:
        return int(value)
    return None


def _objects(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _choice(found: dict[str, Any]) -> Choice:
    return Choice(
        index=_number(found.get("index")),
        delta=_delta(found.get("delta")),
        message=_delta(found.get("message")),
        finish_reason=_text(found.get("finish_reason")),
        stop_reason=found.get("stop_reason"),
        matched_stop=found.get("matched_stop"),
    )


def _delta(found: Any) -> Delta | None:
    if not isinstance(found, dict):
        return None
    calls = found.get("tool_calls")
    return Delta(
        role=_text(found.get("role")),
        content=_text(found.get("content")),
        reasoning_content=_text(found.get("reasoning_content")),
        reasoning=_text(found.get("reasoning")),
        tool_calls=None if calls is None else [_call(item) for item in _objects(calls)],
        function_call=_function(found.get("function_call")),
        refusal=_text(found.get("refusal")),
    )


def _call(found: dict[str, Any]) -> ToolCall:
    identity = found.get("id")
    return ToolCall(
        index=_number(found.get("index")),
        id=str(identity) if isinstance(identity, int) else _text(identity),
        function=_function(found.get("function")),
    )


def _function(found: Any) -> Function | None:
    if not isinstance(found, dict):
        return None
    return Function(name=_text(found.get("name")), arguments=found.get("arguments"))


def _usage(found: Any) -> Usage | None:
    if not isinstance(found, dict):
        return None
    return Usage(
        prompt_tokens=_number(found.get("prompt_tokens")),
        completion_tokens=_number(found.get("completion_tokens")),
        prompt_tokens_details=PromptDetails(_number(_object(found.get("prompt_tokens_details")).get("cached_tokens"))),
        completion_tokens_details=CompletionDetails(
            _number(_object(found.get("completion_tokens_details")).get("reasoning_tokens"))
        ),
        reasoning_tokens=_number(found.get("reasoning_tokens")),
    )


def _progress(found: Any) -> Progress | None:
    if not isinstance(found, dict):
        return None
    return Progress(
        total=_number(found.get("total")) or 0,
        cache=_number(found.get("cache")) or 0,
        processed=_number(found.get("processed")) or 0,
    )


def _failure(error: Any) -> Failure:
    """The error objects of llama.cpp, vLLM, SGLang and Ollama, and the bare string."""
    if not isinstance(error, dict):
        return Failure(500, error if isinstance(error, str) else json.dumps(error))
    inner = error.get("error")  # a proxy's wrapping around the true one
    message = error.get("message") or (inner.get("message") if isinstance(inner, dict) else inner)
    code = _number(error.get("code"))
    return Failure(
        status=code if code is not None and 400 <= code <= 599 else 500,
        message=message if isinstance(message, str) and message else json.dumps(error),
    )
