"""Who is let in: keys before everything else, the models of a key, who asks, and the operator."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from fakes.gateway import MESSAGES, PATIENT, Front, fronted
from fakes.product import Answered, Caller, ask, fetch
from slotline.config import KeyConfig, ModelConfig
from slotline.core.keys import Caller as Asker
from slotline.core.keys import digest, flow
from slotline.stub.standard import error, hang
from slotline.surface.auth import admin
from slotline.surface.errors import REQUEST_ID, Handler, errors
from slotline.surface.ports import Ports

RIGHT, OTHER, WRONG = "sl-marker-of-alice", "sl-marker-of-bob", "sl-marker-of-nobody"
HI = [{"role": "user", "content": "hi"}]

POSTS: dict[str, dict[str, object]] = {  # the routes that ask a model, and a body for each
    "/v1/messages": {"max_tokens": 5, "messages": HI},
    "/v1/messages/count_tokens": {"messages": HI},
    "/v1/chat/completions": {"messages": HI},
    "/v1/completions": {"prompt": "hi"},
    "/v1/embeddings": {"input": "hi"},
    "/v1/responses": {"input": "hi"},
}
GETS = {"/v1/models": 200, "/v1/models/stub": 200}
UNKNOWN = ["/v1", "/v1/", "/v1/files", "/v1/messages/batches", "/v1/chat", "/%76%31/files"]
OPENAI = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
MOUNTS = ["", "/llm"]

NOT_LET_IN: dict[str, dict[str, str]] = {
    "no key": {},
    "a wrong bearer": {"authorization": f"Bearer {WRONG}"},
    "a wrong x-api-key": {"x-api-key": WRONG},
    "both wrong": {"authorization": f"Bearer {WRONG}", "x-api-key": "dummy"},
    "a right key with something behind it": {"x-api-key": f"{RIGHT}x"},
    "a right key cut short": {"x-api-key": RIGHT[:-1]},
    "a right key in another spelling": {"x-api-key": RIGHT.upper()},
    "its hash": {"x-api-key": f"sha256:{hashlib.sha256(RIGHT.encode()).hexdigest()}"},
    "empty ones": {"authorization": "Bearer ", "x-api-key": ""},
    "no scheme": {"authorization": RIGHT},
    "another scheme": {"authorization": f"Basic {RIGHT}"},
    "bytes that are no text": {"x-api-key": "\udcff\udcfe"},
    "another header": {"proxy-authorization": f"Bearer {RIGHT}", "cookie": f"key={RIGHT}"},
}
LET_IN: dict[str, dict[str, str]] = {
    "the bearer": {"authorization": f"Bearer {RIGHT}"},
    "x-api-key": {"x-api-key": RIGHT},
    "both": {"authorization": f"Bearer {RIGHT}", "x-api-key": RIGHT},
    "a dummy x-api-key and the bearer": {"authorization": f"Bearer {RIGHT}", "x-api-key": "dummy"},
    "a dummy bearer and x-api-key": {"authorization": "Bearer dummy", "x-api-key": RIGHT},
    "other names and spellings": {"AUTHORIZATION": f"bearer  {RIGHT} "},
}


def key(name: str, secret: str, **more: Any) -> KeyConfig:
    return KeyConfig(name=name, hash=f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}", **more)


def shown(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


ALICE = key("alice", RIGHT)
TWO_MODELS = (
    ModelConfig(name="small", upstreams=("box",), target="s", aliases=("claude-haiku-*",)),
    ModelConfig(name="big", upstreams=("box",), target="b", aliases=("claude-opus", "gpt-?", "tiny")),
)


@asynccontextmanager
async def guarded(*keys: KeyConfig, **more: Any) -> AsyncIterator[Front]:
    """A gateway with keys: Alice's, if no other."""
    async with fronted(keys=keys or (ALICE,), **more) as front:
        yield front


