"""`docs/clients.md`, written from what was seen: `python tests/clients/page.py`, the last step of `make test-clients`.

What to set is cut out of the programs that asked, so that the page shows what was run: what stands in an `ask.*`
between the comments `what to set` and `that is all`, or the file of settings beside it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest has it, when this is run as a program

from clients.results import RESULTS, Row, place, read
from clients.table import CLIENTS, HERE, PREFIX, ROOT, Client, Surface, Way, broken

PAGE = ROOT / "docs/clients.md"
GATEWAY = "http://127.0.0.1:8080"
MODEL = "smollm2"

_BLOCK = r"^ *(?:#|//) what to set{}\n(.*?)^ *(?:#|//) that is all$"
_LANGUAGES = {".py": "python", ".mjs": "js", ".sh": "sh", ".json": "json", ".yaml": "yaml", ".toml": ""}
_ROUTES = {Surface.MESSAGES: "messages", Surface.CHAT: "chat/completions", Surface.RESPONSES: "responses"}
_WHY = "queue-extension.md#vercel-ai-sdk-and-what-is-built-on-it"
_FILES = {
    "claude-code": ("env.sh", "In the environment; for long waits also what `slotline env claude-code` prints:"),
    "codex": ("config.toml", "In `~/.codex/config.toml`:"),
    "opencode": ("{surface}.json", "For `{route}`, in `~/.config/opencode/opencode.json`, or the project's own:"),
    "llm": (
        "extra-openai-models.yaml",
        "In a file extra-openai-models.yaml, in the folder that `llm logs path` names:",
    ),
}

_INTRO = """\
# Clients

Written by `make test-clients` on {date}, from what it saw; a change by hand would be lost.

Every client below asked a gateway with two slots, in each of its ways: for a whole answer, for a stream, and with a
tool that it then ran. It did so at once, and standing in line, where its place changed from 2 to 1 and keep-alives came
in between. **Yes** means the right answer, by exactly one request for each answer, without an error and without a
retry. Behind the gateway was the stub; in the last column, the real llama.cpp server.

`unused` stands for a key: without keys in the configuration any text will do. Where there are keys, give yours.

## What was seen

"Its place" says whether the code around the client gets to see the place in line: at the root never, in no client;
under `/llm` in those that hand on [`event: queue`](queue-extension.md).

"""

_LONG = """\
## Long waits

Ask for streams where the line is long. A stream is kept alive while it waits: the newest clients of OpenAI and the
Vercel AI SDK still waited after ten minutes, Codex and opencode after seven, with nothing set for it. A whole answer
sends no byte before it begins, and its client cannot tell a line from a dead connection. Each of these closes the
connection, and sends the request again:

| client | gives up on a whole answer after |
| --- | --- |
| Anthropic TypeScript, OpenAI TypeScript, Vercel AI SDK | 300 s, the limit of Node's `fetch` |
| OpenAI Python | 600 s, its default `timeout`, and that of Anthropic Python |

