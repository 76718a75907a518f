"""Where the file is looked for, how it is read, and secrets from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotline.config import AdminConfig, ConfigError, UpstreamConfig, admin_token, api_key, candidates, find, read

BOX = UpstreamConfig(name="box1", url="http://127.0.0.1:1", api_key_env="BOX1_KEY")


def user_file(home: Path) -> Path:
    file = home / ".config" / "slotline" / "slotline.toml"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_a_file_that_is_named_is_the_one_whether_it_exists_or_not(tmp_path: Path) -> None:
    (tmp_path / "slotline.toml").touch()
    assert find(tmp_path / "other.toml", folder=tmp_path, environ={}) == tmp_path / "other.toml"


def test_the_folders_file_goes_before_the_users(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    assert find(None, folder=tmp_path, environ=environ) is None
    users = user_file(tmp_path / "home")
    assert find(None, folder=tmp_path, environ=environ) == users
    (tmp_path / "slotline.toml").touch()
    assert find(None, folder=tmp_path, environ=environ) == tmp_path / "slotline.toml"


def test_xdg_config_home_takes_the_place_of_dot_config_if_it_is_absolute(tmp_path: Path) -> None:
    home = {"HOME": "/home/u"}
    assert candidates(folder=tmp_path, environ=home | {"XDG_CONFIG_HOME": "/etc/u"})[1] == Path(
        "/etc/u/slotline/slotline.toml"
    )
    for other in ("", "relative"):
        assert candidates(folder=tmp_path, environ=home | {"XDG_CONFIG_HOME": other})[1] == Path(
            "/home/u/.config/slotline/slotline.toml"
        )


def test_reading_names_the_file_in_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "slotline.toml"
    file.write_text("[server]\nport = 1234\n")
    config = read(file)
    assert (config.source, config.server.port) == (str(file), 1234)


@pytest.mark.parametrize(
    ("content", "says"), [(None, "No such file"), (b"", "Is a directory"), (b"# \xff", r"not UTF-8 text \(byte 2\)")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "slotline.toml"
    if content == b"":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as error:
        read(file)
    assert error.value.file == str(file)


def test_the_key_of_an_upstream_is_what_its_variable_holds() -> None:
    assert api_key(BOX, {"BOX1_KEY": "sk-1\n"}) == "sk-1"
    assert api_key(UpstreamConfig(name="a", url="http://a"), {"BOX1_KEY": "sk-1"}) is None


@pytest.mark.parametrize(
    ("environ", "says"),
    [({}, "is not set"), ({"BOX1_KEY": " "}, "is empty"), ({"BOX1_KEY": "hunter2\r\nx: y"}, "HTTP header")],
)
def test_a_key_that_is_missing_or_cannot_be_sent_is_an_error_that_does_not_show_it(
    environ: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        api_key(BOX, environ)
    assert 'environment: [[upstream]] "box1" api_key_env\n  The environment variable BOX1_KEY' in str(error.value)
    assert "hunter2" not in str(error.value)


def test_the_token_of_an_operator_is_what_its_variable_holds() -> None:
    assert admin_token(AdminConfig(token_env="A"), {"A": "marker\n"}) == "marker"
    assert admin_token(AdminConfig(), {"A": "marker"}) is None


@pytest.mark.parametrize("environ", [{}, {"A": ""}, {"A": "marker\r\nx: y"}])
def test_an_operators_token_that_is_missing_is_an_error_that_does_not_show_it(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="The environment variable A") as error:
        admin_token(AdminConfig(token_env="A"), environ)
    assert (error.value.file, error.value.key) == ("environment", "[admin] token_env")
    assert "marker" not in str(error.value)
