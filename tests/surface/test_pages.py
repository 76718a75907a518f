"""The pages over HTTP: who gets them, what they may do, and that all they name is there."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from docs.pages import ROOT
from fakes.gateway import fronted
from fakes.product import Answered
from slotline.config import KeyConfig
from slotline.core.keys import digest

STATIC = ROOT / "src/slotline/surface/static"
VENDOR = STATIC / "vendor"
THEME = (STATIC / "theme.css").read_text()
KEY = KeyConfig(name="alice", hash=f"sha256:{digest('sl-alice').hex()}")
PAGES = ["/", "/chat"]
_NAMED = re.compile(r'(?:src|href)="([^"#]+)"')
_IMPORTED = re.compile(r'(?:from|import) "([^"]+)"')
_ROW = re.compile(r"^\| `([^`]+)` \|.*`([^`]+\.LICENSE)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def policy(answer: Answered) -> dict[str, str]:
    """The directives of an answer's content security policy."""
    pairs = (part.strip().partition(" ") for part in answer.headers["content-security-policy"].split(";"))
    return {name: value for name, _, value in pairs}


# ---- the pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_there_for_everybody_also_where_there_are_keys(path: str) -> None:
    """It holds no secret: what it shows it has to ask for."""
    async with fronted(keys=(KEY,)) as front:
        answer = await front.get(path)
        head = await front.get(path, "HEAD")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.body.startswith(b"<!doctype html>")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_may_run_and_load_what_comes_from_here_and_nothing_else(path: str) -> None:
    async with fronted() as front:
        answer = await front.get(path)
    allowed = policy(answer)
    assert allowed.pop("img-src") == "'self' data:"
    own = {name for name, value in allowed.items() if value == "'self'"}
    assert own == {"script-src", "style-src", "connect-src", "font-src"}
    assert {name: value for name, value in allowed.items() if name not in own} == dict.fromkeys(
        ("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_needs_nothing_that_the_policy_forbids(path: str) -> None:
    async with fronted() as front:
        text = (await front.get(path)).body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\bstyle=|\bon[a-z]+=|javascript:|https?://", text) == []


@pytest.mark.parametrize("path", PAGES)
async def test_all_that_a_page_names_is_there_and_named_relative_to_it(path: str) -> None:
    """So it also works below a path, behind a proxy."""
    async with fronted() as front:
        named = _NAMED.findall((await front.get(path)).body.decode())
        assert len(named) > 5
        for each in named:
            assert not each.startswith("/")
            assert (await front.get(f"/{each.removeprefix('./')}")).status == 200, each


async def test_every_module_that_is_imported_is_there() -> None:
    async with fronted() as front:
        for module in STATIC.rglob("*.js"):
            if VENDOR in module.parents:
                continue
            for imported in _IMPORTED.findall(module.read_text()):
                assert imported.startswith("."), imported
                path = (module.parent / imported).resolve().relative_to(STATIC)
                assert (await front.get(f"/static/{path}")).status == 200, (module.name, imported)


@pytest.mark.parametrize("path", [*PAGES, "/static/theme.css"])
async def test_pages_and_files_take_no_other_method(path: str) -> None:
    async with fronted() as front:
        for method in ("POST", "PUT", "DELETE"):
            assert (await front.get(path, method)).status == 405


# ---- their files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("theme.css", "text/css; charset=utf-8"),
        ("theme.js", "text/javascript; charset=utf-8"),
        ("dashboard/feed.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    ],
)
async def test_a_file_is_served_as_what_it_is(path: str, kind: str) -> None:
    async with fronted() as front:
        answer = await front.get(f"/static/{path}")
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    assert answer.body == (STATIC / path).read_bytes()
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ("content-security-policy" in answer.headers) == (kind == "image/svg+xml")  # it can be opened by itself


async def test_a_file_that_is_known_already_is_not_sent_again() -> None:
    async with fronted() as front:
        first = await front.get("/static/theme.css")
        assert first.headers["cache-control"] == "no-cache"
        tag = first.headers["etag"]
        for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = await front.get("/static/theme.css", headers={"if-none-match": known})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert (await front.get("/static/theme.css", headers={"if-none-match": '"other"'})).status == 200
        assert (await front.get("/", headers={"if-none-match": tag})).status == 200
        assert (await front.get("/", headers={"if-none-match": (await front.get("/")).headers["etag"]})).status == 304


@pytest.mark.parametrize(
    "path",
    [
        "",
        "nothing.js",
        "vendor",
        "vendor/",
        "vendor/README.md",
        "vendor/uPlot.LICENSE",
        "dashboard.html",
        "../pages.py",
        "..%2fpages.py",
        "%2e%2e/pages.py",
        "vendor/../theme.css",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "theme.css/",
        "theme.css%00",
        "THEME.CSS",
    ],
)
async def test_nothing_else_is_served(path: str) -> None:
    """Neither what lies outside of the folder, nor what lies in it for other reasons."""
    async with fronted() as front:
        answer = await front.get(f"/static/{path}")
    assert answer.status == 404
    assert answer.json()["error"]["type"] == "not_found_error"


def test_every_file_of_the_pages_is_in_the_wheel() -> None:
    packed = {Path(each.distribution_path) for each in WheelBuilder(str(ROOT)).recurse_included_files()}
    files = {Path("slotline/surface/static") / each.relative_to(STATIC) for each in STATIC.rglob("*") if each.is_file()}
    assert len(files) > 10
    assert files - packed == set()


# ---- what they are made of -------------------------------------------------------------------------------------------


def test_files_of_others_are_those_that_were_published() -> None:
    rows = {name: (licence, told) for name, licence, told in _ROW.findall((VENDOR / "README.md").read_text())}
    licences = {licence for licence, _ in rows.values()}
    assert {each.name for each in VENDOR.iterdir()} == {"README.md", *licences, *rows}
    for name, (licence, told) in rows.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == told, name
        assert "Permission is hereby granted" in (VENDOR / licence).read_text()


@pytest.mark.parametrize(
    "name",
    [
        "dashboard.js",
        "element.js",
        "theme.js",
        *(f"dashboard/{each.name}" for each in (STATIC / "dashboard").iterdir()),
    ],
)
def test_what_the_gateway_tells_is_never_made_markup(name: str) -> None:
    text = (STATIC / name).read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|DOMParser|setHTML|document\.write|\beval\b|new Function"
    assert re.findall(forbidden, text) == []


def colours(block: str) -> dict[str, str]:
    """The colours of one block of the theme."""
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


def themes() -> dict[str, dict[str, str]]:
    """Light, dark as the system has it, and dark as it was chosen."""
    light, system, chosen = re.findall(r"\{\s+color-scheme: \w+;(.*?)\}", THEME, re.DOTALL)
    return {"light": colours(light), "dark": colours(system), "chosen": colours(chosen)}


def test_dark_is_the_same_whether_the_system_or_a_person_wants_it() -> None:
    assert themes()["dark"] == themes()["chosen"]
    assert themes()["dark"].keys() == themes()["light"].keys()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_of_every_colour_can_be_read_on_every_ground(theme: str) -> None:
    """Source: https://www.w3.org/TR/WCAG22/#contrast-minimum, and #non-text-contrast for the edges of controls."""
    tints = themes()[theme]
    grounds = [tints.pop(name) for name in ("bg", "panel")]
    for name in (
        "text",
        "muted",
        "accent",
        "good",
        "warn",
        "bad",
        "prefill",
        "thinking",
        "answering",
        "draining",
        "free",
    ):
        assert min(contrast(tints[name], ground) for ground in grounds) >= 4.5, name
    assert contrast(tints["on-accent"], tints["accent"]) >= 4.5
    assert contrast(tints["text"], tints["sunk"]) >= 4.5
    assert contrast(tints["edge"], grounds[1]) >= 3


def contrast(one: str, other: str) -> float:
    """Source: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
