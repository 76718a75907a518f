"""Ollama: whether it is there, and what it tells of its models without loading one."""

from __future__ import annotations

import msgspec
import pytest

from fakes.asking import asking, plain, recorded, silence_means
from fakes.bare import unused_port
from fakes.upstream import chat
from slotline.core.kind import Kind
from slotline.core.liveness import State
from slotline.stub import Side
from slotline.upstream.kinds import ollama
from slotline.upstream.kinds.facts import Facts, Listing

ONE = Listing([Listing.Entry("qwen3:8b")])
TWO = Listing([Listing.Entry("qwen3:8b"), Listing.Entry("llava:7b")])
LOADED, SHOWN = recorded("ollama-ps.json"), recorded("ollama-show.json")
VERSION = Side(body='{"version":"0.33.0"}')


@pytest.mark.parametrize("version", [VERSION, Side(status=404), Side(hang=True)])
async def test_its_silence_is_never_loading_while_it_is_there(version: Side) -> None:
    """A model is loaded by the request itself, silently, for as long as that takes."""
    async with plain({"/api/version": version}) as stub:
        assert await silence_means(Kind.OLLAMA, stub.url, answering=3, limit=0.1) is State.BUSY
        assert set(stub.hits) == {"/api/version"}


async def test_nobody_there_is_restarting() -> None:
    assert await silence_means(Kind.OLLAMA, f"http://127.0.0.1:{unused_port()}") is State.LOADING


async def test_it_tells_the_context_of_what_is_loaded_and_whether_its_only_model_sees() -> None:
    async with plain({"/api/ps": LOADED, "/api/show": SHOWN}) as stub, asking(stub.url) as ask:
        assert await ollama.facts(ask, ONE) == Facts(slots=None, context=4096, vision=False)
        (asked,) = [seen for seen in stub.calls if seen.path == "/api/show"]
        assert msgspec.json.decode(asked.body) == {"model": "qwen3:8b"}


async def test_of_several_models_it_is_not_known_whether_they_see() -> None:
    async with plain({"/api/ps": LOADED, "/api/show": SHOWN}) as stub, asking(stub.url) as ask:
        assert await ollama.facts(ask, TWO) == Facts(slots=None, context=4096, vision=None)
        assert not stub.hits["/api/show"]


@pytest.mark.parametrize(
    ("loaded", "context"),
    [
        ('{"models":[]}', None),
        ('{"models":null}', None),
        ('{"models":[{"name":"a"}]}', None),
        ('{"models":[{"name":"a","context_length":0}]}', None),
        ('{"models":[{"context_length":8192},{"context_length":8192}]}', 8192),
        ('{"models":[{"context_length":4096},{"context_length":8192}]}', None),
        ('{"models":7}', None),
        ("<html>", None),
    ],
)
async def test_a_context_is_known_where_all_that_is_loaded_agrees(loaded: str, context: int | None) -> None:
    async with plain({"/api/ps": Side(body=loaded)}) as stub, asking(stub.url) as ask:
        assert await ollama.facts(ask, TWO) == Facts(context=context)


@pytest.mark.parametrize(
    ("shown", "vision"),
    [
        (Side(body='{"capabilities":["completion","vision"]}'), True),
        (Side(body='{"capabilities":[]}'), False),
        (Side(body="{}"), None),
        (Side(status=404), None),
        (Side(hang=True), None),
    ],
)
async def test_whether_it_sees_is_one_of_its_capabilities(shown: Side, vision: bool | None) -> None:
    async with plain({"/api/ps": LOADED, "/api/show": shown}) as stub, asking(stub.url, 0.2) as ask:
        assert await ollama.facts(ask, ONE) == Facts(context=4096, vision=vision)


async def test_one_that_does_not_answer_cannot_be_asked() -> None:
    async with plain({"/api/ps": Side(hang=True)}) as stub, asking(stub.url, 0.1) as ask:
        assert await ollama.facts(ask, ONE) is None


async def test_it_has_no_tokenizer_to_ask() -> None:
    async with plain({"/tokenize": Side(body='{"count":3}')}) as stub, asking(stub.url) as ask:
        assert await ollama.SERVER.count(ask, chat()) is None
        assert not stub.calls
