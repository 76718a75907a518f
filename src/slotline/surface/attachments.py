"""Fetches and opens what a request names and does not hold, before anything is acquired for it.

One after another, so that a request has one thing in the making at most, and what it holds in memory is counted as it
grows. A client that leaves meanwhile cancels it, like anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from slotline.core.anthropic.attachments import NOTHING, Attachment, Found
from slotline.core.anthropic.media import Image, Pdf, Text, data_url, image_type
from slotline.core.errors import Invalid
from slotline.surface.ports import Ports

EACH = 20 * 1024 * 1024  # bytes of one image or PDF that is fetched
MOST = 100  # for one request, as at the vendor: https://platform.claude.com/docs/en/build-with-claude/vision
TOGETHER = 120.0  # seconds for all of a request: nothing is sent to its client meanwhile


async def attach(ports: Ports, wanted: Sequence[Attachment], *, together: float = TOGETHER) -> Found:
    """What was found for `wanted`: all of it, no larger than `max_body`, within `together` seconds.

    Raises Invalid, with path and reason, for what is required and cannot be had. For the rest words stand in.
    """
    if not wanted:
        return NOTHING
    if len(wanted) > MOST:
        raise Invalid(f"{wanted[MOST].what.at}: more than {MOST} images by URL and PDFs are in this request")
    found: dict[str, Text | Image] = {}
    room = ports.settings.max_body
    try:
        async with asyncio.timeout(together):
            for each in wanted:
                thing = await _one(ports, each, room)
                room -= len(thing.text if isinstance(thing, Text) else thing.url)
                found[each.what.at] = thing
    except TimeoutError:
        at = wanted[len(found)].what.at
        raise Invalid(f"{at}: what this request names was not fetched and read within {together:g} s") from None
    return found


async def _one(ports: Ports, wanted: Attachment, room: int) -> Text | Image:
    what = wanted.what
    noun = "image" if isinstance(what, Image) else "PDF"
    try:
        return await _image(ports, what, room) if isinstance(what, Image) else await _text(ports, what, room)
    except Invalid as refusal:
        if wanted.required:
            raise Invalid(f"{what.at}: {noun} not read: {refusal}") from None
        return Text(f"[{noun} left out: {refusal}]")


async def _image(ports: Ports, image: Image, room: int) -> Image:
    data = await _fetched(ports, image.url, room)
    kind = image_type(data)
    if kind is None:
        raise Invalid("what lies there is not a PNG, JPEG, GIF or WebP image")
    return Image(data_url(kind, data), image.at)


async def _text(ports: Ports, pdf: Pdf, room: int) -> Text:
    text = await ports.pdfs.text(pdf.data or await _fetched(ports, pdf.url, room))
    if len(text) > room:
        raise Invalid(f"its text has {len(text)} characters, and {room} are left of max_body")
    return Text(text)


async def _fetched(ports: Ports, url: str, room: int) -> str:
    return await ports.fetcher.fetch(url, min(EACH, room // 4 * 3))  # base64 makes four bytes of three
