"""PDFs made by hand: as small as a reader takes them, and as long as a test needs them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator


def pdf(*pages: str, trailer: str = "", packed: bool = False) -> bytes:
    """A PDF with one line of text on each page; "" is a page without any. `trailer`: what else stands there."""
    contents = [b"BT /F1 12 Tf 72 720 Td (%b) Tj ET" % page.encode("latin-1") for page in pages]
    return written(contents, trailer, packed=packed)


def bomb(megabytes: int) -> bytes:
    """A PDF of some kilobytes, with a page that unpacks to so much text, one letter at a time."""
    return written([b"BT /F1 12 Tf " + b"(a) Tj\n" * (megabytes * (1 << 20) // 7) + b"ET"], packed=True)


def encoded(document: bytes) -> str:
    """`document` in base64."""
    return base64.b64encode(document).decode()


def written(contents: list[bytes], trailer: str = "", *, packed: bool = False) -> bytes:
    """The file: header, objects, the table of where they begin, trailer. See ISO 32000-1, 7.5."""
    out = b"%PDF-1.4\n"
    places = []
    objects = list(_objects(contents, packed))
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    size, table = len(objects) + 1, len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer\n<< /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer.encode(), table)


def _objects(contents: list[bytes], packed: bool) -> Iterator[bytes]:
    numbers = range(4, 4 + 2 * len(contents), 2)
    kids = " ".join(f"{number} 0 R" for number in numbers)
    yield b"<< /Type /Catalog /Pages 2 0 R >>"
    yield f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode()
    yield b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    for number, content in zip(numbers, contents, strict=True):
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        yield f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R {font} >>".encode()
        stream = zlib.compress(content) if packed else content
        how = "/Filter /FlateDecode " if packed else ""
        yield f"<< {how}/Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream"
