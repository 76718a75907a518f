"""The four forms in which a caller is told its place, byte for byte, and which of them a request gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slotline.core.errors import Invalid
from slotline.core.line import Place
from slotline.core.queue_frames import KEEP_ALIVE, QueueForm, Told, chosen, frame, nameless

TOLD = Told(Place(3, 5), 12.4)
UNKNOWN = Told(Place(1, 1), None)


def test_the_event_form_is_an_event_of_its_own_name() -> None:
    assert frame(QueueForm.EVENT, TOLD) == (
        b"event: queue\n"
        b'data: {"type":"queue","position":3,"queue_length":5,"estimated_wait_ms":12400}\n'
        b"\n"
    )  # fmt: skip


def test_the_ping_form_carries_the_same_fields_inside_a_ping() -> None:
    assert frame(QueueForm.PING, TOLD) == (
        b"event: ping\n"
        b'data: {"type":"ping","queue":{"position":3,"queue_length":5,"estimated_wait_ms":12400}}\n'
        b"\n"
    )  # fmt: skip


def test_the_comment_form_is_one_line_that_no_client_parses() -> None:
    assert frame(QueueForm.COMMENT, TOLD) == b": queue position=3 length=5 wait_ms=12400\n\n"


def test_the_off_form_tells_nothing() -> None:
    assert frame(QueueForm.OFF, TOLD) == b""


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            QueueForm.EVENT,
            b'event: queue\ndata: {"type":"queue","position":1,"queue_length":1,"estimated_wait_ms":null}\n\n',
        ),
        (
            QueueForm.PING,
            b'event: ping\ndata: {"type":"ping","queue":{"position":1,"queue_length":1,"estimated_wait_ms":null}}\n\n',
        ),
        (QueueForm.COMMENT, b": queue position=1 length=1 wait_ms=unknown\n\n"),
        (QueueForm.OFF, b""),
    ],
)
def test_a_wait_without_a_basis_is_told_as_such(form: QueueForm, expected: bytes) -> None:
    assert frame(form, UNKNOWN) == expected


@pytest.mark.parametrize(("seconds", "wait_ms"), [(0.0, b"0"), (0.0004, b"0"), (1.2346, b"1235"), (3600.0, b"3600000")])
def test_the_wait_is_told_in_whole_milliseconds(seconds: float, wait_ms: bytes) -> None:
    assert frame(QueueForm.COMMENT, Told(Place(1, 1), seconds)).endswith(b"wait_ms=" + wait_ms + b"\n\n")


def test_a_keep_alive_is_a_comment_and_ends_its_frame() -> None:
    assert KEEP_ALIVE == b": keep-alive\n\n"


# ---- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", list(QueueForm))
def test_without_the_header_the_default_holds(default: QueueForm) -> None:
    assert chosen(None, default) is default


@pytest.mark.parametrize("form", list(QueueForm))
@pytest.mark.parametrize("spelling", [str, str.upper, "  {} ".format])
def test_the_header_names_a_form_in_any_case_and_with_spaces_around(
    form: QueueForm, spelling: Callable[[str], str]
) -> None:
    assert chosen(spelling(form.value), QueueForm.OFF) is form


@pytest.mark.parametrize("header", ["", "loud", "event,ping", "queueform.event"])
def test_a_form_that_does_not_exist_is_refused_with_the_names_of_those_that_do(header: str) -> None:
    with pytest.raises(Invalid) as refused:
        chosen(header, QueueForm.EVENT)
    assert str(refused.value) == f"x-slotline-queue: expected one of event, ping, comment, off, got {header!r}"


def test_a_long_wrong_header_is_cut_in_the_message() -> None:
    with pytest.raises(Invalid) as refused:
        chosen("y" * 5000, QueueForm.EVENT)
    assert str(refused.value).endswith(f"got {'y' * 80!r}")


@pytest.mark.parametrize(
    ("form", "theirs"),
    [
        (QueueForm.EVENT, QueueForm.COMMENT),
        (QueueForm.PING, QueueForm.COMMENT),
        (QueueForm.COMMENT, QueueForm.COMMENT),
        (QueueForm.OFF, QueueForm.OFF),
    ],
)
def test_on_openais_routes_no_place_is_an_event_with_a_name(form: QueueForm, theirs: QueueForm) -> None:
    assert nameless(form) is theirs
