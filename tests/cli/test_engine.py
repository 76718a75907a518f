"""`slotline engine fetch`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from slotline.cli.engine import engine
from slotline.upstream.model_file import SMOLLM2, remember


def cached(cache: Path) -> Path:
    """A cache in which the model was found right before (a stand-in: its hash is not computed at every start)."""
    cache.mkdir()
    path = cache / SMOLLM2.file
    path.write_bytes(b"GGUF")
    remember(path, SMOLLM2)
    return path


def test_in_a_pipe_it_prints_the_path_and_nothing_else(tmp_path: Path) -> None:
    path = cached(tmp_path / "slotline")
    result = CliRunner().invoke(engine, ["fetch"], env={"XDG_CACHE_HOME": str(tmp_path)})
    assert (result.exit_code, result.output) == (0, f"{path}\n")


def test_with_json_it_prints_one_object(tmp_path: Path) -> None:
    path = cached(tmp_path / "slotline")
    result = CliRunner().invoke(engine, ["fetch", "--json"], env={"XDG_CACHE_HOME": str(tmp_path)})
    assert json.loads(result.stdout) == {"path": str(path), "model": "smollm2", "sha256": SMOLLM2.sha256, "bytes": 4}


def test_when_the_model_cannot_be_had_it_ends_with_1_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "slotline").write_text("a file where the folder should be")
    result = CliRunner().invoke(engine, ["fetch"], env={"XDG_CACHE_HOME": str(tmp_path)})
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: smollm2: the cache")


def test_on_a_terminal_each_step_is_a_line(tmp_path: Path) -> None:
    path = cached(tmp_path / "slotline")
    path.write_bytes(b"another length")
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from slotline.cli.engine import engine; engine()", "fetch"],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""},
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=False,
        )
        seen = os.read(ours, 65536).decode().splitlines()
    finally:
        os.close(ours)
        os.close(theirs)
    assert seen[:2] == [f"checking {path} …", f"{path} is damaged and will be replaced"]
    assert done.stdout in {b"", f"{path}\n".encode()}  # the steps went to standard error alone
