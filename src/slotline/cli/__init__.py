"""The command line: one file per command, or a folder where it takes several."""

from __future__ import annotations

import click

from slotline import __version__
from slotline.cli.bench.command import bench
from slotline.cli.chat.command import chat
from slotline.cli.check import check
from slotline.cli.engine import engine
from slotline.cli.env import env
from slotline.cli.keys import keys
from slotline.cli.serve import serve
from slotline.cli.simulate import simulate
from slotline.cli.stub import stub
from slotline.cli.top.command import top
from slotline.cli.why import why


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="slotline")
def main() -> None:
    """The gateway in front of GPUs that people own: every LLM request gets a slot, or a place in line."""


for command in (serve, check, stub, engine, keys, env, why, top, chat, bench, simulate):
    main.add_command(command)
