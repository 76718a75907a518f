"""What a request names and does not hold in readable form: images and PDFs by URL, and PDFs that nobody has opened.

This says which they are (`pending`) and puts in their places what was found there (`settled`). Fetching and opening is
done by others, before anything is acquired for the request. What goes upstream holds no address of the client's
choice, and no PDF.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from slotline.core.anthropic.blocks import Block, ToolResult
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.anthropic.request import MessagesRequest


class Attachment(msgspec.Struct, frozen=True):
    """One of them. `required`: the request is refused without it; else words stand in for it, as for whatever a tool
    brought: the tool has run, and a refusal would come again with every further turn of the conversation."""

    what: Image | Pdf
    required: bool


Found: TypeAlias = Mapping[str, Text | Image]
"""What was found, by `at`: the place in the body of what it stands for."""

NOTHING: Found = MappingProxyType({})


def is_remote(image: Image) -> bool:
    """Whether its address has to be visited; that of a data URL is its own content."""
    return image.url[:5].lower() != "data:"


def pending(request: MessagesRequest, *, vision: bool = True) -> tuple[Attachment, ...]:
    """What has to be fetched or opened before `request` can go upstream, in its order.

    `vision`: the model sees images. For one that does not, none is fetched: `chat_body` says why it cannot go on.
    """
    blocks = [block for message in request.messages for block in message.blocks]
    return tuple(_pending(blocks, vision, required=True))


def _pending(blocks: Iterable[Block], vision: bool, *, required: bool) -> Iterator[Attachment]:
    for block in blocks:
        match block:
            case Pdf():
                yield Attachment(block, required)
            case Image() if vision and is_remote(block):
                yield Attachment(block, required)
            case ToolResult(_, parts):
                yield from _pending(parts, vision, required=False)


def settled(request: MessagesRequest, found: Found) -> MessagesRequest:
    """`request` with everything in its place that was `found`."""
    if not found:
        return request
    messages = [
        msgspec.structs.replace(message, blocks=tuple(_settled(block, found) for block in message.blocks))
        for message in request.messages
    ]
    return msgspec.structs.replace(request, messages=tuple(messages))


def _settled(block: Block, found: Found) -> Block:
    match block:
        case Image(at=at) | Pdf(at=at):
            return found.get(at, block)
        case ToolResult(_, parts):
            inside = tuple(found.get(part.at, part) if isinstance(part, (Image, Pdf)) else part for part in parts)
            return msgspec.structs.replace(block, parts=inside)
        case _:
            return block


def weight(found: Found) -> int:
    """About how many bytes it takes to keep."""
    return sum(len(thing.text if isinstance(thing, Text) else thing.url) for thing in found.values())
