"""PDFs of strangers: read in a process each, within bounds, a few at once, and once for all turns of a conversation."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fakes.pdf import bomb, encoded, pdf
from slotline.attachments.pdf import CHILD, Bounds, PdfReader
from slotline.core.errors import Busy, Invalid

ONE = encoded(pdf("one"))


class Scripted:
    """A child by hand: it says that it has started, down a pipe, and then does what it is told."""

    def __init__(self, folder: Path, then: str = "print('[page 1]\\nread', end='')") -> None:
        path = folder / "starts"
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # so that there is always a reader, and no end
        self._heard = b""
        started = f"open({str(path)!r}, 'a').write(f'{{os.getpid()}}\\n'); sys.stdin.read()"
        self.command = (sys.executable, "-c", f"import os, sys, time; {started}; {then}")

    def __del__(self) -> None:
        os.close(self._pipe)

    @property
    def pids(self) -> list[int]:
        """Of all that have started."""
        with suppress(BlockingIOError):
            self._heard += os.read(self._pipe, 4096)
        return [int(line) for line in self._heard.split()]

    async def started(self, count: int) -> None:
        """Returns once so many have."""
        loop = asyncio.get_running_loop()
        more = asyncio.Event()
        loop.add_reader(self._pipe, more.set)
        try:
            async with asyncio.timeout(5):
                while len(self.pids) < count:
                    more.clear()
                    await more.wait()
        finally:
            loop.remove_reader(self._pipe)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def refusal(reader: PdfReader, data: str = ONE) -> str:
    with pytest.raises(Invalid) as refused:
        await reader.text(data)
    return str(refused.value)


async def test_a_pdf_is_read_page_by_page() -> None:
    assert await PdfReader().text(encoded(pdf("one", "two"))) == "[page 1]\none\n[page 2]\ntwo"


async def test_line_breaks_in_base64_are_no_matter() -> None:
    lines = "\r\n".join(ONE[at : at + 76] for at in range(0, len(ONE), 76))
    assert await PdfReader().text(lines) == "[page 1]\none"


async def test_a_scan_is_refused_with_what_to_do() -> None:
    assert "send its pages as images" in await refusal(PdfReader(), encoded(pdf("")))


async def test_without_the_library_a_pdf_is_refused_with_what_to_do(tmp_path: Path) -> None:
    child = Scripted(tmp_path)
    said = await refusal(PdfReader(child=child.command, library="not_there"))
    assert said == "PDFs are read where the gateway has `pip install slotline[pdf]`; send the text instead"
    assert child.pids == []


@pytest.mark.parametrize("data", [encoded(b"<html>"), "", "A", "é", "%%%%", encoded(b"x" * 2000 + pdf("late"))])
async def test_what_does_not_begin_as_a_pdf_is_not_opened(tmp_path: Path, data: str) -> None:
    child = Scripted(tmp_path)
    assert await refusal(PdfReader(child=child.command), data) == "it does not begin as a PDF does"
    assert child.pids == []


# ---- bounds ----------------------------------------------------------------------------------------------------------


async def test_a_pdf_that_takes_too_long_is_given_up() -> None:
    reader = PdfReader(Bounds(seconds=0.5))
    async with asyncio.timeout(3):
        assert await refusal(reader, encoded(bomb(8))) == "reading it takes longer than 0.5 s"


async def test_a_child_that_hangs_is_killed(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "time.sleep(60)")
    assert await refusal(PdfReader(Bounds(seconds=1), child=child.command)) == "reading it takes longer than 1 s"
    assert not any(map(alive, child.pids))


async def test_a_reading_that_is_cancelled_is_killed_at_once(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "time.sleep(60)")
    reading = asyncio.create_task(PdfReader(child=child.command).text(ONE))
    await child.started(1)
    reading.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert not any(map(alive, child.pids))


async def test_a_child_that_dies_of_something_else_says_so_without_its_words(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "sys.exit('a secret of the gateway')")
    assert await refusal(PdfReader(child=child.command)) == "reading it failed"


async def test_the_child_is_not_told_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOX_KEY", "the-key-of-the-gateway")
    child = Scripted(tmp_path, "print(dict(os.environ), end='')")
    assert "the-key" not in await PdfReader(child=child.command).text(ONE)


async def test_few_are_read_at_once_and_who_waits_for_too_long_is_told_to_come_again(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "time.sleep(60)")
    reader = PdfReader(Bounds(at_once=1, patience=0.05), child=child.command)
    first = asyncio.create_task(reader.text(ONE))
    await child.started(1)
    with pytest.raises(Busy) as busy:
        await reader.text(encoded(pdf("two")))
    assert busy.value.retry_after
    assert len(child.pids) == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_who_waits_for_its_turn_gets_it(tmp_path: Path) -> None:
    child = Scripted(tmp_path)
    reader = PdfReader(Bounds(at_once=1), child=child.command)
    texts = await asyncio.gather(*(reader.text(encoded(pdf(str(number)))) for number in range(3)))
    assert texts == ["[page 1]\nread"] * 3


# ---- memory ----------------------------------------------------------------------------------------------------------


async def test_a_document_that_comes_again_is_not_read_again(tmp_path: Path) -> None:
    child = Scripted(tmp_path)
    reader = PdfReader(child=child.command)
    for _ in range(3):
        assert await reader.text(ONE) == "[page 1]\nread"
    await reader.text(encoded(pdf("two")))
    assert len(child.pids) == 2


async def test_a_refusal_is_remembered_like_a_text(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "print('it is blank', end=''); sys.exit(3)")
    reader = PdfReader(child=child.command)
    assert [await refusal(reader) for _ in range(2)] == ["it is blank"] * 2
    assert len(child.pids) == 1


async def test_what_the_child_did_not_say_itself_may_be_tried_again(tmp_path: Path) -> None:
    """It may have been the machine's fault, as when reading took too long."""
    child = Scripted(tmp_path, "sys.exit(1)")
    reader = PdfReader(child=child.command)
    assert [await refusal(reader) for _ in range(2)] == ["reading it failed"] * 2
    assert len(child.pids) == 2


async def test_the_memory_is_bounded_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "print('x' * 10, end='')")
    reader = PdfReader(Bounds(remembered=25), child=child.command)
    first, second, third = (encoded(pdf(name)) for name in "abc")
    for data in (first, second, first, third):
        await reader.text(data)
    assert len(child.pids) == 3
    await reader.text(first)
    assert len(child.pids) == 3, "it was used last but one"
    await reader.text(second)
    assert len(child.pids) == 4


async def test_the_memory_holds_a_bounded_number_of_texts(tmp_path: Path) -> None:
    child = Scripted(tmp_path, "print('', end='')")
    reader = PdfReader(Bounds(entries=1), child=child.command)
    for name in "aba":
        await reader.text(encoded(pdf(name)))
    assert len(child.pids) == 3


def test_the_bounds_are_those_of_the_page() -> None:
    bounds = Bounds()
    assert (bounds.seconds, bounds.memory, bounds.at_once, bounds.remembered) == (30.0, 1 << 30, 2, 16 << 20)


def test_the_child_is_started_without_the_working_directory_in_its_path() -> None:
    assert "-P" in CHILD
