"""A request as the stub received it: what its body asks for, and how far its answer got."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

CHARACTERS_PER_TOKEN = 4  # the stub's whole tokenizer; the usual estimate for English text


class Stage(StrEnum):
    """Where a request stands."""

    WAITING = "waiting"  # in the stub's own queue
    RUNNING = "running"
    DONE = "done"  # the stub ended the answer, well or badly
    ABORTED = "aborted"  # the client went first, or the stub was stopped


@dataclass(slots=True, eq=False)
class Received:
    """One inference request. Times are seconds of `time.monotonic`, which all processes of a machine share."""

    number: int  # 0, 1, 2 … by arrival
    id: str  # the completion's id
    path: str
    headers: tuple[tuple[str, str], ...]  # all, in order, as sent
    raw: bytes  # the body
    started: float
    model: str = ""
    state: Stage = Stage.WAITING
    slot: int | None = None  # which slot it got
    ended: float | None = None
    tokens: int = 0  # deltas sent: text, reasoning and tool fragments

    @property
    def body(self) -> Any:
        """The body as JSON; raises ValueError if it is none."""
        return msgspec.json.decode(self.raw)

    def header(self, name: str) -> str | None:
        """The first header of this name, whatever its case; None if there is none."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def as_json(self) -> dict[str, Any]:
        """For `GET /stub/requests`. A body that is no JSON is given as text."""
        try:
            body = self.body
        except ValueError:
            body = self.raw.decode(errors="replace")
        return {
            "number": self.number,
            "id": self.id,
            "model": self.model,
            "path": self.path,
            "state": self.state,
            "slot": self.slot,
            "t_started": self.started,
            "t_ended": self.ended,
            "tokens": self.tokens,
            "headers": self.headers,
            "body": body,
        }


class StreamOptions(msgspec.Struct, frozen=True):
    """`stream_options` of a chat request."""

    include_usage: bool | None = None


class Ask(msgspec.Struct, frozen=True):
    """The fields of a chat request that the stub heeds; all others are only recorded."""

    messages: list[dict[str, Any]]
    model: str = ""
    tools: list[Any] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    id_slot: int | None = None
    cache_prompt: bool | None = None
    return_progress: bool | None = None
    reasoning_control: bool | None = None
    reasoning_budget_tokens: int | None = None
    thinking_budget_tokens: int | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def limit(self) -> int | None:
        """How many tokens at most; None: no limit."""
        limit = self.max_completion_tokens if self.max_tokens is None else self.max_tokens
        return None if limit is None or limit < 0 else limit

    @property
    def thinking_limit(self) -> int | None:
        """How many reasoning tokens at most; None: no limit."""
        if self.reasoning_effort == "none" or (self.chat_template_kwargs or {}).get("enable_thinking") is False:
            return 0
        budget = self.reasoning_budget_tokens
        budget = self.thinking_budget_tokens if budget is None else budget
        return None if budget is None or budget < 0 else budget

    @property
    def wants_usage(self) -> bool:
        """Whether a stream shall carry a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def prompt(self) -> str:
        """The prompt as the stub's chat template renders it."""
        tools = msgspec.json.encode(self.tools).decode() + "\n" if self.tools else ""
        turns = (f"<|im_start|>{m.get('role', '')}\n{text_of(m)}<|im_end|>\n" for m in self.messages)
        return tools + "".join(turns) + "<|im_start|>assistant\n"

    @property
    def last_user_text(self) -> str:
        """What the user said last; empty if nothing."""
        return next((text_of(m) for m in reversed(self.messages) if m.get("role") == "user"), "")


class TextAsk(Ask, frozen=True):
    """The fields of a request for the completion of a plain prompt: it has no messages, and no template is used."""

    messages: list[dict[str, Any]] = []
    given: str | list[Any] = msgspec.field(name="prompt", default="")  # text, tokens, or a list with one of these

    @property
    def prompt(self) -> str:
        """The prompt; a token is shown as its number."""
        return self.given if isinstance(self.given, str) else " ".join(map(str, self.given))

    @property
    def last_user_text(self) -> str:
        """All that was said."""
        return self.prompt


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, whose content may be text, a list of parts, or nothing."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def count_tokens(text: str) -> int:
    """How many tokens a text is."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def tokenize(text: str) -> list[tuple[int, str]]:
    """The tokens of a text: its pieces of four characters, each with a number that is always the same for it."""
    pieces = (text[i : i + CHARACTERS_PER_TOKEN] for i in range(0, len(text), CHARACTERS_PER_TOKEN))
    return [(zlib.crc32(piece.encode("utf-8", "surrogatepass")) % 32000, piece) for piece in pieces]
