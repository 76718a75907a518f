"""Where the configuration's file is, and the secrets that it names: what touches the disk and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from slotline.config.error import ConfigError
from slotline.config.load import load
from slotline.config.values import AdminConfig, ClusterConfig, Config, UpstreamConfig

FILE_NAME = "slotline.toml"


def candidates(*, folder: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that are looked for without `--config`, in this order: `folder`'s, then the user's.

    https://specifications.freedesktop.org/basedir-spec/latest/: a relative `XDG_CONFIG_HOME` is to be ignored.
    """
    named = Path(environ.get("XDG_CONFIG_HOME", ""))
    user = named if named.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".config"
    return (folder / FILE_NAME, user / "slotline" / FILE_NAME)


def find(
    explicit: Path | None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Path | None:
    """The file to read: `explicit`, whether it exists or not; else the first candidate that exists; else None.

    `folder` and `environ` are those of the process unless given.
    """
    if explicit is not None:
        return explicit
    places = candidates(folder=folder or Path(), environ=os.environ if environ is None else environ)
    return next((place for place in places if place.exists()), None)


def read(path: Path) -> Config:
    """The configuration in the file at `path`. Raises `ConfigError`, also where it cannot be read."""
    source = str(path)
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(file=source, key="", message=f"It cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(file=source, key="", message=f"It is not UTF-8 text (byte {error.start}).") from None
    return load(text, source=source)


def api_key(upstream: UpstreamConfig, environ: Mapping[str, str]) -> str | None:
    """The key to show to `upstream`, None where none is configured.

    Raises `ConfigError` where one is configured and the environment lacks it: a request without it would be refused
    by the upstream, later and with less to go by.
    """
    return _secret(upstream.api_key_env, environ, f'[[upstream]] "{upstream.name}" api_key_env')


def admin_token(config: AdminConfig, environ: Mapping[str, str]) -> str | None:
    """What an operator must show from anywhere, None where none is configured.

    Raises `ConfigError` where one is configured and the environment lacks it: whoever asked for a token is not to be
    left without one unawares.
    """
    return _secret(config.token_env, environ, "[admin] token_env")


def cluster_password(config: ClusterConfig, environ: Mapping[str, str]) -> str | None:
    """The password of the server, None where none is configured. Raises `ConfigError` as the others do."""
    return _secret(config.password_env, environ, "[cluster] password_env")


def _secret(variable: str | None, environ: Mapping[str, str], key: str) -> str | None:
    """What `variable` holds, which is in no message. `key`: the setting that names it."""
    if variable is None:
        return None
    secret = environ.get(variable, "").strip()
    problem = None
    if not secret:
        problem = "is not set" if variable not in environ else "is empty"
    elif not (secret.isascii() and secret.isprintable()):
        problem = "holds characters that no HTTP header can carry"
    if problem is None:
        return secret
    raise ConfigError(file="environment", key=key, message=f"The environment variable {variable} {problem}.")
