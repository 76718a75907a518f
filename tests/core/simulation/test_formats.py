"""How a line of each format becomes a request."""

from __future__ import annotations

import pytest

from slotline.core.simulation.formats import Format, Skipped, recognised, request
from slotline.core.simulation.request import Request
from slotline.core.simulation.rows import Row, TraceError

LOG = {
    "time": "2026-11-29T17:36:39.500+0000",
    "level": "info",
    "logger": "slotline.wiring",
    "message": "request ended",
    "outcome": "completed",
    "key": "alice",
    "class": "batch",
    "model": "m",
    "waited_s": 4.0,
    "ran_s": 2.5,
    "bytes": 4_000,
    "pieces": 70,
}
ENDED = 1_795_973_799.5  # 2026-11-29 17:36:39.5 UTC


def of(format_: Format, fields: dict[str, object], key: str | None = None) -> Request:
    return request(format_, Row("x", 1, fields), key)


def test_azure() -> None:
    fields: dict[str, object] = {
        "TIMESTAMP": "1970-01-01 00:01:00.5000000",
        "ContextTokens": "374",
        "GeneratedTokens": "44",
    }
    assert of(Format.AZURE, fields) == Request(60.5, prompt=374, output=44)


def test_burstgpt_with_a_session_and_without() -> None:
    fields: dict[str, object] = {
        "Timestamp": "5.0",
        "Model": "GPT-4",
        "Request tokens": "472",
        "Response tokens": "18",
        "Total tokens": "490",
        "Log Type": "API log",
    }
    assert of(Format.BURSTGPT, fields) == Request(5.0, model="GPT-4", prompt=472, output=18)
    assert of(Format.BURSTGPT, {**fields, "Session ID": "1722ac82"}).flow == "1722ac82"


def test_a_request_of_burstgpt_that_failed_is_left_out() -> None:
    fields: dict[str, object] = {"Timestamp": "5", "Request tokens": "472", "Response tokens": "0"}
    with pytest.raises(Skipped, match="failed requests"):
        of(Format.BURSTGPT, fields)


def test_mooncake_counts_milliseconds() -> None:
    fields: dict[str, object] = {"timestamp": 3052, "input_length": 7234, "output_length": 794, "hash_ids": [0, 28]}
    assert of(Format.MOONCAKE, fields) == Request(3.052, prompt=7234, output=794)


def test_a_request_of_the_log_came_before_it_waited_and_ran() -> None:
    expected = Request(ENDED - 6.5, "alice", batch=True, model="m", prompt=1_000, output=70, held=2.5)
    assert of(Format.LOG, dict(LOG)) == expected


def test_a_request_of_the_log_that_left_the_line_had_so_much_patience() -> None:
    left = {**LOG, "outcome": "client_left_waiting", "ran_s": None, "pieces": 0}
    read = of(Format.LOG, left)
    assert (read.at, read.held, read.patience) == (ENDED - 4.0, None, 4.0)


def test_a_log_without_keys_bytes_and_pieces_is_read_too() -> None:
    old = {name: value for name, value in LOG.items() if name not in {"class", "bytes", "pieces"}} | {"key": None}
    read = of(Format.LOG, old)
    assert (read.key, read.batch, read.prompt, read.output, read.held) == ("", False, 0, 0, 2.5)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"message": "listening"}, "other lines of the log"), ({"outcome": "invalid"}, "invalid requests")],
)
def test_lines_of_the_log_that_were_never_in_line_are_left_out(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(Skipped, match=reason):
        of(Format.LOG, {**LOG, **fields})


def test_a_plain_line_has_what_it_has() -> None:
    fields: dict[str, object] = {
        "at": 1.5, "key": "a", "flow": "f", "class": "batch", "model": "m", "prompt_tokens": 10, "output_tokens": 20,
        "held": 3.0, "patience": 60,
    }  # fmt: skip
    assert of(Format.PLAIN, fields) == Request(1.5, "a", "f", True, "m", 10, 20, 3.0, 60.0)
    assert of(Format.PLAIN, {"at": "1970-01-01T00:00:02", "held": 3}) == Request(2.0, held=3.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt_tokens": 10}, "there is no field output_tokens"),
        ({"held": -1}, "held = -1: a number of 0 or more is needed"),
        ({"held": 1, "class": "vip"}, "class = 'vip': a class is one of interactive, batch"),
        ({"held": 1, "patience": "long"}, "patience = 'long': a number"),
    ],
)
def test_a_plain_line_that_says_too_little_or_nonsense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        of(Format.PLAIN, {"at": 1, **fields})


def test_the_key_may_stand_in_any_field() -> None:
    fields: dict[str, object] = {"timestamp": 1, "input_length": 2, "output_length": 3, "tenant": 12}
    assert of(Format.MOONCAKE, fields, "tenant").key == "12"
    with pytest.raises(TraceError, match="there is no field user"):
        of(Format.MOONCAKE, fields, "user")


def test_a_format_is_known_by_its_fields() -> None:
    assert recognised(["GeneratedTokens", "ContextTokens", "TIMESTAMP", "more"]) is Format.AZURE
    assert recognised(["Timestamp", "Model", "Request tokens", "Response tokens"]) is Format.BURSTGPT
    assert recognised(["timestamp", "input_length", "output_length"]) is Format.MOONCAKE
    assert recognised(LOG) is Format.LOG
    assert recognised(["at", "held"]) is Format.PLAIN
    assert recognised(["a", "b"]) is None
