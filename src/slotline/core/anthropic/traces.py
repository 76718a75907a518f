"""The traces that server-side tools leave in a transcript, as text.

The vendor's API runs some tools itself and writes what they did into the assistant's message. When such a conversation
goes on here, the model still has to know what was found, and no upstream knows the blocks. Results become a short text
in their place; calls, cursors and marks say nothing without the server that made them, and are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from slotline.core.anthropic.media import Text

LONGEST = 8192
"""Characters of one trace: a fetched page can be a book."""

_RESULTS = {
    "web_search_tool_result": "web_search",
    "web_fetch_tool_result": "web_fetch",
    "code_execution_tool_result": "code_execution",
    "bash_code_execution_tool_result": "bash",
    "text_editor_code_execution_tool_result": "text_editor",
    "tool_search_tool_result": "tool_search",
    "advisor_tool_result": "advisor",
    "mcp_tool_result": "mcp",
}
_DROPPED = {
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_listing",
    "container_upload",
    "fallback",
    "tool_addition",
    "tool_removal",
}
TYPES = frozenset(_RESULTS) | _DROPPED | {"compaction"}
"""The block types that are read here."""

_SAID = ("title", "url", "text", "data", "stdout", "stderr", "error_code", "tool_name")
_NESTED = ("content", "source", "tool_references")


def flatten(kind: str, raw: msgspec.Raw) -> Iterator[Text]:
    """What a trace of type `kind` says, as at most one text."""
    if kind in _DROPPED:
        return
    said = "; ".join(_said(msgspec.json.decode(raw)))
    if len(said) > LONGEST:
        said = f"{said[:LONGEST]}…"
    if kind == "compaction":
        yield Text(said)
    else:
        yield Text(f"\n[{_RESULTS.get(kind, kind)}: {said}]\n" if said else f"\n[{_RESULTS.get(kind, kind)}]\n")


def _said(value: Any) -> Iterator[str]:
    """The readable strings in a trace, one for each object in it; payloads, cursors and ids are passed over."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _said(inner)
    elif isinstance(value, dict):
        encoded = value.get("type") == "base64"  # a page that was fetched as PDF
        own = [text for key in _SAID if not (encoded and key == "data") and (text := value.get(key))]
        if words := " - ".join(text for text in own if isinstance(text, str)):
            yield words
        for key in _NESTED:
            yield from _said(value.get(key))