async def asked(front: Front, path: str, headers: dict[str, str], model: str = "stub") -> Answered:
    """An answer from any route."""
    route = path.removeprefix("/llm")
    return (
        await front.fetch({"model": model, **POSTS[route]}, path, headers)
        if route in POSTS
        else await front.get(path, headers=headers)
    )


def described(answer: Answered, path: str) -> dict[str, Any]:
    """`error` of an error answer, in the shape of the route's surface."""
    body = answer.json()
    assert body["request_id"] == answer.headers["request-id"]
    assert answer.headers["content-type"] == "application/json"
    openai = path.removeprefix("/llm") in OPENAI
    assert set(body) == {"error", "request_id"} | (set() if openai else {"type"})
    assert set(body["error"]) == {"type", "message"} | ({"param", "code"} if openai else set())
    described: dict[str, Any] = body["error"]
    return described


# ---- with keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [mount + path for mount, path in product(MOUNTS, [*POSTS, *GETS, *UNKNOWN])])
async def test_case_4_without_a_right_key_no_route_below_v1_lets_anybody_in(path: str) -> None:
    async with guarded() as front:
        for way, headers in NOT_LET_IN.items():
            answer = await asked(front, path, headers)
            assert answer.status == 401, way
            assert answer.headers["www-authenticate"] == "Bearer"
            told = described(answer, path)
            if "code" in told:
                assert (told["type"], told["code"]) == ("invalid_request_error", "invalid_api_key")
            else:
                assert told["type"] == "authentication_error"
        assert not front.stub.requests
        assert front.outcomes == []


@pytest.mark.parametrize("path", [mount + path for mount, path in product(MOUNTS, [*POSTS, *GETS])])
async def test_cases_1_to_3_either_header_lets_in_on_every_route(path: str) -> None:
    """Also where the other header holds a dummy: the answer is the one that there would be without keys."""
    async with guarded() as front:
        for way, headers in LET_IN.items():
            answer = await asked(front, path, headers)
            assert answer.status == 200, way


@pytest.mark.parametrize("path", [mount + path for mount, path in product(MOUNTS, UNKNOWN)])
async def test_who_has_a_key_is_told_that_a_route_does_not_exist(path: str) -> None:
    async with guarded() as front:
        assert (await front.get(path, headers=shown(RIGHT))).status == 404
        assert (await front.get(path, "POST", headers=shown(RIGHT))).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/healthz"), ("GET", "/readyz"), ("HEAD", "/"), ("HEAD", "/api/hello"), ("HEAD", "/llm/api/hello")],
)
async def test_health_is_told_to_everybody(method: str, path: str) -> None:
    async with guarded() as front:
        assert (await front.get(path, method)).status == 200


@pytest.mark.parametrize("path", ["/v1x", "/llm", "/llm/v2/messages", "/x/v1/messages", "/"])
async def test_what_is_not_below_v1_is_not_found_with_or_without_a_key(path: str) -> None:
    async with guarded() as front:
        assert (await front.get(path, "POST")).status in {404, 405}


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_every_method_wants_a_key(method: str) -> None:
    async with guarded() as front:
        for path in ("/v1/messages", "/v1/models"):
            caller = await Caller.connect(front.url)
            await caller.send(method, path)
            assert (await caller.head()).status == 401
            await caller.close()


async def test_the_refusal_comes_before_the_body_does() -> None:
    async with guarded() as front:
        caller = await Caller.connect(front.url)
        caller.writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")
        async with asyncio.timeout(5):
            assert (await caller.answer()).status == 401
        await caller.close()


async def test_a_refusal_does_not_tell_how_near_a_key_was() -> None:
    async with guarded() as front:
        answers = [await front.fetch(headers=shown(secret)) for secret in (WRONG, RIGHT[:-1], "x", "x" * 4000)]
    bodies = [{**answer.json(), "request_id": None} for answer in answers]
    assert all(body == bodies[0] for body in bodies)


