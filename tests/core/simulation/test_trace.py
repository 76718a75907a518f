"""Whole traces."""

from __future__ import annotations

import json

import pytest

from slotline.core.simulation.formats import Format
from slotline.core.simulation.request import Request
from slotline.core.simulation.rows import TraceError
from slotline.core.simulation.trace import Trace, read

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:15:46.6805900,374,44\r
2023-11-16 18:15:50.6805900,396,109\r
"""
BURSTGPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
100,s1,4,GPT-4,417,276,693,Conversation log
118,s2,4,GPT-4,300,0,300,API log
120,s1,4,ChatGPT,30,5,35,API log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 3052, "input_length": 7319, "output_length": 490, "hash_ids": [0, 14]}
"""


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def ended(second: int, outcome: str = "completed", waited: float = 0.0, ran: float | None = 2.0, key: str = "a") -> str:
    time = f"2026-11-29T17:00:{second:02}.000+0000"
    fields = {"time": time, "logger": "slotline.wiring", "message": "request ended", "outcome": outcome, "key": key}
    return json.dumps({**fields, "waited_s": waited, "ran_s": ran}) + "\n"


def test_azure_begins_at_0() -> None:
    trace = read(lines(AZURE), "x")
    assert trace == Trace(Format.AZURE, [Request(0.0, prompt=374, output=44), Request(4.0, prompt=396, output=109)])


def test_burstgpt_says_how_many_requests_are_left_out() -> None:
    trace = read(lines(BURSTGPT), "x")
    assert [(each.at, each.flow, each.prompt) for each in trace.requests] == [(0.0, "s1", 417), (20.0, "s1", 30)]
    assert trace.notes == ("left out: 1 failed requests",)


def test_mooncake() -> None:
    trace = read(lines(MOONCAKE), "x")
    assert [(each.at, each.prompt) for each in trace.requests] == [(0.0, 6755), (3.052, 7319)]


def test_our_log_is_sorted_by_arrival_and_progress_before_it_is_passed_over() -> None:
    """Its lines stand in the order in which requests ended."""
    start = ["loading smollm2 …\n", '{"time":"x","logger":"y","message":"listening"}\n']
    trace = read([*start, ended(20, ran=1.0), ended(30, waited=5.0, ran=25.0)], "x")
    assert trace.format is Format.LOG
    assert [(each.at, each.held) for each in trace.requests] == [(0.0, 25.0), (19.0, 1.0)]
    assert trace.notes == ("left out: 1 other lines of the log",)


def test_who_never_had_a_slot_is_taken_to_be_as_long_as_others_of_its_key() -> None:
    log = [
        ended(10, ran=2.0),
        ended(11, ran=4.0),
        ended(12, ran=30.0, key="b"),
        ended(13, "refused_full", ran=None),
        ended(14, "client_left_waiting", waited=2.0, ran=None, key="c"),
    ]
    trace = read(log, "x")
    by_arrival = {each.at: each for each in trace.requests}
    refused, left = (by_arrival[max(by_arrival)], trace.requests[-2])
    assert refused.held == 3.0
    assert (left.key, left.held, left.patience) == ("c", 12.0, 2.0)
    assert trace.notes == ("2 requests that never had a slot are taken to be as long as others of their key",)


def test_a_log_in_which_nobody_had_a_slot_says_nothing() -> None:
    with pytest.raises(TraceError, match="nothing says how long they take"):
        read([ended(13, "refused_full", ran=None)], "x")


def test_a_limit_takes_the_first_and_reads_no_further() -> None:
    assert len(read([*lines(MOONCAKE), "nonsense"], "x", limit=2).requests) == 2


def test_the_format_can_be_said() -> None:
    """Each line has the fields of two formats."""
    both = '{"at": 7, "held": 2, "timestamp": 5000, "input_length": 1, "output_length": 1}\n'
    assert read([both], "x").format is Format.MOONCAKE
    assert read([both], "x", Format.PLAIN).requests[0].held == 2.0


def test_a_mark_of_utf_8_and_empty_lines_do_no_harm() -> None:
    assert len(read([*lines("\ufeff" + AZURE), "\r\n"], "x").requests) == 2
    assert len(read([*lines("\ufeff" + MOONCAKE), "\n"], "x").requests) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AZURE.replace("374", "many"), r"^x, line 2: ContextTokens = 'many': a number of 0 or more is needed$"),
        (AZURE.replace("396,", ""), r"^x, line 3: there are 2 fields, and 3 in the head$"),
        (AZURE.replace("2023-11-16 18:15:50", "noon"), r"^x, line 3: TIMESTAMP = .*: a date and time is needed"),
        (MOONCAKE.replace("3052", '"soon"'), r"^x, line 2: timestamp = 'soon': a number of 0 or more is needed$"),
        (MOONCAKE + "{", r"^x, line 3: this is no JSON object: "),
        (MOONCAKE + "[1]", r"^x, line 3: this is no JSON object: "),
        ("a,b,c\n1,2,3\n", r"^x: its format is none of azure, burstgpt, mooncake, log, plain; --format says"),
        ("", r"^x: its format is none of"),
        (AZURE.splitlines()[0], r"^x: there is no request in it that could be replayed \(format azure\)$"),
        (AZURE + '"never closed' + "x" * 200_000, r"^x, line \d+: field larger than field limit"),
    ],
)
def test_an_error_names_file_line_field_and_value(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(lines(text), "x")
