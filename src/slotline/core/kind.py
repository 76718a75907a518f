"""The kinds of inference server, as far as the core must tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Who speaks at the other end. `OPENAI` is any server that speaks chat completions and no more."""

    LLAMA_CPP = "llama.cpp"
    OLLAMA = "ollama"
    VLLM = "vllm"
    SGLANG = "sglang"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a server, as far as a request has to be fitted to it."""

    kind: Kind
    context: int | None = None  # tokens that one slot holds; None: not told
    vision: bool | None = None  # whether its model sees images; None: not told


@dataclass(frozen=True, slots=True)
class Terms:
    """What the gateway asks of a server besides what the client asks."""

    slot: int | None = None  # the one to sit in; None: the server chooses
    thinking_cap: int | None = None  # tokens of reasoning at most; None: no cap
    think: bool = True  # False: no reasoning, whatever the client asked for
