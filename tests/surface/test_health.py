"""Health: cached truths, told at any load."""

from __future__ import annotations

import pytest

from fakes.gateway import fronted
from slotline.stub import Stub


async def test_a_gateway_that_serves_is_healthy_and_ready() -> None:
    async with fronted() as front:
        healthy, ready = await front.get("/healthz"), await front.get("/readyz")
    assert (healthy.status, healthy.body) == (200, b"ok\n")
    assert (ready.status, ready.body) == (200, b"ready\n")


async def test_a_gateway_whose_upstreams_are_all_away_is_healthy_and_not_ready_and_says_why() -> None:
    async with fronted(url="http://127.0.0.1:1") as front:
        healthy, ready = await front.get("/healthz"), await front.get("/readyz")
    assert healthy.status == 200
    assert ready.status == 503
    assert ready.body.startswith(b"not ready: box is down: ")
    assert b"refused" in ready.body.lower() or b"connect" in ready.body.lower()


async def test_a_gateway_is_ready_once_its_upstream_has_loaded() -> None:
    async with fronted(stub=Stub(load=60)) as front:
        ready = await front.get("/readyz")
        assert ready.status == 503
        assert ready.body.startswith(b"not ready: box is loading: ")
        front.stub.finish_loading()
        seen = [ready.status]
        while seen[-1] != 200:
            seen.append((await front.get("/readyz")).status)


async def test_health_is_told_without_asking_anybody() -> None:
    async with fronted() as front:
        asked = front.stub.hits.total()
        for _ in range(20):
            await front.get("/healthz")
            await front.get("/readyz")
        one_look = 3
        assert front.stub.hits.total() <= asked + one_look  # the gateway's own, which it takes now and then


@pytest.mark.parametrize("path", ["/", "/llm/api/hello", "/api/hello"])
async def test_the_probes_that_clients_send_first_are_answered_with_nothing(path: str) -> None:
    """Case 93."""
    async with fronted() as front:
        answer = await front.get(path, "HEAD")
    assert answer.status == 200
    assert answer.body == b""
