"""A real Redis, started once, and a namespace of its own for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fakes.redis import SERVERS, redis_server


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=SERVERS)
async def redis_url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Of each server that there is: Redis, and Valkey where a package brings it."""
    async with redis_server(request.param) as server:
        yield server.url


@pytest.fixture
def namespace() -> str:
    """One that no other test has."""
    return secrets.token_hex(4)
