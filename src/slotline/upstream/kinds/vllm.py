"""vLLM's server: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html

It queues without bound and without a word; the gauge of what runs tells a request that works from one that got lost.
"""

from __future__ import annotations

from slotline.core.reading import Reading
from slotline.upstream.asker import Asker
from slotline.upstream.kinds import gauges


async def reading(ask: Asker) -> Reading:
    """How many requests run."""
    return await gauges.reading(ask, "vllm:num_requests_running")
