"""The modules of the pages that need no page, in node: each `static/*.test.mjs` beside this file is a file of tests."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from docs.pages import ROOT, page
from fakes.gateway import fronted
from fakes.product import ask
from slotline.stub import Stub
from slotline.stub.standard import held

MESSAGES = ROOT / "src/slotline/surface/static/messages.js"
TESTS = sorted((Path(__file__).parent / "static").glob("*.test.mjs"))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
async def test_the_tests_of_a_module_pass(path: Path) -> None:
    """Node's own runner says which one failed."""
    command = ("node", "--test", "--test-reporter=tap", str(path))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    said = out.decode()
    assert process.returncode == 0, said
    passed = re.search(r"^# pass (\d+)$", said, re.MULTILINE)
    assert passed
    assert int(passed[1]) > 5


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_the_example_that_the_page_on_queue_frames_shows_tells_the_place_and_the_answer(tmp_path: Path) -> None:
    """As it stands there, beside a copy of the module; only the gateway's address is another one."""
    (code,) = page("docs/queue-extension.md").code("javascript")
    assert 'url: "/' in code
    shutil.copy(MESSAGES, tmp_path / "messages.js")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    async with fronted(stub=Stub(tokens=3, slots=1, models=("smollm2", "stub"))) as front:
        program = "const show = console.log;" + code.replace('url: "/', f'url: "{front.url}/')
        (tmp_path / "example.js").write_text(program)
        front.stub.play(held(1))
        async with front.calling(ask("in the slot")):
            await front.stub.until(lambda state: state.held == 1)
            node = await asyncio.create_subprocess_exec(
                "node", "example.js", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
            )
            await front.until(lambda: front.waiting == 1)
            front.stub.release()
            out, _ = await node.communicate()
    assert out.decode().split("\n")[0] == "place 1 of 1"
    assert out.decode().split()[-3:] == ["token-0", "token-1", "token-2"]
