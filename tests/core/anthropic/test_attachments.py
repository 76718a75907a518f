"""What a request names and does not hold: which things those are, and that what was found stands in their places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotline.core.anthropic.attachments import NOTHING, Attachment, Found, is_remote, pending, settled, weight
from slotline.core.anthropic.blocks import ToolResult
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.anthropic.request import MessagesRequest, parse

DATA_URL = "data:image/png;base64,iVBORw0KGgo="
LINKED = {"type": "image", "source": {"type": "url", "url": "https://a.example/1.png"}}
INLINE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
WORDS = {"type": "text", "text": "words"}


def read(*content: Any) -> MessagesRequest:
    message = {"role": "user", "content": list(content)}
    return parse(json.dumps({"model": "m", "max_tokens": 1, "messages": [message]}).encode())


def result(*content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": list(content)}


def test_a_request_that_holds_all_of_it_has_nothing_pending() -> None:
    request = read(WORDS, INLINE, result(WORDS, INLINE))
    assert pending(request) == ()
    assert settled(request, NOTHING) is request
    assert weight(NOTHING) == 0


def test_images_by_url_and_pdfs_are_pending_in_order_and_required_unless_a_tool_brought_them() -> None:
    wanted = pending(read(LINKED, WORDS, PDF, result(PDF, LINKED), INLINE))
    at = "messages.0.content"
    assert wanted == (
        Attachment(Image("https://a.example/1.png", f"{at}.0.source.url"), True),
        Attachment(Pdf(f"{at}.2.source", "JVBERi0="), True),
        Attachment(Pdf(f"{at}.3.content.0.source", "JVBERi0="), False),
        Attachment(Image("https://a.example/1.png", f"{at}.3.content.1.source.url"), False),
    )
    assert len({each.what.at for each in wanted}) == len(wanted)


def test_for_a_model_that_sees_nothing_no_image_is_pending() -> None:
    assert [type(each.what) for each in pending(read(LINKED, PDF, result(LINKED)), vision=False)] == [Pdf]


@pytest.mark.parametrize(
    ("url", "remote"),
    [(DATA_URL, False), ("DATA:image/png;base64,AA==", False), ("http://a/", True), ("file:///etc/passwd", True)],
)
def test_everything_but_a_data_url_is_remote(url: str, *, remote: bool) -> None:
    assert is_remote(Image(url, "")) is remote


def test_what_was_found_stands_in_its_place() -> None:
    request = read(WORDS, LINKED, result(WORDS, PDF), INLINE)
    image, text = Image(DATA_URL, "messages.0.content.1.source.url"), Text("what the PDF says")
    found: Found = {image.at: image, "messages.0.content.2.content.1.source": text}
    done = settled(request, found)
    blocks = request.messages[0].blocks
    assert done.messages[0].blocks == (
        blocks[0],
        image,
        ToolResult("t", (Text("words"), Text("[document: untitled]"), text)),
        blocks[3],
    )
    assert pending(done) == ()
    assert weight(found) == len(DATA_URL) + len(text.text)


def test_what_was_not_found_stays_pending() -> None:
    request = read(LINKED, PDF)
    found = {"messages.0.content.1.source": Text("x")}
    assert [each.what.at for each in pending(settled(request, found))] == ["messages.0.content.0.source.url"]


def test_everything_else_about_a_request_stays_as_it_is() -> None:
    body = {"model": "m", "max_tokens": 1, "system": "s", "temperature": 1, "stream": True}
    raw = json.dumps(body | {"messages": [{"role": "user", "content": [PDF]}]}).encode()
    done = settled(parse(raw), {"messages.0.content.0.source": Text("x")})
    assert (done.model, done.system, done.temperature, done.stream) == ("m", ("s",), 1, True)
    assert done.messages[0].blocks == (Text("[document: untitled]"), Text("x"))
