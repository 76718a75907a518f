"""`slotline keys`: keys for those who may use the gateway."""

from __future__ import annotations

import base64
import json
import secrets
import sys

import click

from slotline.config import ConfigError, load
from slotline.core.keys import digest

_BYTES = 32  # as much as the hash can tell apart, so that guessing is hopeless and no salt is needed


@click.group()
def keys() -> None:
    """Keys for those who may use the gateway."""


@keys.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: name, key, hash.")
def new(name: str, *, as_json: bool) -> None:
    """Make a key for NAME.

    Prints the key, and the table that lets it in, for the configuration. The gateway needs only its hash: nothing can
    show the key again.
    """
    key = "sl-" + base64.urlsafe_b64encode(secrets.token_bytes(_BYTES)).rstrip(b"=").decode()
    known = f"sha256:{digest(key).hex()}"
    table = _table(name, known)
    if as_json:
        click.echo(json.dumps({"name": name, "key": key, "hash": known}))
        return
    _say(f"The key, for {name}; it is shown this once:")
    click.echo(f"{key}\n")
    _say("For the configuration:")
    click.echo(table)


def _table(name: str, known: str) -> str:
    """What lets the key in. Raises BadParameter for a name that the configuration would refuse.

    A string of JSON is one of TOML, too: https://toml.io/en/v1.0.0#string
    """
    table = f'[[key]]\nname = {json.dumps(name, ensure_ascii=False)}\nhash = "{known}"'
    try:
        load(table, source="NAME")
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint="NAME") from None
    return table


def _say(text: str) -> None:
    """A word for people; in a pipe the output stands alone."""
    if sys.stderr.isatty():
        click.echo(text, err=True)
