"""Two keys before the real engine, and one of them is greedy."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fakes.checker import check
from fakes.product import Program, ask, calling
from slotline.core.keys import digest

pytestmark = pytest.mark.engine

MANY = 8
CONFIG = """
[engine]
slots = 2

[[key]]
name = "greedy"
hash = "sha256:{greedy}"
waiting = 99
running = 99

[[key]]
name = "modest"
hash = "sha256:{modest}"
"""


async def test_a_greedy_key_does_not_keep_another_one_waiting(tmp_path: Path) -> None:
    """B33: eight requests of one key stand in line; the one of the other is served after a round of the slots."""
    config = tmp_path / "slotline.toml"
    config.write_text(CONFIG.format(greedy=digest("sl-greedy").hex(), modest=digest("sl-modest").hex()))
    done: list[str] = []

    async def served(gateway: Program, stack: AsyncExitStack, name: str, text: str) -> asyncio.Task[None]:
        """A request that stands in line or has its slot: its stream has begun."""
        body = ask(text, model="smollm2", max_tokens=16)
        caller = await stack.enter_async_context(
            calling(gateway.url, "/llm/v1/messages", body, {"x-api-key": f"sl-{name}"})
        )
        answer = await caller.head()

        async def read() -> None:
            async for _ in caller.pieces(answer):
                pass
            assert check(answer.body).complete
            done.append(name)

        return asyncio.create_task(read())

    async with Program("serve", "--port", "0", "--config", str(config)) as gateway, AsyncExitStack() as stack:
        texts = [f"Tell me a long story, number {number}." for number in range(MANY)]
        tasks = await asyncio.gather(*(served(gateway, stack, "greedy", text) for text in texts))
        mine = await served(gateway, stack, "modest", "And one short word for me.")
        await asyncio.gather(mine, *tasks)
    assert done.count("greedy") == MANY
    assert done.index("modest") <= 5, "two that ran, a round of the slots, and what ended beside it"
