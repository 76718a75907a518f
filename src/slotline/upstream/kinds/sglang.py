"""SGLang's server: https://docs.sglang.ai/references/production_metrics.html

The gauges are there only if it was started with `--enable-metrics`; without them nothing is known of its requests. They
count what decodes and what waits, and leave out the request whose prompt is being read (`log_prefill_stats` in
`srt/managers/scheduler_metrics_mixin.py`), which may take longer than `idle_grace`. But that one holds tokens from its
first chunk on; so while any are held, one more request may be at work than is counted.

`/health` is never asked: by default it has the model produce a token, and waits for it (`health_generate` in
`srt/entrypoints/http_server.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from slotline.core.reading import Reading
from slotline.upstream.asker import Asker, Told
from slotline.upstream.kinds import gauges
from slotline.upstream.kinds.facts import Facts, Listing, tried
from slotline.upstream.kinds.server import Server
from slotline.upstream.kinds.tokenize import count

_RUNNING = "sglang:num_running_reqs"
_QUEUED = "sglang:num_queue_reqs"
_HELD = ("sglang:num_used_tokens", "sglang:kv_used_tokens", "sglang:token_usage")  # by which names depends on the build


class _Info(msgspec.Struct):
    """`/server_info`, as far as it is of use here; one state for each data-parallel rank."""

    class State(msgspec.Struct):
        effective_max_running_requests_per_dp: int | None = None

    internal_states: list[State] = msgspec.field(default_factory=list)
    max_running_requests: int | None = None

    @property
    def slots(self) -> int | None:
        ranks = [state.effective_max_running_requests_per_dp for state in self.internal_states]
        return sum(rank or 0 for rank in ranks) or self.max_running_requests


class _Model(msgspec.Struct):
    """`/model_info`."""

    has_image_understanding: bool | None = None


async def reading(ask: Asker) -> Reading:
    """How many requests may be at work."""
    return await gauges.reading(ask, (_RUNNING, _QUEUED, *_HELD), _works, health=False)


def _works(shown: Mapping[str, float]) -> int | None:
    if _RUNNING not in shown:
        return None
    unseen = any(shown.get(name, 0.0) > 0 for name in _HELD)
    return round(shown[_RUNNING] + shown.get(_QUEUED, 0.0)) + unseen


async def facts(ask: Asker, listing: Listing) -> Facts | None:
    """The scheduler answers the first of these questions between two batches, so it may not answer in time."""
    info = await _either(ask, "/server_info", "/get_server_info")
    model = await _either(ask, "/model_info", "/get_model_info")
    if info is None or model is None:
        return None
    known, sees = info.read(_Info) or _Info(), model.read(_Model) or _Model()
    return Facts(known.slots, listing.context, sees.has_image_understanding)


async def _either(ask: Asker, path: str, former: str) -> Told | None:
    """The answer at `path`, or at the one that builds before 2026 have."""
    told = await tried(ask.get(path))
    return await tried(ask.get(former)) if told is not None and told.status == 404 else told


SERVER = Server(reading, facts, count, health=False)
