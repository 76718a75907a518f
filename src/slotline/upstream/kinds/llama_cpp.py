"""llama.cpp's `llama-server`: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md

It shows its slots. Two things to know before asking: `/slots` wakes a server that sleeps (`/props` does not), and on
builds before August 2026 it answers only between two batches, which can take minutes while the server is quite well.
"""

from __future__ import annotations

import msgspec

from slotline.core.reading import Reading, Slot
from slotline.upstream.asker import FAILURES, Asker


class Props(msgspec.Struct):
    """`/props`, as far as it is of use here."""

    class Generation(msgspec.Struct):
        n_ctx: int | None = None

    class Modalities(msgspec.Struct):
        vision: bool | None = None

    total_slots: int
    default_generation_settings: Generation = msgspec.field(default_factory=Generation)
    modalities: Modalities = msgspec.field(default_factory=Modalities)
    is_sleeping: bool = False


class _Slot(msgspec.Struct):
    class Next(msgspec.Struct):
        n_decoded: int | None = None

    id: int
    is_processing: bool
    n_prompt_tokens: int | None = None
    n_prompt_tokens_processed: int | None = None
    n_prompt_tokens_cache: int = 0
    next_token: list[Next] | Next | None = None  # the documents show an object, the server sends an array

    def seen(self) -> Slot:
        following = self.next_token[0] if isinstance(self.next_token, list) and self.next_token else self.next_token
        decoded = following.n_decoded if isinstance(following, _Slot.Next) else None
        held, processed = self.n_prompt_tokens, self.n_prompt_tokens_processed
        if held is None or processed is None:
            return Slot(self.id, self.is_processing, held, processed, decoded)
        # Seen at work: the first number grows with the answer, and the second leaves out what the slot still knew.
        done = min(processed + self.n_prompt_tokens_cache, held)
        return Slot(self.id, self.is_processing, max(held - (decoded or 0), done), done, decoded)


class _Control(msgspec.Struct):
    success: bool = False


class _Prompt(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[object]


async def reading(ask: Asker) -> Reading:
    """The slots now. Nobody there, or a 503, is loading or restarting; no answer in time is a long batch."""
    try:
        if (await ask.get("/health")).status == 503:
            return Reading(loading=True)
        props = (await ask.get("/props")).read(Props)
        if props is not None and props.is_sleeping:
            return Reading(loading=True)
        slots = (await ask.get("/slots")).read(list[_Slot])
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
    return Reading(slots=None if slots is None else tuple(slot.seen() for slot in slots))


async def end_reasoning(ask: Asker, completion: str) -> bool:
    """Asks the server to end the reasoning of `completion`; whether it found it, not whether that will help.

    It answers 200 also where it refuses: for an answer that is over, or that was not begun with `reasoning_control`.
    """
    order = msgspec.json.encode({"id": completion, "action": "reasoning_end"})
    try:
        answer = (await ask.post("/v1/chat/completions/control", order)).read(_Control)
    except (TimeoutError, *FAILURES):
        return False
    return answer is not None and answer.success


async def count(ask: Asker, body: bytes) -> int | None:
    """The prompt's tokens in a chat request, by the server's own template and tokenizer; None where it has no such."""
    try:
        prompt = (await ask.post("/apply-template", body)).read(_Prompt)
        if prompt is None:
            return None
        question = {"content": prompt.prompt, "add_special": True, "parse_special": True}
        tokens = (await ask.post("/tokenize", msgspec.json.encode(question))).read(_Tokens)
    except (TimeoutError, *FAILURES):
        return None
    return None if tokens is None else len(tokens.tokens)
