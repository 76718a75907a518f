"""What the page about clusters says holds: its numbers, and the user of the server that it proposes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as aioredis

from docs.pages import page
from fakes.redis import redis_server
from slotline.cli.line_server import LEASE
from slotline.config.values import ClusterConfig
from slotline.core.journal import Mark, Offer
from slotline.core.party import FairBy
from slotline.core.shared import Shared
from slotline.gate import replica
from slotline.gate.journal import Barred, Journal

CLUSTER = page("docs/cluster.md")


def test_numbers_are_those_of_the_code() -> None:
    assert f"`lease` is {ClusterConfig(url='').lease:g} s by default" in CLUSTER.text
    assert f"after its lease: {LEASE:g} s where the server is their own" in CLUSTER.text
    assert f"After {replica._DRAWN:,} commands ({replica._DRAWN_CALM:,} while nobody waits)" in CLUSTER.text
    assert f"up to {2 * replica._DRAWN:,} commands" in CLUSTER.text


async def test_the_user_that_the_page_proposes_may_do_what_a_gateway_does_and_nothing_else() -> None:
    (line,) = CLUSTER.code("")
    command = shlex.split(line.replace(">PASSWORD", "'>secret'"))
    async with redis_server() as server:
        admin: Any = aioredis.Redis.from_url(server.url)
        async with admin:
            await admin.execute_command(*command)
        url = f"{server.url}?username=slotline"
        journal = Journal(url, ClusterConfig(url="").namespace, 15.0, FairBy.KEY, "secret")
        await everything(journal)
        await journal.close()
        stranger = Journal(url, "another", 15.0, FairBy.KEY, "secret")
        with pytest.raises(Barred):
            await stranger.enter("a", 0, "")
        await stranger.close()


async def everything(journal: Journal) -> None:
    """All that is ever asked."""
    entered = await journal.enter("a", 0, "")
    await journal.write("a", 1, [Offer("box", 8)])
    await journal.write("a", 2, [Mark()])
    shared = Shared()
    for _ in range(2):
        for line in await journal.read(b"0-0", wait=False):
            picture = shared.apply(line.entry).picture
            if picture is not None:
                await journal.draw("a", line, picture)
        await journal.write("a", 3, [Mark()])
    assert await journal.picture() != (None, b"0-0")
    await journal.beat("a")
    await journal.enter("b", entered.born, "a")
    await journal.leave("b")
    await journal.leave("a")


def test_every_command_of_the_script_is_among_those_of_the_user() -> None:
    """Also those that are called only when a server returns, or when nobody is left."""
    (line,) = CLUSTER.code("")
    allowed = set(re.findall(r"\+([a-z|]+)", line))
    script = Path(replica.__file__).with_name("journal.lua").read_text()
    called = {name.lower() for name in re.findall(r"redis\.call\('(\w+)'", script)}
    asked = {"evalsha", "script|load", "xread", "hmget"}
    assert allowed == called | asked
