"""SGLang's server: https://docs.sglang.ai/references/production_metrics.html

The gauges are there only if it was started with `--enable-metrics`; without them nothing is known of its requests.
"""

from __future__ import annotations

from slotline.core.reading import Reading
from slotline.upstream.asker import Asker
from slotline.upstream.kinds import gauges


async def reading(ask: Asker) -> Reading:
    """How many requests run."""
    return await gauges.reading(ask, "sglang:num_running_reqs")
