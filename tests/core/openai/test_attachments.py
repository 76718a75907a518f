"""What the messages of a chat completion name and do not hold, whatever server they are meant for."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.anthropic.attachments import NOTHING, Attachment
from slotline.core.anthropic.media import Image, Pdf, Text
from slotline.core.errors import Invalid
from slotline.core.openai.attachments import pending, settled

URL = "https://a.example/1.png"
DATA_URL = "data:image/png;base64,iVBORw0KGgo="
WORDS = {"type": "text", "text": "words"}
LINKED = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}
INLINE = {"type": "image_url", "image_url": {"url": DATA_URL}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}


def raw(*messages: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(messages).encode())


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def test_images_by_url_and_pdfs_are_pending_in_order() -> None:
    wanted = pending(raw({"role": "system", "content": "s"}, user(WORDS, LINKED, INLINE), user(PDF)))
    assert wanted == (
        Attachment(Image(URL, "messages.1.content.1.image_url"), True),
        Attachment(Pdf("messages.2.content.0.file", "JVBERi0="), True),
    )


def test_what_a_tool_brought_is_not_required() -> None:
    (wanted,) = pending(raw({"role": "tool", "tool_call_id": "t", "content": [LINKED]}))
    assert not wanted.required


def test_for_a_model_that_sees_nothing_no_image_is_pending() -> None:
    assert [type(each.what) for each in pending(raw(user(LINKED, PDF)), vision=False)] == [Pdf]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": URL},
        {"image_url": {"url": URL}},
        {"type": "input_image", "image_url": URL},
        {"type": "text", "text": "x", "image_url": URL},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
    ],
)
def test_an_address_is_found_by_its_key_as_servers_find_it(part: Any) -> None:
    (wanted,) = pending(raw(user(part)))
    assert isinstance(wanted.what, Image)


def test_an_address_is_found_however_the_key_is_spelt() -> None:
    body = b'[{"role":"user","content":[{"type":"image_url","image\\u005furl":{"\\u0075rl":"http://a/"}}]}]'
    assert len(pending(msgspec.Raw(body))) == 1


@pytest.mark.parametrize("key", ["audio_url", "video_url", "file_url"])
def test_the_address_of_anything_else_is_refused_with_its_place(key: str) -> None:
    with pytest.raises(Invalid, match=rf"^messages\.0\.content\.1\.{key}: only images are fetched here"):
        pending(raw(user(WORDS, {"type": key, key: {"url": "http://a/"}})))
    assert pending(raw(user({"type": key, key: {"url": "data:video/mp4;base64,AA=="}}))) == ()


@pytest.mark.parametrize(
    "file",
    [
        {"file_id": "f"},
        {"file_data": "data:text/plain;base64,AA=="},
        {"file_data": "data:application/pdf;base64,"},
        {"file_data": 7},
        "a.pdf",
        None,
    ],
)
def test_any_other_file_is_the_servers_business(file: Any) -> None:
    assert pending(raw(user({"type": "file", "file": file}))) == ()


def test_what_was_found_stands_in_its_place_and_the_rest_is_the_same_bytes() -> None:
    odd = '{"role": "user", "x": 1e2, "content": [{"type": "text", "text": "\\u00e9"}, %s, %s, {"k":  [1 ]}]}'
    messages = msgspec.Raw(("[ 7, " + odd % (json.dumps(LINKED), json.dumps(PDF)) + "]").encode())
    image, text = Image(DATA_URL, "messages.1.content.1.image_url"), Text("what it says")
    done = bytes(settled(messages, {image.at: image, "messages.1.content.2.file": text}))
    parts = json.loads(done)[1]["content"]
    assert parts[1] == {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}}
    assert parts[2] == {"type": "text", "text": "[document: a.pdf]\nwhat it says"}
    for kept in (b"1e2", b'"text": "\\u00e9"', b'{"k":  [1 ]}', b"7"):
        assert kept in done
    assert pending(msgspec.Raw(done)) == ()


def test_words_stand_in_for_an_image_that_was_not_required() -> None:
    done = settled(raw(user({"image_url": URL})), {"messages.0.content.0.image_url": Text("[image left out: no]")})
    assert json.loads(bytes(done))[0]["content"] == [{"type": "text", "text": "[image left out: no]"}]


def test_where_nothing_was_found_nothing_is_changed() -> None:
    messages = raw(user(LINKED))
    assert settled(messages, NOTHING) is messages


@pytest.mark.parametrize("part", ["[" * 9999 + "]" * 9999, '{"a":' * 9999 + "1" + "}" * 9999])
def test_what_is_nested_too_deeply_to_be_read_is_refused_as_an_address_could_hide_in_it(part: str) -> None:
    hidden = f'{{"image_url":{{"url":"http://a/"}},"x":{part}}}'
    with pytest.raises(Invalid, match="nested too deeply"):
        pending(msgspec.Raw(f'[{{"role":"user","content":[{hidden}]}}]'.encode()))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just(URL),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "image_url", "url", "file", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_whatever_stands_there_is_passed_over_or_found_and_replaced(value: Any) -> None:
    messages = msgspec.Raw(msgspec.json.encode(value))
    wanted = pending(messages)
    found = {each.what.at: Image(DATA_URL, each.what.at) for each in wanted}
    assert pending(settled(messages, found)) == ()


@pytest.mark.parametrize("body", [b"null", b"{}", b'"x"', b"[[]]", b'[{"content":{}}]'])
def test_what_is_no_list_of_messages_names_nothing(body: bytes) -> None:
    assert pending(msgspec.Raw(body)) == ()
