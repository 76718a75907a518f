"""What the messages of a chat completion name and do not hold in readable form; see `core.anthropic.attachments`.

Some servers visit every address that a part gives them, of an image, a sound or a film; some know no PDF. The messages
are passed on as they came, but for the parts that are meant here: `pending` lists them, and `settled` puts in their
places what was found. Whether a part names an address is seen by its keys, as some servers do not ask for its `type`.

Shapes: https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from slotline.core.anthropic.attachments import Attachment, Found, is_remote
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.body import decode, join
from slotline.core.errors import Invalid

Part = dict[str, Any]
_ADDRESS = re.compile(r"\s*(https?|ftp|file):", re.IGNORECASE)
_TEXTS = frozenset({"text", "content", "input", "prompt", "arguments", "role", "name"})  # fields that hold words


def pending(messages: msgspec.Raw, *, vision: bool = True) -> tuple[Attachment, ...]:
    """What has to be fetched or opened before `messages` (a JSON list) can go upstream, in its order.

    `vision`: the model sees images; for one that does not, none is fetched. Raises Invalid for the address of anything
    but an image, and for what cannot be read. What is not shaped like a message is passed over: the server will say so.
    """
    found = []
    for at, role, part in _parts(messages):
        thing = _thing(part, at)
        if thing is not None and (vision or isinstance(thing, Pdf)):
            found.append(Attachment(thing, required=role != "tool"))
    return tuple(found)


def refuse_addresses(value: msgspec.Raw, at: str) -> None:
    """Raises Invalid for an object in `value` that gives a server an address to visit; texts may name any."""
    _refuse_address(msgspec.json.decode(value), at, at)


def _refuse_address(value: object, at: str, key: str) -> None:
    match value:
        case dict():
            for name, inner in value.items():
                _refuse_address(inner, join(at, name), name)
        case list():
            for place, inner in enumerate(value):
                _refuse_address(inner, join(at, place), key)
        case str() if key not in _TEXTS and _ADDRESS.match(value):
            raise Invalid(
                f"{at}: an address is not passed on, and on this route nothing is fetched; send the data itself"
            )


def settled(messages: msgspec.Raw, found: Found) -> msgspec.Raw:
    """`messages` with everything in its place that was `found`; every other part is the same bytes."""
    if not found:
        return messages
    every: list[Any] = msgspec.json.decode(messages, type=list[msgspec.Raw])
    for at, _, part in _parts(messages):
        thing = _thing(part, at)
        if thing is None or thing.at not in found:
            continue
        _, message, _, place = at.split(".")
        every[int(message)] = opened = _opened(every[int(message)])
        opened["content"][int(place)] = _replaced(part, found[thing.at])
    return msgspec.Raw(msgspec.json.encode(every))


def _opened(message: msgspec.Raw | dict[str, Any]) -> dict[str, Any]:
    """A message whose parts can be replaced, one by one."""
    if isinstance(message, dict):
        return message
    fields: dict[str, Any] = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
    return {**fields, "content": msgspec.json.decode(fields["content"], type=list[msgspec.Raw])}


def _parts(messages: msgspec.Raw) -> Iterator[tuple[str, object, Part]]:
    """Every part of every message that has a list of them: its path, the message's role, and itself."""
    for number, raw in enumerate(_items(messages, "messages")):
        at = join("messages", number)
        message = decode(raw, dict[str, msgspec.Raw], at=at) if _begins(raw, b"{") else {}
        role = decode(message.get("role", msgspec.Raw(b"null")), object, at=join(at, "role"))
        at = join(at, "content")
        for place, part in enumerate(_items(message.get("content", msgspec.Raw(b"null")), at)):
            if _begins(part, b"{"):
                yield join(at, place), role, decode(part, Part, at=join(at, place))


def _items(raw: msgspec.Raw, at: str) -> list[msgspec.Raw]:
    """What is in a list. Whatever is nested too deeply to be read is refused: an address could hide in it."""
    return decode(raw, list[msgspec.Raw], at=at) if _begins(raw, b"[") else []


def _begins(raw: msgspec.Raw, mark: bytes) -> bool:
    return bytes(raw).lstrip().startswith(mark)


def _thing(part: Part, at: str) -> Image | Pdf | None:
    for key, value in part.items():
        url = value.get("url") if isinstance(value, dict) else value
        if not key.endswith("_url") or not isinstance(url, str):
            continue
        image = Image(url, join(at, key))
        if is_remote(image):
            if key != "image_url":
                raise Invalid(f"{image.at}: only images are fetched here; send it as a data URL")
            return image
    return _pdf(part.get("file"), join(at, "file"))


def _pdf(file: object, at: str) -> Pdf | None:
    """The PDF in a part of type `file`; any other file is the server's business."""
    data = file.get("file_data") if isinstance(file, dict) else None
    if not isinstance(data, str):
        return None
    head, _, payload = data.partition(";base64,")
    return Pdf(at, payload) if head.lower() == "data:application/pdf" and payload else None


def _replaced(part: Part, thing: Text | Image) -> Part:
    if isinstance(thing, Image):
        sent = part.get("image_url")  # which may say more than where it lies
        return {"type": "image_url", "image_url": {**(sent if isinstance(sent, dict) else {}), "url": thing.url}}
    file = part.get("file")
    name = file.get("filename") if isinstance(file, dict) else None
    return {"type": "text", "text": f"[document: {name}]\n{thing.text}" if isinstance(name, str) else thing.text}
