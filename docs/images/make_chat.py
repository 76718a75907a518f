"""Takes the chat's pictures of docs/pages.md anew: `PYTHONPATH=tests python docs/images/make_chat.py [NAME …]`.

They show scripted states (`tests/fakes/scripted.py`), so that they are the same each time.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image
from playwright.async_api import Browser, Page, expect

from fakes.browser import chromium, page
from fakes.scripted import START, Exchange, Scripted, delta, prefill, queue, scripted

HERE = Path(__file__).parent
Act = Callable[[Page, Exchange], Awaitable[None]]

FIRST = "Why does my request wait, and for whom?"
FIRST_ANSWER = """\
A GPU works on only so many requests at once. Each of them has a **slot**; who comes when all are taken stands in line:

1. A slot becomes free when an answer is complete, or when its reader stops it.
2. The next in line gets it at once.
3. Everyone behind moves up by one place.

So the wait is that of *those before you*, and not of everybody who is there.
"""
FACTS = ["31 tokens/s", "96 tokens", "waited 12 s", "prompt read in 840 ms", "first token after 13 s", "16 s in all"]
SECOND = "Show me how a page asks for its place."
SECOND_ANSWER = """\
Read the stream with `stream()` from **messages.js**; each event is a plain object:

```js
import { stream } from "./messages.js";

for await (const event of stream({ body })) {
  if (event.type === "queue") show(`place ${event.position} of ${event.length}`);
  if (event.type === "text") show(event.text);
}
```

| event | when |
| --- | --- |
| `queue` | once for each change of the place |
| `progress` | while the prompt is read |
"""


def turn(question: str, text: str, thoughts: str = "The reader waits. What for? For a slot.") -> dict[str, Any]:
    answer = {"text": text, "thinking": thoughts, "thoughts": 132, "facts": FACTS, "stop": "", "error": None}
    return {"question": question, "answer": answer}


async def waits(opened: Page, exchange: Exchange) -> None:
    await exchange.send(queue(3, 5, 12_000))
    await expect(opened.locator(".turn:last-child .status")).to_contain_text("3rd of 5 in line")


async def reads(opened: Page, exchange: Exchange) -> None:
    await exchange.send(prefill(6100, 8123))
    await expect(opened.locator(".turn:last-child .status")).to_contain_text("6,100")


async def thinks(opened: Page, exchange: Exchange) -> None:
    await exchange.send(START, delta("They want an example. ", "thinking"))
    for piece in re.findall(r"\S+ ?", "The shortest one that is honest: a loop, a place, the text."):
        await exchange.send(delta(piece, "thinking"))
    await opened.locator(".turn:last-child summary").click()
    await expect(opened.locator(".turn:last-child pre")).to_contain_text("the text.")


PICTURES: dict[str, tuple[list[dict[str, Any]], Act | None, dict[str, Any]]] = {
    "chat-empty": ([], None, {}),
    "chat-light": ([turn(FIRST, FIRST_ANSWER), turn(SECOND, SECOND_ANSWER)], None, {}),
    "chat-dark": ([turn(FIRST, FIRST_ANSWER)], thinks, {"dark": True}),
    "chat-phone": ([turn(FIRST, FIRST_ANSWER)], waits, {"phone": True, "scale": 2.0}),
    "chat-waiting": ([turn(FIRST, FIRST_ANSWER)], waits, {}),
    "chat-reading": ([turn(FIRST, FIRST_ANSWER)], reads, {"dark": True, "phone": True, "scale": 2.0}),
}
KEPT = ("light", "dark", "phone", "waiting")


async def take(browser: Browser, server: Scripted, name: str, folder: Path) -> None:
    turns, act, look = PICTURES[name]
    async with page(browser, f"{server.url}/chat", **look) as opened:
        if turns:
            kept = msgspec.json.encode({"id": "chat-1", "turns": turns}).decode()
            await opened.evaluate("text => localStorage.setItem('slotline.chat', text)", kept)
            await opened.reload()
        await expect(opened.locator("#send")).to_be_enabled()
        if act:
            await opened.fill("#message", SECOND)
            await opened.locator("#send").dispatch_event("click")  # no pointer lies over it in the picture
            await act(opened, await server.next())
        shot = Image.open(BytesIO(await opened.screenshot()))
        few = shot.convert("RGB").quantize(200, dither=Image.Dither.NONE)  # colours: a third of the bytes
        few.save(folder / f"{name}.png", optimize=True)


async def main(names: list[str], folder: Path = HERE) -> None:
    async with chromium() as browser, scripted() as server:
        for name in names or [f"chat-{each}" for each in KEPT]:
            await take(browser, server, name, folder)
            print(name, (folder / f"{name}.png").stat().st_size // 1024, "KiB")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
