"""One look at a server: alive, loading or gone; which kind, which models, how many slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.asking import asking, plain, recorded
from fakes.bare import crowded, unused_port
from slotline.core.kind import Kind
from slotline.stub import Side, Stub
from slotline.upstream.probe import Health, Sighting, look

LOADS_NOW = Side(status=503, body='{"error":{"message":"Loading model","type":"unavailable_error","code":503}}')
LOADS_AS_ONCE = Side(status=503, body='{"status":"loading model"}')
HTML = Side(body="<html><body>Welcome to nginx!</body></html>", content_type="text/html")


async def sight(url: str, kind: Kind | None = None, limit: float = 10.0) -> Sighting:
    async with asking(url, limit) as ask:
        return await look(ask, kind)


async def sight_of(sides: dict[str, Side], kind: Kind | None = None, *, plays: Kind = Kind.LLAMA_CPP) -> Sighting:
    async with Stub(kind=plays) as stub:
        stub.sides.update(sides)
        return await sight(stub.url, kind)


# ---- up --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, Kind.LLAMA_CPP])
async def test_llama_cpp_is_known_by_its_props_and_tells_its_slots_and_their_context(kind: Kind | None) -> None:
    async with Stub(slots=3, context=4096, models=("a", "b")) as stub:
        assert await sight(stub.url, kind) == Sighting(Health.UP, Kind.LLAMA_CPP, ("a", "b"), 3, 4096, vision=False)
        assert stub.hits["/slots"] == 0  # which would wake one that sleeps


async def test_a_server_without_props_speaks_chat_completions_and_no_more() -> None:
    async with Stub(kind=Kind.OPENAI, models=("m",)) as stub:
        assert await sight(stub.url) == Sighting(Health.UP, Kind.OPENAI, ("m",))


@pytest.mark.parametrize("kind", [Kind.OLLAMA, Kind.VLLM, Kind.SGLANG, Kind.OPENAI])
async def test_a_kind_that_is_configured_is_not_guessed_again(kind: Kind) -> None:
    async with Stub(models=("m",)) as stub:
        assert await sight(stub.url, kind) == Sighting(Health.UP, kind, ("m",))
        assert stub.hits["/props"] == 0


ODD_PROPS = [Side(body="{}"), Side(body='{"total_slots":"2"}'), HTML, Side(status=401), Side(body="[" * 100_000)]


@pytest.mark.parametrize("props", ODD_PROPS)
async def test_props_of_another_shape_are_not_llama_cpps(props: Side) -> None:
    assert (await sight_of({"/props": props}, plays=Kind.OPENAI)).kind is Kind.OPENAI


@pytest.mark.parametrize("props", ODD_PROPS)
async def test_llama_cpp_whose_props_are_hidden_is_known_by_its_list_of_models(props: Side) -> None:
    seen = await sight_of({"/props": props})
    assert (seen.state, seen.kind, seen.slots, seen.context) == (Health.UP, Kind.LLAMA_CPP, None, None)


async def test_props_tell_a_llama_cpp_whose_list_of_models_is_signed_by_another() -> None:
    listing = Side(body='{"data":[{"id":"m","owned_by":"me"}]}')
    seen = await sight_of({"/v1/models": listing, "/props": Side(body='{"total_slots":2}')}, plays=Kind.OPENAI)
    assert (seen.kind, seen.slots) == (Kind.LLAMA_CPP, 2)


async def test_vllm_is_known_by_its_list_of_models_which_tells_the_context() -> None:
    sides = {"/v1/models": recorded("vllm-models.json"), "/health": Side(body="")}
    async with plain(sides) as stub:
        assert await sight(stub.url) == Sighting(Health.UP, Kind.VLLM, ("qwen3-30b", "sql-lora"), context=32768)
        assert set(stub.hits) == {"/v1/models", "/health"}


async def test_sglang_is_known_by_its_list_of_models_and_its_health_is_not_asked() -> None:
    """By default its answer costs a token, and the time for it."""
    sides = {"/v1/models": recorded("sglang-models.json"), "/health": Side(status=503)}
    sides |= {"/server_info": recorded("sglang-server-info.json"), "/model_info": recorded("sglang-model-info.json")}
    async with plain(sides) as stub:
        assert await sight(stub.url) == Sighting(Health.UP, Kind.SGLANG, ("m",), 256, 40960, vision=True)
        assert set(stub.hits) == {"/v1/models", "/server_info", "/model_info"}


async def test_ollama_is_known_by_its_list_of_models() -> None:
    sides = {"/v1/models": recorded("ollama-models.json"), "/api/ps": recorded("ollama-ps.json")}
    async with plain(sides) as stub:
        names = ("qwen3:8b", "hf.co/someone/model:Q4")
        assert await sight(stub.url) == Sighting(Health.UP, Kind.OLLAMA, names, context=4096)
        assert set(stub.hits) == {"/v1/models", "/api/ps"}


async def test_ollama_without_a_model_is_known_by_its_version() -> None:
    sides = {
        "/v1/models": Side(body='{"object":"list","data":null}'),
        "/api/version": Side(body='{"version":"0.33.0"}'),
    }
    assert (await sight_of(sides, plays=Kind.OPENAI)) == Sighting(Health.UP, Kind.OLLAMA)


@pytest.mark.parametrize("version", [HTML, Side(body="{}"), Side(body='"0.33"'), Side(status=500), Side(hang=True)])
async def test_a_version_of_another_shape_is_not_ollamas(version: Side) -> None:
    async with plain({"/api/version": version}) as stub:
        assert await sight(stub.url, limit=0.2) == Sighting(Health.UP, Kind.OPENAI, ("m",))


async def test_a_sleeper_is_recognised_and_not_woken() -> None:
    async with Stub(sleeping=True, slots=2, context=512) as stub:
        assert await sight(stub.url) == Sighting(Health.UP, Kind.LLAMA_CPP, ("stub",), 2, 512, vision=False)
        assert stub.sleeping


async def test_what_a_server_told_of_itself_holds_while_it_is_too_busy_to_say_it_again() -> None:
    sides = {"/v1/models": recorded("sglang-models.json"), "/server_info": Side(hang=True)}
    before = Sighting(Health.UP, Kind.SGLANG, ("m",), 256, 40960, vision=True)
    async with plain(sides) as stub, asking(stub.url, 0.1) as ask:
        assert await look(ask, None, before) == before
        assert await look(ask, None) == Sighting(Health.UP, Kind.SGLANG, ("m",))
        other = replace(before, kind=Kind.LLAMA_CPP)
        assert await look(ask, None, other) == Sighting(Health.UP, Kind.SGLANG, ("m",))


async def test_props_that_tell_less_are_llama_cpps_too() -> None:
    seen = await sight_of({"/props": Side(body='{"total_slots":2}')})
    assert (seen.kind, seen.slots, seen.context, seen.vision) == (Kind.LLAMA_CPP, 2, None, None)


async def test_a_server_that_has_no_model_yet_is_up() -> None:
    for body in ('{"object":"list","data":null}', '{"object":"list","data":[]}'):
        seen = await sight_of({"/v1/models": Side(body=body)}, plays=Kind.OPENAI)
        assert (seen.state, seen.models) == (Health.UP, ())


# ---- loading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("health", [LOADS_NOW, LOADS_AS_ONCE])
async def test_while_it_loads_its_health_says_so_in_one_of_two_shapes(health: Side) -> None:
    body = '{"object":"list","data":[{"id":"m","meta":null}]}'
    seen = await sight_of({"/health": health, "/v1/models": Side(body=body)})
    assert seen == Sighting(Health.LOADING, Kind.LLAMA_CPP, ("m",), reason=str(health.body))


async def test_and_it_may_list_no_models_then() -> None:
    async with Stub() as stub:
        stub.start_loading()
        seen = await sight(stub.url)
    assert (seen.state, seen.kind, seen.models) == (Health.LOADING, Kind.LLAMA_CPP, ())
    assert "Loading model" in seen.reason


async def test_another_server_that_is_unavailable_is_not_taken_for_llama_cpp() -> None:
    seen = await sight_of({"/health": Side(status=503)}, plays=Kind.OPENAI)
    assert (seen.state, seen.kind) == (Health.LOADING, None)


async def test_one_whose_models_are_unavailable_is_loading_too() -> None:
    seen = await sight_of({"/v1/models": Side(status=503, body="not yet")}, Kind.VLLM, plays=Kind.OPENAI)
    assert seen == Sighting(Health.LOADING, Kind.VLLM, reason="not yet")


async def test_the_reason_is_short_and_text_whatever_the_server_sends() -> None:
    seen = await sight_of({"/health": Side(status=503, body="\ufffd" + "x" * 10_000)})
    assert len(seen.reason) <= 200


# ---- down ------------------------------------------------------------------------------------------------------------


async def test_nobody_there_is_down_with_the_reason() -> None:
    assert await sight(f"http://127.0.0.1:{unused_port()}", Kind.VLLM) == Sighting(
        Health.DOWN, Kind.VLLM, reason="connection refused"
    )


async def test_one_that_cannot_be_connected_to_is_down() -> None:
    with crowded() as server:
        assert await sight(server.url, limit=0.05) == Sighting(Health.DOWN, reason="no answer to a probe within 0.05 s")


@pytest.mark.parametrize("path", ["/health", "/props", "/v1/models"])
async def test_one_that_does_not_answer_in_time_is_down(path: str) -> None:
    async with Stub() as stub:
        stub.sides[path] = Side(hang=True)
        seen = await sight(stub.url, limit=0.1)
    assert (seen.state, seen.reason) == (Health.DOWN, "no answer to a probe within 0.1 s")


async def test_a_web_page_at_every_address_is_no_upstream() -> None:
    seen = await sight_of({"/health": HTML, "/props": HTML, "/v1/models": HTML})
    assert seen.state is Health.DOWN
    assert "not as an OpenAI-compatible server" in seen.reason
    assert "/v1/models with status 200 lists no models" in seen.reason


@pytest.mark.parametrize("body", ['{"data":[{"name":"m"}]}', '{"models":[]}', '["m"]', ""])
async def test_a_listing_of_another_shape_is_none(body: str) -> None:
    assert (await sight_of({"/v1/models": Side(body=body)})).state is Health.DOWN


@pytest.mark.parametrize("status", [401, 403])
async def test_one_that_refuses_the_key_says_so(status: int) -> None:
    seen = await sight_of({"/v1/models": Side(status=status)}, plays=Kind.OPENAI)
    assert seen.state is Health.DOWN
    assert f"refuses the gateway's key, or the lack of one: /v1/models answers with status {status}" in seen.reason
