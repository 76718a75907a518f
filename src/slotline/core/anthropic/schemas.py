"""The schemas of the vendor's client tools: tools that a request names by type alone, and that the client runs.

The vendor's models were trained on them; any other model has to be told. The parameters are those of
https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (bash, text editor, memory). Tools that look at a
screen are not here: without the training, a schema is not enough.
"""

from __future__ import annotations

import msgspec

_INTEGER = {"type": "integer"}
_RANGE = {
    "type": "array",
    "items": _INTEGER,
    "description": "First and last line to show, counted from 1; -1 as the last means to the end.",
}
_EDITS = {
    "path": {"type": "string", "description": "The absolute path of the file or folder."},
    "file_text": {"type": "string", "description": "With create: the content of the new file."},
    "old_str": {"type": "string", "description": "With str_replace: the text to replace; it must occur exactly once."},
    "new_str": {"type": "string", "description": "With str_replace: the new text."},
    "insert_line": {"type": "integer", "description": "With insert: the line after which the text goes; 0 is the top."},
    "insert_text": {"type": "string", "description": "With insert: the text."},
    "view_range": _RANGE,
}


def _schema(commands: list[str] | None, properties: dict[str, object], required: list[str]) -> msgspec.Raw:
    command: dict[str, object] = {"command": {"type": "string", "enum": commands}} if commands else {}
    schema = {"type": "object", "properties": command | properties, "required": required}
    return msgspec.Raw(msgspec.json.encode(schema))


CLIENT_TOOLS: dict[str, tuple[str, msgspec.Raw]] = {
    "bash_": (
        "Runs a command in a persistent bash session and returns what it prints.",
        _schema(
            None,
            {
                "command": {"type": "string", "description": "The command to run."},
                "restart": {"type": "boolean", "description": "True starts the session anew instead."},
            },
            [],
        ),
    ),
    "text_editor_": (
        "Views, creates and edits text files.",
        _schema(["view", "create", "str_replace", "insert"], {**_EDITS}, ["command", "path"]),
    ),
    "memory_": (
        "Keeps notes in files under /memories that last from one conversation to the next.",
        _schema(
            ["view", "create", "str_replace", "insert", "delete", "rename"],
            {
                **_EDITS,
                "old_path": {"type": "string", "description": "With rename: the present path."},
                "new_path": {"type": "string", "description": "With rename: the new path."},
            },
            ["command"],
        ),
    ),
}
"""By the beginning of the tool's type: its description and its schema."""
