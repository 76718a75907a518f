"""The models on offer and the health of those who serve them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from fakes.bare import crowded, unused_port
from fakes.upstream import chat, limits
from slotline.core.errors import NotFound, Unreachable, Withdrawn
from slotline.core.kind import Kind, Traits
from slotline.core.models import Model
from slotline.stub import Side, Stub
from slotline.upstream.client import UpstreamClient
from slotline.upstream.roster import Roster

BOTH = frozenset({"one", "two"})


@asynccontextmanager
async def roster(*configured: Model, connect: float = 5.0, **urls: str) -> AsyncIterator[Roster]:
    """Upstreams by name, none of which has been looked at."""
    async with AsyncExitStack() as stack:
        upstreams = {
            name: await stack.enter_async_context(UpstreamClient(name, url, limits(connect=connect)))
            for name, url in urls.items()
        }
        yield Roster(configured, upstreams)


async def look(roster: Roster, *names: str) -> None:
    for name in names or roster._upstreams:
        await roster._upstreams[name].look()


def nobody() -> str:
    return f"http://127.0.0.1:{unused_port()}"


# ---- models ----------------------------------------------------------------------------------------------------------


async def test_configured_models_are_the_offer_and_nobody_is_asked() -> None:
    model = Model("big", BOTH, "qwen", ("claude-*",))
    async with Stub(models=("other",)) as stub, roster(model, one=stub.url, two=stub.url) as made:
        await look(made)
        asked = stub.hits.total()
        assert made.models() == (model,)
        assert await made.resolve("claude-1") is model
        with pytest.raises(NotFound, match="the models are: big"):
            await made.resolve("other")
        assert stub.hits.total() == asked


async def test_without_any_the_models_are_those_that_the_upstreams_list() -> None:
    async with (
        Stub(models=("a", "b")) as first,
        Stub(models=("b", "c")) as second,
        roster(one=first.url, two=second.url) as made,
    ):
        await look(made)
        assert await made.resolve("b") == Model("b", BOTH, "b")
        assert [model.name for model in made.models()] == ["a", "b", "c"]
        with pytest.raises(NotFound, match="the models are: a, b, c"):
            await made.resolve("d")


async def test_a_model_that_nobody_has_shown_yet_is_asked_for() -> None:
    async with Stub(models=("a",)) as stub, roster(one=stub.url) as made:
        assert made.models() == []
        assert (await made.resolve("a")).upstreams == {"one"}


async def test_a_model_that_is_known_is_served_without_asking_one_that_hangs() -> None:
    with crowded() as hangs:
        async with Stub(models=("a",)) as stub, roster(one=stub.url, two=hangs.url, connect=30) as made:
            await look(made, "one")
            assert (await made.resolve("a")).upstreams == {"one"}


async def test_a_model_of_an_upstream_that_went_away_stays_on_offer() -> None:
    """A client that hears 404 gives the model up for good; one that hears 502 comes again."""
    async with Stub(models=("a",)) as stub, roster(one=stub.url) as made:
        await look(made)
        await stub.stop()
        await look(made)
        assert (await made.resolve("a")).upstreams == {"one"}


async def test_while_one_loads_and_lists_nothing_an_unknown_model_is_taken_to_be_its() -> None:
    async with (
        Stub(models=("a",)) as first,
        Stub(models=("b",)) as second,
        roster(one=first.url, two=second.url) as made,
    ):
        second.start_loading()
        await look(made)
        assert await made.resolve("b") == Model("b", frozenset({"two"}), "b")
        assert (await made.resolve("a")).upstreams == {"one"}
        second.finish_loading()
        await look(made)
        assert await made.resolve("b") == Model("b", frozenset({"two"}), "b")
        with pytest.raises(NotFound):
            await made.resolve("c")


async def test_where_nobody_can_be_asked_that_is_said_and_not_that_the_model_is_unknown() -> None:
    async with roster(one=nobody(), two=nobody()) as made:
        with pytest.raises(Unreachable, match="no upstream can say which models there are") as caught:
            await made.resolve("a")
    assert "one: connection refused; two: connection refused" in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_an_upstream_that_has_no_models_makes_every_model_unknown() -> None:
    async with Stub(kind=Kind.OPENAI) as stub, roster(one=stub.url) as made:
        stub.sides["/v1/models"] = Side(body='{"data":[]}')
        with pytest.raises(NotFound, match="none at present"):
            await made.resolve("a")


async def test_with_one_upstream_gone_an_unknown_model_is_unknown() -> None:
    async with Stub(models=("a",)) as stub, roster(one=stub.url, two=nobody()) as made:
        with pytest.raises(NotFound, match="the models are: a"):
            await made.resolve("b")


# ---- those who serve them --------------------------------------------------------------------------------------------


async def test_traits_are_those_of_the_first_upstream_and_patience_is_that_of_the_most_patient() -> None:
    model = Model("m", BOTH, "m")
    async with AsyncExitStack() as stack:
        stub = await stack.enter_async_context(Stub(context=4096))
        made = {
            name: await stack.enter_async_context(UpstreamClient(name, url, limits(client_write=write), kind))
            for name, url, write, kind in (
                ("two", nobody(), 90, Kind.VLLM),
                ("one", stub.url, 60, Kind.LLAMA_CPP),
            )
        }
        listed = Roster([model], made)
        await look(listed, "one")
        assert listed.traits(model) == Traits(Kind.LLAMA_CPP, 4096, vision=False)
        assert listed.client_write(model) == 90
        assert listed.client_write(Model("m", frozenset({"one"}), "m")) == 60


async def test_tokens_are_counted_by_the_first_that_can() -> None:
    model = Model("m", BOTH, "m")
    async with Stub(kind=Kind.OPENAI) as first, Stub() as second, roster(one=first.url, two=second.url) as made:
        await look(made)
        assert await made.count(model, chat()) == await made._upstreams["two"].count(chat())
        assert await made.count(model, chat()) is not None
        assert await made.count(Model("m", frozenset({"one"}), "m"), chat()) is None


# ---- health ----------------------------------------------------------------------------------------------------------


async def test_it_is_ready_while_some_upstream_can_serve() -> None:
    async with Stub() as stub, roster(one=nobody(), two=stub.url) as made:
        assert made.unready() == "one is unknown; two is unknown"
        await look(made)
        assert made.unready() is None
        stub.start_loading()
        await look(made)
        unready = made.unready()
        assert unready is not None
        assert unready.startswith("one is down: connection refused; two is loading: ")


async def test_health_is_told_from_what_was_seen_without_asking() -> None:
    async with Stub() as stub, roster(one=stub.url) as made:
        await look(made)
        asked = stub.hits.total()
        await stub.stop()
        assert made.unready() is None
        assert stub.hits.total() == asked


# ---- upstreams that go, and models that change -----------------------------------------------------------------------


async def test_of_a_models_upstreams_those_are_asked_that_are_still_there() -> None:
    model = Model("m", BOTH, "m")
    async with Stub() as stub, roster(model, one=nobody(), two=stub.url) as made:
        await look(made)
        del made._upstreams["one"]  # type: ignore[attr-defined]
        assert made.traits(model).kind is Kind.LLAMA_CPP
        assert made.client_write(model) == limits().client_write
        del made._upstreams["two"]  # type: ignore[attr-defined]
        for asked in (made.traits, made.client_write):
            with pytest.raises(Withdrawn):
                asked(model)
        with pytest.raises(Withdrawn):
            await made.count(model, chat())


async def test_other_models_are_on_offer_from_now_on() -> None:
    async with Stub(models=("listed",)) as stub, roster(Model("big", BOTH, "qwen"), one=stub.url) as made:
        await look(made)
        made.offer(())
        assert [model.name for model in made.models()] == ["listed"]
