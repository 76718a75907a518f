"""Reading one PDF: its text page by page, or why there is none."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from fakes.pdf import bomb, encoded, pdf
from slotline.attachments.pdf import CHILD
from slotline.attachments.pdf_child import REFUSED, Unreadable, text

LONG = 1 << 20
LOCKED = pdf(
    "secret",
    trailer=f"/Encrypt << /Filter /Standard /V 1 /R 2 /O ({'0' * 32}) /U ({'0' * 32}) /P -1 >> /ID [(a) (a)]",
)


def run(sent: str | bytes, *, seconds: int = 5, memory: int = 1 << 30, longest: int = LONG) -> tuple[int, str]:
    """How the process ends, and what it says."""
    command = [*CHILD, str(seconds), str(memory), str(longest)]
    data = sent.encode() if isinstance(sent, str) else sent
    done = subprocess.run(command, input=data, capture_output=True, check=False, env={}, timeout=20)
    return done.returncode, done.stdout.decode()


def test_each_page_stands_under_its_number() -> None:
    assert text(pdf("one", "two"), LONG) == "[page 1]\none\n[page 2]\ntwo"


def test_a_page_without_text_is_named_so_that_nobody_misses_it_in_silence() -> None:
    assert text(pdf("one", "", "three"), LONG) == "[page 1]\none\n[page 2: no text]\n[page 3]\nthree"


def test_a_scan_is_refused_as_one() -> None:
    with pytest.raises(Unreadable, match="there is no text in it"):
        text(pdf("", ""), LONG)


def test_text_has_a_bound() -> None:
    assert text(pdf("x" * 90), 100)
    with pytest.raises(Unreadable, match="longer than 100 bytes"):
        text(pdf("x" * 50, "x" * 50), 100)


def test_what_is_encrypted_is_refused_as_that() -> None:
    with pytest.raises(Unreadable, match="encrypted"):
        text(LOCKED, LONG)


# ---- as a process ----------------------------------------------------------------------------------------------------


def test_the_process_reads_base64_and_writes_the_text() -> None:
    assert run(encoded(pdf("grüße"))) == (0, "[page 1]\ngrüße")


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (encoded(pdf("")), "no text in it"),
        (encoded(LOCKED), "encrypted"),
        (encoded(b"%PDF-1.7\nrubbish"), "it cannot be read as a PDF"),
        (encoded(pdf("x")[:300]), "it cannot be read as a PDF"),
        ("", "it cannot be read as a PDF"),
        ("%%%", "it cannot be read as a PDF"),
        (b"\xff\xfe", "it cannot be read as a PDF"),
    ],
)
def test_the_process_says_why_there_is_no_text(sent: str | bytes, says: str) -> None:
    status, said = run(sent)
    assert status == REFUSED
    assert says in said


def test_the_process_ends_itself_when_its_time_is_up() -> None:
    status, said = run(encoded(bomb(8)), seconds=1)
    assert (status, said) == (-signal.SIGXCPU, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds memory")
def test_the_process_gives_up_when_its_memory_is_used_up() -> None:
    status, said = run(encoded(bomb(20)), memory=80 << 20)
    assert (status, said) == (REFUSED, "reading it takes more than 80 MiB of memory")


def test_the_process_knows_nothing_of_the_gateway() -> None:
    code = (
        f"import sys, runpy; runpy.run_path({CHILD[-1]!r}); print([name for name in sys.modules if 'slotline' in name])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