Tried by hand on 2026-11-29. How Claude Code is kept waiting: [place in line](queue-extension.md#claude-code).
"""

_HEAD = ("client", "version", "API", "whole", "streamed", "tools", "in line", "its place", "real model")


def rendered(rows: Iterable[Row]) -> str:
    """The whole page."""
    seen = list(rows)
    by_client = [(client, [row for row in seen if row.client == client.key]) for client in CLIENTS]
    tried = [(client, found) for client, found in by_client if found]
    lines = [_INTRO.format(date=max(row.date for row in seen)).rstrip("\n"), ""]
    lines += [_line(_HEAD), _line(["---"] * len(_HEAD))]
    lines += [_line(_cells(client, found)) for client, found in tried]
    lines += ["", *_failures(seen), _LONG, "## What to set", ""]
    by_title = sorted((client for client, _ in tried), key=lambda client: client.title.casefold())
    for title, clients in groupby(by_title, lambda client: client.title):
        lines += [f"### {title}", "", *_settings(list(clients))]
    return "\n".join(lines).rstrip("\n") + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(client: Client, rows: list[Row]) -> Iterator[str]:
    known = [row for row in rows if client.breaks and row.mount == PREFIX]
    counted = [row for row in rows if row not in known]
    stub = [row for row in counted if row.upstream == "stub"]
    yield client.title
    yield _versions(rows[0])
    yield f"`{_ROUTES[client.surface]}`"
    yield _all(row for row in stub if row.way is Way.PLAIN)
    yield _all(row for row in stub if row.way in (Way.STREAMED, Way.HELPER))
    yield _all(row for row in stub if row.way is Way.TOOLS)
    fails = ", ".join(f"**fails** under `{PREFIX}`" for row in known if row.error)
    yield _all(row for row in stub if row.waiting) + (f"; {fails}" if fails else "")
    yield f"under `{PREFIX}`" if any(row.shown for row in counted) else "no"
    yield _all(row for row in counted if row.upstream == "engine")


def _all(rows: Iterable[Row]) -> str:
    right = [row.right for row in rows]
    return "–" if not right else "yes" if all(right) else "**no**"


def _failures(rows: list[Row]) -> Iterator[str]:
    """What failed, in the client's own words."""
    failed = [row for row in rows if not row.right]
    if not failed:
        return
    yield from ("## What failed", "")
    if {row.place for row in failed} <= {place(case) for case in broken()}:
        yield f"All of it was expected: why is said in [place in line]({_WHY})."
        yield ""
    yield _line(("client", "mount", "way", "in line", "what it said"))
    yield _line(["---"] * 5)
    for row in failed:
        said = (row.error or f"nothing, but the answer was wrong, or there were {row.requests} requests").replace(
            "|", "\\|"
        )
        line = "yes" if row.waiting else "no"
        mount = f"`{row.mount}`" if row.mount else "root"
        yield _line((_versions(row), mount, row.way, line, f"`{said.replace('`', chr(39))}`"))
    yield ""


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {version}" for name, version in row.versions.items())


def _settings(clients: list[Client]) -> Iterator[str]:
    """What to set for one client: once for all its versions, and for all APIs that want the same."""
    shown: dict[tuple[str, str], list[Client]] = {}
    for client in clients:
        shown.setdefault(_setting(client), []).append(client)
    for (language, code), same in shown.items():
        yield from (_words(same), "", f"```{language}", code, "```", "")


def _words(clients: list[Client]) -> str:
    client = clients[0]
    if client.folder in _FILES:
        return _FILES[client.folder][1].format(route=_ROUTES[client.surface])
    routes = " and ".join(dict.fromkeys(f"`{_ROUTES[each.surface]}`" for each in clients))
    return f"For {routes}, the base URL {'with' if client.suffix else 'without'} `/v1`:"


def _setting(client: Client) -> tuple[str, str]:
    """The language and the code."""
    base = GATEWAY + client.suffix
    if client.folder in _FILES:
        path = HERE / client.folder / _FILES[client.folder][0].format(surface=client.surface)
        code = re.sub(r"\bBASE\b", base, path.read_text())
    else:
        path = client.program
        text = path.read_text()
        found = [re.search(_BLOCK.format(end), text, re.DOTALL | re.MULTILINE) for end in (f": {client.surface}", "")]
        block = next(match[1] for match in found if match)
        code = re.sub(r"\bBASE\b", f'"{base}"', textwrap.dedent(block))
        code = code.replace('f"', '"').replace("{MODEL}", "MODEL")  # what is filled in here is filled in
        code = re.sub(r"(?<!/)\bMODEL\b", f'"{MODEL}"', code)
    return _LANGUAGES[path.suffix], re.sub(r"\bMODEL\b", MODEL, code).strip("\n")


if __name__ == "__main__":
    PAGE.write_text(rendered(read(RESULTS)))
