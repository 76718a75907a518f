"""`slotline check`: what the configuration means, without starting anything.

`upstream_rows`, `limit_rows` and `columns` are also what `serve` prints from; a probe adds a table of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from slotline.cli.probing import PROBE_HEAD, probe
from slotline.config import (
    ENGINE_URL,
    TABLES,
    Config,
    ConfigError,
    UpstreamConfig,
    admin_token,
    api_key,
    cluster_password,
    embedded,
    find,
    read,
)
from slotline.wiring import NO_CLIENT

UPSTREAM_HEAD = ("upstream", "url", "kind", "slots", "queue", "models")
KEY_HEAD = ("key", "weight", "priority", "running", "waiting", "models")
_LIMITS = TABLES["upstream"].tables["limits"]
_SERVER_LIMITS = ("max_body", "max_waiting", "grace", "keepalive", "rejoin", "drain")


def configuration(path: Path | None) -> Config:
    """What `serve` and `check` work with: the file named, else the one found, else the embedded engine alone."""
    found = find(path)
    return embedded() if found is None else read(found)


def upstream_rows(config: Config) -> list[tuple[str, ...]]:
    """One row per upstream, in the order of the file; the columns are those of `UPSTREAM_HEAD`."""
    return [
        (
            upstream.name,
            _address(config, upstream),
            upstream.kind or "auto",
            _slots(upstream),
            str(upstream.queue),
            _models(config, upstream.name),
        )
        for upstream in config.upstreams
    ]


def limit_rows(config: Config) -> list[tuple[str, ...]]:
    """One row per limit, one column per upstream; see `limit_head`."""
    show = TABLES["upstream"].settings["queue_wait"].show
    in_line = (show(upstream.queue_wait) if upstream.queue_wait else "no limit" for upstream in config.upstreams)
    limits = [
        (key, *(setting.show(getattr(upstream.limits, key)) for upstream in config.upstreams))
        for key, setting in _LIMITS.settings.items()
    ]
    return [("queue_wait", *in_line), *limits]


def limit_head(config: Config) -> tuple[str, ...]:
    """The head of `limit_rows`."""
    return ("limit", *(upstream.name for upstream in config.upstreams))


def server_rows(config: Config) -> list[tuple[str, ...]]:
    """The limits of the gateway as a whole: name and value."""
    settings = TABLES["server"].settings
    return [(key, settings[key].show(getattr(config.server, key))) for key in _SERVER_LIMITS]


def key_rows(config: Config) -> list[tuple[str, ...]]:
    """One row per key, in the order of the file, without its hash; the columns are those of `KEY_HEAD`."""
    return [
        (key.name, str(key.weight), key.priority, str(key.running), str(key.waiting), ", ".join(key.models) or "none")
        for key in config.keys
    ]


def who_may_ask(config: Config) -> str:
    """In a few words."""
    if config.keys:
        return f"{len(config.keys)} keys" if len(config.keys) > 1 else "1 key"
    return "no keys, open: whoever reaches the port" if config.server.open else "no keys: loopback only"


def shared_rows(config: Config) -> list[tuple[str, str]]:
    """Who operates the gateway, and with whom it shares its line, where the file says so: name and words.

    Variables are named, and what they hold is not: `unset` tells of those that are missing.
    """
    rows = []
    if config.admin.token_env is not None:
        rows.append(("operators", f"the token in {config.admin.token_env}"))
    if (cluster := config.cluster) is not None:
        lease = TABLES["cluster"].settings["lease"].show(cluster.lease)
        password = f"the password in {cluster.password_env}" if cluster.password_env is not None else "no password"
        rows.append(("cluster", f"{cluster.url}, namespace {cluster.namespace}, lease {lease}, {password}"))
    return rows


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text: each column as wide as its widest cell, two blanks between, none at the ends of lines."""
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def summary(config: Config) -> str:
    """The whole in text, for a person."""
    server = config.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    return "\n".join(
        (
            f"configuration  {config.source}",
            f"listens on     http://{host}:{server.port}, first-party mount {server.prefix}",
            f"who may ask    {who_may_ask(config)}",
            *(f"{name:<13}  {words}" for name, words in shared_rows(config)),
            "",
            columns(UPSTREAM_HEAD, upstream_rows(config)),
            "",
            columns(("limit", "gateway"), server_rows(config)),
            "",
            columns(limit_head(config), limit_rows(config)),
        )
    )


