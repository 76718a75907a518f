"""What the pages point at is there: links, files, commands with their options, configurations."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from docs.pages import PAGES, ROOT, Page, page
from slotline.cli import main
from slotline.config import load

ANY_PAGE = pytest.mark.parametrize("each", PAGES, ids=lambda each: str(each.path))

_HOMES = (ROOT, ROOT / "src/slotline", ROOT / "docs")
_FILE = re.compile(
    r"[\w.-]+(/[\w.-]+)*\.(py|md|toml|txt|in|c|lua|json|mjs)|[\w.-]+(/[\w.-]+)*/|Makefile|LICENSE|\.ci/\w+"
)
_OF_THE_USER = {"slotline.toml", "./slotline.toml"}
"""Files that the pages speak of and that are the reader's own."""


def commands(each: Page) -> Iterator[list[str]]:
    """The words of every `slotline …` in the shell code of a page, without the program's own name."""
    for block in each.code("sh", "ini"):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"(?:ExecStart=|\$ )?(?:\S*/)?slotline (.*)", line):
                yield shlex.split(found[1], comments=True)


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that `words` begin with, and the arguments behind it."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        assert name in command.commands, f"slotline has no command {name!r}: slotline {' '.join(words)}"
        command = command.commands[name]
    return command, rest


@ANY_PAGE
def test_every_link_within_the_tree_leads_somewhere(each: Page) -> None:
    for link in each.links:
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / each.path.parent / path).resolve() if path else ROOT / each.path
        assert target.exists(), f"{each.path} links to {link}"
        if anchor:
            assert anchor in page(str(target.relative_to(ROOT))).anchors, f"{each.path} links to {link}"


@ANY_PAGE
def test_every_file_that_is_named_exists(each: Page) -> None:
    for span in each.spans:
        if _FILE.fullmatch(span) and span not in _OF_THE_USER:
            assert any((home / span).exists() for home in _HOMES), f"{each.path} names {span}"


@ANY_PAGE
def test_every_command_line_is_one_that_slotline_takes(each: Page) -> None:
    for words in commands(each):
        command, arguments = resolved(words)
        with command.make_context("slotline", arguments):
            pass


@ANY_PAGE
def test_every_command_in_the_text_and_its_options_are_known(each: Page) -> None:
    for span in each.spans:
        if not span.startswith("slotline "):
            continue
        command, rest = resolved(span.split()[1:])
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--version"}
        options = {word.strip("[]") for word in rest if word.strip("[").startswith("-")}
        assert options <= known, f"{each.path}: {span}"


@ANY_PAGE
def test_every_make_target_exists(each: Page) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = [span for span in each.spans if span.startswith("make ")]
    named += [line for block in each.code("sh") for line in block.splitlines() if line.startswith("make ")]
    assert {line.split()[1] for line in named} <= targets


@ANY_PAGE
def test_every_configuration_loads(each: Page) -> None:
    for block in each.code("toml"):
        assert load(block, source=str(each.path)).upstreams


def test_the_pages_have_what_these_tests_look_for() -> None:
    """Otherwise a change of notation would pass unnoticed."""
    assert {words[0] for each in PAGES for words in commands(each)} >= {"serve", "stub", "check"}
    assert sum(len(each.code("toml")) for each in PAGES) >= 3
    assert sum(bool(_FILE.fullmatch(span)) for span in page("docs/architecture.md").spans) > 30


def test_every_page_is_reached_from_the_readme() -> None:
    reached, ahead = set[str](), ["README.md"]
    while ahead:
        path = ahead.pop()
        reached.add(path)
        for link in page(path).links:
            target = (ROOT / path).parent / link.partition("#")[0]
            if target.suffix == ".md" and "://" not in link:
                name = str(target.resolve().relative_to(ROOT))
                ahead += [name] if name not in reached else []
    assert reached == {str(each.path) for each in PAGES}
