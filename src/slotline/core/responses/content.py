"""What messages and the results of tools are made of: text, images and files, part by part.

Part types: https://platform.openai.com/docs/api-reference/responses/create (`input`).
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from slotline.core.anthropic.media import Image, Pdf, Text, Unsupported, data_url, image_type
from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid

Content: TypeAlias = str | list[msgspec.Raw]
Part: TypeAlias = Text | Image | Pdf

_WORDS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"})
_FILES = frozenset({"input_image", "input_file"})


class Place(msgspec.Struct, frozen=True):
    """Where something stands. `history`: an answer of the model follows, so that it was said in an earlier turn.

    `ignored` takes the path and type of what is left out; `offers` takes tools, each with its path.
    """

    at: str
    history: bool
    ignored: list[str]
    offers: list[tuple[str, msgspec.Raw]]

    def below(self, *steps: str | int) -> Place:
        return Place(join(self.at, *steps), self.history, self.ignored, self.offers)


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None


def said(content: Content, role: str, place: Place) -> Iterator[Part]:
    """The parts of a message of `role`. What a user says now has to be understood; everything else may be left out."""
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for index, raw in enumerate(content):
        here = place.below(index)
        part = decode(raw, _Part, at=here.at)
        readable = part.type in _WORDS or (part.type in _FILES and role == "user")
        if not readable and (place.history or role != "user"):
            here.ignored.append(f"{here.at} ({part.type[:40]})")
        elif place.history:
            yield from _named(part, here)
        else:
            yield from _read(part, here.at)


def given(output: msgspec.Raw, place: Place) -> Iterator[Part]:
    """What a tool gave: a string, parts, or anything at all. What cannot be shown to the model is named to it, never
    refused: the tool has run, and a refusal here would come again with every further turn of the conversation."""
    value = msgspec.json.decode(output)
    if isinstance(value, str):
        if value:
            yield Text(value)
    elif isinstance(value, list) and all(isinstance(each, dict) and "type" in each for each in value):
        for index, raw in enumerate(decode(output, list[msgspec.Raw], at=place.at)):
            here = place.below(index)
            yield from _named(decode(raw, _Part, at=here.at), here)
    elif value is not None:
        yield Text(bytes(output).decode())


def _named(part: _Part, place: Place) -> Iterator[Part]:
    try:
        yield from _read(part, place.at)
    except Unsupported as error:
        yield Text(f"[left out: {error.what}]")
    except Invalid:
        place.ignored.append(f"{place.at} ({part.type[:40]})")
        yield Text(f"[left out: {part.type[:40]}]")


def _read(part: _Part, at: str) -> Iterator[Part]:
    if part.type in _WORDS:
        if words := part.text or part.refusal:
            yield Text(words)
    elif part.type == "input_image":
        yield _image(part.image_url, at)
    elif part.type == "input_file":
        yield from _file(part, at)
    else:
        raise invalid(join(at, "type"), '"input_text", "input_image" or "input_file"', part.type)


def _image(url: str | None, at: str) -> Image:
    """A picture, labelled as what it is. An address that has to be visited is kept as it is."""
    if not url:
        raise Unsupported(at, "an image by its id: there is no file store here; send it as a data URL")
    at = join(at, "image_url")
    if url[:5].lower() != "data:":
        return Image(url, at)
    head, found, data = url.partition(";base64,")
    kind = head[5:].partition(";")[0].lower()
    try:
        actual = image_type(data) if found and data and kind.startswith("image/") else ""
    except ValueError:
        actual = ""
    if actual == "":
        raise invalid(at, "a data URL that holds an image in base64", url)
    return Image(data_url(actual or kind, data), at)


def _file(part: _Part, at: str) -> Iterator[Part]:
    """A file as its text, or the PDF that has it, under its name."""
    name = (part.filename or "untitled")[:200]
    head, _, data = (part.file_data or "").partition(";base64,")
    kind = head[5:].partition(";")[0].lower()
    if part.file_url:
        yield Text(f"[document: {name}]")
        yield Pdf(join(at, "file_url"), url=part.file_url)
    elif kind == "application/pdf" and data:
        yield Text(f"[document: {name}]")
        yield Pdf(join(at, "file_data"), data)
    elif kind.startswith("text/") or kind == "application/json":
        yield Text(f"[document: {name}]\n{_decoded(part.file_data or '', data, join(at, 'file_data'))}")
    else:
        raise Unsupported(at, f"a file ({name[:80]}): only text and PDF can be read here, as data URLs")


def _decoded(url: str, data: str, at: str) -> str:
    try:
        return binascii.a2b_base64(data, strict_mode=True).decode()
    except ValueError:
        raise invalid(at, "a data URL that holds text in base64", url) from None
