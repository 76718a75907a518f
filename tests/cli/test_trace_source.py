"""Files, standard input and mixes, as `slotline simulate` finds them."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import click
import pytest

from slotline.cli.trace_source import MIXED, requests_of
from slotline.core.simulation.formats import Format
from slotline.core.simulation.request import Request

LINES = b'{"at": 0, "key": "alice", "held": 10}\n{"at": 1, "key": "bob", "held": 10}\n'


def found(source: str, format_: str | None = None, limit: int | None = None, seed: int = 1) -> list[Request]:
    return list(requests_of(source, format_, None, limit, seed).requests)


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.gz", "trace"])
@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_read_compressed_or_not_whatever_its_name(tmp_path: Path, name: str, packed: bool) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(LINES) if packed else LINES)
    assert [request.key for request in found(str(file))] == ["alice", "bob"]


def test_what_is_not_utf_8_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_bytes(LINES.replace(b"bob", b"b\xffb"))
    assert [request.key for request in found(str(file))] == ["alice", "b\ufffdb"]


def test_an_empty_file_has_no_format(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.touch()
    with pytest.raises(click.ClickException, match="its format is none of"):
        found(str(file))


def test_standard_input_is_read_and_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))
    assert len(found("-")) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nonsense")))
    with pytest.raises(click.ClickException, match=r"^standard input: "):
        found("-")


def test_a_file_that_is_not_there_is_said_not_to_be(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"none: No such file or directory$"):
        found(str(tmp_path / "none"))


@pytest.mark.parametrize("damage", [slice(0, -20), slice(0, 12)])
def test_a_compressed_file_that_is_cut_off_is_said_to_be(tmp_path: Path, damage: slice) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(LINES * 1000)[damage])
    with pytest.raises(click.ClickException, match=r"cut\.gz: Compressed file ended"):
        found(str(cut))


def test_a_compressed_file_that_is_broken_is_said_to_be(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gz"
    packed = bytearray(gzip.compress(LINES * 1000))
    packed[20:40] = bytes(20)
    broken.write_bytes(packed)
    with pytest.raises(click.ClickException, match=r"broken\.gz: "):
        found(str(broken))


def test_the_format_can_be_said(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_bytes(LINES)
    with pytest.raises(click.ClickException, match="line 1: there is no field timestamp"):
        found(str(file), Format.MOONCAKE)


def test_a_mix_is_as_long_as_it_is_said_to_be_and_another_one_with_another_seed() -> None:
    assert len(found("mix:steady")) == MIXED
    assert len(found("mix:steady", limit=10)) == 10
    assert found("mix:steady", limit=10) != found("mix:steady", limit=10, seed=2)
    with pytest.raises(click.BadParameter, match="there is no mix 'stedy'"):
        found("mix:stedy")
