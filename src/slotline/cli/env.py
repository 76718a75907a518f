"""`slotline env`: what a client wants in its environment, so that it waits in line for as long as the line is.

Only `export` lines and comments go to standard output, quoted for a shell: `eval "$(slotline env claude-code)"`.
"""

from __future__ import annotations

import json
import shlex
from http import HTTPStatus
from typing import Final

import click
import msgspec

from slotline.cli.running import ask, url_option

_TOKEN: Final = "unused"  # noqa: S105 - the client insists on one; without keys the gateway asks for none
_ASKED: Final = 3.0  # seconds for the gateway to list its models
_HOUR: Final = "3600000"  # milliseconds

# What was tried with which version: docs/queue-extension.md.
_WAIT: Final = (
    ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", _HOUR, "a wait in line is no dead connection"),
    ("API_TIMEOUT_MS", _HOUR, "the same, for calls that do not stream"),
    ("API_FORCE_IDLE_TIMEOUT", "0", "the same, for the connection itself"),
    ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1", "no second copy of a request that still waits"),
    ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0", "nothing in the prompt that is new with every request"),
)
_MODELS: Final = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
)


class _Listed(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Listed]


def claude_code(url: str, token: str, model: str | None) -> dict[str, str]:
    """The variables, by name, in the order in which they are printed. `model` None: the client's own choice stays."""
    models = {} if model is None else dict.fromkeys(_MODELS, model)
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": token,
        **models,
        **{name: value for name, value, _ in _WAIT},
    }


def first_model(url: str, token: str) -> str | None:
    """The model that the gateway at `url` lists first; None if it lists none or cannot be asked."""
    return _asked(url, token)[1]


def _asked(url: str, token: str) -> tuple[int | None, str | None]:
    """The status, None where nobody answers, and the model."""
    status = None
    try:
        status, body = ask(f"{url}/v1/models", token, _ASKED)
        listed = msgspec.json.decode(body, type=_Models).data
    except (OSError, ValueError):  # refused, silent, another server, no JSON
        return status, None
    return status, listed[0].id if listed else None


def _missing(url: str, token: str, status: int | None) -> str:
    """Why there is no model."""
    if status != HTTPStatus.UNAUTHORIZED:
        return f"the gateway at {url} told no model; is it running? --model names one"
    wants = "needs a key: --token" if token == _TOKEN else "does not know the key of --token"
    return f"the gateway at {url} {wants}"


@click.group()
def env() -> None:
    """Environment variables for clients that are to wait in line."""


@env.command("claude-code")
@url_option
@click.option("--token", default=_TOKEN, show_default=True, metavar="KEY", help="A key, where the gateway has keys.")
@click.option("--model", metavar="NAME", help="The model. Default: the first one that the gateway lists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object of names and values.")
def claude_code_command(url: str, token: str, model: str | None, *, as_json: bool) -> None:
    """Print what Claude Code wants: eval "$(slotline env claude-code)"

    Its models are all set to one, for the model of its choice is not on your server.
    """
    status, chosen = (None, model) if model else _asked(url, token)
    variables = claude_code(url, token, chosen)
    if chosen is None:
        click.echo(_missing(url, token, status), err=True)
    if as_json:
        click.echo(json.dumps(variables))
        return
    why = {name: reason for name, _, reason in _WAIT}
    if chosen is None:
        click.echo("# ANTHROPIC_MODEL: the gateway told no model; name one with --model")
    for name, value in variables.items():
        if name in why:
            click.echo(f"# {why[name]}")
        click.echo(f"export {name}={shlex.quote(value)}")
