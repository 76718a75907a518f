"""`docs/terminal.md` has every option of its commands, with its default, and no other."""

from __future__ import annotations

import re

import click
import pytest

from docs.pages import page
from slotline.cli.bench.command import bench
from slotline.cli.chat.command import chat
from slotline.cli.top.command import top

PAGE = page("docs/terminal.md")
COMMANDS = pytest.mark.parametrize("command", [top, chat, bench], ids=lambda command: str(command.name))
_ROW = re.compile(r"^\| (`--[^|]*?) \|([^|]*)\|", re.MULTILINE)


def section(command: click.Command) -> str:
    """What the page says of it."""
    (found,) = re.findall(rf"^## `slotline {command.name}`\n(.*?)(?=^## |\Z)", PAGE.text, re.MULTILINE | re.DOTALL)
    return str(found)


@COMMANDS
def test_its_table_has_every_option_and_no_other(command: click.Command) -> None:
    rows = [name for names, _ in _ROW.findall(section(command)) for name in re.findall(r"`(--[\w-]+)`", names)]
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert sorted(rows) == sorted(name for option in options for name in (*option.opts, *option.secondary_opts))


@COMMANDS
def test_its_defaults_are_the_commands(command: click.Command) -> None:
    defaults = {names.split("`")[1]: default.strip(" `") for names, default in _ROW.findall(section(command))}
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag and option.show_default:
            value = option.default[0] if isinstance(option.default, tuple) else option.default
            shown = defaults[option.opts[0]]
            assert (shown if isinstance(value, str) else float(shown)) == value, option.opts
