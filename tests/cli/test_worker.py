"""One of several workers: what it was told, and what it does with it."""

from __future__ import annotations

import asyncio
import sys

from slotline.cli.worker import Order
from slotline.config import load
from slotline.config.values import ClusterConfig

CLUSTER = ClusterConfig(url="unix:/run/line.sock", namespace="workers", lease=5.0)
FILE = '[[upstream]]\nname = "box"\nurl = "http://127.0.0.1:1"\n'


def test_an_order_takes_the_place_of_whatever_line_the_file_has_by_now() -> None:
    order = Order(listen=3, cluster=CLUSTER)
    for file in (FILE, FILE + '[cluster]\nurl = "redis://elsewhere:6379/0"\n'):
        config = load(file, source="file")
        over = order.over(config)
        assert over.cluster == CLUSTER
        assert over.upstreams == config.upstreams


async def test_nobody_is_a_worker_whom_none_has_started() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slotline", "serve", "--upstream", "http://127.0.0.1:1", "--worker"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"--worker is for the processes that --workers starts" in errors
