"""What `slotline check --probe` adds: each upstream, asked how it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slotline.config import ENGINE_URL, Config, UpstreamConfig, api_key
from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health, Sighting

PROBE_HEAD = ("upstream", "reachable", "kind", "slots seen", "configured", "models", "reason")
_MODELS = 3  # named in the table, for a server that lists hundreds


@dataclass(frozen=True, slots=True)
class Probed:
    """One upstream. `seen` is None for the embedded engine, which runs only while the gateway does."""

    upstream: UpstreamConfig
    seen: Sighting | None

    @property
    def well(self) -> bool:
        """Nothing that was seen would keep it from serving, now or soon."""
        return self.seen is None or self.seen.state in {Health.UP, Health.LOADING}

    def row(self) -> tuple[str, ...]:
        """The columns of `PROBE_HEAD`."""
        configured = "auto" if self.upstream.slots is None else str(self.upstream.slots)
        if self.seen is None:
            return (self.upstream.name, "with serve", "llama.cpp", "-", configured, "-", "")
        seen = self.seen
        reachable = {Health.UP: "yes", Health.LOADING: "loading"}.get(seen.state, "no")
        slots = "-" if seen.slots is None else str(seen.slots)
        more = f" and {len(seen.models) - _MODELS} more" if len(seen.models) > _MODELS else ""
        models = ", ".join(seen.models[:_MODELS]) + more or "-"
        return (self.upstream.name, reachable, seen.kind or "-", slots, configured, models, seen.reason)

    def as_json(self) -> dict[str, Any]:
        """What was seen, under its names; null for the embedded engine."""
        seen = None if self.seen is None else asdict(self.seen)
        return {"name": self.upstream.name, "well": self.well, "seen": seen}


def probe(config: Config) -> Sequence[Probed]:
    """Asks all upstreams of `config`, side by side. Raises ConfigError for a key that the environment lacks."""
    return asyncio.run(_probe(config))


async def _probe(config: Config) -> Sequence[Probed]:
    return await asyncio.gather(*(_one(upstream) for upstream in config.upstreams))


async def _one(upstream: UpstreamConfig) -> Probed:
    if upstream.url == ENGINE_URL:
        return Probed(upstream, None)
    key = api_key(upstream, os.environ)
    async with UpstreamClient(upstream.name, upstream.url, upstream.limits, upstream.kind, key) as client:
        return Probed(upstream, await client.look())
