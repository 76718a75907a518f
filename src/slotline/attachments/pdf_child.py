"""What runs in a process of its own: reads the text out of one PDF, which may be hostile, and ends.

`slotline.attachments.pdf` starts it, by its path, with three numbers (seconds of CPU, bytes of memory, bytes of text),
writes the PDF to its standard input, in base64, and reads the text from its standard output. With status `REFUSED` the
output is the reason why there is no text; any other end is a failure. The process bounds itself before it reads a
byte: a PDF is a program in a language of its own, and can run for ever or unpack to any size.

It imports nothing of Slotline, and knows nothing of it: no configuration, no key.
"""

from __future__ import annotations

import binascii
import io
import os
import resource
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pypdf

REFUSED = 3


class Unreadable(Exception):
    """There is no text to be had; the message is the reason, for the client."""


def confine(seconds: int, memory: int) -> None:
    """From now on this process may use so much, may write no file, and stands back for the gateway at the processor."""
    bounds = (
        (resource.RLIMIT_CPU, seconds, seconds + 1),  # SIGXCPU at the first, SIGKILL at the second
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    )
    for what, soft, hard in bounds:
        with suppress(ValueError, OSError):  # macOS knows no bound on memory
            resource.setrlimit(what, (soft, hard))
    os.nice(10)


def text(pdf: bytes, longest: int) -> str:
    """The text of `pdf`, page by page, each under its number. `longest`: bytes of UTF-8. Raises Unreadable."""
    import pypdf  # noqa: PLC0415  (an extra, and loaded only behind the bounds)

    reader = pypdf.PdfReader(io.BytesIO(pdf))
    if reader.is_encrypted and not _opened(reader):
        raise Unreadable("it is encrypted")
    pages: list[str] = []
    length = said = 0
    for number, page in enumerate(reader.pages, start=1):
        words = page.extract_text().replace("\x00", "").encode(errors="replace").decode().strip()
        said += bool(words)
        pages.append(f"[page {number}]\n{words}" if words else f"[page {number}: no text]")
        length += len(pages[-1].encode())
        if length > longest:
            raise Unreadable(f"its text is longer than {longest} bytes")
    if not said:
        raise Unreadable("there is no text in it, so it may be a scan; send its pages as images")
    return "\n".join(pages)


def _opened(reader: pypdf.PdfReader) -> bool:
    """Many are encrypted with an empty password, only to forbid printing."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - a cipher that is not there, or nonsense: either way it stays shut
        return False


def main() -> int:
    """Reads, writes, and returns the status to end with."""
    seconds, memory, longest = map(int, sys.argv[1:4])
    confine(seconds, memory)
    status = 0
    try:
        said = text(binascii.a2b_base64(sys.stdin.buffer.read()), longest)
    except Unreadable as error:
        status, said = REFUSED, str(error)
    except MemoryError:
        status, said = REFUSED, f"reading it takes more than {memory >> 20} MiB of memory"
    except Exception:  # noqa: BLE001 - whatever a broken PDF makes the library raise
        status, said = REFUSED, "it cannot be read as a PDF"
    sys.stdout.buffer.write(said.encode())
    return status


if __name__ == "__main__":
    sys.exit(main())
