"""The log: JSON lines in a pipe, lines for people on a terminal, and nothing in it that is nobody's business."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import msgspec
import pytest

from slotline.observe import log


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The log as it was before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("slotline").setLevel(logging.NOTSET)


def test_in_a_pipe_a_line_is_one_json_object() -> None:
    pipe = io.StringIO()
    log.set_up(stream=pipe)
    logging.getLogger("slotline.x").info("request %s", "ended", extra={"fields": {"outcome": "completed", "n": 2}})
    line = msgspec.json.decode(pipe.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("info", "slotline.x", "request ended")
    assert (line["outcome"], line["n"]) == ("completed", 2)


def test_on_a_terminal_it_is_a_line_for_people_without_what_is_none() -> None:
    terminal = Terminal()
    log.set_up(stream=terminal)
    logging.getLogger("slotline.x").info("request ended", extra={"fields": {"outcome": "completed", "error": None}})
    assert terminal.getvalue().endswith("request ended outcome=completed\n")


def test_an_exception_is_in_the_line() -> None:
    pipe = io.StringIO()
    log.set_up(stream=pipe)
    try:
        int("nonsense")
    except ValueError:
        logging.getLogger("slotline.x").exception("a fault")
    assert "'nonsense'" in msgspec.json.decode(pipe.getvalue())["exception"]


@pytest.mark.parametrize(("level", "lines"), [(logging.WARNING, 0), (logging.INFO, 1), (logging.DEBUG, 2)])
def test_the_level_is_the_gateways_own(level: int, lines: int) -> None:
    pipe = io.StringIO()
    log.set_up(level, pipe)
    logging.getLogger("slotline.x").info("one")
    logging.getLogger("slotline.x").debug("two")
    logging.getLogger("somebody.else").info("never")
    assert len(pipe.getvalue().splitlines()) == lines


def test_what_the_http_library_cannot_read_is_not_repeated_in_the_log() -> None:
    """Its own message quotes the header at fault, which may hold a key."""
    pipe = io.StringIO()
    log.set_up(stream=pipe)
    try:
        int("sl-secret")
    except ValueError:
        log.http().exception("Error handling request %s", "x-api-key: sl-secret")
    assert "sl-secret" not in pipe.getvalue()
    assert "ValueError" in pipe.getvalue()
