"""What a gateway tells of itself: as long as it is there, while it is gone, and when it is back."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from fakes.gateway import fronted
from slotline.cli.top.feed import Away, Feed, Trouble, decoded
from slotline.core.report import Phase, State
from slotline.stub.standard import held

NOBODY = "http://127.0.0.1:9"  # the port of a service that throws all away; nobody runs it


async def test_it_follows_and_ends_what_an_operator_ends() -> None:
    async with fronted() as front, Feed(front.url, None) as feed, aclosing(feed.follow()) as follow:
        first = await anext(follow)
        assert isinstance(first, State)
        assert first.requests == []
        front.stub.play(held(3))
        async with asyncio.timeout(8), front.streaming():
            while not (isinstance(news := await anext(follow), State) and news.requests):
                pass
            identity = news.requests[0].id
            await feed.end(identity)
            assert (await feed.request(identity)).phase is Phase.ENDED
            with pytest.raises(Trouble, match="has ended already"):
                await feed.end(identity)


async def test_while_it_is_gone_it_says_since_when_and_goes_on_when_it_is_back() -> None:
    """A gateway of few words in its place: it comes, goes, and comes back at the same port."""
    told = b'data: {"gateway":{"version":"x","started":0,"uptime_ms":1},"upstreams":[],"lines":[],"requests":[]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + told)
        await writer.drain()
        writer.close()

    time = asyncio.get_running_loop().time
    server = await asyncio.start_server(once, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with asyncio.timeout(10), Feed(f"http://{host}:{port}", None) as feed, aclosing(feed.follow()) as follow:
        assert isinstance(await anext(follow), State)
        seen = time()
        server.close()
        await server.wait_closed()
        ended, refused = await anext(follow), await anext(follow)
        assert isinstance(ended, Away)
        assert isinstance(refused, Away)
        assert (ended.why, refused.why) == ("it has ended", "Connection refused")
        assert seen - 1 < refused.since == ended.since <= seen + 1
        async with await asyncio.start_server(once, host, port):
            while not isinstance(back := await anext(follow), State):
                assert back.since == ended.since
            assert isinstance(gone := await anext(follow), Away)
            assert gone.since > ended.since


async def test_who_is_no_operator_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TESTS_TOKEN", "right")
    async with fronted(admin="A_TESTS_TOKEN") as front:
        async with Feed(front.url, "wrong") as feed, aclosing(feed.follow()) as follow:
            away = await anext(follow)
            assert isinstance(away, Away)
            assert away.there
            assert away.why == "the operator's token is needed: the one in SLOTLINE_ADMIN is refused"
            with pytest.raises(Trouble, match="token"):
                await feed.state()
        async with Feed(front.url, None, "MINE") as feed:
            with pytest.raises(Trouble, match=r"token is needed: set MINE, or name another variable with --token-env"):
                await feed.state()
        async with Feed(front.url, "right") as feed:
            assert decoded(await feed.state()).upstreams[0].name == "box"


async def test_nobody_and_strangers_are_troubles() -> None:
    async with Feed(NOBODY, None) as feed:
        with pytest.raises(Trouble, match=f"the gateway at {NOBODY} does not answer: Connection refused"):
            await feed.state()
    with pytest.raises(Trouble, match="no Slotline gateway of this version"):
        decoded(b'{"gateway":1}')
