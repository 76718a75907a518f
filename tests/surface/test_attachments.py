"""Images by URL and PDFs, end to end: had by the gateway before anything is acquired, or refused by name."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from fakes.gateway import PATIENT, Exit, Front, fronted, leave
from fakes.pdf import encoded, pdf
from fakes.product import Answered, ask
from fakes.web import Page, Web, moved
from slotline.config import ServerConfig
from slotline.core.anthropic.attachments import Attachment
from slotline.core.anthropic.media import Image, Pdf
from slotline.core.errors import Busy, Invalid
from slotline.core.kind import Kind
from slotline.core.queue_frames import QueueForm
from slotline.stub import Stub
from slotline.stub.standard import hang
from slotline.surface import attachments as module
from slotline.surface.attachments import attach
from slotline.surface.ports import Ports, Settings

COUNT = "/llm/v1/messages/count_tokens"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATA_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
AT = "messages.0.content.0.source"

ways = pytest.mark.parametrize("way", Exit)


def linked(url: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "url", "url": url}}


def document(content: bytes = b"", *, url: str = "", **more: str) -> dict[str, Any]:
    source = {"type": "url", "url": url} if url else {"type": "base64", "media_type": "application/pdf"}
    return {"type": "document", "source": source if url else {**source, "data": encoded(content)}, **more}


def asking(*content: Any, **more: Any) -> dict[str, Any]:
    return ask(messages=[{"role": "user", "content": list(content)}], **more)


def brought(*content: Any) -> dict[str, Any]:
    """A conversation in which a tool brought this."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": list(content)}
    roles = (("user", "q"), ("assistant", [call]), ("user", [result]))
    return ask(messages=[{"role": role, "content": content} for role, content in roles])


@asynccontextmanager
async def gateway(web: Web | None = None, kind: Kind = Kind.OPENAI, **server: Any) -> AsyncIterator[Front]:
    """A gateway that may fetch from `web`, before a server that does not say whether it sees."""
    hosts = () if web is None else (web.host,)
    config: ServerConfig = msgspec.structs.replace(PATIENT, image_hosts=hosts, **server)
    async with fronted(server=config, stub=Stub(slots=1, tokens=3, kind=kind)) as front:
        yield front


def asked(front: Front) -> list[dict[str, Any]]:
    """The messages of the one request that went upstream."""
    (received,) = front.stub.requests
    messages: list[dict[str, Any]] = received.body["messages"]
    return messages


def refused(front: Front, answer: Answered, says: str, status: int = 400) -> None:
    """A refusal before anything was acquired: the upstream never heard of it, and neither did the line."""
    assert (answer.status, says in answer.json()["error"]["message"]) == (status, True), answer.body
    assert front.stub.requests == ()
    assert not front.relay.passages
    assert front.log.faults == []


# ---- images ----------------------------------------------------------------------------------------------------------


async def test_an_image_at_an_allowed_host_goes_upstream_as_what_it_is_and_its_address_does_not() -> None:
    async with Web({"/a.jpg?secret": Page(PNG, headers={"content-type": "image/jpeg"})}) as web, gateway(web) as front:
        assert (await front.fetch(asking(linked(web.url("/a.jpg?secret"))))).status == 200
        assert asked(front)[0]["content"] == [{"type": "image_url", "image_url": {"url": DATA_URL}}]
        assert b"secret" not in front.stub.requests[0].raw


async def test_without_a_list_nothing_is_fetched_and_the_key_is_named() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway() as front:
        answer = await front.fetch(asking(linked(web.url("/a"))))
        refused(
            front,
            answer,
            f"{AT}.url: image not read: nothing is fetched from {web.host}, which is not among image_hosts",
        )
        assert web.asked == []


async def test_a_redirect_out_of_the_list_is_refused() -> None:
    async with Web({"/x": Page(PNG)}) as inside, Web({"/a": moved(inside.url("/x"))}) as web, gateway(web) as front:
        refused(front, await front.fetch(asking(linked(web.url("/a")))), f"nothing is fetched from {inside.host}")
        assert inside.asked == []


@pytest.mark.parametrize("body", [b"<html>", b"", b"%PDF-1.4", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"BM"])
async def test_what_is_no_image_is_refused_whatever_it_says_of_itself(body: bytes) -> None:
    page = Page(body, headers={"content-type": "image/png"})
    async with Web({"/a": page}) as web, gateway(web) as front:
        refused(front, await front.fetch(asking(linked(web.url("/a")))), "is not a PNG, JPEG, GIF or WebP image")


