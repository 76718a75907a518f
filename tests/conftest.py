"""What several test files share: the real engine behind the real product, started once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fakes.product import Program


def pytest_configure() -> None:
    """No event loop is there until a test makes one: a plugin that asks for it would leave it open (Python 3.11)."""
    asyncio.set_event_loop(None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine_gateway() -> AsyncIterator[Program]:
    """`slotline serve` with the embedded engine and nothing else: two slots, model `smollm2`."""
    async with Program("serve", "--port", "0") as program:
        yield program


@pytest.fixture
def engine_url(engine_gateway: Program) -> str:
    """The address of `engine_gateway`."""
    return engine_gateway.url
