"""The routes as a whole: both mounts, every answer's marks, and errors in one shape everywhere."""

from __future__ import annotations

import asyncio
from itertools import product

import msgspec
import pytest

from fakes.gateway import MESSAGES, PATIENT, fronted
from fakes.product import Caller, ask
from slotline.stub.standard import hang

POSTS = ["/v1/messages", "/v1/messages/count_tokens"]
GETS = ["/v1/models", "/v1/models/stub"]
MOUNTS = ["", "/llm"]
WRONG = [
    *product(("GET", "PUT", "DELETE", "PATCH", "OPTIONS"), [mount + path for mount in MOUNTS for path in POSTS]),
    *product(("POST", "PUT", "DELETE"), [mount + path for mount in MOUNTS for path in GETS]),
    *product(("POST", "DELETE"), ["/healthz", "/readyz"]),
]
UNKNOWN = [
    "/v1",
    "/v1/messages/",
    "/v1/messages/batches",
    "/v1/files",
    "/v1/complete",
    "/llm",
    "/llm/v2/messages",
    "/x",
]


@pytest.mark.parametrize(("method", "path"), WRONG)
async def test_a_wrong_method_is_refused_in_the_shape_of_the_surface(method: str, path: str) -> None:
    """Case 5."""
    async with fronted() as front:
        answer = await front.get(path, method)
    body = answer.json()
    assert answer.status == 405
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert body["error"]["message"] == f"{path}: this route does not take {method}"
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert answer.headers["allow"]


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_route_is_not_found_in_the_shape_of_the_surface(method: str, path: str) -> None:
    """Case 5."""
    async with fronted() as front:
        answer = await front.get(path, method)
    body = answer.json()
    assert answer.status == 404
    assert (body["type"], body["error"]["type"]) == ("error", "not_found_error")
    assert body["error"]["message"] == f"{method} {path}: there is no such route"
    assert body["request_id"] == answer.headers["request-id"]


async def test_every_answer_is_signed_with_an_identity_of_its_own_and_tells_nothing_of_what_it_is_made_of() -> None:
    async with fronted() as front:
        answers = [
            await front.fetch(),
            await front.fetch(ask(stream=False)),
            await front.fetch(b"{"),
            *[await front.get(path) for path in ("/healthz", "/readyz", "/v1/models", "/nowhere", MESSAGES)],
            await front.get("/", "HEAD"),
        ]
    identities = [answer.headers["request-id"] for answer in answers]
    assert len(set(identities)) == len(answers)
    assert all(identity.startswith("req_") for identity in identities)
    assert {answer.headers["server"] for answer in answers} == {"slotline"}


async def test_an_expectation_that_nobody_can_meet_is_refused_and_signed() -> None:
    async with fronted() as front:
        answer = await front.fetch(headers={"expect": "a-miracle"})
        assert answer.status == 417
        assert answer.headers["request-id"].startswith("req_")
        assert front.log.faults == []


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on() -> None:
    async with fronted() as front:
        caller = await Caller.connect(front.url)
        caller.writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        )
        async with asyncio.timeout(5):
            assert (await caller.head()).status == 100
            caller.writer.write(b"{}")
            assert (await caller.answer()).status == 400
        await caller.close()


async def test_the_prefix_is_the_configured_one() -> None:
    async with fronted(server=msgspec.structs.replace(PATIENT, prefix="/a/b")) as front:
        assert (await front.fetch(path="/a/b/v1/messages")).status == 200
        assert (await front.fetch(path="/v1/messages")).status == 200
        assert (await front.fetch(path=MESSAGES)).status == 404


async def test_all_other_routes_answer_at_once_while_every_slot_is_silent_and_the_line_is_full() -> None:
    """Case 91."""
    async with fronted(slots=2, queue=3) as front:
        front.stub.default = hang()
        async with asyncio.TaskGroup() as tasks:
            crowd = [tasks.create_task(front.fetch(ask(stream=number % 2 == 0))) for number in range(5)]
            await front.until(lambda: front.waiting == 3)
            assert (await front.fetch()).status == 529
            counted = {"model": "stub", "messages": [{"role": "user", "content": "hi"}]}
            time = asyncio.get_running_loop().time
            for path, body in (
                ("/healthz", None),
                ("/readyz", None),
                ("/v1/models", None),
                ("/llm/v1/models/stub", None),
                ("/v1/messages/count_tokens", counted),
            ):
                before = time()
                answer = await (front.get(path) if body is None else front.fetch(body, path))
                assert answer.status == 200
                assert time() - before < 0.2, path
            for caller in crowd:
                caller.cancel()