async def test_two_keys_let_in_beside_each_other_and_one_taken_out_does_not() -> None:
    async with guarded(ALICE, key("bob", OTHER)) as front:
        assert (await front.fetch(headers=shown(RIGHT))).status == 200
        assert (await front.fetch(headers=shown(OTHER))).status == 200
    async with guarded(key("bob", OTHER)) as front:
        assert (await front.fetch(headers=shown(RIGHT))).status == 401


async def test_the_prefix_that_is_configured_is_the_one_that_is_guarded() -> None:
    async with guarded(server=msgspec.structs.replace(PATIENT, prefix="/a/b")) as front:
        assert (await front.fetch(path="/a/b/v1/messages")).status == 401
        assert (await front.fetch(path="/a/b/v1/messages", headers=shown(RIGHT))).status == 200
        assert (await front.fetch(path=MESSAGES)).status == 404


@pytest.mark.parametrize("way", [*NOT_LET_IN, *LET_IN])
async def test_without_keys_whatever_is_shown_is_taken_and_ignored(way: str) -> None:
    async with fronted() as front:
        assert (await front.fetch(headers=(NOT_LET_IN | LET_IN)[way])).status == 200


# ---- the models of a key ---------------------------------------------------------------------------------------------

SMALL = key("bob", OTHER, models=("small", "tiny"))


@pytest.mark.parametrize("path", [mount + path for mount, path in product(MOUNTS, POSTS)])
async def test_a_model_that_the_key_may_not_use_is_forbidden_by_name_before_anything_is_acquired(path: str) -> None:
    async with guarded(ALICE, SMALL, models=TWO_MODELS) as front:
        for name in ("big", "claude-opus", "gpt-5"):
            answer = await asked(front, path, shown(OTHER), name)
            assert answer.status == 403, name
            told = described(answer, path)
            assert told["type"] == ("invalid_request_error" if "code" in told else "permission_error")
            assert name in told["message"]
        assert not front.stub.requests
        assert front.outcomes == []
        assert (await asked(front, path, shown(RIGHT), "big")).status == 200


@pytest.mark.parametrize("name", ["small", "claude-haiku-4-5", "tiny"])
async def test_a_model_may_be_used_by_its_own_name_or_by_the_one_that_was_asked_for(name: str) -> None:
    """`tiny` is another name of the big one, and allowed; `claude-haiku-*` means the small one, which is allowed."""
    async with guarded(SMALL, models=TWO_MODELS) as front:
        assert (await front.fetch(ask(model=name), headers=shown(OTHER))).status == 200


@pytest.mark.parametrize("path", ["/v1/models", "/llm/v1/models"])
async def test_the_list_has_what_the_key_may_use_and_nothing_else(path: str) -> None:
    async with guarded(ALICE, SMALL, models=TWO_MODELS) as front:
        listed = {}
        for secret in (RIGHT, OTHER):
            page = (await front.get(path, headers=shown(secret))).json()
            listed[secret] = [entry["id"] for entry in page["data"]]
            assert (page["first_id"], page["last_id"]) == (listed[secret][0], listed[secret][-1])
        for name in ("small", "tiny", "claude-haiku-4-5"):
            assert (await front.get(f"{path}/{name}", headers=shown(OTHER))).status == 200
        for name in ("big", "claude-opus", "gpt-5", "nobody"):
            answer = await front.get(f"{path}/{name}", headers=shown(OTHER))
            assert answer.status == 404
            assert answer.json()["error"]["message"].endswith("the models are: small")
        assert (await front.get(f"{path}/big", headers=shown(RIGHT))).status == 200
    assert listed == {RIGHT: ["small", "big", "claude-opus", "tiny"], OTHER: ["small", "tiny"]}


async def test_who_asks_for_a_model_that_does_not_exist_is_told_of_those_that_it_may_use() -> None:
    async with guarded(SMALL, models=TWO_MODELS) as front:
        answer = await front.fetch(ask(model="nobody"), headers=shown(OTHER))
    assert answer.status == 404
    assert answer.json()["error"]["message"].endswith("the models are: small")


