"""The dashboard in a real browser: before made-up states of every sort, before the stub, and before the real engine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from fakes import scenes
from fakes.browser import axe, chromium, page
from fakes.gateway import fronted
from fakes.product import ask, calling
from fakes.scenes import staged
from slotline.core.limits import Limits
from slotline.core.report import Line, SlotState, State
from slotline.stub.script import Head, Hold, Progress, Reasoning, Script, Text
from slotline.stub.standard import hang, held

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKUP = "<img src=x onerror=\"document.title='broken in'\">'\"&amp;</script>"
LONG = "Tell me of the sea. " * 100
WATCH = """() => {
  window.seen = [];
  const look = () => document.querySelectorAll(".slot:not([data-state=free])").forEach((slot) => {
    const now = `${slot.dataset.state} ${slot.querySelector(".doing").textContent}`;
    if (now !== window.seen.at(-1)) window.seen.push(now);
  });
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(look).observe(document.getElementById("upstreams"), all);
}"""
"""Keeps what each slot that is not free has shown."""
SCENES: dict[str, tuple[Callable[[], State], str]] = {
    "idle": (scenes.idle, "Both slots free · nobody waits"),
    "busy": (scenes.busy, "5 of 6 slots busy · 3 waiting · next in 12 s"),
    "overloaded": (scenes.overloaded, "Both slots busy · 60 waiting, and the line is full · next in 12 s"),
    "broken": (scenes.broken, "box1 is down · box2 is loading · 2 waiting"),
    "draining": (scenes.draining, "Shutting down · 1 of 2 slots busy · nobody waits"),
    "without upstreams": (lambda: scenes.state([]), "No upstream is configured"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


async def says(opened: Page, sentence: str) -> None:
    """The sentence at the top of the page, which the title repeats."""
    await expect(opened.get_by_role("heading", level=1)).to_have_text(sentence)
    await expect(opened).to_have_title(f"{sentence} · Slotline")


def told_first(opened: Page) -> list[str]:
    """The addresses that the page asks for, from now on."""
    asked: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    return asked


# ---- each state ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
async def test_every_state_is_told_in_a_sentence_and_breaks_no_rule_of_accessibility(
    browser: Browser, look: str
) -> None:
    async with (
        staged(scenes.busy(), scenes.an_hour()) as scene,
        page(browser, scene.url, dark=look == "dark", phone=look == "phone") as opened,
    ):
        for name, (made, sentence) in SCENES.items():
            scene.told = made()
            await says(opened, sentence)
            assert await axe(opened) == [], name
            wide = await opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide == 0, f"{name}: the page is wider than the screen"


async def test_a_slot_shows_what_it_does_how_far_that_is_and_for_whom(browser: Browser) -> None:
    async with staged(scenes.busy()) as scene, page(browser, scene.url) as opened:
        box = opened.get_by_role("article", name="box1")
        tiles = box.get_by_role("listitem")
        await expect(tiles).to_have_count(4)
        await expect(tiles.nth(0)).to_contain_text("Slot 0for 4 sEnd≡Prefill6,100 / 8,123alice · qwen3-30b-a3b")
        await expect(tiles.nth(1)).to_contain_text("✱Thinking900 / 4,000bob · qwen3-30b-a3b")
        await expect(tiles.nth(2)).to_contain_text("▸Answering312 tokensalice · qwen3-30b-a3bafter 640 of thinking")
        await expect(tiles.nth(3)).to_have_text("Slot 3 ○ Free", use_inner_text=True)
        await expect(box.get_by_role("progressbar", name="Prompt read")).to_have_attribute("aria-valuenow", "75")
        await expect(box.get_by_role("progressbar", name="Thought")).to_have_attribute("aria-valuetext", "900 / 4,000")
        other = opened.get_by_role("article", name="vllm-a100").get_by_role("listitem")
        await expect(other.nth(1)).to_contain_text("◐Draining")


async def test_the_speed_of_an_answer_is_measured_from_state_to_state(browser: Browser) -> None:
    async with staged(scenes.idle()) as scene, page(browser, scene.url) as opened:
        for pieces in range(0, 2000, 20):
            slots = [scenes.slot(0, SlotState.ANSWERING, 1.0, pieces=pieces)]
            scene.told = scenes.state([scenes.upstream("box1", slots)], [scenes.running("box1", slots[0])])
            if await opened.get_by_text("tokens/s").count():
                break
            await opened.evaluate("new Promise(requestAnimationFrame)")
        said = await opened.locator(".pace").inner_text()
        assert float(said.removesuffix(" tokens/s").replace(",", "")) > 0


async def test_the_line_is_a_table_with_its_places_and_what_is_the_same_for_all_is_said_once(browser: Browser) -> None:
    async with staged(scenes.busy()) as scene, page(browser, scene.url) as opened:
        table = opened.get_by_role("table", name="Who is in line")
        heads = ["Place", "Model", "Key", "Class", "Waited", "Expected in", "End"]
        await expect(table.get_by_role("columnheader")).to_have_text(heads)
        row = table.get_by_role("row").nth(2)
        await expect(row.get_by_role("cell")).to_have_text(
            ["2", "gemma-3-27b", "ci-nightly", "batch", "9 s", "33 s", "End"]
        )
        await expect(opened.locator("#line")).to_contain_text("Why: 2 slots are held, the longest for 43 s.")
        scene.told = scenes.state(
            scenes.busy().upstreams,
            [scenes.waiting(1, 2, waited=1, cause="its key has 1 running"), scenes.waiting(2, 2, waited=1)],
        )
        await expect(table.get_by_role("row").nth(1)).to_contain_text("its key has 1 running")
        await expect(table.get_by_role("columnheader")).to_have_text(
            ["Place", "Model", "Waited", "Expected in", "Why", "End"]
        )


async def test_who_waits_at_another_gateway_is_counted_and_the_page_says_why_it_is_not_listed(browser: Browser) -> None:
    own = [scenes.waiting(place, 3, of=("box1", "box2")) for place in (1, 3)]
    told = scenes.state([scenes.upstream("box1", [], waiting=3), scenes.upstream("box2", [], waiting=3)], own)
    async with staged(told) as scene, page(browser, scene.url) as opened:
        line, sentence = opened.locator("#line"), opened.get_by_text("Only this gateway’s own requests are listed")
        await expect(line.locator(".counts")).to_have_text("2 waiting")
        await expect(sentence).to_be_hidden()
        scene.told = msgspec.structs.replace(told, lines=[Line(["box1", "box2"], 3)])
        await expect(line.locator(".counts")).to_have_text("3 waiting, 1 of them at another gateway")
        await expect(sentence).to_be_visible()
        assert await axe(opened) == []
        scene.told = msgspec.structs.replace(told, lines=[Line(["box1", "box2"], 2)], requests=[])
        await expect(line.locator(".counts")).to_have_text("2 waiting, all at other gateways")
        await expect(line).not_to_contain_text("Nobody waits")
        await expect(line.get_by_role("table")).to_be_hidden()


async def test_a_slot_that_is_to_come_at_once_and_does_not_takes_longer_than_expected(browser: Browser) -> None:
    upstreams = [scenes.upstream("box1", [scenes.slot(0, SlotState.PREFILL, 4.0)])]
    told = scenes.state(upstreams, [scenes.waiting(1, 1, estimated_wait_ms=300)])
    async with staged(told) as scene, page(browser, scene.url) as opened:
        await says(opened, "The slot is busy · 1 waiting · next any moment")
        await expect(opened.locator("#line td.expected")).to_have_text("any moment")
        waits = 0
        while await opened.locator("#line td.expected").inner_text() == "any moment":
            waits += 1  # time goes on, which is told, too
            scene.told = scenes.state(upstreams, [scenes.waiting(1, 1, waited=waits, estimated_wait_ms=waits % 2)])
            await opened.evaluate("new Promise(requestAnimationFrame)")
        await says(opened, "The slot is busy · 1 waiting · next takes longer than expected")
        await expect(opened.locator("#line td.expected")).to_have_text("longer than expected")


async def test_of_a_long_line_the_first_are_shown_and_the_others_on_demand(browser: Browser) -> None:
    async with staged(scenes.overloaded()) as scene, page(browser, scene.url) as opened:
        rows = opened.get_by_role("table", name="Who is in line").locator("tbody tr")
        await expect(rows).to_have_count(8)
        more = opened.get_by_role("button", name="and 52 more", expanded=False)
        await more.click()
        await expect(rows).to_have_count(60)
        await opened.get_by_role("button", name="Show the first 8", expanded=True).click()
        await expect(rows).to_have_count(8)


async def test_each_line_has_a_table_of_its_own(browser: Browser) -> None:
    two = [scenes.waiting(1, 1, of=("box1",)), scenes.waiting(1, 1, of=("box1", "box2"), id="req_other")]
    told = scenes.state([scenes.upstream("box1", []), scenes.upstream("box2", [])], two)
    async with staged(told) as scene, page(browser, scene.url) as opened:
        await expect(opened.get_by_role("table", name="Who is in line for box1")).to_have_count(2)
        await expect(opened.get_by_role("heading", name="In line for box1 or box2")).to_be_visible()


async def test_many_free_slots_are_one_tile(browser: Browser) -> None:
    slots = [scenes.slot(0, SlotState.PREFILL, 1.0), *(scenes.slot(n, SlotState.FREE) for n in range(1, 32))]
    async with staged(scenes.state([scenes.upstream("big", slots)])) as scene, page(browser, scene.url) as opened:
        tiles = opened.get_by_role("article", name="big").get_by_role("listitem")
        await expect(tiles).to_have_count(2)
        await expect(tiles.nth(1)).to_have_text("31 slots ○ Free", use_inner_text=True)


async def test_an_upstream_that_is_down_tells_why(browser: Browser) -> None:
    async with staged(scenes.broken()) as scene, page(browser, scene.url) as opened:
        card = opened.get_by_role("article", name="box1")
        await expect(card).to_contain_text("out of order for 95 s")
        await expect(card).to_contain_text("Cannot connect to host 192.168.1.20:8081: connection refused")
        await expect(opened.get_by_role("article", name="box2")).to_contain_text("it says: Loading model")


async def test_before_the_first_request_there_is_a_command_to_copy_and_after_it_the_last_hour(browser: Browser) -> None:
    async with staged(scenes.idle()) as scene, page(browser, scene.url) as opened:
        region = opened.get_by_role("region", name="Nothing has been asked yet")
        await expect(region.locator("pre")).to_contain_text(f"curl {scene.url}/v1/messages -H 'content-type")
        await expect(region.locator("pre")).to_contain_text('"model":"qwen3-30b-a3b"')
        assert await axe(opened) == []
        await region.get_by_role("button", name="Copy").click()
        await expect(region.get_by_role("button")).to_have_text("Copied")
        await expect(opened.get_by_role("heading", name="The last hour")).to_be_hidden()
        scene.told = scenes.busy()
        await expect(region).to_be_hidden()
        await expect(opened.get_by_role("heading", name="The last hour")).to_be_visible()


async def test_names_that_others_choose_are_text_whatever_is_in_them(browser: Browser) -> None:
    async with staged(scenes.hostile(MARKUP), scenes.an_hour()) as scene, page(browser, scene.url) as opened:
        await expect(opened.get_by_role("heading", name=MARKUP, exact=True)).to_be_visible()
        await expect(opened.locator("#line tbody")).to_contain_text(MARKUP)
        assert await opened.locator("main img, main script").count() == 0
        await opened.locator("#line").get_by_role("button", name="End the request of").click()
        await expect(opened.get_by_role("dialog")).to_contain_text(MARKUP)
        assert "broken in" not in (await opened.title()).removeprefix(f"{MARKUP} is down")


async def test_the_command_to_copy_is_one_argument_whatever_the_model_is_called(browser: Browser) -> None:
    model = 'it\'s $(reboot) "x"'
    told = scenes.state([scenes.upstream("box1", [scenes.slot(0, SlotState.FREE)], models=[model])])
    async with staged(told) as scene, page(browser, scene.url) as opened:
        await expect(opened.locator("#first-curl")).to_contain_text("curl ")
        command = await opened.locator("#first-curl").inner_text()
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", f'curl() {{ for last; do :; done; printf %s "$last"; }}\n{command}', stdout=asyncio.subprocess.PIPE
    )
    out, _ = await shell.communicate()
    assert out.decode().startswith('{"model":"it\'s $(reboot) \\"x\\"","max_tokens"')


# ---- the last hour ---------------------------------------------------------------------------------------------------


async def test_plots_say_in_words_what_they_show_and_have_their_numbers_in_a_table(browser: Browser) -> None:
    async with staged(scenes.busy(), scenes.an_hour()) as scene, page(browser, scene.url) as opened:
        ended = opened.get_by_role("img", name="Requests ended, by the minute: ")
        await expect(ended.locator("canvas")).to_be_visible()
        said = await ended.get_attribute("aria-label")
        assert said is not None
        assert "completed" in said
        assert "failed" in said
        figure = opened.locator("figure").first
        await figure.get_by_text("As a table").click()
        rows = figure.get_by_role("row")
        await expect(rows).to_have_count(1 + 12)
        sums = [int(text) for text in await figure.locator("tbody td:nth-child(2)").all_inner_texts()]
        assert f"{sum(sums)} completed" in said
        assert await axe(opened) == []
        await ended.hover()
        await expect(figure.locator(".said")).to_contain_text("·")


async def test_colours_can_be_chosen_and_stay_chosen(browser: Browser) -> None:
    async with staged(scenes.busy(), scenes.an_hour()) as scene, page(browser, scene.url) as opened:
        button = opened.get_by_role("button", name="Colours: as the system")
        light = await opened.evaluate("getComputedStyle(document.body).backgroundColor")
        await button.click()
        await opened.get_by_role("button", name="Colours: light").click()
        await expect(opened.get_by_role("button", name="Colours: dark")).to_be_visible()
        dark = await opened.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark != light
        await opened.reload()
        assert await opened.evaluate("getComputedStyle(document.body).backgroundColor") == dark


# ---- without eyes, without a mouse -----------------------------------------------------------------------------------


async def test_a_screen_reader_hears_the_state_in_order(browser: Browser) -> None:
    async with staged(scenes.busy(), scenes.an_hour()) as scene, page(browser, scene.url) as opened:
        await expect(opened.get_by_role("img", name="Slots and line")).to_be_visible()
        heard = await opened.locator("body").aria_snapshot()
    wanted = [
        'link "Skip to the slots"',
        'navigation "Pages"',
        'button "Colours: as the system"',
        'heading "5 of 6 slots busy · 3 waiting · next in 12 s" [level=1]',
        'region "Upstreams and their slots"',
        'article "box1"',
        'heading "box1" [level=2]',
        'button "End the request of qwen3-30b-a3b in Slot 0"',
        'progressbar "Prompt read"',
        'article "vllm-a100"',
        'region "The line"',
        'table "Who is in line"',
        'columnheader "Place"',
        'button "End the request of gemma-3-27b at place 1"',
        'region "The last hour"',
        'img "Requests ended, by the minute: ',
        'img "Time in line, by the minute: ',
        'img "Slots and line: ',
    ]
    places = [heard.find(each) for each in wanted]
    assert -1 not in places, wanted[places.index(-1)]
    assert places == sorted(places)


async def test_only_what_matters_is_announced(browser: Browser) -> None:
    """A server that is down, a full line; not that time goes on."""
    async with staged(scenes.idle()) as scene, page(browser, scene.url) as opened:
        await says(opened, "Both slots free · nobody waits")
        news = opened.get_by_role("status")
        for told, said in (
            (scenes.overloaded(), "The line for box1 is full."),
            (scenes.overloaded(59), "The line for box1 is full."),
            (scenes.broken(), "box1 is down: Cannot connect to host 192.168.1.20:8081: connection refused. The line"),
            (scenes.idle(), "box1 is up."),
            (scenes.draining(), "The gateway is shutting down."),
        ):
            scene.told = told
            await expect(news).to_contain_text(said)


async def test_everything_can_be_reached_with_the_keyboard_alone(browser: Browser) -> None:
    async with staged(scenes.overloaded(), scenes.an_hour()) as scene, page(browser, scene.url) as opened:
        await expect(opened.get_by_role("img", name="Slots and line")).to_be_visible()
        seen: list[str] = []
        for _ in range(40):
            await opened.keyboard.press("Tab")
            now = await opened.evaluate(
                """() => {
                  const at = document.activeElement;
                  const { outlineStyle, outlineWidth } = getComputedStyle(at);
                  const { top, bottom } = at.getBoundingClientRect();
                  return [at.getAttribute("aria-label") ?? at.textContent.trim(), outlineStyle, outlineWidth,
                          bottom > 0 && top < innerHeight];
                }"""
            )
            if now[0].startswith("Skip") and seen:
                break
            seen.append(now[0])
            assert now[1:] == ["solid", "3px", True], now
        assert seen[:5] == ["Skip to the slots", "Slotline", "Dashboard", "Chat", "Colours: as the system"]
        assert seen[5:7] == [f"End the request of qwen3-30b-a3b in Slot {number}" for number in (0, 1)]
        assert seen[7:15] == [f"End the request of qwen3-30b-a3b at place {place}" for place in range(1, 9)]
        assert seen[15:19] == ["and 52 more", *["As a table"] * 3]


async def test_the_first_key_leads_past_the_head_of_the_page(browser: Browser) -> None:
    async with staged(scenes.busy()) as scene, page(browser, scene.url) as opened:
        await says(opened, "5 of 6 slots busy · 3 waiting · next in 12 s")
        await opened.keyboard.press("Tab")
        await opened.keyboard.press("Enter")
        await opened.keyboard.press("Tab")
        focused = await opened.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == "End the request of qwen3-30b-a3b in Slot 0"


async def test_the_focus_stays_where_it_is_while_the_line_moves_up(browser: Browser) -> None:
    async with staged(scenes.overloaded()) as scene, page(browser, scene.url) as opened:
        button = opened.get_by_role("button", name="End the request of qwen3-30b-a3b at place 3")
        await button.focus()
        told = scenes.overloaded()
        rest = [each for each in told.requests if each.position not in {1, 2}]
        scene.told = scenes.state(told.upstreams, rest)
        await expect(opened.locator("#line tbody tr").first).to_contain_text("3qwen")
        assert await button.evaluate("node => node === document.activeElement")


# ---- who may see it, and when nobody answers -------------------------------------------------------------------------


async def test_where_there_is_a_token_the_page_asks_for_it_and_keeps_it_for_the_tab(browser: Browser) -> None:
    async with (
        staged(scenes.busy(), token="right") as scene,
        page(browser, scene.url, allowed=("status of 401",)) as opened,
    ):
        asked = told_first(opened)
        field = opened.get_by_label("Token")
        await expect(opened.get_by_role("heading", level=1)).to_have_text("A token is needed")
        assert await axe(opened) == []
        await field.fill("wröng\u200b")  # what no header can carry would else look like a gateway that is not there
        await field.press("Enter")
        assert not await field.evaluate("(field) => field.validity.valid")
        await field.fill("wrong")
        await field.press("Enter")
        await expect(opened.get_by_role("alert")).to_have_text("The gateway does not know this token.")
        await field.fill("right")
        await opened.get_by_role("button", name="Show the state").click()
        await says(opened, "5 of 6 slots busy · 3 waiting · next in 12 s")
        await expect(field).to_be_hidden()
        assert await opened.evaluate("document.activeElement.id") == "main"
        await opened.reload()
        await says(opened, "5 of 6 slots busy · 3 waiting · next in 12 s")
        assert not any("right" in address for address in [*asked, opened.url])
        assert await opened.evaluate("JSON.stringify(localStorage)") == "{}"


async def test_who_is_not_the_operator_is_told_what_to_do(browser: Browser) -> None:
    async with staged(scenes.busy()) as scene, page(browser, scene.url, allowed=("status of 403",)) as opened:
        await opened.context.set_extra_http_headers({"x-forwarded-for": "192.0.2.1"})
        await opened.reload()
        await expect(opened.get_by_role("heading", level=1)).to_have_text("Not shown here")
        region = opened.get_by_role("region", name="Only for the operator")
        await expect(region).to_contain_text("ssh -L 8080:127.0.0.1:")
        assert await axe(opened) == []
        await opened.context.set_extra_http_headers({})
        await region.get_by_role("button", name="Try again").click()
        await says(opened, "5 of 6 slots busy · 3 waiting · next in 12 s")


async def test_a_gateway_that_goes_and_comes_back_is_seen_to_go_and_to_come_back(browser: Browser) -> None:
    """What was shown stays, said to be old, and is replaced by the truth as soon as there is one."""
    gone = ("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_CONNECTION_RESET")
    async with staged(scenes.busy()) as scene, page(browser, scene.url, allowed=gone) as opened:
        await says(opened, "5 of 6 slots busy · 3 waiting · next in 12 s")
        await scene.close()
        away = opened.get_by_role("region", name="The gateway does not answer")
        await expect(away).to_contain_text("Trying again in")
        await expect(away).to_contain_text("What is shown is")
        await expect(opened.locator("#standing")).to_contain_text("Stale for")
        await expect(opened.get_by_role("status")).to_have_text("The gateway does not answer.")
        await expect(opened.get_by_role("article", name="box1")).to_be_visible()
        await expect(opened.get_by_role("heading", level=1)).to_have_text("5 of 6 slots busy · 3 waiting")
        await expect(opened.get_by_role("button", name="End the request")).to_have_count(0)
        assert await axe(opened) == []
        await away.get_by_role("button", name="Try now").click()
        await expect(away).to_be_visible()
        scene.told = scenes.idle()
        await scene.open()
        await says(opened, "Both slots free · nobody waits")
        await expect(away).to_be_hidden()
        await expect(opened.locator("#standing")).to_contain_text("Live")
        await expect(opened.get_by_role("status")).to_contain_text("The gateway answers again.")


# ---- before the real gateway -----------------------------------------------------------------------------------------


async def test_a_slot_is_followed_through_its_phases(browser: Browser) -> None:
    thinks = Script((Head(), Progress(6100, 8123), Hold(), Reasoning("a"), Reasoning("b"), Hold(), Text("c"), Hold()))
    async with (
        fronted(limits=Limits(poll=0.05, thinking_cap=4000)) as front,
        page(browser, front.url) as opened,
    ):
        front.stub.play(thinks)
        tile = opened.get_by_role("article", name="box").get_by_role("listitem")
        await expect(tile).to_have_text("Slot 0 ○ Free", use_inner_text=True)
        async with front.calling() as caller:
            await expect(tile).to_contain_text("Prefill6,100 / 8,123stub")
            front.stub.release()
            await expect(tile).to_contain_text("Thinking2 / 4,000stub")
            front.stub.release()
            await expect(tile).to_contain_text("Answering1 tokenstub")
            async with front.calling(ask("another")):
                await says(opened, "The slot is busy · 1 waiting")
                await expect(opened.locator("#line tbody tr")).to_contain_text("1stub")
            caller.reset()
        await says(opened, "The slot is free · nobody waits")
        await expect(opened.get_by_role("img", name="Requests ended")).to_have_accessible_name(
            "Requests ended, by the minute: 2 requests ended: 2 left."
        )


async def test_an_operator_ends_a_request_after_one_more_question(browser: Browser) -> None:
    async with fronted() as front, page(browser, front.url) as opened:
        front.stub.play(held(5, before=1))
        async with front.streaming() as running:
            await running.until(b"token-0")
            end = opened.get_by_role("button", name="End the request of stub in Slot 0")
            await end.focus()
            await opened.keyboard.press("Enter")
            dialog = opened.get_by_role("dialog", name="End this request?")
            await expect(dialog).to_contain_text("stub · running for")
            assert await axe(opened) == []
            await opened.keyboard.press("Escape")
            await expect(dialog).to_be_hidden()
            await expect(end).to_be_focused()
            assert front.outcomes == []
            await end.click()
            await dialog.get_by_role("button", name="End it").click()
            await expect(dialog).to_be_hidden()
            assert b"an operator has ended this request" in await running.rest()
        await says(opened, "The slot is free · nobody waits")
        assert front.outcomes == ["shutdown"]


async def test_who_waits_is_ended_where_it_stands(browser: Browser) -> None:
    async with fronted() as front, page(browser, front.url) as opened:
        front.stub.play(hang())
        async with front.calling(), front.calling(ask("another")) as waits:
            await opened.get_by_role("button", name="End the request of stub at place 1").click()
            await opened.get_by_role("button", name="End it").click()
            await says(opened, "The slot is busy · nobody waits")
            assert b"an operator has ended this request" in (await waits.answer()).body


@pytest.mark.engine
async def test_a_slot_of_the_real_engine_is_seen_to_read_to_answer_and_to_be_free(
    browser: Browser, engine_url: str
) -> None:
    async with page(browser, engine_url) as opened:
        await says(opened, "Both slots free · nobody waits")
        await opened.evaluate(WATCH)
        async with calling(engine_url, "/v1/messages", ask(LONG, model="smollm2", max_tokens=4000)) as caller:
            await expect(opened.locator(".slot[data-state=answering]")).to_contain_text("tokens", timeout=100_000)
            caller.reset()
        await says(opened, "Both slots free · nobody waits")
        seen: list[str] = await opened.evaluate("window.seen")
        assert await axe(opened) == []
    phases = list(dict.fromkeys(each.split()[0] for each in seen))
    assert phases[:2] == ["prefill", "answering"]
    read = [re.fullmatch(r"prefill ≡Prefill([0-9,]+) / ([0-9,]+)", each) for each in seen]
    told = [(each[1], each[2]) for each in read if each is not None]
    assert told, seen
    assert len({total for _, total in told}) == 1
