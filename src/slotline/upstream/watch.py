"""Keeps the sight of an upstream fresh: rarely while it is well, often while it is not."""

from __future__ import annotations

import asyncio
import logging

from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health

_log = logging.getLogger(__name__)

_WELL = 15.0  # seconds between looks at a server that is up
_UNWELL = 1.0  # … at one that is not


async def watch(upstream: UpstreamClient) -> None:
    """Looks at `upstream` until cancelled, and logs each change of its state once."""
    before = Health.UNKNOWN
    while True:
        seen = await upstream.look()
        if seen.state is not before:
            level = logging.INFO if seen.state is Health.UP else logging.WARNING
            fields = {"upstream": upstream.name, "state": seen.state, "reason": seen.reason or None}
            _log.log(level, "upstream %s is %s", upstream.name, seen.state, extra={"fields": fields})
            before = seen.state
        await asyncio.sleep(_WELL if seen.state is Health.UP else _UNWELL)