# ---- who asks --------------------------------------------------------------------------------------------------------

SESSION = {"x-claude-code-session-id": "marker-of-the-session"}
USER = {"user_id": "marker-of-the-user"}


async def who(front: Front, body: dict[str, object], path: str = MESSAGES, **headers: str) -> Asker:
    """Who the relay thinks it is that asks."""
    front.stub.default = hang()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with front.calling({"model": "stub", "stream": True, **body}, path, names):
        await front.until(lambda: bool(front.relay.passages))
        (passage,) = front.relay.passages
        asker = passage.call.caller
    await front.settled()
    return asker


async def test_who_asks_is_the_key_and_within_it_the_session_or_else_the_user() -> None:
    body = POSTS["/v1/messages"]
    async with guarded() as front:
        asker = await who(front, body, x_api_key=RIGHT)
        assert (asker.name, asker.flow) == ("alice", "")
        assert asker.peer == "127.0.0.1"
        both = await who(front, {**body, "metadata": USER}, x_api_key=RIGHT, **SESSION)
        assert both.flow == flow("marker-of-the-session")
        assert (await who(front, {**body, "metadata": USER}, x_api_key=RIGHT)).flow == flow("marker-of-the-user")


async def test_without_keys_who_asks_is_an_address_and_a_session() -> None:
    async with fronted() as front:
        asker = await who(front, POSTS["/v1/messages"], **SESSION, x_api_key=RIGHT, x_forwarded_for="1.2.3.4")
    assert asker == Asker(None, flow("marker-of-the-session"), "127.0.0.1")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
@pytest.mark.parametrize("field", ["user", "safety_identifier", "prompt_cache_key"])
async def test_on_openais_routes_the_user_is_whom_the_request_names(path: str, field: str) -> None:
    async with guarded() as front:
        asker = await who(front, {**POSTS[path], field: "marker-of-the-user"}, path, x_api_key=RIGHT)
    assert (asker.name, asker.flow) == ("alice", flow("marker-of-the-user"))


async def test_134_no_key_hash_session_or_user_is_in_a_log_or_an_error() -> None:
    """At debug level, after every way in and out; the key's name is there."""
    async with guarded(ALICE, SMALL, models=TWO_MODELS) as front:
        ways = [*NOT_LET_IN.values(), *LET_IN.values()]
        answers = [await front.fetch(ask(model="small", metadata=USER), headers={**way, **SESSION}) for way in ways]
        answers.append(await front.fetch(ask(model="big"), headers=shown(OTHER)))
        answers.append(await front.fetch(b"{", headers=shown(RIGHT)))
        answers.append(await front.fetch(headers={"x-api-key": RIGHT, "expect": "a-miracle"}))
        front.stub.play(error(500, "own words"))
        answers.append(await front.fetch(ask(model="small"), headers=shown(RIGHT)))
        await front.settled()
        told = [(record.getMessage(), record.__dict__.get("fields", {}).get("key")) for record in front.log.records]
    assert [key for message, key in told if message == "request ended"] == ["alice"] * (len(LET_IN) + 1)
    refused = [key for message, key in told if message == "request refused"]
    assert refused == [None] * len(NOT_LET_IN) + ["bob", "alice"]
    seen = [front.log.text, *(f"{answer.headers} {answer.body!r}" for answer in answers)]
    hashes = [known.removeprefix("sha256:") for known in (ALICE.hash, SMALL.hash)]
    for secret in ("marker", "MARKER", *hashes, repr(digest(RIGHT))):
        assert not [text for text in seen if secret in text], secret


# ---- the operator ----------------------------------------------------------------------------------------------------

TOKEN = "the-operators-token"


def ports(token: str | None) -> Ports:
    """As far as the question of the operator goes."""
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Ports))
    return Ports(**{**nothing, "admin": None if token is None else digest(token)})


