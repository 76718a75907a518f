"""The documentation as data: its pages, their headings, links, code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Page:
    """One page of Markdown; `path` is relative to the root of the tree."""

    path: Path

    @cached_property
    def text(self) -> str:
        return (ROOT / self.path).read_text()

    @cached_property
    def prose(self) -> str:
        """The text without fenced code."""
        return _FENCED.sub("", self.text)

    @property
    def links(self) -> list[str]:
        """Where the links lead, as written."""
        return _LINK.findall(self.prose)

    @property
    def spans(self) -> list[str]:
        """What stands in backticks within the prose."""
        return _SPAN.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """The headings as GitHub turns them into anchors."""
        headings = re.findall(r"^#+ (.*)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def code(self, *languages: str) -> list[str]:
        """The fenced blocks in one of `languages`."""
        return [block for language, block in _FENCED.findall(self.text) if language in languages]

    def table(self, *head: str) -> list[dict[str, str]]:
        """The rows of the table with this head; backticks around a whole cell are taken off."""
        rows = iter(self.prose.splitlines())
        if not any(_cells(line) == list(head) for line in rows):
            raise AssertionError(f"{self.path} has no table with the head {head}")
        next(rows)
        return [dict(zip(head, cells, strict=True)) for cells in _body(rows)]


def _body(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield _cells(line)


def _cells(line: str) -> list[str]:
    return [re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in _CELL.split(line)[1:-1]]


PAGES = tuple(Page(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))))


def page(path: str) -> Page:
    """The page at `path`."""
    return next(each for each in PAGES if each.path == Path(path))
