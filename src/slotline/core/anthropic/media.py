"""Text, images and what is made of them: documents and search results.

Images go on as data URLs, documents as text. What has to be fetched or opened first, an image by URL or a PDF, is kept
as it came, until somebody has done that (`attachments.py`): an upstream is never told an address, because a server that
fetches addresses for strangers reaches what they cannot. What nobody here can read (files kept at the vendor) is
`Unsupported`, and says so by name.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator

import msgspec

from slotline.core.body import decode, invalid, join
from slotline.core.errors import Invalid


class Text(msgspec.Struct, frozen=True):
    """Words."""

    text: str


class Image(msgspec.Struct, frozen=True):
    """A picture: `url` is a data URL, or an address that nobody has looked at yet. `at` is its place in the body."""

    url: str
    at: str


class Pdf(msgspec.Struct, frozen=True):
    """A document that nobody has opened yet: `data` is its base64, or `url` where it lies. `at` is its place in the
    body."""

    at: str
    data: str = ""
    url: str = ""


class Unsupported(Invalid):
    """A well-formed block that nobody here could read. `what` names it."""

    def __init__(self, at: str, what: str) -> None:
        super().__init__(f"{at}: {what}")
        self.what = what


class _Text(msgspec.Struct, frozen=True):
    text: str


class _Source(msgspec.Struct, frozen=True):
    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""
    content: str | list[msgspec.Raw] = ""


class _Image(msgspec.Struct, frozen=True):
    source: _Source


class _Document(msgspec.Struct, frozen=True):
    source: _Source
    title: str | None = None
    context: str | None = None


class _SearchResult(msgspec.Struct, frozen=True):
    source: str = ""
    title: str = ""
    content: list[msgspec.Raw] = []


class _ToolReference(msgspec.Struct, frozen=True):
    tool_name: str


class _Tag(msgspec.Struct, frozen=True):
    type: str


_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BREAKS = b" \t\r\n"
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def text(raw: msgspec.Raw, at: str) -> Iterator[Text]:
    """A text block; an empty one is dropped. Citations and cache marks are nothing to an upstream."""
    words = decode(raw, _Text, at=at).text
    if words:
        yield Text(words)


def image(raw: msgspec.Raw, at: str) -> Iterator[Image]:
    """An image block, its payload checked and labelled as what it is."""
    source, at = decode(raw, _Image, at=at).source, join(at, "source")
    match source.type:
        case "base64":
            yield Image(_inline(source, at), at)
        case "url" if source.url:
            yield Image(source.url, join(at, "url"))
        case "url":
            raise invalid(join(at, "url"), "the address of an image", source.url)
        case "file":
            raise Unsupported(at, "an image of type 'file': there is no file store here; send it as base64")
        case other:
            raise invalid(join(at, "type"), '"base64" or "url"', other)


def _inline(source: _Source, at: str) -> str:
    if not source.media_type.startswith("image/"):
        raise invalid(join(at, "media_type"), "the media type of an image", source.media_type)
    data = _base64(source.data)
    if not data:
        raise invalid(join(at, "data"), "base64", source.data)
    return data_url(image_type(data) or source.media_type, data)


def _base64(data: str) -> str | None:
    """`data` without its line breaks, None if it is not base64. It is looked at and not decoded: an image may have
    tens of megabytes, and everybody else's tokens wait meanwhile."""
    if not data.isascii():
        return None
    odd = data.encode().translate(None, _ALPHABET)
    if odd.strip(b"=" + _BREAKS):
        return None
    if odd.strip(b"="):
        data = "".join(data.split())
    padding = len(data) - len(data.rstrip("="))
    return data if len(data) % 4 == 0 and padding <= 2 and padding == odd.count(b"=") else None


def data_url(kind: str, data: str) -> str:
    """An address that holds what it names: `data` is base64."""
    return f"data:{kind};base64,{data}"


def image_type(data: str) -> str | None:
    """The media type of an image in base64, by its first bytes; None: no type that servers here know.

    The declared type of an image is often wrong, and some servers choose their decoder by it.
    """
    payload = binascii.a2b_base64(data[:24])
    if payload[:4] == b"RIFF" and payload[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if payload.startswith(magic)), None)


def document(raw: msgspec.Raw, at: str) -> Iterator[Text | Image | Pdf]:
    """A document as its text, or the PDF that has it, under its title and context."""
    sent = decode(raw, _Document, at=at)
    source, at = sent.source, join(at, "source")
    parts = list(_document_parts(source, at))
    yield Text("\n".join(filter(None, (f"[document: {sent.title or 'untitled'}]", sent.context))))
    yield from parts


def _document_parts(source: _Source, at: str) -> Iterator[Text | Image | Pdf]:
    match source.type:
        case "text":
            yield Text(source.data)
        case "content":
            yield from _document_content(source.content, join(at, "content"))
        case "base64":
            yield _pdf(source, at)
        case "url" if source.url:
            yield Pdf(join(at, "url"), url=source.url)
        case "url":
            raise invalid(join(at, "url"), "the address of a PDF", source.url)
        case "file":
            raise Unsupported(at, "a document of type 'file': there is no file store here; send its text")
        case other:
            raise invalid(join(at, "type"), '"text", "content", "base64" or "url"', other)


def _pdf(source: _Source, at: str) -> Pdf:
    if source.media_type.partition(";")[0].strip().lower() != "application/pdf":
        what = source.media_type[:80] or "of no type"
        raise Unsupported(at, f"a document ({what}): only text and PDF can be read here")
    data = _base64(source.data)
    if not data:
        raise invalid(join(at, "data"), "base64", source.data)
    return Pdf(at, data)


def _document_content(content: str | list[msgspec.Raw], at: str) -> Iterator[Text | Image]:
    if isinstance(content, str):
        yield Text(content)
        return
    for index, inner in enumerate(content):
        yield from _document_part(inner, join(at, index))


def _document_part(raw: msgspec.Raw, at: str) -> Iterator[Text | Image]:
    match decode(raw, _Tag, at=at).type:
        case "text":
            yield from text(raw, at)
        case "image":
            yield from image(raw, at)
        case other:
            raise invalid(join(at, "type"), '"text" or "image"', other)


def search_result(raw: msgspec.Raw, at: str) -> Iterator[Text]:
    """A search result as text: where it is from, then what it says."""
    sent = decode(raw, _SearchResult, at=at)
    said = [part.text for index, inner in enumerate(sent.content) for part in text(inner, join(at, "content", index))]
    yield Text("\n".join([f"[search result: {sent.title} - {sent.source}]", *said]))


def tool_reference(raw: msgspec.Raw, at: str) -> Iterator[Text]:
    """A tool that a search found. Every tool is sent upstream anyway, so the model only needs to be told."""
    yield Text(f"tool {decode(raw, _ToolReference, at=at).tool_name} is now available")
