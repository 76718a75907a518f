"""How long a prompt is, in tokens, when nobody has counted: a stated estimate, not a count.

Every token of a prompt is text to some tokenizer; the usual vocabularies make one token of about four bytes of English
prose, three and a half of code and JSON, three of Chinese (one character). The estimate is UTF-8 bytes / 3.5, plus
what the template puts around each message and tool, plus a fixed price for an image, and for a PDF that is not opened.
It is meant to err upwards by a little: a client that compacts early loses less than one that compacts too late. It
never is 0, and text that is added never makes it smaller.

Used for `message_start`, where the upstream's own number is not known yet, and for `count_tokens` on servers that
cannot count.
"""

from __future__ import annotations

from typing import assert_never

from slotline.core.anthropic.blocks import Block, Reasoning, ToolResult, ToolUse
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.anthropic.request import MessagesRequest

BYTES_PER_TOKEN = 3.5
PER_MESSAGE = 4
"""The marks of role and end that templates put around a message."""
PER_TOOL = 16
"""The frame of a tool's description, and its share of the instructions for calling tools."""
PER_IMAGE = 1600
"""The vendor's own price of a large image: https://platform.claude.com/docs/en/build-with-claude/vision."""
PER_PDF = 10_000
"""About fifteen printed pages; what is in it is not known before it has been opened."""


def estimate(request: MessagesRequest) -> int:
    """Input tokens of `request`, at least 1."""
    size = sum(_bytes(text) for text in request.system)
    size += sum(_size(block) for message in request.messages for block in message.blocks)
    size += sum(_bytes(tool.name) + _bytes(tool.description) + len(bytes(tool.schema)) for tool in request.tools)
    fixed = PER_MESSAGE * (1 + len(request.messages)) + PER_TOOL * len(request.tools)
    fixed += sum(_price(block) for message in request.messages for block in message.blocks)
    return fixed + round(size / BYTES_PER_TOKEN)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _size(block: Block) -> int:
    match block:
        case Text(text) | Reasoning(text):
            return _bytes(text)
        case ToolUse(_, name, arguments):
            return _bytes(name) + _bytes(arguments)
        case ToolResult(_, parts):
            return sum(_size(part) for part in parts)
        case Image() | Pdf():
            return 0
        case never:
            assert_never(never)


def _price(block: Block) -> int:
    """The tokens of what is not text."""
    match block:
        case Image():
            return PER_IMAGE
        case Pdf():
            return PER_PDF
        case ToolResult(_, parts):
            return sum(_price(part) for part in parts)
        case _:
            return 0
