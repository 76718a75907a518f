"""What one answer of the stub is: a script, a frozen list of steps.

Values only: nothing here knows sockets or time. `standard` builds the usual scripts, `answer` plays them. A script is
also JSON, each step an object whose `do` names it: `{"steps": [{"do": "text", "text": "hi"}, {"do": "finish"}]}`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Literal

import msgspec


def _tag(name: str) -> str:
    """`ToolCall` is `tool_call` in JSON."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class _Step(msgspec.Struct, frozen=True, tag_field="do", tag=_tag, forbid_unknown_fields=True):
    """One thing that happens in an answer."""


# ---- what is said: deltas of the message -----------------------------------------------------------------------------


class Role(_Step, frozen=True):
    """The first chunk: `delta.role`, with `content` null as llama-server has it, or `""` as vLLM has it."""

    content: str | None = None


class Text(_Step, frozen=True):
    """One content delta. It counts as one token, whatever its length."""

    text: str


class Reasoning(_Step, frozen=True):
    """One reasoning delta; `key` is the field that carries it (`reasoning` in vLLM and Ollama). Counts as one token.

    Left out once the control endpoint has ended the reasoning, if the script heeds that.
    """

    text: str
    key: str = "reasoning_content"


class Tokens(_Step, frozen=True):
    """`n` deltas with predictable texts (`token-0 token-1 …`, or `thought-0 …`), `gap` seconds apart; None: for ever.

    The numbers go on from one such step to the next of the same answer.
    """

    n: int | None = 1
    gap: float = 0.0
    kind: Literal["text", "reasoning"] = "text"
    key: str = "reasoning_content"


class ToolCall(_Step, frozen=True):
    """One fragment of a tool call. A field that is None is left out; `arguments` is a piece of JSON text, as a rule."""

    index: int | None = 0
    id: str | None = None
    name: str | None = None
    arguments: Any = None


class Chunk(_Step, frozen=True):
    """A chunk of one's own: these keys replace those of an otherwise ordinary chunk (`id`, `object`, `model` …)."""

    body: dict[str, Any]


class Finish(_Step, frozen=True):
    """The chunk that carries `finish_reason`, with an empty delta."""

    reason: str | None = "stop"


class Usage(_Step, frozen=True):
    """The usage chunk, with empty `choices`; what is None is counted. Only sent on request, or if `always`."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    always: bool = False


class Progress(_Step, frozen=True):
    """A `prompt_progress` chunk as llama-server sends it, whether or not the request asked for progress."""

    processed: int
    total: int
    cached: int = 0
    time_ms: int = 0


# ---- frames of the stream that are no deltas -------------------------------------------------------------------------


class Head(_Step, frozen=True):
    """Status and headers of the answer, sent at once. The body is chunked, or of `length` bytes by Content-Length.

    Whatever is said before any head sends the usual one first; only `Raw` does not.
    """

    status: int = 200
    headers: dict[str, str] = {}
    content_type: str = "text/event-stream"
    length: int | None = None


class Comment(_Step, frozen=True):
    """An SSE comment line (`:` alone by default, which is llama-server's ping)."""

    text: str = ""


class Event(_Step, frozen=True):
    """An SSE event as written: each line of `data` becomes one `data:` line; `event` and `id` are left out if None."""

    data: str
    event: str | None = None
    id: str | None = None


class Raw(_Step, frozen=True):
    """Bytes of the body as they are (base64 in JSON). Before any head: bytes on the wire, in place of HTTP itself."""

    data: bytes


class ErrorForm(StrEnum):
    """How servers put an error into a stream that has begun (and what each calls its fields)."""

    LLAMA_CPP = "llama.cpp"  # data: {"error":{"code","message","type"}}
    VLLM = "vllm"  # data: {"error":{"message","type","param","code"}}
    SGLANG = "sglang"  # data: {"error":{"object":"error",…}}
    FIELD = "field"  # error: {…} as an SSE field of its own, from very old llama.cpp builds
    TEXT = "text"  # data: {"error":"text"}
    EVENT = "event"  # event: error and data: {"error":{…}}
    HTML = "html"  # a proxy's page in the middle of the stream


class Error(_Step, frozen=True):
    """An error inside the stream, in one server's form. Where nothing is streamed: a status and an error body."""

    form: ErrorForm = ErrorForm.LLAMA_CPP
    message: str = "Compute error."
    code: int = 500
    type: str = "server_error"


class Done(_Step, frozen=True):
    """`data: [DONE]`, by default with its blank line. Nothing more is generated: the slot is freed just before."""

    blank_line: bool = True


# ---- time ------------------------------------------------------------------------------------------------------------


class Sleep(_Step, frozen=True):
    """Silence for so many seconds, the slot busy."""

    seconds: float


class Prefill(_Step, frozen=True):
    """Reads the prompt for `seconds`, in `batches` steps that `/slots` shows.

    With `return_progress` in the request, a progress chunk goes out at once and after every batch, unless `silent`.
    """

    seconds: float = 0.0
    batches: int = 1
    silent: bool = False


class Hold(_Step, frozen=True):
    """Silence until somebody calls `Stub.release` (or `POST /stub/release`)."""


class Hang(_Step, frozen=True):
    """Silence until the client goes."""


# ---- ends; without one of them the body ends as HTTP wants it and the connection is kept -----------------------------


class Close(_Step, frozen=True):
    """The body ends as HTTP wants it, and the connection is closed."""


class Cut(_Step, frozen=True):
    """The connection is closed in the middle of the body: no last chunk, or fewer bytes than Content-Length said."""


class Reset(_Step, frozen=True):
    """The connection is reset (RST). On a unix socket, which knows no reset, the same as `Cut`."""


# ---- control ---------------------------------------------------------------------------------------------------------


class Repeat(_Step, frozen=True):
    """The steps again and again, `times` times; None: for ever."""

    steps: tuple[Step, ...]
    times: int | None = None


Saying = Role | Text | Reasoning | ToolCall | Chunk | Finish | Usage | Progress
Frame = Comment | Event | Raw | Error | Done
Pause = Sleep | Prefill | Hold | Hang
End = Close | Cut | Reset
Step = Saying | Frame | Pause | End | Head | Tokens | Repeat


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one answer does, step by step."""

    steps: tuple[Step, ...] = ()
    write_size: int | None = None  # bytes of each write to the socket, across events; None: one write an event
    newline: Literal["\n", "\r\n", "\r"] = "\n"  # the line ending of the event stream
    takes_slot: bool = True  # False: answered at once, beside the slots; `/slots` does not show it
    heeds_control: bool = True  # False: the control endpoint says success and the reasoning goes on
