"""The chat page in a real browser: before the real engine, before a real gateway with the stub behind it, and, for what
has to be exact, before a gateway that the test plays. On every page here an error on the console fails the test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from fakes.browser import axe, chromium, page
from fakes.cutter import cuttable
from fakes.gateway import PATIENT, Front, fronted
from fakes.product import ask, calling, fetch
from fakes.scripted import START, Exchange, Scripted, delta, ended, failed, prefill, queue, scripted
from slotline.config import Config, KeyConfig, ServerConfig, UpstreamConfig
from slotline.core.keys import digest
from slotline.core.kind import Kind
from slotline.stub.script import Done, Finish, Head, Role, Script, Text, Usage
from slotline.stub.standard import held, stall
from slotline.upstream.engine import Engine, EngineSpec
from slotline.upstream.model_file import default_cache, find
from slotline.wiring import gateway

from .test_thinking_engine import TEMPLATE

pytestmark = pytest.mark.asyncio(loop_scope="module")
expect.set_options(timeout=30_000)

REJOINING = msgspec.structs.replace(PATIENT, rejoin=60.0)
KEY = "sl-0123456789012345678901234567890123456789012"
LOST = ("net::ERR_", "Failed to load resource")
STATUS, NOTE, FACTS, TEXT = ".status", ".note", ".facts", ".text"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """The one Chromium of this file."""
    async with chromium() as started:
        yield started


@asynccontextmanager
async def chatting(browser: Browser, url: str, **looks: Any) -> AsyncIterator[Page]:
    """The page, once it knows its models."""
    async with page(browser, f"{url}/chat", **looks) as opened:
        await expect(opened.locator("#send")).to_be_enabled()
        yield opened


@asynccontextmanager
async def played(browser: Browser, **looks: Any) -> AsyncIterator[tuple[Page, Scripted]]:
    """The page before a gateway that the test plays."""
    async with scripted() as server, chatting(browser, server.url, **looks) as opened:
        yield opened, server


async def say(opened: Page, text: str) -> None:
    await opened.fill("#message", text)
    await opened.press("#message", "Enter")


async def asked(opened: Page, server: Scripted, text: str = "Hello?") -> Exchange:
    """A question of the page, as the gateway has it."""
    await say(opened, text)
    return await server.next()


async def answer(exchange: Exchange, *pieces: str, reason: str = "end_turn") -> None:
    await exchange.send(START, *map(delta, pieces), *ended(reason))
    exchange.end()


async def press(opened: Page, name: str) -> None:
    await opened.get_by_role("button", name=name).click()


def shown(opened: Page, selector: str) -> Any:
    """That part of the last answer."""
    return opened.locator(f".turn:last-child {selector}")


async def shows(opened: Page, selector: str, words: str | re.Pattern[str]) -> None:
    await expect(shown(opened, selector)).to_contain_text(words)


async def told(url: str) -> list[dict[str, Any]]:
    """Who waits or runs, as the gateway tells an operator."""
    requests: list[dict[str, Any]] = (await fetch(url, "/api/state")).json()["requests"]
    return requests


async def seconds(opened: Page) -> int:
    """The expected wait that is shown."""
    shows_now = re.search(r"about (\d+) s", await shown(opened, STATUS).inner_text())
    assert shows_now
    return int(shows_now[1])


async def until_left(url: str, count: int) -> None:
    """Only so many wait or run."""
    async with asyncio.timeout(20):
        while len(await told(url)) != count:
            pass


async def all_free(url: str) -> None:
    """Nobody waits or runs, and the engine works on nothing any more."""
    await until_left(url, 0)
    async with asyncio.timeout(20):
        while (await fetch(url, "/api/state")).json()["upstreams"][0]["slots"]["free"] != 2:
            pass


# ---- before the real engine ------------------------------------------------------------------------------------------


HELLO = ask("Repeat the word hello five hundred times.", model="smollm2", max_tokens=2000, temperature=0)


@pytest.mark.engine
async def test_before_the_real_engine_the_place_is_seen_first_and_stop_leaves_the_line_and_frees_the_slot(
    browser: Browser, engine_url: str
) -> None:
    """Both slots are held; the page waits, leaves, comes back, is answered, stops, and asks for something shorter."""
    await all_free(engine_url)
    async with AsyncExitStack() as stack, chatting(browser, engine_url) as opened:
        holders = [await stack.enter_async_context(calling(engine_url, "/llm/v1/messages", HELLO)) for _ in range(2)]
        for holder in holders:
            await holder.head()
        await say(opened, "Tell a very long story.")
        await shows(opened, STATUS, "You are next in line · ")
        assert [each["phase"] for each in await told(engine_url)].count("waiting") == 1
        await press(opened, "Stop")
        await shows(opened, NOTE, "You left the line")
        await until_left(engine_url, 2)
        await press(opened, "Send again")
        await shows(opened, STATUS, "You are next in line · ")
        for holder in holders:
            holder.reset()
        await shows(opened, TEXT, re.compile(r"\w{3}"))
        assert [each["phase"] for each in await told(engine_url)] == ["answering"]
        await opened.keyboard.press("Escape")
        await shows(opened, NOTE, "You stopped this answer")
        await all_free(engine_url)
        await press(opened, "Settings")
        await opened.fill("#max-tokens", "8")
        await say(opened, "Name three colours.")
        await shows(opened, FACTS, re.compile(r"\d tokens?.*prompt read in .*first token after .* in all"))


@pytest.mark.engine
async def test_a_real_models_thoughts_are_folded_away_and_can_be_read(browser: Browser) -> None:
    path, name = find("smollm2", default_cache(), lambda _: None)
    spec = EngineSpec(path, name, slots=1, context=2048, chat_template=TEMPLATE)
    async with Engine(spec, lambda _: None) as engine:
        await engine.ready()
        upstream = UpstreamConfig(name="engine", url=engine.url, kind=Kind.LLAMA_CPP, slots=None)
        config = Config(source="a test", server=ServerConfig(port=0), upstreams=(upstream,))
        async with gateway(config, None, lambda _: None) as running, chatting(browser, running.url) as opened:
            await press(opened, "Settings")
            await opened.fill("#max-tokens", "16")
            await say(opened, "Write a short story about a fox and a crow.")
            await shows(opened, ".thinking summary", re.compile(r"(Thinking|Thought) · \d+ tokens"))
            await shows(opened, NOTE, "Cut off: the answer reached the limit of 16 tokens")
            thoughts = shown(opened, ".thinking pre")
            await expect(thoughts).to_be_hidden()
            await shown(opened, "summary").click()
            await expect(thoughts).to_be_visible()
            assert len((await thoughts.inner_text()).split()) > 5
            await opened.uncheck("#thinking")
            await say(opened, "And without thinking?")
            await shows(opened, TEXT, re.compile(r"\w{3}"))
            await expect(shown(opened, ".thinking")).to_be_hidden()


# ---- the wait --------------------------------------------------------------------------------------------------------


async def test_the_place_the_expected_wait_and_each_stage_after_it_are_told(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        exchange = await asked(opened, server)
        await exchange.send(queue(3, 5, 80_000))
        await shows(opened, STATUS, re.compile(r"3rd of 5 in line · about \d\d s"))
        before = await seconds(opened)
        await expect(shown(opened, ".dots .before")).to_have_count(2)
        await expect(shown(opened, ".dots span")).to_have_count(5)
        await expect(opened).to_have_title(re.compile("^3rd in line"))
        while await seconds(opened) == before:  # it counts down by itself, between two frames
            pass
        assert await seconds(opened) < before <= 80
        await exchange.send(queue(1, 3, None))
        await shows(opened, STATUS, "You are next in line · no estimate yet")
        await exchange.send(queue(1, 3, 300))
        await shows(opened, STATUS, "longer than expected")
        await exchange.send({"type": "progress", "stage": "loading", "processed": None, "total": None})
        await shows(opened, STATUS, "Loading the model")
        await exchange.send(prefill(6100, 8123))
        await shows(opened, STATUS, "Reading the prompt · 6,100 / 8,123")
        await exchange.send(START, delta("hm ", "thinking"), delta("so", "thinking"))
        await shows(opened, "summary", "Thinking · 2 tokens")
        await expect(shown(opened, STATUS)).to_be_hidden()
        await exchange.send(delta("an "), delta("answer"), *ended(tokens=4))
        exchange.end()
        await shows(opened, TEXT, "an answer")
        await shows(
            opened, FACTS, re.compile("tokens/s.*4 tokens.*waited .*prompt read in .*first token after .* in all")
        )
        assert exchange.headers["x-slotline-progress"] == "1"
        assert exchange.body["thinking"] == {"type": "adaptive"}


async def test_news_is_read_aloud_by_place_and_an_answer_only_when_it_is_whole(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        exchange = await asked(opened, server)
        await exchange.send(queue(2, 2, 60_000))
        await expect(opened.locator("#news")).to_have_text("2nd of 2 in line, about 60 s")
        await shows(opened, STATUS, re.compile(r"about [1-5]\d s"))
        assert await opened.inner_text("#news") == "2nd of 2 in line, about 60 s", "not every second"
        await exchange.send(START, delta("half "))
        await shows(opened, TEXT, "half")
        assert await opened.inner_text("#told") == ""
        await exchange.send(delta("whole"), *ended())
        exchange.end()
        await expect(opened.locator("#told")).to_have_text("half whole")


async def test_a_network_drop_keeps_the_place(browser: Browser) -> None:
    """Others came later, and stay behind: the page asks with the same bytes and stands where it stood."""
    async with (
        fronted(server=REJOINING) as front,
        cuttable(front.url) as network,
        chatting(browser, network.url, allowed=LOST) as opened,
        AsyncExitStack() as stack,
    ):
        await occupied(front, stack)
        await say(opened, "Hello?")
        await shows(opened, STATUS, "You are next in line")
        others = [await stack.enter_async_context(front.streaming(ask(text))) for text in "ab"]
        network.cut()
        await shows(opened, STATUS, re.compile("The connection is lost · your place is kept for a while, trying again"))
        await front.until(lambda: front.waiting == 2)
        network.mend()
        await shows(opened, STATUS, "You are next in line")
        assert front.waiting == 3
        front.stub.play(held(1), held(1), held(1))
        front.stub.release()
        await shows(opened, STATUS, re.compile("Reading|Asking"))
        assert [b'"position":1' in await other.next() for other in others] == [False, False]
        await front.stub.until(lambda state: state.held == 1)
        front.stub.release()
        await shows(opened, TEXT, "token-0")
        assert len(front.stub.requests) == 3, "the one before, the page's own once, and the next in line"


async def occupied(front: Front, stack: AsyncExitStack) -> None:
    """The one slot is taken, until the stub releases it."""
    front.stub.play(held(1))
    await stack.enter_async_context(front.calling(ask("in the slot")))
    await front.stub.until(lambda state: state.held == 1)


async def test_a_page_that_is_loaded_anew_has_its_place_back(browser: Browser) -> None:
    async with fronted(server=REJOINING) as front, AsyncExitStack() as stack, chatting(browser, front.url) as opened:
        await occupied(front, stack)
        await say(opened, "Hello?")
        await shows(opened, STATUS, "You are next in line")
        await stack.enter_async_context(front.streaming(ask("later")))
        await opened.reload()
        await shows(opened, STATUS, "You are next in line")
        front.stub.release()
        await shows(opened, TEXT, "token-0")


async def test_a_full_line_is_tried_again_after_the_time_it_names_and_can_be_cancelled(browser: Browser) -> None:
    async with played(browser, allowed=LOST) as (opened, server):
        full = ("overloaded_error", "the line is full: 64 requests wait", {"retry-after": "2"})
        exchange = await asked(opened, server)
        exchange.refuse(529, *full)
        await shows(opened, STATUS, re.compile(r"The line is full · trying again (in \d s|now)"))
        second = await server.next()
        assert second.raw == exchange.raw
        second.refuse(529, *full[:2], {"retry-after": "40"})
        await shows(opened, STATUS, re.compile(r"trying again in [1-4]\d s"))
        await opened.click("#stop")
        await shows(opened, NOTE, "You left the line")
        await expect(opened.locator("#send")).to_be_visible()


# ---- what goes wrong -------------------------------------------------------------------------------------------------


async def test_an_answer_that_breaks_off_is_said_to_be_broken_off(browser: Browser) -> None:
    async with (
        fronted() as front,
        cuttable(front.url) as network,
        chatting(browser, network.url, allowed=LOST) as opened,
    ):
        front.stub.play(stall(3))
        await say(opened, "Hello?")
        await shows(opened, TEXT, "token-2")
        network.cut()
        await shows(opened, NOTE, "The connection broke off in the middle of the answer")
        await shows(opened, TEXT, "token-0 token-1 token-2")
        network.mend()
        await front.until(lambda: not front.relay.passages)
        await press(opened, "Send again")
        await expect(shown(opened, NOTE)).to_be_hidden()
        await shows(opened, FACTS, "3 tokens")
        assert len(front.stub.requests) == 2


async def test_an_error_after_the_first_words_is_told_with_what_to_do(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        exchange = await asked(opened, server)
        await exchange.send(START, delta("half"), failed("timeout_error", "no event within liveness = 60 s"))
        exchange.end()
        await shows(opened, NOTE, re.compile("server went silent.*Send again.*liveness = 60 s · req_1", re.DOTALL))
        await shows(opened, TEXT, "half")
        await press(opened, "Send again")
        again = await server.next()
        assert again.body["messages"] == exchange.body["messages"]
        await answer(again, "whole")
        await shows(opened, TEXT, "whole")
        await expect(shown(opened, NOTE)).to_be_hidden()


async def test_a_gateway_that_wants_a_key_is_given_one(browser: Browser) -> None:
    key = KeyConfig(name="alice", hash=f"sha256:{digest(KEY).hex()}")
    async with fronted(keys=(key,)) as front, page(browser, f"{front.url}/chat", allowed=("401",)) as opened:
        await expect(opened.locator("#key-form")).to_be_visible()
        await expect(opened.locator("#key")).to_be_focused()
        await opened.fill("#key", "sl-wröng\u200b")  # no header can carry that
        await opened.press("#key", "Enter")
        assert not await opened.evaluate("document.getElementById('key').validity.valid")
        await opened.fill("#key", "sl-wrong")
        await opened.press("#key", "Enter")
        await expect(opened.locator("#key-why")).to_contain_text("not one of this gateway's")
        await opened.fill("#key", KEY)
        await opened.press("#key", "Enter")
        await expect(opened.locator("#send")).to_be_enabled()
        await say(opened, "Hello?")
        await shows(opened, TEXT, "token-2")
        stored = "[JSON.stringify(localStorage).includes('sl-'), JSON.stringify(sessionStorage).includes('sl-')]"
        assert await opened.evaluate(stored) == [False, True], "kept for this tab alone, as nothing else was asked"


async def test_a_gateway_without_a_model_says_so_until_there_is_one(browser: Browser) -> None:
    async with scripted() as server:
        server.models = ()
        async with page(browser, f"{server.url}/chat") as opened:
            await expect(opened.locator("#nothing")).to_contain_text("No model is there at the moment")
            await expect(opened.locator("#send")).to_be_disabled()
            assert await axe(opened) == []
            server.models = ("late",)
            await opened.evaluate("dispatchEvent(new Event('online'))")  # as when a laptop has its network back
            await expect(opened.locator("#model")).to_have_value("late")
            await expect(opened.locator("#empty")).to_be_visible()


async def test_another_tab_says_where_the_answer_comes_and_has_it_when_it_is_whole(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        exchange = await asked(opened, server)
        await exchange.send(START, delta("half "))
        other = await opened.context.new_page()
        await other.goto(opened.url)
        await shows(other, NOTE, "Being answered in another tab.")
        await expect(other.get_by_role("button", name="Send again")).to_have_count(0)
        await expect(other.locator("#send")).to_be_disabled()
        await exchange.send(delta("whole"), *ended())
        exchange.end()
        await shows(other, TEXT, "half whole")
        await expect(other.locator("#send")).to_be_enabled()
        await asked(opened, server, "And then?")
        await shows(other, NOTE, "Being answered in another tab.")
        await opened.close(run_before_unload=False)
        await expect(other.get_by_role("button", name="Send again")).to_be_visible()


# ---- Markdown --------------------------------------------------------------------------------------------------------

HOSTILE = """<img src=x onerror="window.ran=1"> <script>window.ran=1</script> <svg onload=window.ran=1>

