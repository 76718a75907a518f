"""The routes beside chat, as llama-server has them."""

from __future__ import annotations

import base64
import struct
from typing import Any

import aiohttp
import pytest

from slotline.core.kind import Kind
from slotline.stub import Stub
from slotline.stub.standard import error, held, thinking
from stub.wire import answer, chat, chunks, posted


async def ask(stub: Stub, path: str, body: Any = None) -> tuple[int, Any]:
    method = "GET" if body is None else "POST"
    async with aiohttp.ClientSession() as session, session.request(method, stub.url + path, json=body) as response:
        return response.status, await response.json(content_type=None)


async def test_slots_show_what_each_runs_or_ran_last() -> None:
    async with Stub(slots=2) as stub:
        _, fresh = await ask(stub, "/slots")
        assert fresh == [
            {"id": number, "n_ctx": 8192, "speculative": False, "is_processing": False} for number in range(2)
        ]
        stub.play(held(3, before=2))
        async with posted(stub, chat(id_slot=1, max_tokens=10)):
            await stub.until(lambda s: s.held == 1)
            _, (idle, busy) = await ask(stub, "/slots")
        assert idle == fresh[0]
        assert busy["is_processing"] is True
        assert busy["n_prompt_tokens"] == busy["n_prompt_tokens_processed"] > 0
        (token,) = busy["next_token"]
        assert (token["n_decoded"], token["n_remain"], token["has_next_token"]) == (2, 8, True)
        await stub.until(lambda s: s.aborted == 1)
        _, (_, after) = await ask(stub, "/slots")
        assert after["is_processing"] is False
        assert after["id_task"] == busy["id_task"]


async def test_fail_on_no_slot_answers_503_when_all_are_busy() -> None:
    async with Stub(slots=1) as stub:
        assert (await ask(stub, "/slots?fail_on_no_slot=1"))[0] == 200
        async with posted(stub, chat("stub-hang")):
            await stub.until(lambda s: s.running == 1)
            status, reply = await ask(stub, "/slots?fail_on_no_slot=1")
            assert (status, reply["error"]["message"]) == (503, "no slot available")


async def test_without_slots_the_route_answers_501() -> None:
    async with Stub(has_slots=False) as stub:
        status, reply = await ask(stub, "/slots")
        assert (status, reply["error"]["type"]) == (501, "not_supported_error")
        assert (await ask(stub, "/props"))[1]["endpoint_slots"] is False


async def test_asking_for_slots_wakes_a_sleeper_and_asking_for_props_does_not() -> None:
    async with Stub(sleeping=True, slots=3) as stub:
        for _ in range(2):
            _, props = await ask(stub, "/props")
            assert (props["is_sleeping"], props["total_slots"]) == (True, 3)
        await ask(stub, "/slots")
        assert (await ask(stub, "/props"))[1]["is_sleeping"] is False


async def test_metrics_count_what_is_processing_and_what_is_deferred() -> None:
    async with Stub(slots=1, default=held(1)) as stub, posted(stub), posted(stub):
        await stub.until(lambda s: (s.running, s.waiting) == (1, 1))
        async with aiohttp.ClientSession() as session, session.get(stub.url + "/metrics") as response:
            lines = (await response.text()).splitlines()
    assert "llamacpp:requests_processing 1" in lines
    assert "llamacpp:requests_deferred 1" in lines


async def test_models_health_embeddings_and_tokens() -> None:
    async with Stub(models=("a", "b")) as stub:
        _, models = await ask(stub, "/v1/models")
        assert [(model["id"], model["owned_by"]) for model in models["data"]] == [("a", "llamacpp"), ("b", "llamacpp")]
        assert await ask(stub, "/v1/health") == (200, {"status": "ok"})
        _, vectors = await ask(stub, "/v1/embeddings", {"input": ["x", "some words", "x"], "model": "a"})
        one, two, three = (item["embedding"] for item in vectors["data"])
        assert one == three != two
        assert vectors["usage"]["prompt_tokens"] == 5
        _, tokens = await ask(stub, "/tokenize", {"content": "nine chars", "with_pieces": True})
        assert [token["piece"] for token in tokens["tokens"]] == ["nine", " cha", "rs"]
        status, reply = await ask(stub, "/tokenize", {"text": "x"})
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error")


