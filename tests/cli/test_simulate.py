"""`slotline simulate`: a trace and a few options in, tables, JSON or a plot out."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from docs.pages import page
from fakes.gateway import fronted
from slotline.cli import main
from slotline.cli.simulate import simulate
from slotline.core.simulation.mixes import MIXES
from slotline.observe import log

ALICE_AND_BOB = """\
{"at": 0, "key": "alice", "held": 10}
{"at": 1, "key": "bob", "held": 10}
{"at": 2, "key": "alice", "held": 10}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Three requests of ten seconds each, of two keys."""
    file = tmp_path / "trace.jsonl"
    file.write_text(ALICE_AND_BOB)
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def data(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def printed(*arguments: str) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit)
    return result.stderr.splitlines()[-1]


# ---- what it prints --------------------------------------------------------------------------------------------------


def test_one_try_is_shown_key_by_key(trace: str) -> None:
    assert printed(trace, "--slots", "1", "--policy", "fair") == [
        f"trace    {trace}, 3 requests in 2.0s",
        "a slot   is held as long as was measured, by 3 requests",
        "servers  1 upstream, and a queue of 64",
        "",
        "slots  policy  requests  served  refused  left  wait p50  p90  p99  max  busy    line  fairness",
        "1      fair    3         3       0        0     9.0s      18s  18s  18s  100.0%  2     –",
        "",
        "key    class        requests  served  refused  left  wait p50  p90   p99   max   slot time  share  due",
        "alice  interactive  2         2       0        0     0.0s      18s   18s   18s   20s        66.7%  –",
        "bob    interactive  1         1       0        0     9.0s      9.0s  9.0s  9.0s  10s        33.3%  –",
        "",
        "estimates  nobody was told one",
    ]


def test_several_tries_stand_side_by_side_and_the_fewest_slots_that_meet_the_target_are_named(trace: str) -> None:
    lines = printed(trace, "--slots", "3,1,2", "--policy", "fifo,fair", "--target", "9s")
    rows = [line.split() for line in lines if line.startswith(("1 ", "2 ", "3 "))]
    assert [(row[0], row[1], row[-1]) for row in rows if row[1] in {"fifo", "fair"}] == [
        ("1", "fifo", "66.7%"),
        ("1", "fair", "66.7%"),
        ("2", "fifo", "100.0%"),
        ("2", "fair", "100.0%"),
        ("3", "fifo", "100.0%"),
        ("3", "fair", "100.0%"),
    ]
    assert lines[-2:] == [
        "2 slots are the fewest tried with which 90% of all requests have their slot within 9.0s (fifo)",
        "2 slots are the fewest tried with which 90% of all requests have their slot within 9.0s (fair)",
    ]


def test_where_no_number_of_slots_is_enough_it_says_so(trace: str) -> None:
    assert printed(trace, "--slots", "1", "--target", "9s")[-1] == (
        "no number of slots tried is one with which 90% of all requests have their slot within 9.0s (fair); "
        "with 1 it is 66.7%"
    )


def test_slots_are_of_each_upstream_and_the_answer_counts_them_all(trace: str) -> None:
    lines = printed(trace, "--upstreams", "2", "--slots", "1", "--target", "9s")
    assert "servers  2 upstreams, and a queue of 128" in lines
    assert any(line.startswith("2 x 1  fair") for line in lines)
    assert "upstream 2: busy 50.0%" in lines
    assert lines[-1].startswith("2 slots are the fewest tried")


def test_classes_have_rows_of_their_own_when_there_are_two(trace: str) -> None:
    lines = printed(trace, "--slots", "1", "--batch", "alice")
    assert [line.split()[:2] for line in lines if line.startswith(("all ", "alice", "bob"))] == [
        ["alice", "batch"],
        ["bob", "interactive"],
        ["all", "interactive"],
        ["all", "batch"],
    ]


def test_many_keys_are_cut_and_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    file.write_text("".join(f'{{"at": {number}, "key": "key-{number:02}", "held": 1}}\n' for number in range(25)))
    lines = printed(str(file))
    assert sum(line.startswith("key-") for line in lines) == 20
    assert "and 5 more keys, which --json shows" in lines


def test_patience_and_asking_again_are_said(trace: str) -> None:
    lines = printed(trace, "--slots", "1", "--patience", "5m", "--resend", "5s", "--rejoin", "30s")
    assert "clients  they leave after 5m 00s in line; they ask again 5.0s later, place kept for 30s" in lines


def test_the_json_has_the_settings_every_try_and_its_course(trace: str) -> None:
    answer = data(trace, "--slots", "1,2", "--target", "9s", "--weights", "bob=2")
    assert answer["trace"] == {"source": trace, "format": "plain", "requests": 3, "span": 2.0, "notes": []}
    assert answer["target"] == {"seconds": 9.0, "share": 0.9, "slots": {"fair": 2}}
    assert (answer["settings"]["weights"], answer["settings"]["rates"]["decode"]) == ({"bob": 2.0}, 30.0)
    one, two = answer["simulations"]
    assert (one["slots"], one["whole"]["waits"]["max"]) == (1, 18.0)
    assert (two["slots"], two["whole"]["within"]) == (2, 1.0)
    assert sum(bucket["arrived"] for bucket in one["series"]) == 3


def test_options_reach_the_simulation(tmp_path: Path) -> None:
    file = tmp_path / "tokens.jsonl"
    file.write_text(
        '{"at": 0, "prompt_tokens": 100, "output_tokens": 50}\n{"at": 4, "prompt_tokens": 0, "output_tokens": 5}'
    )
    rates = ("--prefill-rate", "10", "--decode-rate", "5", "--cached", "0.5", "--faster", "1.5", "--speed", "2")
    (report,) = data(str(file), "--slots", "1", *rates)["simulations"]
    assert report["whole"]["slot_seconds"] == pytest.approx((5 + 10 + 1) / 1.5)
    assert report["whole"]["waits"]["max"] == pytest.approx(10 - 2)
    assert data(str(file), "--limit", "1")["trace"]["requests"] == 1


def test_the_queue_and_the_limits_of_keys_refuse(trace: str) -> None:
    def refused(*arguments: str) -> int:
        (report,) = data(trace, "--slots", "1", *arguments)["simulations"]
        count: int = report["whole"]["refused"]
        return count

    assert [refused("--queue", "1"), refused("--waiting", "0"), refused("--running", "1")] == [1, 2, 0]


# ---- where requests come from ----------------------------------------------------------------------------------------


def test_the_format_and_the_place_of_the_key_can_be_said(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("Timestamp,Model,Request tokens,Response tokens\n0,GPT-4,10,20\n1,ChatGPT,10,20\n2,GPT-4,5,0\n")
    answer = data(str(file), "--format", "burstgpt", "--key-column", "Model")
    assert [group["key"] for group in answer["simulations"][0]["keys"]] == ["ChatGPT", "GPT-4"]
    assert answer["trace"]["notes"] == ["left out: 1 failed requests"]


@pytest.mark.parametrize("name", MIXES)
def test_every_mix_can_be_named_and_help_says_what_it_is(name: str) -> None:
    assert data(f"mix:{name}", "--limit", "50")["trace"]["requests"] == 50
    assert f"mix:{name}" in run("--help").stdout


def test_a_seed_is_another_mix() -> None:
    one, same, other = (printed("mix:steady", "--limit", "300", "--seed", seed) for seed in ("1", "1", "2"))
    assert one == same
    assert one != other


async def test_what_the_gateway_logs_in_a_pipe_can_be_replayed(tmp_path: Path) -> None:
    """A real line, of a real request."""
    async with fronted() as front:
        await front.fetch()
    (record,) = [record for record in front.log.records if record.getMessage() == "request ended"]
    file = tmp_path / "gateway.log"
    file.write_text(log._Json().format(record) + "\n")
    line = json.loads(file.read_text())
    assert line["bytes"] > 0
    assert line["pieces"] > 0
    answer = data(str(file))
    (report,) = answer["simulations"]
    assert answer["trace"]["format"] == "log"
    assert report["whole"]["slot_seconds"] == pytest.approx(max(line["ran_s"], 0.001))


# ---- what is wrong ---------------------------------------------------------------------------------------------------


def test_a_bad_line_is_named_with_its_field_and_value(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(ALICE_AND_BOB.replace('"at": 1', '"at": -1'))
    assert refusal(str(file)) == f"Error: {file}, line 2: at = -1: a number of 0 or more is needed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mix:stedy",), "there is no mix 'stedy'; there are steady, burst"),
        (("mix:steady", "--slots", "1,two"), "numbers with commas between them"),
        (("mix:steady", "--slots", "0"), "1 or more"),
        (("mix:steady", "--policy", "lifo"), "one or more of fifo, fair, flow"),
        (("mix:steady", "--weights", "ana"), "'ana' is not of the form KEY=WEIGHT"),
        (("mix:steady", "--weights", "ana=0"), "the weight of 'ana' must be more than 0"),
        (("mix:steady", "--weights", "bob=2"), "no request of the trace is of the key 'bob'"),
        (("mix:steady", "--batch", "bob"), "no request of the trace is of the key 'bob'"),
        (("mix:steady", "--policy", "fifo", "--running", "2"), "under fifo there are no keys"),
        (("mix:steady", "--resend", "5s"), "--patience says when"),
        (("mix:steady", "--target", "30"), 'as in "250ms"'),
        (("mix:steady", "--plot", "x.pdf"), "the name must end in .svg or .png"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


# ---- progress and the page -------------------------------------------------------------------------------------------


def test_in_a_pipe_nothing_but_the_answer_is_printed(trace: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slotline", "simulate", trace], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.startswith("trace ")


def test_the_examples_of_the_page_print_what_the_page_shows() -> None:
    """After a change of the line: `python benchmarks/simulation.py --write`."""
    shown = page("docs/simulation.md")
    commands = [block.strip() for block in shown.code("sh") if "mix:" in block and "--plot" not in block]
    outputs = [block.rstrip() for block in shown.code("") if block.startswith("trace ")]
    assert len(commands) == len(outputs) == 2
    for command, output in zip(commands, outputs, strict=True):
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.output.rstrip() == output
