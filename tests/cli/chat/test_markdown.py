"""Markdown that grows: what is printed once never has to be printed again."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from slotline.cli.chat.markdown import Page, settled

TEXT = """# Title

Some *text* over
two lines.

1. one
2. two

   still two

- a
- b

| a | b |
| - | - |
| 1 | 2 |

```python
def f():

    return 1
```

> quoted
and lazy

The end.
"""


def shown(*pages: Page) -> str:
    console = Console(file=StringIO(), width=60, force_terminal=False)
    for page in pages:
        console.print(page)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("step", [1, 3, 17])
def test_printed_block_by_block_it_looks_as_if_printed_at_once(step: int) -> None:
    """However it grows: what is settled is printed, and the last rest at the end."""
    pages, done = [], 0
    for end in range(step, len(TEXT) + step, step):
        if cut := settled(TEXT[done:end]):
            pages.append(Page(TEXT[done : done + cut], below=done > 0))
            done += cut
    pages.append(Page(TEXT[done:], below=done > 0))
    assert len(pages) > 5
    lines = [line for line in shown(*pages).splitlines() if line.strip()]
    assert lines == [line for line in shown(Page(TEXT, below=False)).splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("one line", ""),
        ("one line\n", ""),
        ("Title\n===\n", ""),
        ("# Title\n\nSome", ""),  # what may still become a heading of its own, or anything
        ("# Title\n\nSome\n", "# Title\n\n"),
        ("1. one\n\n2", ""),  # … or the next of these
        ("1. one\n\n2\n", "1. one\n\n"),
        ("- a\n- b\n\n", ""),
        ("one\n\n```\na\n\nb\n", "one\n\n"),
    ],
)
def test_the_last_block_can_change_and_no_other(text: str, printed: str) -> None:
    assert text[: settled(text)] == printed


def test_of_what_is_too_high_the_end_is_shown() -> None:
    text = "```\n" + "".join(f"line {number}\n" for number in range(50)) + "```\n"
    assert [line.strip() for line in shown(Page(text, below=True, height=3)).splitlines()] == [
        "line 47",
        "line 48",
        "line 49",
    ]
