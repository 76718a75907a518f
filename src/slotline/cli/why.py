"""`slotline why`: why a request waits, and for how long, in one sentence."""

from __future__ import annotations

import os
import sys
from http.client import HTTPException
from typing import Final
from urllib.parse import quote

import click
import msgspec

from slotline.cli.printable import harmless, one_line
from slotline.cli.running import ask, url_option

_WITHIN: Final = 10.0  # seconds for the answer
_TOKEN: Final = "SLOTLINE_ADMIN"  # noqa: S105 - the name of a variable, the one that the example configuration has


class _Said(msgspec.Struct):
    why: str


class _Error(msgspec.Struct):
    message: str


class _Refused(msgspec.Struct):
    error: _Error


@click.command()
@click.argument("id")
@url_option
@click.option(
    "--token-env",
    default=_TOKEN,
    show_default=True,
    metavar="NAME",
    help="The variable that holds the operator's token, or the key that the request came with.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all that is known of it, as one JSON object.")
def why(id: str, url: str, token_env: str, *, as_json: bool) -> None:  # noqa: A002 - it is the id
    """Say why the request ID waits, and for how long; or what it does, or how it ended.

    Its ID is the header request-id of its answer, and stands in the gateway's log.
    """
    try:
        status, body = ask(f"{url}/api/requests/{quote(id, safe='')}", os.environ.get(token_env) or None, _WITHIN)
        if status == 200:
            said = msgspec.json.decode(body, type=_Said)
            click.echo(harmless(body) if as_json else one_line(f"{id} {said.why}"))
            return
        problem = _refusal(status, body)
    except (OSError, HTTPException) as error:
        problem = f"the gateway at {url} does not answer: {getattr(error, 'reason', None) or error}"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = f"what answers at {url} is no Slotline gateway"
    click.echo(f"slotline: {one_line(problem)}", err=True)
    sys.exit(1)


def _refusal(status: int, body: bytes) -> str:
    """The gateway's own words. Raises MsgspecError where it was not the gateway that said them."""
    said = msgspec.json.decode(body, type=_Refused).error.message
    return said if status < 500 else f"{said} (status {status})"
