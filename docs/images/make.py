"""Takes the pictures of docs/pages.md anew: `PYTHONPATH=tests python docs/images/make.py [NAME …]`.

They show made-up states (`tests/fakes/scenes.py`), so that they are the same each time but for the hours of the day.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image
from playwright.async_api import Browser, Page, expect

from fakes import scenes
from fakes.browser import chromium, page
from slotline.core.report import SlotState, State

HERE = Path(__file__).parent
_TALKS = {SlotState.THINKING, SlotState.ANSWERING}


@dataclass(frozen=True)
class Picture:
    """`whole`: the whole page, and not only what a screen shows of it."""

    scene: Callable[[], State]
    look: dict[str, Any] = field(default_factory=dict)
    whole: bool = True


PICTURES = {
    "dashboard-light": Picture(scenes.busy),
    "dashboard-dark": Picture(scenes.busy, {"dark": True}),
    "dashboard-phone": Picture(scenes.busy, {"dark": True, "phone": True, "scale": 2.0}, whole=False),
    "dashboard-overloaded": Picture(scenes.overloaded),
    "dashboard-broken": Picture(scenes.broken),
}


def earlier(state: State, pieces: int) -> State:
    """The state before, when every answer was so many pieces shorter: from the two a page tells speeds."""

    def back(upstream: Any) -> Any:
        each = [
            msgspec.structs.replace(slot, pieces=slot.pieces - pieces) if slot.state in _TALKS else slot
            for slot in upstream.slots.each
        ]
        return msgspec.structs.replace(upstream, slots=msgspec.structs.replace(upstream.slots, each=each))

    return msgspec.structs.replace(state, upstreams=[back(upstream) for upstream in state.upstreams])


async def take(browser: Browser, name: str, picture: Picture) -> None:
    async with (
        scenes.staged(earlier(picture.scene(), 40), scenes.an_hour()) as scene,
        page(browser, scene.url, **picture.look) as opened,
    ):
        await drawn(opened)
        await asyncio.sleep(0.6)  # what the speeds are measured over
        scene.told = picture.scene()
        if picture.scene is not scenes.broken:
            await expect(opened.get_by_text("tokens/s").first).to_be_visible()
        small(Image.open(BytesIO(await opened.screenshot(full_page=picture.whole)))).save(
            HERE / f"{name}.png", optimize=True
        )


def small(shot: Image.Image) -> Image.Image:
    """The picture in its 256 most frequent colours: a third of the bytes, and nobody sees it."""
    full = shot.convert("RGB")
    counted: Any = sorted(full.getcolors(full.width * full.height) or (), reverse=True)[:256]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in counted for part in colour])
    return full.quantize(palette=palette, dither=Image.Dither.NONE)


async def drawn(opened: Page) -> None:
    await expect(opened.locator(".canvas canvas")).to_have_count(3)


async def main(names: list[str]) -> None:
    async with chromium() as browser:
        for name, picture in PICTURES.items():
            if not names or name in names:
                await take(browser, name, picture)
                print(name, (HERE / f"{name}.png").stat().st_size // 1024, "KiB")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
