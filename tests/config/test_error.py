"""What an error shows, and what it never shows."""

from __future__ import annotations

import pytest

from slotline.config import ConfigError
from slotline.config.error import shown_value


def test_an_error_says_where_what_why_and_what_was_meant() -> None:
    error = ConfigError(
        file="slotline.toml", line=3, key="[server] prot", value="9", message="No such key.", nearest="`port`"
    )
    assert str(error) == "slotline.toml:3: [server] prot = 9\n  No such key. Did you mean `port`?"


def test_an_error_of_a_whole_file_names_no_key() -> None:
    assert str(ConfigError(file="x.toml", key="", message="It cannot be read.")) == "x.toml\n  It cannot be read."


def test_a_question_that_the_message_has_answered_is_not_asked() -> None:
    error = ConfigError(file="x", key="k", message='Write api_key_env = "A".', nearest="`api_key_env`")
    assert str(error).endswith('Write api_key_env = "A".')


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("api_key", "marker"),
        ("admin_tokn", "marker"),
        ("hash", "marker"),
        ("password", "marker"),
        ("name", "sk-marker"),
        ("name", "sl-marker"),
        ("url", "http://user:marker@host"),
        ("url", "redis://:marker@host/0"),
        ("upstreams", {"api": "marker"}),
        ("upstreams", [{"api": "marker"}]),
    ],
)
def test_what_may_be_a_secret_is_not_shown(key: str, value: object) -> None:
    assert "marker" not in shown_value(key, value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a\nb", '"a\\nb"'), (True, "true"), (False, "false"), (3, "3"), (["a", 1], '["a", 1]'), ("…", '"…"'), ("", '""')],
)
def test_a_value_is_shown_as_it_would_stand_in_the_file(value: object, shown: str) -> None:
    assert shown_value("key" if value == "" else "name", value) == shown


def test_a_long_value_is_cut() -> None:
    assert len(shown_value("name", "x" * 5000)) == 101