async def test_a_failed_fetch_is_the_requests_fault_and_never_the_upstreams() -> None:
    async with Web() as web, gateway(web) as front:
        answer = await front.fetch(asking(linked(web.url("/a"))))
        refused(front, answer, f"{AT}.url: image not read: {web.host} answered with status 404")
        assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_no_image_is_fetched_for_a_model_without_eyes() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway(web, Kind.LLAMA_CPP) as front:
        refused(front, await front.fetch(asking(linked(web.url("/a")))), "the model 'stub' cannot see images")
        assert web.asked == []


async def test_all_that_is_fetched_for_a_request_fits_into_max_body() -> None:
    page = Page(PNG + bytes(3000))
    async with Web({"/a": page}) as web, gateway(web, max_body=10_000) as front:
        pair = [linked(web.url("/a"))] * 2
        assert (await front.fetch(asking(*pair))).status == 200
    async with Web({"/a": page}) as web, gateway(web, max_body=10_000) as front:
        answer = await front.fetch(asking(*[linked(web.url("/a"))] * 3))
        refused(front, answer, "messages.0.content.2.source.url: image not read: it is larger than")


async def test_a_request_names_a_hundred_things_at_most() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway(web) as front:
        images = [linked(web.url("/a"))] * (module.MOST + 1)
        refused(
            front, await front.fetch(asking(*images)), f"messages.0.content.{module.MOST}.source.url: more than 100"
        )
        assert web.asked == []


async def test_an_unknown_model_is_not_found_before_anything_is_fetched() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway(web) as front:
        answer = await front.fetch(asking(linked(web.url("/a")), model="gpt-9"))
        refused(front, answer, "the models are: stub", 404)
        assert web.asked == []


# ---- documents -------------------------------------------------------------------------------------------------------


async def test_a_pdf_goes_upstream_as_its_text_under_its_title() -> None:
    async with gateway() as front:
        words = {"type": "text", "text": "what does it say?"}
        sent = document(pdf("first", "second"), title="Notes", context="of May")
        assert (await front.fetch(asking(sent, words))).status == 200
        assert asked(front)[0]["content"] == (
            "[document: Notes]\nof May\n[page 1]\nfirst\n[page 2]\nsecond\nwhat does it say?"
        )


async def test_a_pdf_by_url_is_fetched_like_an_image() -> None:
    async with Web({"/a": Page(pdf("there"))}) as web:
        async with gateway(web) as front:
            assert (await front.fetch(asking(document(url=web.url("/a"))))).status == 200
            assert "[page 1]\nthere" in asked(front)[0]["content"]
        async with gateway() as front:
            refused(
                front, await front.fetch(asking(document(url=web.url("/a")))), f"{AT}.url: PDF not read: nothing is"
            )


async def test_the_text_counts_among_the_tokens_of_the_prompt() -> None:
    async with gateway() as front:
        start = (await front.fetch(asking(document(pdf("x" * 3500))))).body.partition(b"event: content_block")[0]
        usage = msgspec.json.decode(start.partition(b"data: ")[2])["message"]["usage"]
        assert 1000 <= usage["input_tokens"] < 1100


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (pdf(""), "there is no text in it"),
        (b"%PDF-junk", "cannot be read as a PDF"),
        (b"<html>", "does not begin as a"),
    ],
)
async def test_a_pdf_without_text_is_refused_with_its_place_and_the_reason(content: bytes, says: str) -> None:
    async with gateway() as front:
        refused(front, await front.fetch(asking(document(content))), f"{AT}: PDF not read: ")
        refused(front, await front.fetch(asking(document(content))), says)


async def test_the_text_of_a_request_fits_into_max_body() -> None:
    async with gateway(max_body=20_000) as front:
        answer = await front.fetch(asking(document(pdf("x" * 20_000, packed=True))))
        refused(front, answer, "its text has 20009 characters, and 20000 are left of max_body")


async def test_a_document_in_an_assistant_turn_stays_refused_in_the_new_version() -> None:
    turns = [{"role": "assistant", "content": [document(pdf("x"))]}, {"role": "user", "content": "go"}]
    async with gateway() as front:
        answer = await front.fetch(ask(messages=turns), headers={"anthropic-version": "2026-10-21"})
        refused(front, answer, "messages.0.content.0.type: a document cannot stand in an assistant message")
        assert (await front.fetch(ask(messages=turns))).status == 200


# ---- what a tool brought ---------------------------------------------------------------------------------------------


async def test_what_a_tool_brought_is_fetched_and_read_too() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway(web) as front:
        assert (await front.fetch(brought(document(pdf("found")), linked(web.url("/a"))))).status == 200
        tool, user = asked(front)[2:]
        assert tool["content"] == "[document: untitled]\n[page 1]\nfound"
        assert user["content"] == [{"type": "image_url", "image_url": {"url": DATA_URL}}]