def url_rows(url: str, prefix: str) -> list[tuple[str, str]]:
    """Where to go with a gateway that listens at `url`."""
    near = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")  # all addresses are none to go to
    return [
        ("dashboard", f"{near}/"),
        ("chat", f"{near}/chat"),
        ("metrics", f"{near}/metrics"),
        ("Claude Code", f"ANTHROPIC_BASE_URL={near}"),
        ("OpenAI clients", f"OPENAI_BASE_URL={near}/v1"),
        ("a page of yours", f"{near}{prefix}/v1/messages"),
    ]


def unset(config: Config, environ: Mapping[str, str]) -> list[ConfigError]:
    """What is right in the file and keeps `serve` from starting here.

    That is secrets that the environment lacks, and the client of Redis where the line is shared.
    """
    found = []
    asks = [*(partial(api_key, upstream) for upstream in config.upstreams), partial(admin_token, config.admin)]
    if config.cluster is not None:
        asks.append(partial(cluster_password, config.cluster))
        if find_spec("redis") is None:
            found.append(ConfigError(file=config.source, key="[cluster]", message=NO_CLIENT))
    for ask in asks:
        try:
            ask(environ)
        except ConfigError as error:
            found.append(error)
    return found


def as_json(config: Config) -> dict[str, Any]:
    """The whole under the names of the file; durations in seconds, sizes in bytes.

    A key's hash is not in it.
    """
    plain: dict[str, Any] = msgspec.to_builtins(config)
    for upstream in plain["upstream"]:
        upstream["kind"] = upstream["kind"] or "auto"
        upstream["slots"] = upstream["slots"] or "auto"
    for key in plain["key"]:
        del key["hash"]
    return {"ok": True, **plain}


def error_as_json(error: ConfigError) -> dict[str, Any]:
    """The fault in parts."""
    parts = ("file", "line", "key", "value", "message", "nearest")
    return {"ok": False, "error": {part: getattr(error, part) for part in parts}}


@click.command()
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to read. Default: ./slotline.toml, the user's configuration folder, or else the embedded engine.",
)
@click.option(
    "--probe", "probes", is_flag=True, help="Ask each upstream how it is, which kind, models and slots it has."
)
@click.option("--json", "wants_json", is_flag=True, help="For a program: one JSON object on standard output.")
def check(path: Path | None, *, probes: bool, wants_json: bool) -> None:
    """Read the configuration and print what it means.

    Exit status 0: it is right; 1: it is not, or a secret that it names is not set, or what it needs is not installed,
    or, with --probe, an upstream cannot be reached.
    """
    try:
        config = configuration(path)
    except ConfigError as error:
        _fail([error], wants_json=wants_json)
    if errors := unset(config, os.environ):
        _fail(errors, wants_json=wants_json)
    found = probe(config) if probes else ()
    if wants_json:
        seen = {"probe": [each.as_json() for each in found]} if probes else {}
        click.echo(msgspec.json.encode(as_json(config) | seen))
    else:
        click.echo(summary(config))
        if config.keys:
            click.echo("\n" + columns(KEY_HEAD, key_rows(config)))
        if probes:
            click.echo("\n" + columns(PROBE_HEAD, [each.row() for each in found]))
    if not all(each.well for each in found):
        sys.exit(1)


def _fail(errors: Sequence[ConfigError], *, wants_json: bool) -> NoReturn:
    """All of `errors` for people, the first for a program."""
    for error in errors:
        click.echo(str(error), err=True)
    if wants_json:
        click.echo(msgspec.json.encode(error_as_json(errors[0])))
    sys.exit(1)


def _address(config: Config, upstream: UpstreamConfig) -> str:
    model = config.engine.model if config.engine is not None else ""
    return f"embedded: {model}" if upstream.url == ENGINE_URL else upstream.url


def _slots(upstream: UpstreamConfig) -> str:
    slots = "auto" if upstream.slots is None else str(upstream.slots)
    ways = [word for word, wanted in (("one model", upstream.one_model), ("affinity", upstream.affinity)) if wanted]
    return ", ".join([slots, *ways])


def _models(config: Config, upstream: str) -> str:
    """The names that clients may use for models of this upstream."""
    if not config.models:
        return "all it lists"
    served = (model for model in config.models if upstream in model.upstreams)
    return ", ".join(name for model in served for name in (model.name, *model.aliases)) or "none"
