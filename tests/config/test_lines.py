"""Which line a key stands on, for every way to write TOML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotline.config.lines import KeyPath, line_of

FILE = '''# a comment

[server]
host = "::1"

port = 1
prefix = """
/llm
[[upstream]]
"""
queue_frames = "off"
[[upstream]]
name = "a"
limits.poll = "1s"
'''

SECOND = """[[upstream]]
name = "b"
aliases = [
  "one",  # a = 1
  "two",
]
[upstream.limits]
connect = "1s"
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("server",), 3),
        (("server", "host"), 4),
        (("server", "port"), 6),
        (("server", "prefix"), 7),
        (("server", "queue_frames"), 11),
        (("upstream",), 12),
        (("upstream", 0), 12),
        (("upstream", 0, "name"), 13),
        (("upstream", 0, "limits", "poll"), 14),
        (("upstream", 1), 15),
        (("upstream", 1, "name"), 16),
        (("upstream", 1, "aliases"), 17),
        (("upstream", 1, "limits"), 21),
        (("upstream", 1, "limits", "connect"), 22),
        (("upstream", 2), None),
        (("upstream", 0, "name", "more"), None),
        (("nothing",), None),
        ((), None),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_line_is_where_the_key_begins(path: KeyPath, line: int | None, newline: str) -> None:
    assert line_of((FILE + SECOND).replace("\n", newline), path) == line


@given(st.lists(st.sampled_from(["plain", "blank", "comment", "array", "text"]), min_size=1, max_size=40), st.data())
def test_every_key_of_any_file_is_found(kinds: list[str], data: st.DataObject) -> None:
    shapes = {
        "plain": ["k{n} = 1"],
        "blank": [""],
        "comment": ["# k{n} = 1"],
        "array": ["k{n} = [", "  1,", "", "]"],
        "text": ["k{n} = '''", "k0 = 2", "'''"],
    }
    lines: list[str] = []
    where: dict[str, int] = {}
    for number, kind in enumerate(kinds):
        if kind not in {"blank", "comment"}:
            where[f"k{number}"] = len(lines) + 1
        lines += [part.format(n=number) for part in shapes[kind]]
    key = data.draw(st.sampled_from([*where, "absent"]))
    assert line_of("\n".join(lines), (key,)) == where.get(key)
