"""The models on offer, and the health of those who serve them, from the upstreams as they were last seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from slotline.core.errors import NotFound, Unreachable, Withdrawn
from slotline.core.kind import Traits
from slotline.core.models import Model, merged, resolve
from slotline.upstream.client import UpstreamClient
from slotline.upstream.probe import Health


class Roster:
    """What the surface asks; see `slotline.surface.ports`.

    `upstreams` may change at any time; a model that was found before that may name one that is no more.
    """

    def __init__(self, configured: Sequence[Model], upstreams: Mapping[str, UpstreamClient]) -> None:
        self._configured = configured
        self._upstreams = upstreams

    def offer(self, configured: Sequence[Model]) -> None:
        """From now on these models are on offer; none: those that the upstreams list."""
        self._configured = configured

    def models(self) -> Sequence[Model]:
        return self._configured or merged((name, u.sighting.models) for name, u in self._upstreams.items())

    async def resolve(self, name: str) -> Model:
        try:
            return resolve(name, self.models())
        except NotFound:
            if self._configured or not await self._ask_the_unseen():
                raise
        return self._anew(name)

    def traits(self, model: Model) -> Traits:
        return self._servers(model)[0].traits

    def client_write(self, model: Model) -> float:
        return max(server.limits.client_write for server in self._servers(model))

    async def count(self, model: Model, body: bytes) -> int | None:
        for server in self._servers(model):
            tokens = await server.count(body)
            if tokens is not None:
                return tokens
        return None

    def unready(self) -> str | None:
        states = {name: upstream.sighting for name, upstream in self._upstreams.items()}
        if any(seen.state is Health.UP for seen in states.values()):
            return None
        return "; ".join(f"{name} is {seen.state}: {seen.reason}".removesuffix(": ") for name, seen in states.items())

    def _servers(self, model: Model) -> list[UpstreamClient]:
        """Those who serve `model`, by name. Raises Withdrawn where they have all been taken out meanwhile."""
        servers = [self._upstreams[name] for name in sorted(model.upstreams) if name in self._upstreams]
        if not servers:
            raise Withdrawn("the upstream was taken out of the configuration")
        return servers

    async def _ask_the_unseen(self) -> bool:
        """Before a model can be called unknown, every upstream must have listed its models once; False: all have."""
        unseen = [upstream for upstream in self._upstreams.values() if not upstream.sighting.models]
        await asyncio.gather(*(upstream.look() for upstream in unseen))
        return bool(unseen)

    def _anew(self, name: str) -> Model:
        """The model after all were asked. One that still loads and cannot list anything yet may well have it."""
        try:
            return resolve(name, self.models())
        except NotFound:
            silent = {key: u.sighting for key, u in self._upstreams.items() if not u.sighting.models}
            loading = frozenset(key for key, seen in silent.items() if seen.state is Health.LOADING)
            if loading:
                return Model(name, loading, name)
            if not self.models() and all(seen.state is not Health.UP for seen in silent.values()):
                reasons = "; ".join(f"{key}: {seen.reason}" for key, seen in silent.items())
                raise Unreachable(f"no upstream can say which models there are ({reasons})") from None
            raise
