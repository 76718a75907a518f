"""The clients that are tried, as data: which versions, on which mount, in which ways. One row is one client.

A client's program is `ask.py` or `ask.mjs` in its folder, called as `ask BASE MODEL SURFACE WAY PIN`. It prints
`asking` once it is about to ask, and in the end one line of JSON: `text`, `tool` (`name` and `input`, where code around
the client was told of a call), and `events`, the names of what that code got to see.

Python clients are pinned by a file of requirements for each version, Node's by the lock file of their folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PREFIX = "/llm"


class Surface(StrEnum):
    """Which of the gateway's APIs a client speaks."""

    MESSAGES = "messages"
    CHAT = "chat"
    RESPONSES = "responses"


class Way(StrEnum):
    """How the client is asked."""

    PLAIN = "plain"  # a whole answer
    STREAMED = "streamed"  # event by event
    HELPER = "helper"  # streamed, and folded by the client's own helper
    TOOLS = "tools"  # the model calls a tool, gets its result, and answers


SDK = (Way.PLAIN, Way.STREAMED, Way.HELPER, Way.TOOLS)
FRAMEWORK = (Way.PLAIN, Way.STREAMED, Way.TOOLS)
AGENT = (Way.STREAMED, Way.TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client in one version, speaking one API."""

    title: str
    folder: str
    surface: Surface
    ways: tuple[Way, ...]
    packages: tuple[str, ...]  # as the lock file names them; the first is the client itself
    suffix: str = "/v1"  # what its base URL has behind the mount
    pin: str = "newest"
    prefixed: bool = False  # tried under the prefix too, where it gets `event: queue`
    breaks: bool = False  # known to fail there
    engine: bool = True  # whether its prompt fits the small model, and the real one has something to add
    tool: str = "lookup"  # what the model is to call …
    arguments: dict[str, str] = field(default_factory=lambda: {"query": "slots"})  # … with these
    env: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.folder}/{self.pin}/{self.surface}"

    @property
    def program(self) -> Path:
        """What asks; its ending says what runs it."""
        return next((HERE / self.folder).glob("ask.*"))

    @property
    def environment(self) -> Path:
        """What `make test-clients` sets up; absent: nothing was."""
        if self.program.suffix == ".py":
            return ROOT / ".run/clients" / self.folder / self.pin
        return HERE / self.folder / "node_modules"

    @property
    def interpreter(self) -> Path:
        return self.environment / "bin/python" if self.program.suffix == ".py" else node()

    @property
    def versions(self) -> dict[str, str]:
        """The pinned version of each package, by the name under which its registry has it."""
        folder = HERE / self.folder
        if self.program.suffix == ".py":
            text = (folder / f"{self.pin}.txt").read_text()
            found = {name: re.search(rf"^{re.escape(name)}==(\S+)", text, re.MULTILINE) for name in self.packages}
            return {name: match[1] for name, match in found.items() if match}
        locked = json.loads((folder / "package-lock.json").read_text())["packages"]
        entries = {name: locked[f"node_modules/{name}"] for name in self.packages}
        return {entry.get("name", name): entry["version"] for name, entry in entries.items()}


def node() -> Path:
    """The pinned Node."""
    return next((HERE / "node/node_modules").glob("node-*/bin/node"), HERE / "node/node_modules/none")


def _anthropic() -> Iterator[Client]:
    for pin in ("0.40.0", "1.15.0", "1.16.0", "newest"):
        yield Client(
            title="Anthropic Python",
            folder="anthropic-python",
            pin=pin,
            surface=Surface.MESSAGES,
            ways=SDK,
            packages=("anthropic",),
            suffix="",
            prefixed=True,
            engine=pin == "newest",
        )
    for pin in ("0.135.0", "0.136.0", "newest"):
        yield Client(
            title="Anthropic TypeScript",
            folder="anthropic-typescript",
            pin=pin,
            surface=Surface.MESSAGES,
            ways=SDK,
            packages=(f"sdk-{pin}",),
            suffix="",
            prefixed=True,
            engine=pin == "newest",
        )


def _openai() -> Iterator[Client]:
    for surface in (Surface.CHAT, Surface.RESPONSES):
        yield Client(
            title="OpenAI Python",
            folder="openai-python",
            surface=surface,
            ways=SDK,
            packages=("openai",),
        )
        yield Client(
            title="OpenAI TypeScript",
            folder="openai-typescript",
            surface=surface,
            ways=SDK,
            packages=("sdk-newest",),
        )


def _frameworks() -> Iterator[Client]:
    providers = {Surface.MESSAGES: "anthropic", Surface.CHAT: "compatible", Surface.RESPONSES: "openai"}
    for major in ("5", "6", "7"):
        for surface, provider in providers.items():
            yield Client(
                title="Vercel AI SDK",
                folder="ai-sdk",
                pin=major,
                surface=surface,
                ways=FRAMEWORK,
                packages=(f"ai-{major}", f"ai-{major}-{provider}"),
                breaks=surface is Surface.MESSAGES,
            )
    # LangChain hands the base URL to Anthropic's client as it is, Pydantic AI too; LiteLLM adds the path itself.
    beside = {Surface.MESSAGES: "anthropic", Surface.CHAT: "openai", Surface.RESPONSES: "openai"}
    for surface, vendor in beside.items():
        suffix = "" if surface is Surface.MESSAGES else "/v1"
        yield Client(
            title="LangChain",
            folder="langchain",
            surface=surface,
            ways=FRAMEWORK,
            packages=(f"langchain-{vendor}", "langchain-core", vendor),
            suffix=suffix,
            env={"LANGSMITH_TRACING": "false"},
        )
        yield Client(
            title="Pydantic AI",
            folder="pydantic-ai",
            surface=surface,
            ways=FRAMEWORK,
            packages=("pydantic-ai-slim", vendor),
            suffix=suffix,
        )
    for surface in (Surface.MESSAGES, Surface.CHAT):
        yield Client(
            title="LiteLLM",
            folder="litellm",
            surface=surface,
            ways=FRAMEWORK,
            packages=("litellm",),
            suffix="" if surface is Surface.MESSAGES else "/v1",
            env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )


def _programs() -> Iterator[Client]:
    yield Client(title="llm", folder="llm", surface=Surface.CHAT, ways=FRAMEWORK, packages=("llm", "openai"))
    echo = "echo two are free"
    yield Client(
        title="Claude Code",
        folder="claude-code",
        surface=Surface.MESSAGES,
        ways=AGENT,
        packages=("@anthropic-ai/claude-code",),
        suffix="",
        engine=False,
        tool="Bash",
        arguments={"command": echo, "description": "Say it"},
        env={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    )
    yield Client(
        title="Codex",
        folder="codex",
        surface=Surface.RESPONSES,
        ways=AGENT,
        packages=("@openai/codex",),
        engine=False,
        tool="exec_command",
        arguments={"cmd": echo},
    )
    for surface in (Surface.MESSAGES, Surface.CHAT):
        yield Client(
            title="opencode",
            folder="opencode",
            surface=surface,
            ways=AGENT,
            packages=("opencode-linux-x64",),
            env={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
            engine=False,
            tool="bash",
            arguments={"command": echo, "description": "Say it"},
        )


CLIENTS = (*_anthropic(), *_openai(), *_frameworks(), *_programs())


@dataclass(frozen=True, slots=True)
class Case:
    """One question to the gateway: which client, where, how, and what stands behind and before it."""

    client: Client
    mount: str
    way: Way
    upstream: str  # stub | engine
    waiting: bool

    def __str__(self) -> str:
        line = "waiting" if self.waiting else "at-once"
        return "-".join((self.client.key, self.mount.strip("/") or "root", self.way, self.upstream, line))


def cases() -> Iterator[Case]:
    """All that a client must manage.

    Under the prefix only streams that wait are different. The small model is too small to call a tool.
    """
    for client in CLIENTS:
        for way in client.ways:
            for waiting in (False, True):
                yield Case(client, "", way, "stub", waiting)
            if client.prefixed and way in (Way.STREAMED, Way.HELPER):
                yield Case(client, PREFIX, way, "stub", waiting=True)
        if client.engine:
            yield Case(client, "", Way.PLAIN, "engine", waiting=False)
            yield Case(client, "", Way.STREAMED, "engine", waiting=True)


def broken() -> Iterator[Case]:
    """What is known not to work, and is said on the page."""
    for client in CLIENTS:
        if client.breaks:
            yield Case(client, PREFIX, Way.STREAMED, "stub", waiting=True)
