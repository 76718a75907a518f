"""Where an upstream listens."""

from __future__ import annotations

import aiohttp
import pytest

from slotline.upstream.address import Address


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8081/", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8081/v1", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8081/v1/", "http://127.0.0.1:8081"),
        ("http://[::1]:8081/v1", "http://[::1]:8081"),
        ("https://host/some/path/v1", "https://host/some/path"),
        ("https://host/some/path", "https://host/some/path"),
        ("https://host/api-v1", "https://host/api-v1"),
    ],
)
def test_with_or_without_v1_it_is_the_same_server(url: str, base: str) -> None:
    address = Address.parse(url)
    assert address == Address(base)
    assert address.url("/v1/models") == f"{base}/v1/models"
    assert address.url("/slots") == f"{base}/slots"


def test_a_unix_socket_is_a_path_and_the_routes_are_those_of_any_server() -> None:
    address = Address.parse("unix:/run/llama.sock")
    assert address.socket == "/run/llama.sock"
    assert address.url("/v1/models") == "http://localhost/v1/models"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "unix:/run/llama.sock"])
async def test_connections_are_as_many_as_are_asked_for_and_used_once_or_kept_as_told(url: str) -> None:
    address = Address.parse(url)
    once, kept = address.connector(), address.connector(7.5)
    assert once.limit == kept.limit == once.limit_per_host == kept.limit_per_host == 0
    assert once.force_close
    assert not kept.force_close
    assert kept._keepalive_timeout == 7.5
    assert isinstance(kept, aiohttp.UnixConnector if address.socket else aiohttp.TCPConnector)
    await once.close()
    await kept.close()
