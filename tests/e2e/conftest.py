"""The stage on which the vendors' clients act."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from fakes.stage import Stage, staged


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """See `fakes.stage`."""
    async with staged() as made:
        yield made
