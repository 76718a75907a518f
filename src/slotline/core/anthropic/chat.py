"""A Messages request as a chat completion request: the one translation of what a client asks for.

The same conversation gives the same bytes, turn after turn, up to what was added: order of keys, order of tools, every
word. Servers keep the prompt of the last turn in memory, and what changes in front of it is paid for in seconds.

The body always asks for a stream. What differs between servers (names of fields, what they refuse) is in `switches.py`.
OpenAI's side: https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from slotline.core.anthropic import switches
from slotline.core.anthropic.blocks import Block, Reasoning, ToolResult, ToolUse
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.anthropic.request import MessagesRequest
from slotline.core.anthropic.tokens import estimate
from slotline.core.anthropic.tools import upstream_name
from slotline.core.anthropic.turns import Turn, answers, conversation
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Terms

Json = dict[str, object]
DEFAULT_TERMS = Terms()


class Sight(msgspec.Struct, frozen=True):
    """What may go upstream besides text: images that are all there. An address never does, nor what is not opened."""

    model: str
    """As the client called it, for the error that names it."""
    vision: bool = True

    def objection(self, thing: Image | Pdf) -> str | None:
        """Why `thing` may not go upstream; None: it may."""
        if isinstance(thing, Pdf):
            return "PDF documents are not opened here; send the text"
        if not self.vision:
            return f"the model {self.model[:80]!r} cannot see images"
        if thing.url.startswith("data:image/"):
            return None
        return "images by URL are not fetched here; send the image as base64"


def chat_body(
    request: MessagesRequest,
    *,
    model: str,
    kind: Kind,
    vision: bool = True,
    context: int | None = None,
    terms: Terms = DEFAULT_TERMS,
) -> bytes:
    """The body of `POST /v1/chat/completions`, JSON.

    `model`: the name that the upstream knows. `vision`: the model sees images. `context`: tokens that its context
    holds, where known; `max_tokens` is cut to what is left of it. `terms`: what the gateway asks besides. Raises
    Invalid for an image or a document that may not go on.
    """
    talk = conversation(request)
    sight = Sight(request.model, vision)
    body: Json = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    body |= switches.tools(request, kind)
    body["messages"] = list(_messages(talk.system, talk.turns, kind, sight))
    if request.max_tokens is not None:
        body["max_tokens"] = _max_tokens(request, request.max_tokens, context)
    body |= switches.sampling(request, kind)
    body |= switches.thinking(request, kind, terms, prefill=talk.prefill)
    body |= switches.extras(kind, terms, prefill=talk.prefill)
    return msgspec.json.encode(body)


def chain(request: MessagesRequest) -> tuple[int, ...]:
    """The conversation as `core.seats` wants it: a number for what stands before all turns, then one for each turn.

    Each is a checksum over everything up to there, so two conversations agree exactly as far as they are the same.
    """
    talk = conversation(request)
    head = zlib.crc32(msgspec.json.encode((request.model, request.tools, talk.system)))
    links = accumulate(talk.turns, lambda link, turn: zlib.crc32(msgspec.json.encode(turn), link), initial=head)
    return tuple(links)


def tool_names(request: MessagesRequest) -> dict[str, str]:
    """The names that had to be changed: as the upstream knows them → as the client does."""
    names = [tool.name for tool in request.tools]
    names += [block.name for message in request.messages for block in message.blocks if isinstance(block, ToolUse)]
    return {changed: name for name in names if (changed := upstream_name(name)) != name}


def _max_tokens(request: MessagesRequest, limit: int, context: int | None) -> int:
    """What the client wants, cut to what the context has room for.

    The estimate of the prompt may be too high; an eighth of the context is always left for the answer, and where that
    is too much, the upstream's own count says so. 0 ("only warm the cache") is 1, as servers know no less.
    """
    wanted = max(1, limit)
    if context is None or wanted + estimate(request) <= context:
        return wanted
    return max(1, min(wanted, max(context - estimate(request), context // 8)))


# ---- messages --------------------------------------------------------------------------------------------------------


def _messages(system: str, turns: Sequence[Turn], kind: Kind, sight: Sight) -> Iterator[Json]:
    if system:
        yield {"role": "system", "content": system}
    calls: list[ToolUse] = []
    for turn in turns:
        if turn.role == "assistant":
            calls = [block for block in turn.blocks if isinstance(block, ToolUse)]
            yield _assistant(turn.blocks, kind)
        else:
            yield from _user(turn.blocks, calls, sight)
            calls = []
    yield from _user((), calls, sight)


def _assistant(blocks: Sequence[Block], kind: Kind) -> Json:
    message: Json = {"role": "assistant", "content": "".join(b.text for b in blocks if isinstance(b, Text))}
    if thought := "\n".join(block.text for block in blocks if isinstance(block, Reasoning)):
        message[switches.REASONING_KEY[kind]] = thought
    if calls := [_call(block) for block in blocks if isinstance(block, ToolUse)]:
        message["tool_calls"] = calls
    return message


def _call(call: ToolUse) -> Json:
    function = {"name": upstream_name(call.name), "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _user(blocks: Sequence[Block], calls: Sequence[ToolUse], sight: Sight) -> Iterator[Json]:
    """A user's turn: first the results, which must follow the calls at once, then everything else in one message."""
    known = {call.id for call in calls}
    rest: list[Text | Image | Pdf] = []
    for result in answers(calls, [block for block in blocks if isinstance(block, ToolResult)]):
        text, images = _result(result, sight)
        yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
        rest += images
    for block in blocks:
        if isinstance(block, (Text, Image, Pdf)):
            rest.append(block)
        elif isinstance(block, ToolResult) and block.tool_use_id not in known:
            text, images = _result(block, sight)
            rest += [Text(f"[result of a tool call that is not in this conversation]\n{text}"), *images]
    if rest:
        yield {"role": "user", "content": _content(rest, sight)}


def _result(result: ToolResult, sight: Sight) -> tuple[str, list[Image]]:
    """A result's text, and the images that go into the user's message after it: a tool's message is text to most
    templates. An image that may not go on is named in the text, as the tool has run and cannot be refused any more."""
    said: list[str] = []
    images: list[Image] = []
    for part in result.parts:
        if isinstance(part, Text):
            said.append(part.text)
        elif objection := sight.objection(part):
            said.append(f"[{'image' if isinstance(part, Image) else 'PDF'} left out: {objection}]")
        elif isinstance(part, Image):
            images.append(part)
    text = "\n".join(said) or ("[an image; it follows]" if images else "")
    return (_as_error(text) if result.is_error else text), images


def _as_error(text: str) -> str:
    """OpenAI has no flag for a result that is an error, so the text has to say it."""
    says_so = text[:40].lower().lstrip().startswith("error") or "<tool_use_error>" in text[:200]
    return text if says_so else f"Error: {text or 'the tool failed and said nothing'}"


def _content(parts: Sequence[Text | Image | Pdf], sight: Sight) -> str | list[Json]:
    """One string where there is only text: templates for text alone do not know lists of parts."""
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, Text))
    return [_part(part, sight) for part in parts]


def _part(part: Text | Image | Pdf, sight: Sight) -> Json:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if objection := sight.objection(part):
        raise Invalid(f"{part.at}: {objection}")
    return {"type": "image_url", "image_url": {"url": part.url}}
