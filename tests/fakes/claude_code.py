"""Claude Code in print mode, alone in a home of its own: `claude -p` against a gateway, and what it said."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec


def program(packages: Path) -> Path | None:
    """The program in the npm packages under `packages`; None where there is none for this machine.

    It is one file in a package for one platform; the launcher in the main package works only after its install script,
    which npm may be told not to run.
    """
    found = packages.glob("node_modules/@anthropic-ai/claude-code-linux-*/claude")
    return next(iter(sorted(found, key=lambda path: "musl" in path.parent.name)), None)


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The program `file`, with `home` as its home and as the folder it works in."""

    file: Path
    home: Path

    async def start(self, url: str, prompt: str, *options: str, **env: str) -> asyncio.subprocess.Process:
        """Asks `prompt` of the model `stub` at `url`; `env` adds to its environment."""
        return await asyncio.create_subprocess_exec(
            self.file,
            "-p",
            prompt,
            "--output-format",
            "json",
            *options,
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_AUTH_TOKEN": "unused",
                "ANTHROPIC_MODEL": "stub",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                **env,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def ask(self, url: str, prompt: str, *options: str, **env: str) -> Any:
        """As `start`, and what came of it."""
        return await outcome(await self.start(url, prompt, *options, **env))


async def outcome(process: asyncio.subprocess.Process) -> Any:
    """The JSON object that it prints at its end: `result` is the last text, `is_error`, `num_turns`, `usage` …"""
    out, errors = await process.communicate()
    assert out, errors.decode()
    return msgspec.json.decode(out)