@asynccontextmanager
async def operated(
    token: str | None, *, site: Callable[[web.AppRunner], web.BaseSite] | None = None, remote: str | None = None
) -> AsyncIterator[str]:
    """The address of a server with one route, for the operator; `remote`: where all connections seem to come from."""

    async def handler(request: web.Request) -> web.StreamResponse:
        admin(request if remote is None else request.clone(remote=remote), ports(token))
        return web.Response(text="the state")

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[REQUEST_ID] = "req_1"
        return await handler(request)

    app = web.Application(middlewares=[identify, errors])
    app.router.add_get("/api/state", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await (site or _anywhere)(runner).start()
        address = runner.addresses[0]
        yield address if isinstance(address, str) else f"http://127.0.0.1:{address[1]}"
    finally:
        await runner.cleanup()


def _anywhere(runner: web.AppRunner) -> web.BaseSite:
    return web.TCPSite(runner, "127.0.0.1", 0)


async def state(url: str, **headers: str) -> Answered:
    return await fetch(url, "/api/state", headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("remote", [None, "192.0.2.7"])
async def test_the_token_opens_to_an_operator_from_anywhere(remote: str | None) -> None:
    async with operated(TOKEN, remote=remote) as url:
        assert (await state(url, authorization=f"Bearer {TOKEN}")).status == 200
        assert (await state(url, authorization=f"bearer {TOKEN}", x_forwarded_for="1.2.3.4")).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"x-api-key": TOKEN},
        {"authorization": "Bearer \udcff"},
    ],
)
async def test_with_a_token_nobody_is_let_in_without_it_not_even_from_this_machine(headers: dict[str, str]) -> None:
    async with operated(TOKEN) as url:
        answer = await fetch(url, "/api/state", headers=headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["error"]["type"] == "authentication_error"
    assert TOKEN not in str(answer.json())


@pytest.mark.parametrize("remote", [None, "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_138_without_a_token_this_machine_is_let_in(remote: str | None) -> None:
    async with operated(None, remote=remote) as url:
        assert (await state(url)).status == 200


@pytest.mark.parametrize(
    "remote", ["192.0.2.7", "10.0.0.1", "0.0.0.0", "::", "fe80::1%eth0", "::ffff:192.0.2.7", "2001:db8::1", "box", ""]
)
async def test_138_without_a_token_nobody_else_is(remote: str) -> None:
    async with operated(None, remote=remote) as url:
        for headers in ({}, {"x_forwarded_for": "127.0.0.1"}, {"authorization": "Bearer "}):
            answer = await state(url, **headers)
            assert answer.status == 403
            assert answer.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost:8080", 200),
        ("[::1]:8080", 200),
        ("gateway.localhost", 200),
        ("pages.example:8080", 403),
        ("127.0.0.1.pages.example", 403),
        ("pages.example:x", 403),
    ],
)
async def test_a_page_whose_name_was_made_to_mean_this_machine_is_no_operator(host: str, status: int) -> None:
    """DNS rebinding: the browser is here, and what it shows is not."""
    async with operated(None) as url:
        assert (await state(url, host=host)).status == status


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "via", "x_real_ip", "x_forwarded_host"])
@pytest.mark.parametrize("value", ["127.0.0.1", "192.0.2.7", ""])
async def test_who_comes_through_a_proxy_on_this_machine_is_not_this_machine(header: str, value: str) -> None:
    async with operated(None) as url:
        assert (await state(url, **{header: value})).status == 403


async def test_a_connection_over_a_unix_socket_comes_from_this_machine(tmp_path: Path) -> None:
    async with operated(None, site=lambda runner: web.UnixSite(runner, tmp_path / "s")) as path:
        caller = Caller(*await asyncio.open_unix_connection(path))
        await caller.send("GET", "/api/state")
        async with asyncio.timeout(5):
            assert (await caller.answer()).status == 200
        await caller.close()
