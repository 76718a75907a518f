"""What a client of OpenAI's routes is told besides its answer."""

from __future__ import annotations

import msgspec

from slotline.core.completions.front import Front
from slotline.core.errors import Busy
from slotline.core.line import Place
from slotline.core.queue_frames import QueueForm, Told

TOLD = Told(Place(2, 4), 1.5)


def test_places_are_comments_or_nothing() -> None:
    assert Front("req_1", QueueForm.COMMENT, None).place(TOLD) == b": queue position=2 length=4 wait_ms=1500\n\n"
    assert Front("req_1", QueueForm.OFF, None).place(TOLD) == b""


def test_signs_of_life_are_comments_and_there_are_no_frames_of_progress() -> None:
    front = Front("req_1", QueueForm.COMMENT, None)
    assert front.keep_alive(10.0) == b": keep-alive\n\n"
    assert front.loading() == b""


def test_errors_have_openais_shape_in_a_stream_and_before_it() -> None:
    front = Front("req_1", QueueForm.COMMENT, None)
    body = front.error_body(Busy("the line is full"))
    assert msgspec.json.decode(body) == {
        "error": {"message": "the line is full", "type": "server_error", "param": None, "code": None},
        "request_id": "req_1",
    }
    assert front.error_event(Busy("the line is full")) == b"data: " + body + b"\n\n"


def test_waiting_changes_nothing_about_it() -> None:
    front = Front("req_1", QueueForm.COMMENT, "ada")
    front.shelve()
    assert front.user == "ada"
