"""What to say about a key that does not exist where it stands: where it belongs, or what was probably meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slotline.config.nearest import nearest
from slotline.config.tables import KEY, TABLES, UPSTREAM, Table, every_table, homes

_SECRETS = frozenset(
    {"api_key", "apikey", "api-key", "key", "token", "secret", "password", "bearer", "authorization", "auth"}
)
_SECRET_PLACES: Mapping[str, tuple[str, str]] = {  # heading → what to write instead, and its key
    "[[upstream]]": ('Put it into an environment variable and name that: api_key_env = "BOX1_KEY".', "api_key_env"),
    "[admin]": ('Put it into an environment variable and name that: token_env = "SLOTLINE_ADMIN".', "token_env"),
    "[cluster]": (
        'Put it into an environment variable and name that: password_env = "SLOTLINE_REDIS".',
        "password_env",
    ),
    "[[key]]": ("`slotline keys new NAME` makes a key and prints the hash that belongs here.", "hash"),
}


class Advice(NamedTuple):
    """`message` says all but the question; `nearest` is what was probably meant, or None."""

    message: str
    nearest: str | None


def advice(key: str, table: Table | None) -> Advice:
    """About `key`, which does not exist in `table` (None: at the top of the file)."""
    here = "" if table is None else table.heading
    absent = f"There is no `{key}` {f'in {here}' if here else 'at the top of the file'}"
    if key.lower() in _SECRETS and here in _SECRET_PLACES:
        instead, right = _SECRET_PLACES[here]
        return Advice(f"A secret never stands in the file. {instead}", f"`{right}`")
    places = homes(key)
    if places:
        return Advice(f"{absent}; it belongs in {_either(places)}.{_above(table, places)}", None)
    for other in every_table():
        if key == other.name:
            return Advice(f"{absent}. It is a table of its own: {other.heading}.", None)
    meant = _meant(key, table)
    if meant is not None:
        return Advice(f"{absent}.", meant)
    known = (other.heading for other in TABLES.values()) if table is None else table.known()
    return Advice(f"{absent}. What may stand here: {', '.join(known)}.", None)


def _meant(key: str, table: Table | None) -> str | None:
    """The nearest of the keys that may stand here; else of all others, as one may be misspelt and misplaced at once.

    `admin_tokn` is near to `token_env` only with the name of its table before it.
    """
    candidates = {name: other.heading for name, other in TABLES.items()} if table is None else {}
    for other in every_table():
        for name in other.settings:
            said = f"`{name}`" if other is table else f"`{name}` in {_either(homes(name))}"
            candidates.setdefault(name, said)
            candidates[f"{other.name}_{name}"] = said if other is table else f"`{name}` in {other.heading}"
    found = nearest(key, table.known()) if table is not None else None
    if found is not None:
        return f"`{found}`"
    found = nearest(key, candidates)
    return None if found is None else candidates[found]


def _above(table: Table | None, places: tuple[str, ...]) -> str:
    """TOML reads what follows [upstream.limits] as part of it, a trap for keys added at the end."""
    inside = table is not None and table in UPSTREAM.tables.values() and UPSTREAM.heading in places
    return f" Move it above the line {table.heading}." if table is not None and inside else ""


def _either(headings: tuple[str, ...]) -> str:
    usual = tuple(heading for heading in headings if heading != KEY.heading) or headings
    return usual[0] if len(usual) == 1 else f"{', '.join(usual[:-1])} or {usual[-1]}"
