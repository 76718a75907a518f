"""A text in TOML becomes a `Config`, or a `ConfigError` that names the first fault. Reads no file and no environment.

First every value on its own, in the order of the file; then what two values say about each other.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from slotline.config.error import BadValue, ConfigError, shown_value
from slotline.config.lines import KeyPath
from slotline.config.nearest import nearest
from slotline.config.origin import Origin
from slotline.config.settings import Setting, flag, host, is_loopback, whole
from slotline.config.tables import AUTO, TABLES, Table
from slotline.config.unknown import advice
from slotline.config.values import ENGINE_NAME, ENGINE_URL, Config, EngineConfig, ServerConfig
from slotline.core.kind import Kind

Values = dict[str, Any]


class UpstreamFlags(NamedTuple):
    """One `--upstream URL [--slots N] [--kind K]`, as typed."""

    url: str
    slots: int | None = None
    kind: str | None = None


def load(text: str, *, source: str) -> Config:
    """The configuration in `text`; `source` is what messages call it, usually the path."""
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))  # some editors put a byte order mark there
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(text, source, str(error)) from None
    return _config(Origin(source, document, text=text.removeprefix("\ufeff")))


def for_upstreams(given: Sequence[UpstreamFlags]) -> Config:
    """The configuration that `--upstream`, repeated, stands for. An upstream is named after its address."""
    tables: list[Values] = []
    for url, slots, kind in given:
        table: Values = {"name": _name_of(url), "url": url}
        table |= {} if slots is None else {"slots": slots}
        table |= {} if kind is None else {"kind": kind}
        tables.append(table)
    flags = {"name": "--upstream", "url": "--upstream", "slots": "--slots", "kind": "--kind"}
    return _config(Origin("command line", {"upstream": tables}, flags=flags))


def _name_of(url: str) -> str:
    return (url.partition("://")[2] or url).rstrip("/").removesuffix("/v1")[:100]


def embedded() -> Config:
    """The embedded engine alone, with all defaults."""
    return _config(Origin("built-in defaults", {}))


def with_address(
    config: Config, *, new_host: str | None = None, new_port: int | None = None, new_open: bool | None = None
) -> Config:
    """The same, listening elsewhere: `--host`, `--port` and `--open`."""
    flags = {"host": "--host", "port": "--port", "open": "--open"}
    given = {"host": new_host, "port": new_port, "open": new_open}
    origin = Origin("command line", {}, flags=flags)
    readers = {"host": Setting(host), "port": whole(0, 65535), "open": Setting(flag)}
    found = {key: _value(origin, ("server", key), readers[key], raw) for key, raw in given.items() if raw is not None}
    server = msgspec.structs.replace(config.server, **found)
    if "host" in found:
        _check_open(origin, server, keys=bool(config.keys))
    return msgspec.structs.replace(config, server=server)


# ---- every value on its own ------------------------------------------------------------------------------------------


def _config(origin: Origin) -> Config:
    found: Values = {}
    for key, raw in origin.document.items():
        if key not in TABLES:
            raise _unknown(origin, (key,), None, raw)
        table = TABLES[key]
        found[key] = list(_entries(origin, key, table, raw)) if table.many else _table(origin, (key,), table, raw)
    return _whole(origin, found)


def _entries(origin: Origin, key: str, table: Table, raw: object) -> Iterator[Values]:
    if not isinstance(raw, list):
        raise origin.error((key,), f"It is written with two brackets, {table.heading}, because there may be several.")
    for place, entry in enumerate(raw):
        yield _table(origin, (key, place), table, entry)


def _table(origin: Origin, path: KeyPath, table: Table, raw: object) -> Values:
    """The values of one table, as the gateway uses them; keys that were not given are not among them."""
    if not isinstance(raw, dict):
        once = isinstance(raw, list) and all(isinstance(entry, dict) for entry in raw)
        why = "There is only one" if once else "This is a table"
        raise origin.error(path, f"{why}: write {table.heading} on a line of its own, its keys below.", value=raw)
    found: Values = {}
    for key, value in raw.items():
        at = (*path, key)
        if key in table.tables:
            found[key] = _table(origin, at, table.tables[key], value)
        elif key in table.settings:
            found[key] = _value(origin, at, table.settings[key], value)
        else:
            raise _unknown(origin, at, table, value)
    for key in table.settings:
        if key in table.required and key not in found:
            raise origin.error(path, f"`{key}` is missing: every {table.heading} needs one.")
    return found


def _value(origin: Origin, path: KeyPath, setting: Setting, raw: object) -> object:
    try:
        return setting.read(raw)
    except BadValue as bad:
        raise origin.error(path, bad.message, value=raw, nearest=bad.nearest) from None


def _unknown(origin: Origin, path: KeyPath, table: Table | None, raw: object) -> ConfigError:
    message, meant = advice(str(path[-1]), table)
    return origin.error(path, message, value=raw, nearest=meant)


# ---- what they say about each other ----------------------------------------------------------------------------------


def _whole(origin: Origin, found: Values) -> Config:
    upstreams: list[Values] = found.get("upstream", [])
    models: list[Values] = found.get("model", [])
    for key in ("upstream", "model", "key"):
        _check_names(origin, key, found.get(key, []))
    _check_hashes(origin, found.get("key", []))
    engine = _engine(found, upstreams)
    if engine is not None and "cluster" in found:
        message = "The embedded engine is one gateway's own: name upstreams that all gateways reach with [[upstream]]."
        raise origin.error(("cluster",), message)
    if engine is not None:
        _add_engine(origin, engine, upstreams)
    for place, model in enumerate(models):
        _complete_model(origin, ("model", place), model, [upstream["name"] for upstream in upstreams])
    _check_aliases(origin, models)
    server = msgspec.convert(found.get("server", {}), ServerConfig)
    _check_open(origin, server, keys=bool(found.get("key")))
    for upstream in upstreams:
        if upstream.get("slots") == AUTO:
            upstream["slots"] = None
        if upstream.get("kind") == AUTO:
            upstream["kind"] = None
    for place, upstream in enumerate(upstreams):
        _check_affinity(origin, ("upstream", place, "affinity"), upstream)
    parts = found | {"source": origin.file, "server": server, "upstream": upstreams, "engine": engine}
    return msgspec.convert(parts, Config)


def _engine(found: Values, upstreams: Sequence[Values]) -> EngineConfig | None:
    """The engine runs where nothing else is configured, and beside other upstreams where its table is given."""
    if upstreams and "engine" not in found:
        return None
    return msgspec.convert(found.get("engine", {}), EngineConfig)


def _add_engine(origin: Origin, engine: EngineConfig, upstreams: list[Values]) -> None:
    for place, upstream in enumerate(upstreams):
        if upstream["name"] == ENGINE_NAME:
            message = "This is the name of the embedded engine, which runs because the file has [engine]."
            raise origin.error(("upstream", place, "name"), message, value=ENGINE_NAME)
    upstreams.append({"name": ENGINE_NAME, "url": ENGINE_URL, "kind": Kind.LLAMA_CPP, "slots": engine.slots})


def _check_names(origin: Origin, table: str, entries: Sequence[Values]) -> None:
    seen: set[str] = set()
    for place, entry in enumerate(entries):
        name = entry["name"]
        if name in seen:
            raise origin.error((table, place, "name"), f"Another [[{table}]] has this name already.", value=name)
        seen.add(name)


def _check_hashes(origin: Origin, keys: Sequence[Values]) -> None:
    """One key cannot have two owners. Only names are told: a hash is as good as secret."""
    owners: dict[str, str] = {}
    for place, key in enumerate(keys):
        owner = owners.setdefault(key["hash"], key["name"])
        if owner != key["name"]:
            raise origin.error(("key", place, "hash"), f'This is the hash of the key "{owner}" already.')


def _complete_model(origin: Origin, path: KeyPath, model: Values, upstreams: Sequence[str]) -> None:
    """Defaults that depend on other values: the target is the name, the upstream is the only one."""
    model.setdefault("target", model["name"])
    if "upstream" not in model:
        if len(upstreams) != 1:
            every = ", ".join(f'"{name}"' for name in upstreams)
            raise origin.error(path, f"`upstream` is missing, and there are several: {every}.")
        model["upstream"] = (upstreams[0],)
    for name in model["upstream"]:
        if name not in upstreams:
            every = ", ".join(f'"{known}"' for known in upstreams)
            meant = nearest(name, upstreams)
            message = f'No [[upstream]] has the name "{name}". There are: {every}.'
            raise origin.error(
                (*path, "upstream"),
                message,
                value=list(model["upstream"]) if len(model["upstream"]) > 1 else name,
                nearest=f'"{meant}"' if meant else None,
            )


def _check_aliases(origin: Origin, models: Sequence[Values]) -> None:
    """No two models may answer to the same spelling: which one it is would depend on their order."""
    owners: dict[str, str] = {model["name"]: model["name"] for model in models}
    for place, model in enumerate(models):
        for alias in model.get("aliases", ()):
            owner = owners.setdefault(alias, model["name"])
            if owner != model["name"]:
                message = f'"{alias}" already means the model "{owner}".'
                raise origin.error(("model", place, "aliases"), message, value=list(model["aliases"]))


def _check_affinity(origin: Origin, path: KeyPath, upstream: Values) -> None:
    """Without `pin_slots` nobody knows which slot holds what, and `one_model` has an order of its own."""
    if not upstream.get("affinity"):
        return
    kind = upstream.get("kind")
    if kind not in {None, Kind.LLAMA_CPP}:
        raise origin.error(path, f'Only llama.cpp can be told in which slot to go on, and kind = "{kind}".', value=True)
    if not upstream.get("pin_slots", True):
        raise origin.error(path, "Needs pin_slots = true: else nobody knows which slot holds what.", value=True)
    if upstream.get("one_model"):
        raise origin.error(path, "Cannot be had together with one_model = true.", value=True)


def _check_open(origin: Origin, server: ServerConfig, *, keys: bool) -> None:
    if is_loopback(server.host) or server.open or keys:
        return
    message = (
        "Other machines can reach this address, so the file needs [[key]] tables, which `slotline keys new NAME` "
        "makes; or open = true in its [server], or --open: then whoever reaches the port may use the gateway."
    )
    raise origin.error(("server", "host"), message, value=server.host)


# ---- not even TOML ---------------------------------------------------------------------------------------------------

_UNQUOTED = re.compile(r"""\s*([\w.-]+)\s*=\s*([^\s"'\[{#][^#"']*?)\s*(#.*)?""")


def _not_toml(text: str, source: str, said: str) -> ConfigError:
    """`said`: tomllib's words, "Invalid value (at line 3, column 8)" or "… (at end of document)"."""
    place = re.search(r" \(at line (\d+), column (\d+)\)", said)
    lines = text.replace("\r\n", "\n").split("\n")
    line = int(place[1]) if place else len(lines)
    message = f"This is not TOML: {said}."
    again = re.match(r"\s*\[\[\s*(\w+)\s*\]\]", lines[line - 1])
    if again and said.startswith("Cannot overwrite"):
        message = f"A line above it is [{again[1]}] or [{again[1]}.…]; the first of them must be [[{again[1]}]]."
    match = _UNQUOTED.fullmatch(lines[line - 1])
    if match and not match[2].isdigit() and not _is_value(match[2]):
        right = shown_value(match[1], match[2])
        return ConfigError(
            file=source,
            key=match[1],
            message="Text, durations and sizes stand in quotes.",
            nearest=f"{match[1]} = {right}" if right.startswith('"') else None,
            line=line,
        )
    return ConfigError(file=source, key="", message=message, line=line)


def _is_value(written: str) -> bool:
    try:
        tomllib.loads(f"x = {written}")
    except tomllib.TOMLDecodeError:
        return False
    return True
