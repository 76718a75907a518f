"""Claude Code 2.1.197, which gives a silent stream up after 300 s and takes neither pings nor comments for life."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fakes.claude_code import ClaudeCode, outcome, program
from fakes.gateway import fronted
from fakes.product import ask
from slotline.config import ServerConfig
from slotline.core.limits import Limits
from slotline.stub import Stub
from slotline.stub.standard import hang

FILE = program(Path(__file__).parent / "old-claude-code")
WAIT = 400.0  # seconds in line: more than its 300, and more than 360, after which others give up

pytestmark = [
    pytest.mark.clients,
    pytest.mark.node,
    pytest.mark.skipif(FILE is None, reason="Claude Code 2.1.197 is not installed"),
    pytest.mark.timeout(WAIT + 120),
]


async def test_it_waits_in_line_for_as_long_as_it_takes_and_asks_once(tmp_path: Path) -> None:
    """With nothing set that makes it patient: from 240 s on it gets beats, which are parts of an answer."""
    assert FILE is not None
    stub = Stub(slots=1, tokens=5, models=("stub", "held"), context=200_000)
    stub.by_model["held"] = hang()
    async with fronted(stub=stub, server=ServerConfig(port=0), limits=Limits()) as front:
        async with front.calling(ask(model="held")):
            await stub.until(lambda state: state.running == 1)
            process = await ClaudeCode(FILE, tmp_path).start(front.url, "say something")
            told = asyncio.create_task(outcome(process))
            await asyncio.wait({told}, timeout=WAIT)
            assert not told.done(), told.result()
            assert front.waiting == 1
        got = await told
        assert front.outcomes == ["client_left_running", "completed"]
        assert [request.model for request in stub.requests] == ["held", "stub"]
    assert (got["result"], got["is_error"], got["num_turns"]) == ("token-0 token-1 token-2 token-3 token-4", False, 1)
    assert 240_000 <= got["ttft_stream_ms"] < 300_000  # the first event that it counted
    assert got["ttft_ms"] > 1000 * (WAIT - 60)  # the first word of the answer itself