async def test_what_a_tool_brought_and_cannot_be_had_is_named_to_the_model() -> None:
    """The tool has run: a refusal would come again with every further turn."""
    async with Web() as web, gateway(web) as front:
        sent = brought(document(pdf("")), linked(web.url("/a")), linked("http://elsewhere.example/"))
        assert (await front.fetch(sent)).status == 200
        lines = asked(front)[2]["content"].splitlines()
        assert lines[1].startswith("[PDF left out: there is no text in it")
        assert lines[2] == f"[image left out: {web.host} answered with status 404]"
        assert lines[3].startswith("[image left out: nothing is fetched from elsewhere.example")


# ---- while it waits, and when the client leaves ----------------------------------------------------------------------


async def test_what_was_fetched_waits_with_the_request_and_is_not_fetched_again() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway(web) as front:
        front.stub.play(hang())
        async with front.calling() as running:
            await front.stub.until(lambda state: state.running == 1)
            async with front.streaming(asking(linked(web.url("/a")), document(pdf("kept")))) as waiting:
                await waiting.until(b'"position":1')
                leave(running, Exit.RST)
                await waiting.rest()
        assert front.stub.requests[1].body["messages"][0]["content"] == [
            {"type": "image_url", "image_url": {"url": DATA_URL}},
            {"type": "text", "text": "[document: untitled]"},
            {"type": "text", "text": "[page 1]\nkept"},
        ]
        assert web.asked == ["/a"]


async def test_what_was_fetched_counts_for_max_waiting() -> None:
    body = msgspec.json.encode(asking(document(pdf("some words of it"))))
    text = "[page 1]\nsome words of it"
    for room, status in ((len(body) + len(text), 200), (len(body) + len(text) - 1, 529)):
        async with gateway(max_waiting=room) as front:
            front.stub.play(hang())
            async with front.calling():
                await front.stub.until(lambda state: state.running == 1)
                async with front.streaming(body) as waiting:
                    assert waiting.answer.status == status


@ways
async def test_a_client_that_leaves_during_a_fetch_takes_the_fetch_with_it(way: Exit) -> None:
    async with Web({"/a": Page(PNG, hangs=True)}) as web, gateway(web) as front:
        async with front.calling(asking(linked(web.url("/a")))) as caller:
            await web.visited(1)
            leave(caller, way)
            async with asyncio.timeout(2):
                await web.left.wait()
        await front.settled()
        assert front.stub.requests == ()
        await front.serves()
        assert front.log.faults == []


async def test_others_are_served_while_one_request_waits_for_its_image() -> None:
    async with Web({"/a": Page(PNG, hangs=True)}) as web, gateway(web) as front:
        async with front.calling(asking(linked(web.url("/a")))):
            await web.visited(1)
            await front.serves()
        await front.settled()


# ---- counting --------------------------------------------------------------------------------------------------------


async def test_counting_fetches_and_opens_nothing_and_estimates() -> None:
    async with Web({"/a": Page(PNG)}) as web, gateway(web, Kind.LLAMA_CPP) as front:
        for content, least in ((linked(web.url("/a")), 1600), (document(b"%PDF-no"), 10_000)):
            body = {"model": "stub", "messages": [{"role": "user", "content": [content]}]}
            answer = await front.fetch(body, COUNT)
            assert (answer.status, answer.json()["input_tokens"] >= least) == (200, True)
        assert web.asked == []
        assert not [call for call in front.stub.calls if call.path == "/tokenize"]


# ---- bounds ----------------------------------------------------------------------------------------------------------


class Slow:
    """Fetches the first and never the second."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetch(self, address: str, limit: int) -> str:
        self.asked.append(address)
        if len(self.asked) > 1:
            await asyncio.Event().wait()
        return base64.b64encode(PNG).decode()

    async def text(self, data: str) -> str:
        raise Busy("all readers are busy", retry_after=1)


def ports() -> Ports:
    slow, nobody = Slow(), cast("Any", None)
    settings = Settings("/llm", 1 << 20, 1.0, 1.0, QueueForm.EVENT, QueueForm.PING, 0, 0.0, 1.0)
    return Ports(settings, nobody, nobody, nobody, slow, slow, nobody)


async def test_all_that_a_request_names_has_a_bound_together() -> None:
    images = [Attachment(Image(f"http://a/{name}", name), required=True) for name in "abc"]
    with pytest.raises(Invalid, match=r"^b: what this request names was not fetched and read within 0\.05 s"):
        await attach(ports(), images, together=0.05)


@pytest.mark.parametrize("required", [True, False])
async def test_that_others_are_being_served_is_no_fault_of_the_request(required: bool) -> None:
    with pytest.raises(Busy):
        await attach(ports(), [Attachment(Pdf("a", "JVBERi0="), required)])


def test_the_limits_are_those_of_the_page() -> None:
    assert (module.EACH, module.MOST, module.TOGETHER) == (20 << 20, 100, 120.0)
