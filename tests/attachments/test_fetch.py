"""Fetching for strangers: from the hosts on the list, so much and so long at most, and with a reason if not."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fakes.web import Page, Web, moved
from slotline.attachments import fetch as module
from slotline.attachments.fetch import AT_ONCE, REDIRECTS, Fetcher
from slotline.core.errors import Invalid

LIMIT = 1 << 20


@pytest_asyncio.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


async def fetched(web: Web, path: str, *more: str, limit: int = LIMIT, seconds: float = 5.0) -> bytes:
    """What is fetched from `path`, where `web` and the hosts in `more` are on the list."""
    async with Fetcher([web.host, *more], seconds=seconds) as fetcher:
        return base64.b64decode(await fetcher.fetch(web.url(path), limit), validate=True)


async def refusal(web: Web, address: str, *more: str, limit: int = LIMIT, seconds: float = 5.0) -> str:
    """Why nothing is."""
    async with Fetcher([web.host, *more], seconds=seconds) as fetcher:
        with pytest.raises(Invalid) as refused:
            await fetcher.fetch(address, limit)
    return str(refused.value)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 65536, 65537, 200_000])
async def test_what_lies_there_arrives_whole(web: Web, size: int) -> None:
    body = bytes(number % 251 for number in range(size))
    web.pages["/a?b=c"] = Page(body)
    assert await fetched(web, "/a?b=c#part") == body
    assert web.asked == ["/a?b=c"]


async def test_it_is_asked_for_without_a_word_about_who_wants_it(web: Web) -> None:
    web.pages |= {"/a": Page(b"x", headers={"set-cookie": "s=1"})}
    async with Fetcher([web.host]) as fetcher:
        await fetcher.fetch(web.url("/a"), LIMIT)
        await fetcher.fetch(web.url("/a"), LIMIT)
    for head in web.heads:
        names = {line.partition(":")[0] for line in head.splitlines()[1:] if line}
        assert names == {"host", "accept", "accept-encoding", "user-agent", "connection"}
        assert "accept-encoding: identity" in head


async def test_no_proxy_of_the_environment_is_asked(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Web() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url(""))
        monkeypatch.delenv("no_proxy", raising=False)
        web.pages["/a"] = Page(b"x")
        assert await fetched(web, "/a") == b"x"
        assert proxy.asked == []


# ---- where not -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://169.254.169.254/latest", "nothing is fetched from 169.254.169.254, which is not among image_hosts in"),
        ("https://evil.example:8443/?token=SECRET", "nothing is fetched from evil.example:8443, which is not among"),
        ("http://[::1]/", "nothing is fetched from [::1], which"),
        ("file:///etc/passwd", "only http and https addresses are fetched"),
        ("ftp://a/b", "only http and https"),
        ("gopher://a/b", "only http and https"),
        ("//127.0.0.1/a", "only http and https"),
        ("a.png", "only http and https"),
        ("", "only http and https"),
        ("http://", ""),
        ("http://[::1", "it is not a valid address"),
        ("http://a:99999999/", "it is not a valid address"),
        ("http://a b/\x00", ""),
    ],
)
async def test_an_address_elsewhere_is_not_visited(web: Web, address: str, says: str) -> None:
    said = await refusal(web, address)
    assert says in said
    assert "SECRET" not in said
    assert web.asked == []


async def test_an_address_with_a_password_is_not_visited(web: Web) -> None:
    for user in ("user:secret@", "user@", ":secret@"):
        said = await refusal(web, f"http://{user}{web.host}/a")
        assert "a user or a password" in said
        assert "secret" not in said
    assert web.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_on_the_same_list(web: Web, status: int) -> None:
    web.pages |= {"/a": moved("b?x=1", status), "/b?x=1": Page(b"there")}
    assert await fetched(web, "/a") == b"there"


async def test_a_redirect_to_a_host_that_is_not_on_the_list_is_not_followed(web: Web) -> None:
    async with Web({"/secret": Page(b"x")}) as inside:
        web.pages["/a"] = moved(inside.url("/secret"))
        said = await refusal(web, web.url("/a"))
        assert said.startswith(f"nothing is fetched from {inside.host}, which is not among image_hosts in [server]")
        assert inside.asked == []


@pytest.mark.parametrize("to", ["file:///etc/passwd", "", "http://[", "http://u:p@127.0.0.1/"])
async def test_a_redirect_to_what_is_no_address_for_us_is_not_followed(web: Web, to: str) -> None:
    web.pages["/a"] = moved(to)
    assert await refusal(web, web.url("/a"))
    assert set(web.asked) == {"/a"}


async def test_redirects_have_an_end(web: Web) -> None:
    web.pages |= {f"/{number}": moved(f"/{number + 1}") for number in range(REDIRECTS + 1)}
    web.pages[f"/{REDIRECTS}"] = Page(b"there")
    assert await fetched(web, "/0") == b"there"
    web.pages[f"/{REDIRECTS}"] = moved("/there")
    assert await refusal(web, web.url("/0")) == f"it was redirected more than {REDIRECTS} times"


# ---- how much, how long ----------------------------------------------------------------------------------------------


async def test_what_announces_that_it_is_too_large_is_not_read(web: Web) -> None:
    web.pages["/a"] = Page(length=1001, hangs=True)
    assert (await refusal(web, web.url("/a"), limit=1000)).startswith("it is larger than 1000 bytes")


async def test_what_turns_out_to_be_too_large_is_not_read_on(web: Web) -> None:
    web.pages["/a"] = Page(b"x" * 1001, hangs=True)
    assert (await refusal(web, web.url("/a"), limit=1000)).startswith("it is larger than 1000 bytes")
    web.pages["/a"] = Page(b"x" * 1000)
    assert len(await fetched(web, "/a", limit=1000)) == 1000


async def test_what_is_packed_stays_packed(web: Web) -> None:
    """A hundred kilobytes could unpack to a hundred megabytes."""
    web.pages["/a"] = Page(b"\x1f\x8b" + bytes(100), headers={"content-encoding": "gzip"})
    assert (await fetched(web, "/a"))[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("page", [Page(b"x", hangs=True), Page(b"x", length=9, hangs=True)])
async def test_who_takes_too_long_is_left(web: Web, page: Page) -> None:
    web.pages["/a"] = page
    assert await refusal(web, web.url("/a"), seconds=0.1) == f"{web.host} did not send it within 0.1 s"
    async with asyncio.timeout(1):
        await web.left.wait()


async def test_a_fetch_that_is_cancelled_is_left_at_once(web: Web) -> None:
    web.pages["/a"] = Page(b"x", hangs=True)
    async with Fetcher([web.host]) as fetcher:
        fetching = asyncio.create_task(fetcher.fetch(web.url("/a"), LIMIT))
        await web.visited(1)
        fetching.cancel()
        async with asyncio.timeout(1):
            await web.left.wait()
        with pytest.raises(asyncio.CancelledError):
            await fetching


async def test_so_many_are_fetched_at_once_and_no_more(web: Web) -> None:
    web.pages |= {"/slow": Page(hangs=True), "/a": Page(b"x")}
    async with Fetcher([web.host]) as fetcher:
        slow = [asyncio.create_task(fetcher.fetch(web.url("/slow"), LIMIT)) for _ in range(AT_ONCE)]
        await web.visited(AT_ONCE)
        late = asyncio.create_task(fetcher.fetch(web.url("/a"), LIMIT))
        async with asyncio.timeout(5):
            slow[0].cancel()
            await late
            assert web.asked == ["/slow"] * AT_ONCE + ["/a"]
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


# ---- who cannot be asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [204, 206, 304, 401, 404, 500])
async def test_any_other_status_is_a_reason(web: Web, status: int) -> None:
    web.pages["/a"] = Page(status=status)
    assert await refusal(web, web.url("/a")) == f"{web.host} answered with status {status}"


async def test_who_is_not_there_is_named(web: Web) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{nobody.getsockname()[1]}"
        said = await refusal(web, f"http://{host}/a", host)
    assert said.startswith(f"{host} could not be asked: ")
    assert "refused" in said or "connect call failed" in said


async def test_a_name_that_means_nothing_is_named(web: Web) -> None:
    said = await refusal(web, "http://nowhere.invalid/a", "nowhere.invalid")
    assert said.startswith("nowhere.invalid could not be asked: ")


async def test_what_breaks_off_or_is_no_http_is_a_reason(web: Web) -> None:
    web.pages |= {"/short": Page(b"x", length=9), "/odd": Page(headers={"content-length": "no"})}
    for path in ("/short", "/odd"):
        said = await refusal(web, web.url(path))
        assert said == f"{web.host} could not be asked: the connection broke, or it does not speak HTTP"


async def test_who_does_not_speak_tls_is_not_trusted() -> None:
    def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Fetcher([host]) as fetcher:
            with pytest.raises(Invalid, match="no trusted TLS connection could be made"):
                await fetcher.fetch(f"https://{host}/a", LIMIT)


async def test_nothing_is_fetched_outside_of_the_block(web: Web) -> None:
    with pytest.raises(RuntimeError):
        await Fetcher([web.host]).fetch(web.url("/a"), LIMIT)


def test_the_limits_are_those_of_the_page() -> None:
    assert (module.CONNECT, module.AT_ONCE, module.REDIRECTS, module.PATIENCE) == (5.0, 16, 3, 30.0)


async def test_another_list_holds_from_now_on(web: Web) -> None:
    web.pages["/a"] = Page(b"x")
    async with Fetcher([]) as fetcher:
        with pytest.raises(Invalid, match="image_hosts"):
            await fetcher.fetch(web.url("/a"), LIMIT)
        fetcher.allow([web.host])
        assert await fetcher.fetch(web.url("/a"), LIMIT) == "eA=="
        fetcher.allow([])
        with pytest.raises(Invalid, match="image_hosts"):
            await fetcher.fetch(web.url("/a"), LIMIT)
