"""The log: JSON lines in a pipe, lines for people on a terminal, and nothing in it that is nobody's business."""

from __future__ import annotations

import dataclasses
import io
import logging
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from slotline.core.errors import Invalid, Outcome, Stalled
from slotline.core.record import Record, Tokens
from slotline.observe import log


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def plain(terminal: io.StringIO) -> str:
    """What is read there, without the colours and the time of day."""
    return re.sub(r"\x1b\[\d+m", "", terminal.getvalue())


DONE = Record(
    id="req_1",
    surface="messages",
    model="m",
    named="alias",
    outcome=Outcome.COMPLETED,
    arrived=10.0,
    stood=True,
    granted=12.0,
    began=13.0,
    spoke=13.0,
    ended=16.0,
    upstream="box",
    key="alice",
    size=131,
    pieces=30,
    tokens=Tokens(input=512, cached=40, output=90, reasoning=5),
)


def told(record: Record, stream: io.StringIO, level: int = logging.INFO) -> str:
    """What the log says of a request."""
    log.set_up(level, stream)
    log.tell(record)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log as it was before, and an environment that says nothing about colours."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
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
    logging.getLogger("slotline.x").info("upstream box is up", extra={"fields": {"state": "up", "reason": None}})
    assert plain(terminal).endswith(" upstream box is up state=up\n")


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


# ---- a request that has ended ----------------------------------------------------------------------------------------


def test_in_a_pipe_a_request_has_its_outcome_waits_and_tokens() -> None:
    line = msgspec.json.decode(told(DONE, io.StringIO()))
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "slotline.observe.log",
        "message": "request ended",
        "outcome": "completed",
        "request_id": "req_1",
        "key": "alice",
        "class": "interactive",
        "surface": "messages",
        "model": "alias",
        "upstream": "box",
        "waited_s": 2.0,
        "first_token_s": 3.0,
        "ran_s": 4.0,
        "bytes": 131,
        "pieces": 30,
        "input_tokens": 512,
        "cached_tokens": 40,
        "output_tokens": 90,
        "reasoning_tokens": 5,
        "thinking_capped": None,
        "trace_id": None,
        "notes": None,
        "error": None,
    }


def test_on_a_terminal_a_request_is_one_short_line() -> None:
    terminal = Terminal()
    told(DONE, terminal)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d completed            alias  messages  waited 2\.0 s  ran 4\.0 s  512 → 90 tokens  30 tok/s  "
        r"box  alice  req_1\n",
        plain(terminal),
    )


def test_what_is_not_known_of_a_request_is_not_in_its_line() -> None:
    terminal = Terminal()
    gone = dataclasses.replace(DONE, granted=None, began=None, upstream=None, key=None, tokens=Tokens())
    told(dataclasses.replace(gone, outcome=Outcome.CLIENT_LEFT_WAITING), terminal)
    assert plain(terminal).endswith(" client_left_waiting  alias  messages  waited 6.0 s  req_1\n")


def test_an_error_stands_below_its_request() -> None:
    terminal = Terminal()
    told(dataclasses.replace(DONE, outcome=Outcome.STALLED, error=Stalled("nothing came\nfor 60 s")), terminal)
    first, second = plain(terminal).splitlines()
    assert "stalled" in first
    assert second.strip() == "nothing came�for 60 s"


@pytest.mark.parametrize(
    ("outcome", "colour"),
    [(Outcome.COMPLETED, 32), (Outcome.REFUSED_FULL, 33), (Outcome.CLIENT_LEFT_RUNNING, 2), (Outcome.STALLED, 31)],
)
def test_the_colour_says_whose_fault_it_was(outcome: Outcome, colour: int) -> None:
    assert f"\x1b[{colour}m{outcome:<19}\x1b[0m" in told(dataclasses.replace(DONE, outcome=outcome), Terminal())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colours_gets_none(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b" not in told(DONE, Terminal())


@pytest.mark.parametrize("named", ["\x1b[2Jgone", "a\rb", "a\x07b", "a\u202eb", "a\nb"])
def test_nothing_that_a_client_wrote_moves_the_cursor(named: str) -> None:
    """A model's name, for one, is whatever an alias such as `*` lets through."""
    terminal = Terminal()
    error = Invalid(f"model: {named} is not served here")
    told(dataclasses.replace(DONE, named=named, error=error, outcome=Outcome.INVALID), terminal)
    text = plain(terminal)
    assert len(text.splitlines()) == 2
    assert all(each.isprintable() for each in text.replace("\n", ""))


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_model_is_named_no_longer_than_names_are(stream: io.StringIO) -> None:
    """A client may call it by as much as a body holds."""
    refused = dataclasses.replace(DONE, arrived=None, named="m" * 10_000, outcome=Outcome.INVALID)
    assert told(refused, stream).count("m" * 200) == 1


def test_an_exception_keeps_its_lines_on_a_terminal() -> None:
    terminal = Terminal()
    log.set_up(stream=terminal)
    try:
        int("nonsense\x1b")
    except ValueError:
        logging.getLogger("slotline.x").exception("a fault")
    assert len(plain(terminal).splitlines()) >= 4
    assert "\x1b" not in plain(terminal)


@pytest.mark.parametrize(
    ("more", "message", "level"),
    [
        ({}, "request ended", "info"),
        ({"arrived": None, "outcome": Outcome.INVALID}, "request refused", "info"),
        ({"arrived": None, "outcome": Outcome.CLIENT_LEFT_WAITING}, "request refused", "info"),
        ({"arrived": None}, "request answered", "debug"),
    ],
)
def test_a_request_that_never_came_to_the_line_has_another_name(more: dict[str, Any], message: str, level: str) -> None:
    line = msgspec.json.decode(told(dataclasses.replace(DONE, **more), io.StringIO(), logging.DEBUG))
    assert (line["message"], line["level"]) == (message, level)


def test_a_list_of_models_is_no_news() -> None:
    assert told(dataclasses.replace(DONE, arrived=None), io.StringIO()) == ""
