"""Every kind of value: what is taken, what is refused, and with which advice."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from slotline.config import settings as s
from slotline.config.error import BadValue


def refusal(setting: s.Setting, value: object) -> BadValue:
    with pytest.raises(BadValue) as refused:
        setting.read(value)
    return refused.value


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8081/", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8081/v1", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8081/v1/", "http://127.0.0.1:8081"),
        ("https://box/llama/v1", "https://box/llama"),
        ("https://box", "https://box"),
        ("http://[::1]:8081/v1", "http://[::1]:8081"),
        ("http://box:1/apiv1", "http://box:1/apiv1"),
        ("unix:/run/llama.sock", "unix:/run/llama.sock"),
        ("unix:///run/llama.sock", "unix:/run/llama.sock"),
    ],
)
def test_an_upstream_url_is_a_base_with_or_without_v1(written: str, base: str) -> None:
    assert s.url(written) == base


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("127.0.0.1:8081", '"http://127.0.0.1:8081"'),
        ("localhost:8081", '"http://localhost:8081"'),
        ("box1", '"http://box1"'),
        ("/run/llama.sock", '"unix:/run/llama.sock"'),
        ("http://box/v1/chat/completions", '"http://box/v1"'),
        ("http://box/v1/models", '"http://box/v1"'),
        ("ftp://box", None),
        ("http://", None),
        ("http://:80", None),
        ("http://box:99999", None),
        ("http://box:0", None),
        ("http://box:port", None),
        ("http://[::1", None),
        ("http://box/?a=1", None),
        ("http://box/#a", None),
        ("http://b ox", None),
        ("unix:run/llama.sock", None),
        ("unix:", None),
        ("unix:/", None),
        ("unix:/run/", None),
        ("unix:/" + "x" * 107, None),
        ("http://box\n", None),
        ("", None),
        (8081, '"8081"'),
    ],
)
def test_what_is_no_base_is_refused_with_the_right_one_where_it_is_plain(written: object, meant: str | None) -> None:
    assert refusal(s.Setting(s.url), written).nearest == meant


def test_a_password_in_a_url_is_refused() -> None:
    assert "api_key_env" in refusal(s.Setting(s.url), "http://user:pass@box").message


@pytest.mark.parametrize("written", ["redis://127.0.0.1:6379/0", "rediss://r/1", "unix:/run/redis.sock"])
def test_a_redis_url_is_taken_as_it_is(written: str) -> None:
    assert s.redis_url(written) == written


@pytest.mark.parametrize(
    "written", ["127.0.0.1:6379", "redis://:pass@r/0", "redis://r/0?password=p", "redis://", "http://r"]
)
def test_a_redis_url_without_scheme_or_with_a_password_is_refused(written: str) -> None:
    assert refusal(s.Setting(s.redis_url), written).message


@pytest.mark.parametrize("written", ["/llm", "/a/b", "/my-llm_1.0~x", "/vllm", "/chats"])
def test_a_prefix_is_a_plain_path(written: str) -> None:
    assert s.prefix(written) == written


@pytest.mark.parametrize(("written", "meant"), [("llm", '"/llm"'), ("/llm/", '"/llm"'), ("//llm", '"/llm"')])
def test_a_prefix_without_its_slash_is_refused_with_it(written: str, meant: str) -> None:
    assert refusal(s.Setting(s.prefix), written).nearest == meant


@pytest.mark.parametrize(
    "written",
    [
        "",
        "/",
        "/v1",
        "/api",
        "/api/x",
        "/chat",
        "/metrics",
        "/healthz",
        "/readyz",
        "/a//b",
        "/..",
        "/a/.",
        "/{x}",
        "/ä",
    ],
)
def test_a_prefix_that_is_empty_odd_or_hides_a_route_is_refused(written: str) -> None:
    assert refusal(s.Setting(s.prefix), written).message


@pytest.mark.parametrize("written", ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost", "box-1.lan", "box_1"])
def test_a_host_is_an_address_or_a_name(written: str) -> None:
    assert s.host(written) == written


@pytest.mark.parametrize(
    ("written", "meant"), [("[::1]", '"::1"'), ("127.0.0.1:80", None), ("http://x", None), ("", None), ("a b", None)]
)
def test_a_host_with_brackets_or_a_port_is_refused(written: str, meant: str | None) -> None:
    assert refusal(s.Setting(s.host), written).nearest == meant


@pytest.mark.parametrize(
    ("address", "alone"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.1", False),
        ("box", False),
        ("localhost.evil", False),
    ],
)
def test_only_addresses_that_no_other_machine_reaches_are_loopback(address: str, alone: bool) -> None:
    assert s.is_loopback(address) is alone


@pytest.mark.parametrize(
    ("setting", "written", "meant"),
    [
        (s.Setting(s.flag), "true", "true"),
        (s.Setting(s.flag), "yes", None),
        (s.Setting(s.flag), 1, None),
        (s.whole(1), "8", "8"),
        (s.whole(1), 0, None),
        (s.whole(1), -1, None),
        (s.whole(0), True, None),
        (s.whole(0), 1.0, None),
        (s.whole(0), "many", None),
        (s.whole(0, 65535), 65536, None),
        (s.whole(0), 2**31, None),
        (s.Setting(s.slots), "4", "4"),
        (s.Setting(s.slots), 0, None),
        (s.Setting(s.slots), "Auto", None),
        (s.choice(("event", "ping")), "events", '"event"'),
        (s.choice(("event", "ping")), "EVENT", '"event"'),
        (s.choice(("event", "ping")), "carrier pigeon", None),
        (s.choice(("event", "ping")), 3, None),
        (s.duration(), "0s", None),
        (s.size(), 0, None),
        (s.Setting(s.name), " box", None),
        (s.Setting(s.name), "x" * 101, None),
        (s.Setting(s.name), "a\tb", None),
        (s.Setting(s.names), [], None),
        (s.Setting(s.names), ["a", "a"], None),
        (s.Setting(s.names), 3, None),
        (s.Setting(s.patterns), "claude-*", '["claude-*"]'),
        (s.Setting(s.patterns), [""], None),
        (s.Setting(s.hosts), "a.example", '["a.example"]'),
        (s.Setting(s.hosts), ["https://a.example/x"], '"a.example"'),
        (s.Setting(s.hosts), ["https://u:p@a.example:81/"], '"a.example:81"'),
        (s.Setting(s.hosts), ["a.example/x"], None),
        (s.Setting(s.hosts), ["*"], None),
        (s.Setting(s.hosts), ["*.*.example"], None),
        (s.Setting(s.hosts), ["a*.example"], None),
        (s.Setting(s.hosts), ["*.0.0.1"], None),
        (s.Setting(s.hosts), ["a.example:0"], None),
        (s.Setting(s.hosts), ["a.example:65536"], None),
        (s.Setting(s.hosts), ["::1"], None),
        (s.Setting(s.hosts), ["[::x]"], None),
        (s.Setting(s.hosts), ["[1.2.3]"], None),
        (s.Setting(s.hosts), ["a.example", "A.example"], None),
        (s.Setting(s.hosts), [5], '"5"'),
        (s.Setting(s.env_name), "sk-12345", None),
        (s.Setting(s.env_name), "", None),
        (s.Setting(s.env_name), "A B", None),
        (s.Setting(s.env_name), 5, None),
        (s.Setting(s.key_hash), "sl-12345", None),
        (s.Setting(s.key_hash), "sha256:12", None),
        (s.Setting(s.key_hash), "sha256:" + "g" * 64, None),
        (s.Setting(s.key_hash), f"sha256:{hashlib.sha256().hexdigest()}", None),
    ],
)
def test_a_wrong_value_is_refused_and_the_right_one_named_where_it_is_plain(
    setting: s.Setting, written: object, meant: str | None
) -> None:
    assert refusal(setting, written).nearest == meant


@pytest.mark.parametrize(
    ("setting", "written", "read"),
    [
        (s.duration(zero=True), "0s", 0.0),
        (s.whole(0, 65535), 65535, 65535),
        (s.Setting(s.slots), "auto", "auto"),
        (s.Setting(s.names), "box1", ("box1",)),
        (s.Setting(s.names), ["a", "b"], ("a", "b")),
        (s.Setting(s.patterns), [], ()),
        (s.Setting(s.hosts), [], ()),
        (
            s.Setting(s.hosts),
            ["Pictures.Example", "*.example.org:8443", "10.0.0.1", "[::1]:80", "[fe80::1]", "localhost"],
            ("pictures.example", "*.example.org:8443", "10.0.0.1", "[::1]:80", "[fe80::1]", "localhost"),
        ),
        (s.Setting(s.name), "größe 1/2:3", "größe 1/2:3"),
        (s.Setting(s.key_hash), "sha256:" + "AB" * 32, "sha256:" + "ab" * 32),
    ],
)
def test_a_right_value_is_read(setting: s.Setting, written: object, read: Any) -> None:
    assert setting.read(written) == read
