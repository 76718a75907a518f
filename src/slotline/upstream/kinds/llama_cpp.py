"""llama.cpp's `llama-server`: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md

It shows its slots. Two things to know before asking: `/slots` wakes a server that sleeps (`/props` does not), and on
builds before August 2026 it answers only between two batches, which can take minutes while the server is quite well.

Started without a model it is a *router*: it has no slots, but one server for each model in use, which it starts when a
request names it. It says so at `/props`, and how each model is at `/v1/models` (`tools/server/server-models.cpp`). Any
other question that names a model loads it, unless it says `autoload=0`; `/slots` is not asked at all.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from slotline.core.reading import Reading, Slot
from slotline.upstream.asker import FAILURES, Asker, Told
from slotline.upstream.kinds.facts import Facts, Listing
from slotline.upstream.kinds.server import Server

_COMING = frozenset({"loading", "downloading"})  # states of a router's model


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


class _Router(msgspec.Struct):
    """`/props` of a router."""

    role: Literal["router"]


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


class _Chat(msgspec.Struct):
    """A chat request."""

    model: str = ""


class _Prompt(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[object]


async def facts(ask: Asker, listing: Listing) -> Facts | None:
    """What `/props` tells. None: no llama-server, or one that hides them behind a key or a proxy."""
    told = await ask.get("/props")
    props = told.read(Props)
    if props is not None:
        return Facts(props.total_slots, props.default_generation_settings.n_ctx, props.modalities.vision)
    return None if told.read(_Router) is None else Facts()


async def reading(ask: Asker) -> Reading:
    """The slots now. Nobody there, or a 503, is loading or restarting; no answer in time is a long batch."""
    try:
        if (await ask.get("/health")).status == 503:
            return Reading(loading=True)
        told = await ask.get("/props")
        if told.read(_Router) is not None:
            return _of_router(await ask.get("/v1/models"))
        props = told.read(Props)
        if props is not None and props.is_sleeping:
            return Reading(loading=True)
        slots = (await ask.get("/slots")).read(list[_Slot])
    except TimeoutError:
        return Reading(late=True)
    except FAILURES:
        return Reading(loading=True)
    return Reading(slots=None if slots is None else tuple(slot.seen() for slot in slots))


def _of_router(told: Told) -> Reading:
    """While any model is being loaded, that is what a silent request most likely waits for."""
    listing = told.read(Listing)
    states = () if listing is None else (listing.status(model) for model in listing.models)
    return Reading(loading=any(state in _COMING for state in states))


async def end_reasoning(ask: Asker, completion: str, request: bytes = b"{}") -> bool:
    """Asks the server to end the reasoning of `completion`; whether it found it, not whether that will help.

    `request`: the one that it answers; a router must be told its model. The server answers 200 also where it refuses:
    for an answer that is over, or that was not begun with `reasoning_control`.
    """
    model = msgspec.json.decode(request, type=_Chat).model
    named = {"model": model} if model else {}
    order = msgspec.json.encode({"id": completion, "action": "reasoning_end", **named})
    try:
        answer = (await ask.post("/v1/chat/completions/control", order)).read(_Control)
    except (TimeoutError, *FAILURES):
        return False
    return answer is not None and answer.success


async def count(ask: Asker, body: bytes) -> int | None:
    """The prompt's tokens in a chat request, by the server's own template and tokenizer; None where it has no such.

    None also while the model sleeps or is not loaded: nobody would want it in memory only for being counted.
    """
    model = msgspec.json.decode(body, type=_Chat).model
    try:
        if not await _awake(ask, model):
            return None
        prompt = (await ask.post("/apply-template?autoload=0", body)).read(_Prompt)
        if prompt is None:
            return None
        question = {"model": model, "content": prompt.prompt, "add_special": True, "parse_special": True}
        tokens = (await ask.post("/tokenize?autoload=0", msgspec.json.encode(question))).read(_Tokens)
    except (TimeoutError, *FAILURES):
        return None
    return None if tokens is None else len(tokens.tokens)


async def _awake(ask: Asker, model: str) -> bool:
    told = await ask.get("/props")
    if told.read(_Router) is not None:
        listing = (await ask.get("/v1/models")).read(Listing)
        return listing is not None and listing.status(model) == "loaded"
    props = told.read(Props)
    return props is None or not props.is_sleeping


SERVER = Server(reading, facts, count, health=True)
