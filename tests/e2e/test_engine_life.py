"""The real engine dies, or takes long: what those see who talk to it, and those who wait."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from fakes.checker import check
from fakes.product import Program, ask, calling, fetch
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find

pytestmark = pytest.mark.engine


async def test_a_dead_engine_ends_what_ran_and_comes_back_for_those_who_waited(tmp_path: Path) -> None:
    """Killed in mid-stream: StreamClosedEarly for the caller, a restart, and an answer for the one in line."""
    (tmp_path / "slotline.toml").write_text("[server]\nport = 0\n[engine]\nslots = 1\n")
    body = ask("Tell me a story.", model="smollm2", max_tokens=400)
    async with (
        Program("serve", cwd=tmp_path) as gateway,
        calling(gateway.url, "/llm/v1/messages", body) as running,
    ):
        answer = await running.head()
        pieces = running.pieces(answer)
        async for piece in pieces:
            if b"text_delta" in piece:
                break
        waiting = asyncio.create_task(
            fetch(gateway.url, "/llm/v1/messages", ask("Hello.", model="smollm2", max_tokens=4))
        )
        async with calling(gateway.url, "/llm/v1/messages", body) as behind:
            assert b'"position":' in await anext(behind.pieces(await behind.head()))
        kill = ("pkill", f"-{signal.SIGKILL.value}", "-P", str(gateway.process.pid), "-f", "engine_child")
        assert subprocess.run(kill, check=False).returncode == 0
        async for _ in pieces:
            pass
        broken = check(answer.body)
        assert broken.error is not None
        assert broken.error["type"] == "api_error"
        assert "closed the stream before the answer had ended" in broken.error["message"]
        served = check((await waiting).body)
        assert served.complete
        assert served.places


async def test_a_prefill_that_takes_longer_than_idle_grace_is_no_swallowed_request(tmp_path: Path) -> None:
    """Its slot works, and says so when it is asked."""
    path, alias = find("smollm2", default_cache(), lambda _: None)
    async with Engine(EngineSpec(path, alias, slots=1, threads=1), lambda _: None) as engine:
        await engine.ready()
        (tmp_path / "slotline.toml").write_text(
            f'[server]\nport = 0\n[[upstream]]\nname = "box"\nurl = "{engine.url}"\nslots = 1\n'
            '[upstream.limits]\npoll = "50ms"\nidle_grace = "200ms"\n'
        )
        async with Program("serve", cwd=tmp_path) as gateway:
            time = asyncio.get_running_loop().time
            began = time()
            answer = await fetch(gateway.url, "/v1/messages", ask("word " * 1200, model="smollm2", max_tokens=2))
        first = next(at for at, piece in answer.at if b"message_start" in piece)
        assert first - began > 0.2, "the prompt is too short to prove anything here"
        assert check(answer.body).complete
