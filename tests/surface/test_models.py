"""The models on offer, in the one shape that the SDKs of both families read."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from fakes.gateway import Front, fronted
from slotline.config import ModelConfig
from slotline.stub import Stub

LIST = "/llm/v1/models"
NAMES = ["one", "two", "deux", "three", "org/qwen3:8b"]


@pytest_asyncio.fixture
async def front() -> AsyncIterator[Front]:
    """Four models; the second has a plain alias, the third a pattern."""
    models = (
        ModelConfig(name="one", upstreams=("box",), target="one"),
        ModelConfig(name="two", upstreams=("box",), target="2", aliases=("deux",)),
        ModelConfig(name="three", upstreams=("box",), target="3", aliases=("claude-*",)),
        ModelConfig(name="org/qwen3:8b", upstreams=("box",), target="q"),
    )
    async with fronted(models=models) as running:
        yield running


async def listed(front: Front, query: str = "") -> dict[str, Any]:
    answer = await front.get(LIST + query)
    assert answer.status == 200
    body: dict[str, Any] = answer.json()
    return body


def ids(page: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in page["data"]]


@pytest.mark.parametrize("path", [LIST, "/v1/models"])
async def test_every_model_and_every_plain_alias_is_listed_for_both_families(front: Front, path: str) -> None:
    """Case 92."""
    page = (await front.get(path)).json()
    assert page["object"] == "list"
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "one", "org/qwen3:8b")
    assert ids(page) == NAMES
    for entry in page["data"]:
        assert entry["type"] == entry["object"] == "model"
        assert entry["display_name"] == entry["id"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["created_at"])
        assert isinstance(entry["created"], int)
        assert entry["owned_by"] == "slotline"


@pytest.mark.parametrize(
    ("query", "expected", "more"),
    [
        ("?limit=2", ["one", "two"], True),
        ("?limit=5", NAMES, False),
        ("?limit=1000", NAMES, False),
        ("?after_id=two", ["deux", "three", "org/qwen3:8b"], False),
        ("?after_id=one&limit=1", ["two"], True),
        ("?after_id=org%2Fqwen3%3A8b", [], False),
        ("?before_id=deux", ["one", "two"], False),
        ("?before_id=three&limit=2", ["two", "deux"], True),
        ("?after_id=one&before_id=three", ["two", "deux"], False),
        ("?after_id=nobody", NAMES, False),
    ],
)
async def test_the_list_is_read_in_pages(front: Front, query: str, expected: list[str], more: bool) -> None:
    page = await listed(front, query)
    assert ids(page) == expected
    assert page["has_more"] is more
    ends = (expected[0], expected[-1]) if expected else (None, None)
    assert (page["first_id"], page["last_id"]) == ends


async def test_page_by_page_every_model_comes_once(front: Front) -> None:
    seen: list[str] = []
    page = await listed(front, "?limit=2")
    while True:
        seen += ids(page)
        if not page["has_more"]:
            break
        page = await listed(front, f"?limit=2&after_id={page['last_id']}")
    assert seen == NAMES


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1.5", "%D9%A3", "9" * 5000])
async def test_a_limit_that_is_none_is_refused_by_name(front: Front, limit: str) -> None:
    answer = await front.get(f"{LIST}?limit={limit}")
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("limit: expected a whole number from 1 to 1000")
    assert len(error["message"]) < 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("one", "one"),
        ("deux", "deux"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("org%2Fqwen3:8b", "org/qwen3:8b"),
        ("org%2Fqwen3%3A8b", "org/qwen3:8b"),
        ("org/qwen3:8b", "org/qwen3:8b"),
    ],
)
@pytest.mark.parametrize("mount", [LIST, "/v1/models"])
async def test_one_model_is_found_by_every_name_that_a_message_could_ask_for(
    front: Front, mount: str, path: str, name: str
) -> None:
    """Case 92."""
    answer = await front.get(f"{mount}/{path}")
    assert answer.status == 200
    assert (answer.json()["id"], answer.json()["type"], answer.json()["object"]) == (name, "model", "model")


@pytest.mark.parametrize("path", ["four", "one/two", "claude", "Claude-x"])
async def test_a_model_that_is_not_served_is_not_found(front: Front, path: str) -> None:
    """Case 92."""
    answer = await front.get(f"{LIST}/{path}")
    assert answer.status == 404
    assert answer.json()["error"]["type"] == "not_found_error"
    assert "the models are: one" in answer.json()["error"]["message"]


async def test_where_none_are_configured_the_models_are_those_of_the_upstreams() -> None:
    async with fronted(stub=Stub(models=("a", "b"))) as front:
        assert ids(await listed(front)) == ["a", "b"]
        assert (await front.get(f"{LIST}/b")).status == 200
        assert (await front.get(f"{LIST}/c")).status == 404


async def test_where_no_upstream_has_told_its_models_the_list_is_empty() -> None:
    async with fronted(url="http://127.0.0.1:1") as front:
        page = await listed(front)
    assert page == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