async def test_the_template_names_each_role_and_counts_tools() -> None:
    async with Stub() as stub:
        _, plain = await ask(stub, "/apply-template", chat(text="hi"))
        _, tools = await ask(stub, "/apply-template", chat(text="hi", tools=[{"type": "function"}]))
    assert plain["prompt"] == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tools["prompt"] == '[{"type":"function"}]\n' + plain["prompt"]


async def test_an_unknown_route_and_a_wrong_method_are_errors_in_the_servers_words() -> None:
    async with Stub() as stub:
        status, reply = await ask(stub, "/nothing")
        assert (status, reply["error"]["type"]) == (404, "not_found_error")
        assert (await ask(stub, "/v1/chat/completions"))[0] == 405
        assert stub.hits["/nothing"] == 1


async def test_a_server_of_kind_openai_has_models_and_chat_and_nothing_of_llama_servers() -> None:
    async with Stub(kind=Kind.OPENAI, tokens=1) as stub:
        for path in ("/slots", "/props", "/health", "/metrics"):
            assert (await ask(stub, path))[0] == 404
        _, models = await ask(stub, "/v1/models")
        assert models["data"] == [{"id": "stub", "object": "model", "created": 0, "owned_by": "stub"}]
        raw = await answer(stub)
        assert b"timings" not in raw
        assert b"llama" not in raw


# ---- the older routes ------------------------------------------------------------------------------------------------


async def test_a_plain_prompt_is_completed_in_a_slot_by_any_script_as_a_stream_of_texts() -> None:
    async with Stub(slots=1) as stub:
        stub.play(thinking(1, 2))
        async with posted(stub, {"model": "m", "prompt": "once", "stream": True}, "/v1/completions") as (reader, _):
            raw = await reader.read()
        told = chunks(raw)
        assert [each["choices"][0]["text"] for each in told] == ["", "thought-0", "token-0", " token-1", ""]
        assert told[-1]["choices"][0]["finish_reason"] == "stop"
        assert {each["object"] for each in told} == {"text_completion"}
        (received,) = stub.requests
        assert (received.slot, received.path, received.model) == (0, "/v1/completions", "m")


async def test_a_plain_prompt_is_completed_whole_and_its_tokens_are_counted_without_a_template() -> None:
    async with Stub(tokens=2) as stub:
        _, whole = await ask(stub, "/v1/completions", {"prompt": "12345678"})
        assert whole["choices"] == [{"index": 0, "text": "token-0 token-1", "logprobs": None, "finish_reason": "stop"}]
        assert (whole["object"], whole["usage"]["prompt_tokens"]) == ("text_completion", 2)
        _, tokens = await ask(stub, "/v1/completions", {"prompt": [1, 2, 3]})
        assert tokens["usage"]["prompt_tokens"] > 0
        stub.play(error(500))
        status, _ = await ask(stub, "/v1/completions", {"prompt": "x"})
        assert status == 500


async def test_embeddings_are_of_texts_or_tokens_as_numbers_or_packed() -> None:
    async with Stub() as stub:
        bodies: list[Any] = ["a", ["a", "b"], [1, 2], [[1, 2], [3]]]
        told = [(await ask(stub, "/v1/embeddings", {"input": body}))[1]["data"] for body in bodies]
        assert [len(data) for data in told] == [1, 2, 1, 2]
        _, packed = await ask(stub, "/v1/embeddings", {"input": "a", "encoding_format": "base64"})
        numbers = struct.unpack("<8f", base64.b64decode(packed["data"][0]["embedding"]))
        assert list(numbers) == pytest.approx(told[0][0]["embedding"])
        status, _ = await ask(stub, "/v1/embeddings", {"input": {"a": 1}})
        assert status == 400
