"""A real browser: pages as people see them, in which nothing may go wrong unseen, and the check of their accessibility.

One Chromium serves a whole test file, so its tests and the fixture that holds it share one loop:

    pytestmark = pytest.mark.asyncio(loop_scope="module")

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def browser() -> AsyncIterator[Browser]:
        async with chromium() as started:
            yield started
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

AXE = Path(__file__).parents[1] / "e2e/node/node_modules/axe-core/axe.min.js"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
_QUIET = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The Chromium of this machine, without a window."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    assert found is not None, f"none of {', '.join(_NAMES)} is installed: make tools"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found,
            args=_QUIET,
            chromium_sandbox=False,  # which root, in a container, cannot have
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def page(
    browser: Browser,
    url: str,
    *,
    dark: bool = False,
    phone: bool = False,
    allowed: Sequence[str] = (),
    reduced_motion: bool = True,
    scale: float = 1.0,
) -> AsyncIterator[Page]:
    """The page at `url` in a browser without a past, once it is loaded.

    At the end of the block AssertionError tells what went wrong in it: an error or a warning on the console (where also
    breaches of the content security policy show), an exception that nobody caught, a request that failed. `allowed`:
    parts of such messages that the test expects. `scale`: device pixels in one of the page's.
    """
    context = await browser.new_context(
        viewport=PHONE if phone else DESK,  # type: ignore[arg-type] # a TypedDict that the package does not export
        is_mobile=phone,
        has_touch=phone,
        device_scale_factor=scale,
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce" if reduced_motion else "no-preference",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        opened = await context.new_page()
        troubles = _listen(opened)
        await opened.goto(url)
        yield opened
        unexpected = [each for each in troubles if not any(part in each for part in allowed)]
        assert unexpected == [], unexpected
    finally:
        await context.close()


def _listen(opened: Page) -> list[str]:
    """What goes wrong in the page, from now on."""
    troubles: list[str] = []

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            troubles.append(f"console: {message.text} ({message.location.get('url')})")

    def failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page itself no longer wants it
            troubles.append(f"request: {request.method} {request.url}: {request.failure}")

    opened.on("console", said)
    opened.on("pageerror", lambda error: troubles.append(f"exception: {error}"))
    opened.on("requestfailed", failed)
    return troubles


async def axe(opened: Page) -> list[str]:
    """Where the page as it stands breaks a rule of accessibility: `rule: what is wrong: where`, for each."""
    await opened.evaluate(AXE.read_text())
    found: dict[str, Any] = await opened.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {rule['help']}: {', '.join(' '.join(map(str, node['target'])) for node in rule['nodes'])}"
        for rule in found["violations"]
    ]
