"""A reload of everything but the upstreams, in the gateway that runs. Upstreams: `test_fleet.py`."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from fakes.checker import check
from fakes.gateway import PATIENT, Front, fronted
from fakes.product import ask, fetch
from fakes.web import Page, Web
from slotline.config import AdminConfig, ConfigError, EngineConfig, KeyConfig, ModelConfig
from slotline.core.kind import Kind
from slotline.core.queue_frames import QueueForm
from slotline.stub.standard import held


def key(name: str, **more: Any) -> KeyConfig:
    return KeyConfig(name=name, hash="sha256:" + hashlib.sha256(f"sl-{name}".encode()).hexdigest(), **more)


def of(name: str) -> dict[str, str]:
    return {"x-api-key": f"sl-{name}"}


async def change(front: Front, **more: Any) -> tuple[str, ...]:
    return (await front.gateway.reload(msgspec.structs.replace(front.gateway.config, **more))).changed


async def server(front: Front, **more: Any) -> None:
    await change(front, server=msgspec.structs.replace(front.gateway.config.server, **more))


async def test_keys_come_and_go_and_who_was_let_in_is_not_put_out() -> None:
    async with fronted(keys=(key("alice"),)) as front:
        front.stub.play(held(4, before=1))
        async with front.streaming(headers=of("alice")) as runs, front.streaming(headers=of("alice")) as waits:
            await runs.until(b"token-0")
            assert await change(front, keys=(key("bob"),)) == ("keys added: bob", "keys removed: alice")
            assert (await front.fetch(headers=of("alice"))).status == 401
            async with front.streaming(headers=of("bob")) as next_in_line:
                assert b"event: queue" in await next_in_line.next()
                front.stub.release()
                for stream in (runs, waits, next_in_line):
                    assert check(await stream.rest()).complete


async def test_new_limits_of_a_key_hold_for_who_comes() -> None:
    async with fronted(keys=(key("alice", waiting=1),)) as front:
        front.stub.play(held(4))
        async with front.streaming(headers=of("alice")) as runs, front.streaming(headers=of("alice")) as waits:
            assert (await front.fetch(headers=of("alice"))).status == 429
            await change(front, keys=(key("alice", waiting=2, models=("other",)),))
            assert (await front.fetch(headers=of("alice"))).status == 403
            await change(front, keys=(key("alice", waiting=2),))
            async with front.streaming(headers=of("alice")) as more:
                assert b'"position":2' in await more.next()
                front.stub.release()
                for stream in (runs, waits, more):
                    assert check(await stream.rest()).complete


async def test_models_and_aliases_change() -> None:
    async with fronted(models=(ModelConfig(name="old", upstreams=("box",), target="stub"),)) as front:
        assert (await front.fetch(ask(model="new-1"))).status == 404
        model = ModelConfig(name="new", upstreams=("box",), target="other", aliases=("new-*",))
        assert await change(front, models=(model,)) == ("models added: new", "models removed: old")
        assert (await front.fetch(ask(model="new-1"))).status == 200
        assert front.stub.requests[-1].model == "other"
        assert (await front.fetch(ask(model="old"))).status == 404


async def test_the_form_of_queue_frames_changes_for_who_comes() -> None:
    async with fronted() as front:
        front.stub.play(held(4))
        async with front.streaming(), front.streaming() as before:
            await before.until(b"event: queue")
            await server(front, queue_frames=QueueForm.COMMENT, root_queue_frames=QueueForm.OFF)
            async with front.streaming() as after, front.calling(path="/v1/messages") as root:
                await after.until(b": queue position=2")
                await front.until(lambda: front.waiting == 3)
                front.stub.release()
                assert b"queue" not in (await root.answer()).body


async def test_bodies_have_the_new_bound() -> None:
    async with fronted() as front:
        long = ask("long " * 1000)
        await server(front, max_body=1000)
        answer = await front.fetch(long)
        assert answer.status == 413
        assert "max_body = 1000 bytes" in answer.json()["error"]["message"]
        await server(front, max_body=10_000)
        assert (await front.fetch(long)).status == 200


async def test_those_who_wait_have_the_new_bound_on_memory() -> None:
    async with fronted() as front:
        front.stub.play(held(4))
        async with front.streaming(), front.streaming():
            await server(front, max_waiting=10)
            answer = await front.fetch()
            assert answer.status == 529
            assert "max_waiting = 10 bytes" in answer.json()["error"]["message"]
            front.stub.release()


async def test_a_place_is_kept_no_longer_where_that_was_switched_off() -> None:
    async with fronted() as front:
        await server(front, rejoin=0.0)
        assert (front.relay.kept.seconds, front.gateway._ports.settings.rejoin) == (0.0, 0.0)


async def test_hosts_of_images_change() -> None:
    async with fronted(kind=Kind.OPENAI) as front, Web() as web:
        web.pages["/a"] = Page(b"\x89PNG\r\n\x1a\n")
        source = {"type": "url", "url": web.url("/a")}
        with_image = ask() | {"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}
        assert b"image_hosts" in (await front.fetch(with_image)).body
        await server(front, image_hosts=(web.host,))
        answer = await front.fetch(with_image)
        assert answer.status == 200, answer.body


async def test_the_operators_token_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    async with fronted() as front:
        assert (await front.get("/api/state")).status == 200
        assert await change(front, admin=AdminConfig(token_env="TOKEN")) == ("[admin] changed",)
        assert (await front.get("/api/state")).status == 401
        assert (await front.get("/api/state", headers={"authorization": "Bearer secret"})).status == 200


@pytest.mark.parametrize("fault", ["token", "engine", "secret"])
async def test_what_cannot_be_changes_nothing(fault: str) -> None:
    async with fronted(keys=(key("alice"),)) as front:
        before, settings = front.gateway.config, front.gateway._ports.settings
        (box,) = before.upstreams
        faults: dict[str, dict[str, Any]] = {
            "token": {"admin": AdminConfig(token_env="NO_SUCH_VARIABLE")},
            "secret": {"upstreams": (msgspec.structs.replace(box, api_key_env="NO_SUCH_VARIABLE", slots=9),)},
            "engine": {"upstreams": (msgspec.structs.replace(box, name="engine"),), "engine": EngineConfig()},
        }
        with pytest.raises(ConfigError):
            await change(front, keys=(), server=msgspec.structs.replace(PATIENT, grace=1.0), **faults[fault])
        assert front.gateway.config is before
        assert front.gateway._ports.settings is settings
        assert (await front.fetch()).status == 401
        assert (await front.fetch(headers=of("alice"))).status == 200


async def test_what_needs_a_restart_is_named_and_the_rest_is_done() -> None:
    async with fronted() as front:
        before = front.gateway.url
        wanted = msgspec.structs.replace(front.gateway.config.server, port=1, prefix="/other", keepalive=7.0)
        done = await front.gateway.reload(msgspec.structs.replace(front.gateway.config, server=wanted))
        assert done.waiting == ("[server] port", "[server] prefix")
        assert done.changed == ("[server] changed: keepalive",)
        assert front.gateway.url == before
        assert (await fetch(before, "/llm/v1/messages", ask())).status == 200


async def test_nothing_is_different_and_nothing_happens() -> None:
    async with fronted() as front:
        client = front.gateway._fleet.upstreams["box"]
        assert await change(front) == ()
        assert front.gateway._fleet.upstreams == {"box": client}
        await front.serves()
        await front.settled()
