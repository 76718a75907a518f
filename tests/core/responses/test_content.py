"""The parts of messages and of what tools gave: text, images, files."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fakes.responding import PIXEL, PLAIN, dialect, items, read
from slotline.core.errors import Invalid
from slotline.core.kind import Kind, Traits

URL = f"data:image/png;base64,{PIXEL}"
ANSWER = {"role": "assistant", "content": "seen"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
USER = {"role": "user", "content": "hello"}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def picture(url: Any = URL) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": url}


def file(kind: str, data: bytes) -> dict[str, Any]:
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "input_file", "filename": "notes.txt", "file_data": url}


def gave(output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "call_1", "output": output}


@pytest.mark.parametrize("kind", ["input_text", "text", "output_text"])
def test_text_is_text_under_any_of_its_names(kind: str) -> None:
    sent = items(user({"type": kind, "text": "a"}, {"type": kind, "text": ""}, {"type": kind, "text": "b"}))
    assert sent == [{"role": "user", "content": "a\nb"}]


def test_a_refusal_of_the_history_is_what_the_model_said() -> None:
    sent = items(USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, USER)
    assert sent[1] == {"role": "assistant", "content": "no"}


def test_an_image_goes_on_as_a_data_url_and_is_labelled_as_what_it_is() -> None:
    sent = items(user({"type": "input_text", "text": "what is it?"}, picture(URL.replace("png", "jpeg"))))
    assert sent[0]["content"] == [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": URL}},
    ]


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,", "data:image/png,abc", "data:text/plain;base64,YQ==", "data:"]
)
def test_a_data_url_that_holds_no_image_is_refused_without_its_payload(url: str) -> None:
    with pytest.raises(Invalid, match=r"input.0.content.0.image_url: expected a data URL .* got a string of \d+"):
        items(user(picture(url)))


def test_an_image_by_its_id_is_refused_as_new_input_and_named_in_history() -> None:
    part = {"type": "input_image", "file_id": "file_1"}
    with pytest.raises(Invalid, match=r"input.0.content.0: an image by its id: there is no file store here"):
        items(user(part))
    assert "left out: an image by its id" in items(user(part), ANSWER, USER)[0]["content"]


def test_an_image_is_refused_for_a_model_without_eyes() -> None:
    call = dialect(input=[user(picture())])
    call.check(PLAIN)
    with pytest.raises(Invalid, match=r"input.0.content.0.image_url: the model \W+stub\W+ cannot see images"):
        call.check(Traits(Kind.LLAMA_CPP, vision=False))


def test_an_image_by_its_address_waits_for_somebody_to_fetch_it() -> None:
    (wanted,) = dialect(input=[user(picture("https://example.org/a.png"))]).pending(PLAIN)
    assert wanted.what.at == "input.0.content.0.image_url"
    assert dialect(input=[user(picture())]).pending(PLAIN) == ()


def test_an_image_that_the_model_or_the_developer_is_said_to_have_sent_is_left_out() -> None:
    body = [{"role": "assistant", "content": [picture()]}, {"role": "developer", "content": [picture()]}, USER]
    assert read(input=body).messages.ignored == ("input.0.content.0 (input_image)", "input.1.content.0 (input_image)")


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown;charset=utf-8", "application/json"])
def test_a_file_of_text_is_its_text(kind: str) -> None:
    assert items(user(file(kind, "größe".encode())))[0]["content"] == "[document: notes.txt]\ngröße"


def test_a_pdf_waits_for_somebody_to_open_it() -> None:
    body = [user(file("application/pdf", b"%PDF-"), {"type": "input_file", "file_url": "https://example.org/a.pdf"})]
    wanted = [each.what.at for each in dialect(input=body).pending(PLAIN)]
    assert wanted == ["input.0.content.0.file_data", "input.0.content.1.file_url"]


def test_a_file_that_nobody_can_read_is_refused() -> None:
    with pytest.raises(Invalid, match="only text and PDF can be read here"):
        items(user(file("application/zip", b"PK")))
    with pytest.raises(Invalid, match="only text and PDF can be read here"):
        items(user({"type": "input_file", "file_id": "file_1"}))
    with pytest.raises(Invalid, match="expected a data URL that holds text in base64, got a string of"):
        items(user(file("text/plain", b"\xff")))


def test_an_unknown_part_is_refused_as_new_input_and_dropped_from_history() -> None:
    part = {"type": "input_audio", "data": "…"}
    with pytest.raises(Invalid, match=r'input.0.content.0.type: expected "input_text", .* got "input_audio"'):
        items(user(part))
    assert read(input=[user(part), ANSWER, USER]).messages.ignored == ("input.0.content.0 (input_audio)",)


# ---- what tools gave -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("42", "42"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
        ({"content": "x", "success": False}, '{"content":"x","success":false}'),
        ([1, 2], "[1,2]"),
        ([{"type": "input_image", "file_id": "file_1"}], "[left out: an image by its id: there is no file store here;"),
        ([{"type": "input_image", "image_url": "data:oops"}], "[left out: input_image]"),
        ([{"type": "hologram"}], "[left out: hologram]"),
        ([{"type": "input_file", "filename": "a.zip"}], "[left out: a file (a.zip): only text and PDF"),
    ],
)
def test_whatever_a_tool_gave_is_shown_or_named(output: Any, text: str) -> None:
    sent = items(USER, CALL, gave(output))[2]
    assert (sent["role"], sent["tool_call_id"]) == ("tool", "call_1")
    assert sent["content"] == text if not text.startswith("[left") else sent["content"].startswith(text)


def test_an_image_that_a_tool_gave_follows_its_result() -> None:
    sent = items(USER, CALL, gave([picture()]))
    assert sent[2]["content"] == "[an image; it follows]"
    assert sent[3]["content"] == [{"type": "image_url", "image_url": {"url": URL}}]
