"""Keeps the sight of an upstream fresh: rarely while it is well, often while it is not."""

from __future__ import annotations

import asyncio
import logging

from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health

_log = logging.getLogger(__name__)

_WELL = 15.0  # seconds between looks at a server that is up
_UNWELL = 1.0  # … at one that is not
_GLANCES = 10  # between two looks: at what a server that does nothing for us does for others


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
        glances = _GLANCES if seen.state is Health.UP else 0
        while glances and not upstream.tenancy.out_of_order:
            await asyncio.sleep(_WELL / _GLANCES)
            await upstream.glance()
            glances -= 1
        if seen.state is not Health.UP or upstream.tenancy.out_of_order:
            await asyncio.sleep(_UNWELL)
