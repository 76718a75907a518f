"""vLLM's server: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html

It queues without bound and without a word; the gauges of what runs and of what waits tell a request that works from one
that got lost. A request that reads its prompt is counted among those that run (`vllm/v1/core/sched/scheduler.py`).

How many it runs at once (`--max-num-seqs`) it tells nowhere but in its development mode. A dead engine says 503 at
`/health`; while the model loads, nobody listens.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotline.core.reading import Reading
from slotline.upstream.asker import Asker
from slotline.upstream.kinds import gauges
from slotline.upstream.kinds.facts import Facts, Listing
from slotline.upstream.kinds.server import Server
from slotline.upstream.kinds.tokenize import count

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"


async def reading(ask: Asker) -> Reading:
    """How many requests run or wait."""
    return await gauges.reading(ask, (_RUNNING, _WAITING), _works, health=True)


def _works(shown: Mapping[str, float]) -> int | None:
    return round(shown[_RUNNING] + shown.get(_WAITING, 0.0)) if _RUNNING in shown else None


async def facts(ask: Asker, listing: Listing) -> Facts:
    """The context is `max_model_len` in its list of models."""
    return Facts(context=listing.context)


SERVER = Server(reading, facts, count, health=True)
