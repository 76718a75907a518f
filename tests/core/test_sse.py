"""Reading and writing server-sent events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.core.errors import Protocol
from slotline.core.sse import Event, Parser, comment, encode

LIMIT = 1000


def events(*pieces: bytes, limit: int = LIMIT) -> list[tuple[str, bytes]]:
    """What a parser gives for the pieces of one body."""
    parser = Parser(limit)
    found = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    return [(event.name, event.data) for event in found]


def cut_everywhere(body: bytes) -> list[list[bytes]]:
    """The body whole, cut in two at every byte, and in single bytes."""
    return [
        [body],
        *([body[:at], body[at:]] for at in range(1, len(body))),
        [body[at : at + 1] for at in range(len(body))],
    ]


BODIES = {
    "one event": (b"data: a\n\n", [("message", b"a")]),
    "several events": (b"data: a\n\ndata: b\n\ndata: c\n\n", [("message", b"a"), ("message", b"b"), ("message", b"c")]),
    "a name": (b"event: ping\ndata: {}\n\ndata: b\n\n", [("ping", b"{}"), ("message", b"b")]),
    "a name after the data": (b"data: {}\nevent: ping\n\n", [("ping", b"{}")]),
    "data without a space": (b"data:a\n\ndata:  b\n\n", [("message", b"a"), ("message", b" b")]),
    "two data lines": (b"data: a\ndata: b\n\n", [("message", b"a\nb")]),
    "crlf": (b"data: a\r\n\r\nevent: x\r\ndata: b\r\n\r\n", [("message", b"a"), ("x", b"b")]),
    "cr": (b"data: a\r\revent: x\rdata: b\r\r", [("message", b"a"), ("x", b"b")]),
    "mixed line ends": (
        b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\n",
        [("message", bytes([c])) for c in b"abcd"],
    ),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [("message", b"a")]),
    "half a byte order mark": (b"\xef\xbbdata: a\n\ndata: b\n\n", [("message", b"b")]),
    "a byte order mark later is data": (
        b"data: a\n\ndata: \xef\xbb\xbfb\n\n",
        [("message", b"a"), ("message", b"\xef\xbb\xbfb")],
    ),
    "no other line ends": (
        "data: a\u2028b\u2029c\x85d\x0be\x1cf\x0cg\n\n".encode(),
        [("message", "a\u2028b\u2029c\x85d\x0be\x1cf\x0cg".encode())],
    ),
    "raw latin next line": (b"data: a\x85b\n\n", [("message", b"a\x85b")]),
    "noise": (
        (
            b":\n\n: keepalive\n\nevent: ping\ndata:\n\ndata:\n\nid: 7\n\nretry: 100\n\ndata\n\nnonsense\n\n\n\n"
            b"data: a\n: in the middle\ndata: b\n\n"
        ),
        [("message", b"a\nb")],
    ),
    "the end without its blank line": (b"data: a\n\ndata: [DONE]\n", [("message", b"a"), ("message", b"[DONE]")]),
    "the end without any line end": (b"data: a\n\ndata: [DONE]", [("message", b"a"), ("message", b"[DONE]")]),
    "an error field": (b'data: a\n\nerror: {"code":500}\n\n', [("message", b"a"), ("error", b'{"code":500}')]),
    "a name is forgotten with its event": (b"event: x\n\ndata: a\n\n", [("message", b"a")]),
    "an empty body": (b"", []),
    "only a name": (b"event: x\n", []),
}


@pytest.mark.parametrize("name", BODIES)
def test_any_cut_gives_the_same_events(name: str) -> None:
    """B52, B53, B54, B56, B62.

    Edge cases 80, 81: names, line ends, comments, `data:` without a space, and no dependence on the network."""
    body, expected = BODIES[name]
    for pieces in cut_everywhere(body):
        assert events(*pieces) == expected, pieces


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: ",
                b"data:",
                b"event: x",
                b": c",
                b"\n",
                b"\r",
                b"\r\n",
                b"\n\n",
                b"a",
                "é\u2028😀".encode(),
                b"\xef\xbb\xbf",
                b"error: e",
            ]
        )
    ),
    st.lists(st.integers(min_value=0, max_value=200)),
)
def test_any_cuts_of_any_body_give_the_same_events(parts: list[bytes], cuts: list[int]) -> None:
    """B53, B54."""
    body = b"".join(parts)
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[a:b] for a, b in pairwise(edges)]
    assert events(*pieces) == events(body) == events(*(bytes([byte]) for byte in body))


@given(st.lists(st.text(min_size=1).filter(lambda text: "\n" not in text and "\r" not in text)))
def test_what_was_encoded_is_read_again(payloads: list[str]) -> None:
    body = b"".join(encode("x", payload.encode()) + comment("c") for payload in payloads)
    assert events(body, limit=1 << 20) == [("x", payload.encode()) for payload in payloads]


def test_events_come_as_soon_as_their_blank_line_is_there() -> None:
    parser = Parser(LIMIT)
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\ndata: b\n\nda") == [Event("message", b"a"), Event("message", b"b")]
    assert parser.feed(b"ta: c\r") == []
    assert parser.feed(b"\r") == [Event("message", b"c")]
    assert parser.feed(b"\ndata: d\n\n") == [Event("message", b"d")]


def test_comments_are_counted_as_signs_of_life_and_are_no_events() -> None:
    """B56, B59."""
    parser = Parser(LIMIT)
    assert parser.feed(b": one\n\n:two\ndata: a\n:\n\n: three") == [Event("message", b"a")]
    assert parser.comments == 3
    assert parser.close() == []
    assert parser.comments == 4


def test_comments_may_go_on_for_ever() -> None:
    """A server may send comment lines without a blank line between them for as long as it reads a prompt."""
    parser = Parser(20)
    for _ in range(100):
        assert parser.feed(b": alive\n") == []
    assert parser.feed(b"data: a\n\n") == [Event("message", b"a")]


@pytest.mark.parametrize("size", [300, 1 << 20])
def test_an_event_up_to_the_limit_passes_whatever_the_cuts(size: int) -> None:
    """B55."""
    payload = b"x" * size
    body = b"data: " + payload + b"\n\n"
    expected = [("message", payload)]
    assert events(body, limit=size + 6) == expected
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    assert events(*pieces, limit=size + 6) == expected


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: a\n\n", b"data: " + b"x" * 95 + b"\n\n"],
        [b"data: a\n\n", b"data: b\n\ndata: " + b"x" * 95 + b"\n\n"],
        [b"data: " + b"x" * 95],
        [b"data: " + b"x" * 40 + b"\n", b"data: " + b"x" * 49],
        [b"event: " + b"x" * 40 + b"\ndata: " + b"x" * 48 + b"\n"],
        [b"x" * 101],
        [b": " + b"x" * 99],
        [b": " + b"x" * 99 + b"\n"],
    ],
)
def test_an_event_beyond_the_limit_is_refused_and_the_limit_named(pieces: list[bytes]) -> None:
    """B55. Also before its end has come: nothing is gathered without bound."""
    parser = Parser(100)
    for piece in pieces[:-1]:
        parser.feed(piece)
    with pytest.raises(Protocol, match=r"max_event \(100 bytes\)"):
        raise_what_is_wrong(parser, pieces[-1])


def raise_what_is_wrong(parser: Parser, data: bytes) -> None:
    """At once, or at the latest after what came before it."""
    parser.feed(data)
    parser.close()


def test_what_was_whole_before_a_fault_is_returned_before_it_is_raised() -> None:
    parser = Parser(100)
    events = parser.feed(b"data: a\n\ndata: b\n\n<html>\n")
    assert [event.data for event in events] == [b"a", b"b"]
    assert parser.fault is not None
    with pytest.raises(Protocol):
        parser.feed(b"data: c\n\n")
    with pytest.raises(Protocol):
        parser.close()


def test_an_endless_line_is_refused_while_it_grows() -> None:
    parser = Parser(100)
    for _ in range(100):
        assert parser.feed(b"x") == []
    with pytest.raises(Protocol, match="max_event"):
        parser.feed(b"x")


@pytest.mark.parametrize("html", [b"<html>\n", b"<!DOCTYPE html>\r\n<p>502</p>", b"<h1>Bad gateway</h1>\n\n"])
def test_a_proxys_error_page_in_the_stream_is_a_failure(html: bytes) -> None:
    """B63."""
    parser = Parser(LIMIT)
    parser.feed(b"data: a\n\n")
    with pytest.raises(Protocol, match="HTML: <"):
        parser.feed(html)


def test_a_frame_has_its_name_and_one_line_of_data() -> None:
    assert encode("ping", b'{"type":"ping"}') == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert encode(b"ping", b"{}") == b"event: ping\ndata: {}\n\n"


@pytest.mark.parametrize("json", [b"{\n}", b"{\r}", b"{}\n\nevent: error\ndata: {}"])
def test_a_payload_cannot_break_out_of_its_frame(json: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        encode("x", json)


def test_a_comment_is_a_comment_whatever_is_in_it() -> None:
    assert comment("alive") == b": alive\n\n"
    assert comment("a\nb\r\nc\rd") == b": a\n: b\n: c\n: d\n\n"
    assert events(comment("a\ndata: b")) == []
