"""Where the configuration's file is, and the secrets that it names: what touches the disk and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from slotline.config.error import ConfigError
from slotline.config.load import load
from slotline.config.values import Config, UpstreamConfig

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
    by the upstream, later and with less to go by. What the variable holds is in no message.
    """
    variable = upstream.api_key_env
    if variable is None:
        return None
    key = environ.get(variable, "").strip()
    problem = None
    if not key:
        problem = "is not set" if variable not in environ else "is empty"
    elif not (key.isascii() and key.isprintable()):
        problem = "holds characters that no HTTP header can carry"
    if problem is None:
        return key
    raise ConfigError(
        file="environment",
        key=f'[[upstream]] "{upstream.name}" api_key_env',
        message=f"The environment variable {variable} {problem}.",
    )