[a](javascript:window.ran=1) [b](JaVaScRiPt:window.ran=1) [c](data:text/html,<script>1</script>) [d](/api/state)

![e](data:image/png;base64,iVBORw0KGgo=) ![f](https://example.org/track.png) ![g](/x.png "t")

[h]: javascript:window.ran=1

[h] <javascript:window.ran=1> <a href="javascript:window.ran=1">i</a> [ok](https://example.org)

| a | b |
| :-: | -: |
| <b onmouseover=window.ran=1>x</b> | `</code><img src=x>` |

```"><img src=x onerror=window.ran=1>
</code></pre><script>window.ran=1</script>
```

"""


async def test_a_hostile_answer_is_text_and_nothing_else(browser: Browser) -> None:
    """No script runs, nothing is loaded, and the policy is never even asked: that would be on the console."""
    text = HOSTILE + "x" * 5000 + "\n\n" + "**_~`" * 1000
    pieces = [text[i : i + 50] for i in range(0, len(text), 50)]
    script = Script((Head(), Role(), *map(Text, pieces), Finish(), Usage(), Done()))
    async with fronted() as front, chatting(browser, front.url) as opened:
        loaded: list[str] = []
        opened.on("request", lambda request: loaded.append(request.url))
        front.stub.play(script)
        await say(opened, "Attack!")
        await shows(opened, FACTS, f"{len(pieces)} tokens")
        assert [url.removeprefix(front.url) for url in loaded] == ["/llm/v1/messages"]
        assert await opened.evaluate("window.ran") is None
        inside = shown(opened, TEXT)
        assert await inside.locator("img, script, svg, b, iframe, [style], [onerror], [onload]").count() == 0
        links = await inside.locator("a").evaluate_all("all => all.map(a => [a.textContent, a.href, a.rel, a.target])")
        away = ["noopener noreferrer nofollow", "_blank"]
        assert links == [
            ["Image: f", "https://example.org/track.png", *away],
            ["ok", "https://example.org/", *away],
        ]
        assert "<img src=x onerror" in await inside.inner_text()
        width = "() => [document.documentElement.scrollWidth, window.innerWidth]"
        assert await opened.evaluate(width) == [1280, 1280], "long lines do not widen the page"


GROWN = """# Title

A paragraph with *emphasis*, `code` and a
second line.

- one
- two

  more of two
1. three

| a | b |
| - | -: |
| 1 | 2 |

Setext
------

    indented

~~~py
x = 1

y = 2
~~~
> quoted
> [later]

[later]: https://example.org

The end, and [later].
"""
COMPARE = """async (text) => {
  const {Markdown} = await import("./static/chat/markdown.js");
  const drawn = (pieces) => {
    const box = document.createElement("div");
    const markdown = new Markdown(box);
    for (const piece of pieces) { markdown.append(piece); markdown.draw(); }
    return box.innerHTML;
  };
  return [drawn([text]), drawn([...text]), drawn([...text.replaceAll("\\n", "\\r\\n")])];
}"""


async def test_markdown_that_grows_is_the_same_as_markdown_that_is_whole(browser: Browser) -> None:
    """But for a link whose address came after its block was done: that one stays text."""
    async with played(browser) as (opened, _):
        whole, grown, other_lines = await opened.evaluate(COMPARE, GROWN)
        one = '<a href="https://example.org" target="_blank" rel="noopener noreferrer nofollow">later</a>'
        assert whole.count(one) == 2
        assert grown == whole.replace(one, "[later]", 1)
        assert other_lines == grown
        for part in ("<h2>Setext</h2>", '<td class="right">2</td>', "<em>", "x = 1\n\ny = 2", "<blockquote>"):
            assert part in whole


LONG = """async () => {
  const {Markdown} = await import("./static/chat/markdown.js");
  const markdown = new Markdown(document.createElement("div"));
  const took = [];
  for (let part = 0; part < 2; part++) {
    const before = performance.now();
    for (let n = 0; n < 400; n++) { markdown.append("Some *words* of a paragraph.\\n\\n"); markdown.draw(); }
    took.push(performance.now() - before);
  }
  return took;
}"""


async def test_a_long_answer_is_not_drawn_slower_at_its_end(browser: Browser) -> None:
    async with played(browser) as (opened, _):
        first, second = await opened.evaluate(LONG)
        assert second < 3 * first + 50, (first, second)


async def test_code_is_copied_as_it_is(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        await opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await answer(await asked(opened, server), "```py\na < b\n  c\n```\n")
        await opened.clock.install()
        await opened.click("text=Copy >> nth=0")
        await expect(opened.locator("[data-copy]")).to_have_text("Copied")
        await opened.click("[data-copy]")
        assert await opened.evaluate("navigator.clipboard.readText()") == "a < b\n  c\n"
        await opened.clock.run_for(5_000)
        assert await opened.inner_text("[data-copy]") == "Copy"


# ---- the conversation ------------------------------------------------------------------------------------------------


async def test_a_conversation_is_kept_changed_and_begun_anew(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        await opened.select_option("#model", "gemma-3-12b")
        await press(opened, "Settings")
        await opened.fill("#system", "Be brief.")
        first = await asked(opened, server, "one")
        assert first.body["model"] == "gemma-3-12b"
        assert first.body["system"] == "Be brief."
        await answer(first, "ONE", reason="max_tokens")
        await shows(opened, NOTE, "limit of 1,024 tokens")
        await opened.reload()
        await shows(opened, TEXT, "ONE")
        await expect(opened.locator("#model")).to_have_value("gemma-3-12b")
        await press(opened, "Edit message")
        await expect(opened.locator("#message")).to_have_value("one")
        second = await asked(opened, server, "two")
        assert second.body["messages"] == [{"role": "user", "content": "two"}]
        await answer(second, "TWO")
        await shows(opened, TEXT, "TWO")
        third = await asked(opened, server, "three")
        assert [each["content"] for each in third.body["messages"]] == ["two", "TWO", "three"]
        await opened.click("#new")
        await asyncio.wait_for(third.gone.wait(), 5)
        await expect(opened.locator(".turn")).to_have_count(0)
        await opened.click("text=Back to “two”")
        await expect(opened.locator(".turn")).to_have_count(2)


async def test_enter_sends_but_not_with_shift_nor_while_a_word_is_composed(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        await opened.fill("#message", "a")
        await opened.press("#message", "Shift+Enter")
        await opened.keyboard.type("b")
        composing = "new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true})"
        await opened.evaluate(f"document.getElementById('message').dispatchEvent({composing})")
        assert server.asked.empty()
        await opened.press("#message", "Enter")
        assert (await server.next()).body["messages"] == [{"role": "user", "content": "a\nb"}]


async def test_whoever_scrolls_away_is_left_alone_and_finds_the_way_back(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        exchange = await asked(opened, server)
        await exchange.send(START, *(delta(f"paragraph {n}\n\n") for n in range(60)))
        await shows(opened, TEXT, "paragraph 59")
        distance = "(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.getElementById('scroll'))"
        await opened.wait_for_function(f"{distance} < 5")
        await opened.evaluate("document.getElementById('scroll').scrollTop = 100")
        await expect(opened.locator("#newest")).to_be_visible()
        await exchange.send(delta("the newest"), *ended())
        exchange.end()
        await shows(opened, TEXT, "the newest")
        assert await opened.evaluate("document.getElementById('scroll').scrollTop") == 100
        await opened.click("#newest")
        assert await opened.evaluate(distance) < 5


async def test_a_long_conversation_stays_quick(browser: Browser) -> None:
    turns = [
        {"question": f"question {n}", "answer": {"text": "Some *words*.\n\n" * 40, "facts": ["1 token"]}}
        for n in range(60)
    ]
    kept = msgspec.json.encode({"id": "chat-1", "turns": turns}).decode()
    async with played(browser) as (opened, server):
        await opened.evaluate("text => localStorage.setItem('slotline.chat', text)", kept)
        await opened.reload()
        await expect(opened.locator(".turn")).to_have_count(60)
        exchange = await asked(opened, server, "one more")
        assert len(exchange.body["messages"]) == 121
        before = asyncio.get_running_loop().time()
        await answer(exchange, *(f"word-{n} " for n in range(400)))
        await shows(opened, TEXT, "word-399")
        assert asyncio.get_running_loop().time() - before < 3


# ---- for everybody ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [{}, {"dark": True}, {"phone": True}], ids=["light", "dark", "phone"])
async def test_no_state_of_the_page_breaks_a_rule_of_accessibility(browser: Browser, looks: dict[str, bool]) -> None:
    async with played(browser, allowed=LOST, **looks) as (opened, server):
        assert await axe(opened) == [], "idle"
        await press(opened, "Settings")
        assert await axe(opened) == [], "settings"
        await press(opened, "Settings")
        await opened.fill("#message", "Hello?")
        await opened.click("#send")
        exchange = await server.next()
        await exchange.send(queue(3, 5, 12_400))
        await shows(opened, STATUS, "3rd of 5")
        assert await axe(opened) == [], "waiting"
        await exchange.send(prefill(6100, 8123))
        await shows(opened, STATUS, "6,100")
        assert await axe(opened) == [], "reading"
        await exchange.send(START, delta("hm", "thinking"))
        await shown(opened, "summary").click()
        assert await axe(opened) == [], "thinking"
        await exchange.send(delta("# Done\n\n```py\nx\n```\n\n| a |\n| - |\n| b |\n"), *ended("max_tokens"))
        exchange.end()
        await expect(opened.locator("text=Another answer")).to_be_visible()
        assert await axe(opened) == [], "answered"
        await press(opened, "Edit message")
        assert await axe(opened) == [], "editing"
        await press(opened, "Cancel")
        await opened.fill("#message", "Again?")
        await opened.click("#send")
        (await server.next()).refuse(401, "authentication_error", "a key is needed")
        await shows(opened, NOTE, "A key is needed")
        await expect(opened.locator("#key-form")).to_be_visible()
        assert await axe(opened) == [], "error"
        if looks.get("phone"):
            assert await opened.evaluate("document.documentElement.scrollWidth") == 390


async def test_the_page_works_with_the_keyboard_alone(browser: Browser) -> None:
    async with played(browser) as (opened, server):
        await expect(opened.locator("#message")).to_be_focused()
        await opened.keyboard.type("Hello?")
        await opened.keyboard.press("Enter")
        exchange = await server.next()
        await exchange.send(queue(2, 2, None))
        await shows(opened, STATUS, "2nd of 2")
        await opened.keyboard.press("Escape")
        await asyncio.wait_for(exchange.gone.wait(), 5)
        await expect(opened.locator("#message")).to_be_focused()
        reached = set()
        for _ in range(14):
            await opened.keyboard.press("Shift+Tab")
            reached.add(await opened.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        assert {"Send again", "Edit message", "New chat", "Dashboard"} <= reached
