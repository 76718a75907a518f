"""`slotline check --probe`: each upstream, asked how it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from fakes.product import Program


async def run(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slotline", "check", *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


async def test_it_tells_of_each_upstream_what_it_saw(tmp_path: Path) -> None:
    """Reachable or not, the kind, the slots seen and configured, the models."""
    async with Program("stub", "--port", "0", "--slots", "3", "--model", "qwen") as stub:
        config = tmp_path / "slotline.toml"
        config.write_text(f'[[upstream]]\nname = "box"\nurl = "{stub.url}"\nslots = 2\n[engine]\n')
        status, out, errors = await run("--probe", cwd=tmp_path)
        assert (status, errors) == (0, "")
        head, box, engine = out.rstrip().splitlines()[-3:]
        assert head.split() == ["upstream", "reachable", "kind", "slots", "seen", "configured", "models", "reason"]
        assert box.split() == ["box", "yes", "llama.cpp", "3", "2", "qwen"]
        assert engine.split() == ["engine", "with", "serve", "llama.cpp", "-", "2", "-"]

        status, out, _ = await run("--probe", "--json", cwd=tmp_path)
        seen = msgspec.json.decode(out)["probe"][0]
        assert (status, seen["name"], seen["well"]) == (0, "box", True)
        assert (seen["seen"]["kind"], seen["seen"]["slots"], seen["seen"]["models"]) == ("llama.cpp", 3, ["qwen"])


async def test_an_upstream_that_cannot_be_reached_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "slotline.toml").write_text('[[upstream]]\nname = "gone"\nurl = "http://127.0.0.1:9"\n')
    status, out, _ = await run("--probe", cwd=tmp_path)
    assert status == 1
    assert out.rstrip().splitlines()[-1].split() == ["gone", "no", "-", "-", "2", "-", "connection", "refused"]


async def test_without_the_option_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "slotline.toml").write_text('[[upstream]]\nname = "gone"\nurl = "http://127.0.0.1:9"\n')
    status, out, _ = await run(cwd=tmp_path)
    assert status == 0
    assert "reachable" not in out
