"""A client that tells how long it waits: its request is out of the line when nobody listens any more."""

from __future__ import annotations

import pytest

from fakes.checker import check
from fakes.gateway import fronted
from fakes.product import ask
from slotline.stub.standard import held

SOON = {"x-stainless-timeout": "0.1"}
PATHS = ["/v1/messages", "/llm/v1/messages"]


@pytest.mark.parametrize("path", PATHS)
async def test_89_a_whole_answer_is_not_waited_for_in_line_beyond_the_clients_own_time_out(path: str) -> None:
    """Although the connection stays open, as a proxy may keep it; it never reaches the upstream."""
    async with fronted() as front:
        front.stub.play(held(1))
        async with front.streaming() as running:
            await front.stub.until(lambda state: state.held == 1)
            answer = await front.fetch(ask("late", stream=False), path, SOON)
            assert answer.status == 529
            assert "0.1 s" in answer.json()["error"]["message"]
            assert front.waiting == 0
            front.stub.release()
            assert check(await running.rest()).complete
        await front.settled()
        assert front.stub.state.received == 1
        assert front.outcomes == ["wait_timeout", "completed"]


async def test_for_a_stream_the_same_header_is_a_gap_and_not_an_end() -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        async with front.calling(), front.streaming(headers=SOON) as stream:
            assert (await front.fetch(ask("late", stream=False), headers=SOON)).status == 529
            front.stub.release()
            assert check(await stream.rest()).complete


@pytest.mark.parametrize("text", ["NOT_GIVEN", "-1", "nan", "1e300"])
async def test_what_is_no_time_out_ends_nothing(text: str) -> None:
    async with fronted() as front:
        front.stub.play(held(1))
        unclear = {"x-stainless-timeout": text}
        async with front.calling(), front.calling(ask(stream=False), headers=unclear) as queued:
            await front.until(lambda: front.waiting == 1)
            assert (await front.fetch(ask("late", stream=False), headers=SOON)).status == 529
            front.stub.release()
            assert (await queued.answer()).status == 200
