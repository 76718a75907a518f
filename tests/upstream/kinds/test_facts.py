"""The list of models, as every kind writes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakes.asking import asking, recorded
from fakes.bare import unused_port
from slotline.core.kind import Kind
from slotline.upstream.kinds import OWNERS, SERVERS
from slotline.upstream.kinds.facts import Listing, tried


def listing(*entries: dict[str, Any]) -> Listing:
    return msgspec.json.decode(msgspec.json.encode({"data": list(entries)}), type=Listing)


@pytest.mark.parametrize("kind", [Kind.LLAMA_CPP, Kind.OLLAMA, Kind.VLLM, Kind.SGLANG])
def test_each_kind_signs_its_models(kind: Kind) -> None:
    found = msgspec.json.decode(recorded(f"{kind}-models.json").body or "", type=Listing)
    assert {OWNERS[owner] for owner in found.owners if owner in OWNERS} == {kind}


def test_every_kind_can_be_asked() -> None:
    assert set(SERVERS) == set(Kind)


def test_an_odd_field_does_not_hide_the_models() -> None:
    found = listing({"id": "a", "owned_by": 7, "max_model_len": "long", "status": []}, {"id": "b"})
    assert (found.models, found.owners, found.context, found.status("a")) == (("a", "b"), frozenset(), None, None)


def test_the_context_is_the_least_of_those_told() -> None:
    lengths: list[Any] = [None, 8192, 4096, 0, -1]
    assert listing(*({"id": "m", "max_model_len": length} for length in lengths)).context == 4096


def test_a_server_without_models_lists_none() -> None:
    assert msgspec.json.decode(b'{"object":"list","data":null}', type=Listing).models == ()


async def test_a_question_that_need_not_be_answered_raises_nothing() -> None:
    async with asking(f"http://127.0.0.1:{unused_port()}") as ask:
        assert await tried(ask.get("/")) is None
