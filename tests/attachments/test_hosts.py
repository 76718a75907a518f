"""Which hosts are on the list, and which of their addresses may be visited."""

from __future__ import annotations

import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from slotline.attachments.hosts import Hosts, PublicOnly, shown

LIST = Hosts(["pictures.example", "files.example:8443", "*.cdn.example", "*.dev.example:81", "[::1]:9", "10.0.0.1"])


@pytest.mark.parametrize(
    "url",
    [
        "https://pictures.example/a.png",
        "http://pictures.example/a.png",
        "http://PICTURES.example./a.png",
        "https://pictures.example:443/",
        "https://files.example:8443/",
        "https://a.cdn.example/",
        "https://a.b.cdn.example/",
        "http://x.dev.example:81/",
        "http://[::1]:9/",
        "http://10.0.0.1/",
    ],
)
def test_a_host_on_the_list_is_allowed_at_its_port(url: str) -> None:
    assert LIST.allow(URL(url))


@pytest.mark.parametrize(
    "url",
    [
        "https://example/",
        "https://evil.example/",
        "https://pictures.example.evil/",
        "https://notpictures.example/",
        "https://sub.pictures.example/",
        "https://pictures.example:8443/",
        "https://files.example/",
        "http://files.example:443/",
        "https://cdn.example/",
        "https://evilcdn.example/",
        "https://a.cdn.example:81/",
        "https://pictures.example@evil.example/",
        "https://evil.example/?pictures.example",
        "https://evil.example#pictures.example",
        "https://evil.example/pictures.example",
        "http://[::1]/",
        "http://10.0.0.2/",
        "http://167772161/",  # 10.0.0.1 in other words, which no list would have
    ],
)
def test_nothing_else_is(url: str) -> None:
    assert not LIST.allow(URL(url))


def test_an_empty_list_allows_nothing() -> None:
    assert not Hosts([]).allow(URL("http://127.0.0.1/"))


def test_an_address_is_no_name_below_another() -> None:
    assert not Hosts(["*.0.0.1"]).allow(URL("http://127.0.0.1/"))


def test_a_host_is_shown_as_it_would_stand_in_the_list() -> None:
    for entry, url in (("a.example", "https://a.example/x"), ("a.example:8080", "http://a.example:8080/x")):
        assert shown(URL(url)) == entry
        assert Hosts([entry]).allow(URL(url))
    assert shown(URL("http://[::1]:8080/x")) == "[::1]:8080"
    assert Hosts(["[::1]:8080"]).allow(URL("http://[::1]:8080/x"))


# ---- addresses -------------------------------------------------------------------------------------------------------


class Names(AbstractResolver):
    """A resolver by hand."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self.addresses
        ]

    async def close(self) -> None:
        self.closed = True


INSIDE = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:127.0.0.1", "0.0.0.0", "fd00::1"]


@pytest.mark.parametrize("address", INSIDE)
async def test_a_name_that_only_a_star_allows_does_not_lead_inside(address: str) -> None:
    with pytest.raises(OSError, match="public address"):
        await PublicOnly(LIST, Names(address)).resolve("a.cdn.example", 443)


async def test_of_its_addresses_the_public_ones_are_left() -> None:
    found = await PublicOnly(LIST, Names("10.0.0.1", "9.9.9.9", "::1")).resolve("a.cdn.example", 443)
    assert [each["host"] for each in found] == ["9.9.9.9"]


@pytest.mark.parametrize("name", ["pictures.example", "Pictures.example.", "files.example"])
async def test_a_name_that_stands_in_the_list_may_lead_anywhere(name: str) -> None:
    found = await PublicOnly(LIST, Names("10.0.0.1", "::1")).resolve(name, 443)
    assert [each["host"] for each in found] == ["10.0.0.1", "::1"]


async def test_closing_it_closes_what_is_inside() -> None:
    names = Names()
    await PublicOnly(LIST, names).close()
    assert names.closed
